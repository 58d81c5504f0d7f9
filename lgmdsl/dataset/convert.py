"""Python values to raw arrays of kind b, i, u, f or U with a mask; other objects are refused."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from datetime import UTC, time
from decimal import Decimal
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.dataset.entries import Loaded
from lgmdsl.dataset.refusals import check_memory, refused

# Texts that stand for a missing entry, in csv and in columns of text.
MISSING_TEXT = frozenset({"", "NA", "N/A", "<NA>", "NaN", "nan", "NULL", "null"})


def from_numpy(source: str, name: str, values: AnyArray) -> Loaded:
    """A numpy array (masked or not) of numbers, bools, text or dates, also as Python objects (a
    column of a frame with gaps, netCDF text of varying length); anything else is E306."""
    mask: BoolArray | None = None
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values).copy()
        values = values.data
    values = np.asarray(values)
    kind = values.dtype.kind
    if kind == "O":
        return _from_objects(source, name, values, mask)
    if kind == "M" or kind == "m":
        absent = np.isnat(values)
        mask = absent if mask is None else mask | absent
        values = values.astype(np.str_) if kind == "m" else date_text(values)
    elif kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise refused(source, f"`{name}` holds bytes that are not UTF-8 text") from error
    elif kind == "c":
        raise refused(source, f"`{name}` holds complex numbers", help=f"{name}.real")
    elif kind == "f" and values.dtype.itemsize not in (4, 8):
        with np.errstate(over="ignore"):
            values = values.astype(np.float64)
    elif kind not in "biufU":
        raise refused(
            source,
            f"`{name}` has the type {values.dtype}, which holds no numbers or text",
            help="save each field as a separate array" if values.dtype.names else "",
        )
    if values.dtype.kind == "U":
        _check_text(source, name, values)
    if values.dtype.byteorder not in "=|" and not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if mask is not None and not mask.any():
        mask = None
    return Loaded(values, mask)


def _from_objects(source: str, name: str, values: AnyArray, mask: BoolArray | None) -> Loaded:
    items = values.reshape(-1).tolist()
    if mask is not None:
        items = [None if m else v for v, m in zip(items, mask.reshape(-1), strict=True)]
    return _reshaped(from_sequence(source, name, items), values.shape)


def _reshaped(flat: Loaded, shape: tuple[int, ...]) -> Loaded:
    missing = None if flat.missing is None else flat.missing.reshape(shape)
    written = None if flat.written is None else np.asarray(flat.written).reshape(shape).tolist()
    return Loaded(flat.values.reshape(shape), missing, written=written)


def _check_text(source: str, name: str, values: AnyArray) -> None:
    """A damaged file can hold code points that are no characters, which Python cannot make str;
    and no result file can hold a NUL within a text."""
    flat = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="))).reshape(-1)
    points = flat.view(np.uint32) if flat.dtype.itemsize else np.zeros(0, np.uint32)
    if ((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any():
        raise refused(source, f"`{name}` holds text with invalid characters")
    width = flat.dtype.itemsize // 4
    if width > 1:
        rows = points.reshape(-1, width)
        if ((rows[:, :-1] == 0) & (rows[:, 1:] != 0)).any():
            raise refused(source, f"`{name}` holds text with NUL characters")


def from_sequence(source: str, name: str, items: Iterable[Any]) -> Loaded:
    """A flat list of numbers, bools or strings, where None, NaN and NA are missing."""
    elements = list(items)
    missing = np.fromiter((_is_missing(v) for v in elements), dtype=bool, count=len(elements))
    present = [v for v, m in zip(elements, missing, strict=True) if not m]
    values, digits = _typed(source, name, present)
    if not missing.any():
        return Loaded(values, written=digits)
    filled = np.zeros(len(elements), dtype=values.dtype if present else np.float64)
    filled[~missing] = values
    if filled.dtype.kind == "f":
        filled[missing] = np.nan
    written = None
    if digits is not None:
        texts = iter(digits)
        written = ["" if gone else next(texts) for gone in missing.tolist()]
    return Loaded(filled, missing, written=written)


def leveled(loaded: Loaded, levels: Loaded) -> Loaded:
    """A column of an ordered categorical with its levels; of their kind also without entries."""
    settled = levels.settled()
    if settled.kept:
        texts = np.where(loaded.absent, "", loaded.texts)
        return Loaded(texts, loaded.missing, settled.texts)
    values, kind = loaded.values, levels.values.dtype
    if kind.kind != values.dtype.kind and loaded.missing is not None and loaded.missing.all():
        values = np.zeros(values.shape, kind)
    return Loaded(values, loaded.missing, levels.values)


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    # pandas.NA and pandas.NaT, which must not be imported to be recognised.
    return type(value).__name__ in ("NAType", "NaTType")


def _typed(source: str, name: str, present: Sequence[Any]) -> tuple[AnyArray, Sequence[str] | None]:
    """The entries, and the digits of numbers that floats may not give back."""
    if all(isinstance(v, (bool, np.bool_)) for v in present):
        return np.array(present, dtype=bool), None
    if all(isinstance(v, (numbers.Integral, Decimal)) for v in present):
        return _with_digits(source, name, [str(v) for v in map(_plain, present)])
    if all(isinstance(v, (numbers.Real, Decimal)) for v in present):
        if all(isinstance(v, np.float32) for v in present):
            return np.array(present, dtype=np.float32), None
        try:
            return np.array([float(v) for v in present], dtype=np.float64), None
        except OverflowError as error:
            raise refused(source, f"`{name}` holds numbers too large for 64 bits") from error
    if all(isinstance(v, str) for v in present):
        return text_array(source, name, present), None
    if all(type(v).__name__ == "Period" for v in present):
        return period_text(source, name, present), None
    if all(isinstance(v, time) for v in present):
        if any(v.tzinfo is not None for v in present):
            return text_array(source, name, [v.isoformat() for v in present]), None
        return clock_text(np.array([nanoseconds(v) for v in present], dtype=np.int64)), None
    if all(hasattr(v, "isoformat") or isinstance(v, np.datetime64) for v in present):
        return date_text(dates_of(present)), None
    kinds = sorted({type(v).__name__ for v in present})
    raise refused(
        source,
        f"`{name}` is an array of Python objects ({', '.join(kinds[:4])})",
        help="give numbers only, or text only",
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, Decimal) else int(value)


def from_decimals(source: str, name: str, digits: Sequence[str | None]) -> Loaded:
    """A column of decimals from their digits, None where one is missing."""
    gone = np.array([text is None for text in digits], dtype=np.bool_)
    values, kept = _with_digits(source, name, ["0" if t is None else t for t in digits])
    if gone.any() and values.dtype.kind == "f":
        values[gone] = np.nan
    return Loaded(values, gone if gone.any() else None, written=kept)


def _with_digits(
    source: str, name: str, digits: Sequence[str]
) -> tuple[AnyArray, Sequence[str] | None]:
    """Numbers by their digits: whole ones as integers where 64 bits hold them, else floats with
    these digits."""
    try:
        return np.array([int(text) for text in digits], dtype=np.int64), None
    except (ValueError, OverflowError):
        pass
    values = np.array([float(text) for text in digits], dtype=np.float64)
    odd = [t for t, v in zip(digits, values.tolist(), strict=True) if math.isinf(v)]
    if any("inf" not in text.lower() for text in odd):
        raise refused(source, f"`{name}` holds numbers too large for 64 bits")
    return values, digits


def text_array(source: str, name: str, present: Sequence[str]) -> AnyArray:
    """Text as an array, whose every entry takes the room of the longest one."""
    longest = max(map(len, present), default=0)
    check_memory(source, name, (len(present), longest), 4)
    values = np.array(present, dtype=np.str_)
    _check_text(source, name, values)
    return values


def period_text(source: str, name: str, periods: Sequence[Any]) -> AnyArray:
    """pandas' periods by their names (2001, 2001-02, 2001Q1), days and longer ones by the first
    day."""
    names = [str(v) for v in periods]
    if any("/" in text or len(text) > 7 for text in names):
        return date_text(dates_of([v.start_time for v in periods]))
    if all(len(text) == 4 for text in names):
        return np.array([int(text) for text in names], dtype=np.int64)
    return text_array(source, name, names)


def nested_shape(items: Any) -> tuple[int, ...]:
    """The shape of nested lists by their first items; raggedness shows when they are flattened."""
    shape: list[int] = []
    while isinstance(items, (list, tuple)) and len(shape) <= 32:
        shape.append(len(items))
        if not items:
            break
        items = items[0]
    return tuple(shape)


def from_nested(source: str, name: str, items: Any) -> Loaded:
    """Nested lists of one shape, or E306."""
    shape = nested_shape(items)
    flat: list[Any] = [items]
    for axis, size in enumerate(shape):
        level: list[Any] = []
        for row in flat:
            if not isinstance(row, (list, tuple)) or len(row) != size:
                raise refused(
                    source, f"`{name}` is ragged: its lists along axis {axis} differ in length"
                )
            level.extend(row)
        flat = level
    return _reshaped(from_sequence(source, name, flat), shape)


def from_text(source: str, name: str, fields: Sequence[str]) -> Loaded:
    """A column of text: integers, else numbers, else truth values, else strings (csv)."""
    quick = _all_numbers(fields)
    if quick is not None:
        return Loaded(quick, written=fields)
    trimmed = [text.strip() for text in fields]
    absent = [text in MISSING_TEXT for text in trimmed]
    present = [text for text, gone in zip(trimmed, absent, strict=True) if not gone]
    values = _parsed(source, name, present)
    if len(present) == len(trimmed):
        return Loaded(values, written=fields)
    missing = np.array(absent, dtype=bool)
    filled = np.zeros(len(trimmed), dtype=values.dtype if present else np.float64)
    filled[~missing] = values
    if filled.dtype.kind == "f":
        filled[missing] = np.nan
    return Loaded(filled, missing, written=fields)


def _all_numbers(fields: Sequence[str]) -> AnyArray | None:
    """A column of numbers without gaps, the common case, in a tenth of the time."""
    joined = "".join(fields)
    # `int` and `float` take 1_000 and other alphabets' digits, which a data file does not mean.
    if not joined.isascii() or "_" in joined:
        return None
    for kind, parse in ((np.int64, int), (np.float64, float)):
        try:
            values = np.array(list(map(parse, fields)), dtype=kind)
        except (ValueError, OverflowError):
            continue
        return None if np.isnan(values).any() else values
    return None


def _parsed(source: str, name: str, present: Sequence[str]) -> AnyArray:
    plain = all(text.isascii() and "_" not in text for text in present)
    if plain:
        try:
            return np.array([int(text) for text in present], dtype=np.int64)
        except (ValueError, OverflowError):
            pass
        try:
            return np.array([float(text) for text in present], dtype=np.float64)
        except ValueError:
            pass
        lowered = {text.lower() for text in set(present)}
        if lowered <= {"true", "false"}:
            return np.array([text.lower() == "true" for text in present], dtype=bool)
    return text_array(source, name, present)


# ---- dates -------------------------------------------------------------------------------------


def dates_of(values: Sequence[Any]) -> AnyArray:
    """Dates and times in UTC, to the nanosecond where any has some, else to the microsecond."""
    stamps = [_date(v) for v in values]
    units = {np.datetime_data(stamp.dtype)[0] for stamp in stamps}
    unit = "ns" if "ns" in units else "us"
    return np.array([stamp.astype(f"datetime64[{unit}]") for stamp in stamps], f"M8[{unit}]")


def _date(value: Any) -> np.datetime64:
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value.isoformat() if hasattr(value, "isoformat") else value)


def date_text(dates: AnyArray) -> AnyArray:
    """Dates as ISO text, no finer than they are, so that the same days have the same labels."""
    return _coarsest(dates, ("D", "s", "us"))


def clock_text(nanoseconds: AnyArray) -> AnyArray:
    """Times of day, in nanoseconds since midnight, as ISO text, no finer than they are."""
    stamps = _coarsest(nanoseconds.astype("datetime64[ns]"), ("s", "us"))
    return np.array([stamp.rpartition("T")[2] for stamp in stamps.tolist()], dtype=np.str_)


def nanoseconds(value: time) -> int:
    """A time of day as nanoseconds since midnight."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 10**9 + value.microsecond * 1000


def _coarsest(dates: AnyArray, units: Sequence[str]) -> AnyArray:
    known = dates[~np.isnat(dates)]
    for unit in units:
        coarse = f"datetime64[{unit}]"
        if (known.astype(coarse) == known).all():
            return dates.astype(coarse).astype(np.str_)
    return dates.astype(np.str_)
