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
    loaded = from_sequence(source, name, items)
    missing = None if loaded.missing is None else loaded.missing.reshape(values.shape)
    return Loaded(loaded.values.reshape(values.shape), missing)


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
    values = _typed(source, name, present)
    if not missing.any():
        return Loaded(values)
    filled = np.zeros(len(elements), dtype=values.dtype if present else np.float64)
    filled[~missing] = values
    if filled.dtype.kind == "f":
        filled[missing] = np.nan
    return Loaded(filled, missing)


def leveled(loaded: Loaded, levels: Loaded) -> Loaded:
    """A column of an ordered categorical with its levels; of their kind also without entries."""
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


def _typed(source: str, name: str, present: Sequence[Any]) -> AnyArray:
    if all(isinstance(v, (bool, np.bool_)) for v in present):
        return np.array(present, dtype=bool)
    if all(isinstance(v, numbers.Integral) for v in present):
        ints = [int(v) for v in present]
        if all(-(2**63) <= v < 2**63 for v in ints):
            return np.array(ints, dtype=np.int64)
        raise refused(source, f"`{name}` holds integers of more than 64 bits")
    if all(isinstance(v, Decimal) for v in present):
        return _decimals(source, name, present)
    if all(isinstance(v, numbers.Real) for v in present):
        try:
            return np.array([float(v) for v in present], dtype=np.float64)
        except OverflowError as error:
            raise refused(source, f"`{name}` holds numbers too large for 64 bits") from error
    if all(isinstance(v, str) for v in present):
        return text_array(source, name, present)
    if all(type(v).__name__ == "Period" for v in present):
        return period_text(source, name, present)
    if all(isinstance(v, time) for v in present):
        return text_array(source, name, [v.isoformat() for v in present])
    if all(hasattr(v, "isoformat") or isinstance(v, np.datetime64) for v in present):
        return date_text(np.array([_date(v) for v in present], dtype="datetime64[us]"))
    kinds = sorted({type(v).__name__ for v in present})
    raise refused(
        source,
        f"`{name}` is an array of Python objects ({', '.join(kinds[:4])})",
        help="give numbers only, or text only",
    )


def _decimals(source: str, name: str, present: Sequence[Decimal]) -> AnyArray:
    """Decimals as numbers; whole ones as integers, or as text of their digits where 64 bits do
    not hold them."""
    if not all(v.is_finite() and v.as_tuple().exponent == 0 for v in present):
        return np.array([float(v) for v in present], dtype=np.float64)
    whole = [int(v) for v in present]
    if all(-(2**63) <= v < 2**63 for v in whole):
        return np.array(whole, dtype=np.int64)
    return text_array(source, name, [str(v) for v in whole])


def text_array(source: str, name: str, present: Sequence[str]) -> AnyArray:
    """Text as an array, whose every entry takes the room of the longest one."""
    longest = max(map(len, present), default=0)
    check_memory(source, name, (len(present), longest), 4)
    values = np.array(present, dtype=np.str_)
    _check_text(source, name, values)
    return values


def _date(value: Any) -> np.datetime64:
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value.isoformat() if hasattr(value, "isoformat") else value, "us")


def period_text(source: str, name: str, periods: Sequence[Any]) -> AnyArray:
    """pandas' periods by their names (2001, 2001-02, 2001Q1), days and longer ones by the first
    day."""
    names = [str(v) for v in periods]
    if any("/" in text or len(text) > 7 for text in names):
        return date_text(np.array([_date(v.start_time) for v in periods], dtype="datetime64[us]"))
    if all(len(text) == 4 for text in names):
        return np.array([int(text) for text in names], dtype=np.int64)
    return text_array(source, name, names)


def date_text(dates: AnyArray) -> AnyArray:
    """Dates as ISO text, no finer than they are, so that the same days have the same labels."""
    known = dates[~np.isnat(dates)]
    for unit in ("D", "s", "us"):
        coarse = f"datetime64[{unit}]"
        if (known.astype(coarse) == known).all():
            return dates.astype(coarse).astype(np.str_)
    return dates.astype(np.str_)


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
    loaded = from_sequence(source, name, flat)
    missing = None if loaded.missing is None else loaded.missing.reshape(shape)
    return Loaded(loaded.values.reshape(shape), missing)


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
        return Loaded(values, written=trimmed)
    missing = np.array(absent, dtype=bool)
    filled = np.zeros(len(trimmed), dtype=values.dtype if present else np.float64)
    filled[~missing] = values
    if filled.dtype.kind == "f":
        filled[missing] = np.nan
    return Loaded(filled, missing, written=trimmed)


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
