"""Large .csv files by pyarrow, where it is installed: the columns that the reader of `delimited.py`
finds, in a tenth of its time.

It reads the plain ones alone: rows of one length, quotes around whole fields, UTF-8 text. Anything
else is None here and read, or refused with its line, by the other reader.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, overload

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.dataset.convert import MISSING_TEXT, from_text
from lgmdsl.dataset.entries import Loaded
from lgmdsl.dataset.refusals import check_memory

LARGE = 1 << 21  # bytes, from which importing pyarrow takes less time than it saves
WIDEST = csv.field_size_limit()  # characters of a field
MARK = b"\xef\xbb\xbf"  # of UTF-8, before the text
DIGITS, NUMERIC = b"0123456789-", b"0123456789-+.eE"


@dataclass(frozen=True, eq=False)
class Fields(Sequence[str]):
    """The fields of a column as they are written, which become Python's when they are asked for."""

    texts: Any  # pyarrow.LargeStringArray

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> list[str]: ...
    def __getitem__(self, k: int | slice) -> str | list[str]:
        found: str | list[str] = (
            self.texts[k].to_pylist() if isinstance(k, slice) else self.texts[k].as_py()
        )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts.to_pylist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.array(self.texts.to_pylist(), dtype=dtype)


def plain_columns(raw: bytes) -> tuple[list[str], list[Fields]] | None:
    """The header and the columns; None for a file that the other reader has to read."""
    if len(raw) < LARGE or find_spec("pyarrow") is None:
        return None
    if b"\x00" in raw or raw.count(b"\r") != raw.count(b"\r\n"):
        return None
    begin = len(MARK) if raw.startswith(MARK) else 0
    end = raw.find(b"\n", begin) + 1
    rows = raw.count(b"\n", end) + (not raw.endswith(b"\n"))
    header, separator = _header(raw[begin:end])
    if len(header) < 2 or not rows or not _quoted_whole(raw, separator):
        return None
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

    names = [str(k) for k in range(len(header))]
    try:
        table = read_csv(
            pa.py_buffer(raw),
            ReadOptions(skip_rows=1, column_names=names, use_threads=False),
            ParseOptions(delimiter=separator, double_quote=False),
            ConvertOptions(column_types=dict.fromkeys(names, pa.large_string())),
        )
    except pa.ArrowInvalid:  # rows that differ in length, or no UTF-8
        return None
    columns = [column.combine_chunks() for column in table.columns]
    # A blank line is no row, and fields that hold line ends have more lines.
    if table.num_rows != rows or any(np.diff(_offsets(c)).max() > WIDEST for c in columns):
        return None
    return header, [Fields(column) for column in columns]


def _header(line: bytes) -> tuple[list[str], str]:
    """The fields of the first line, and what stands between them; none where they are not plain."""
    try:
        first = line.decode()
        separator = max(",;\t", key=first.count)
        (fields,) = csv.reader([first], delimiter=separator, strict=True)
    except (UnicodeDecodeError, ValueError, csv.Error):
        return [], ""
    return ([], "") if first.startswith("sep=") else (fields, separator)


def _quoted_whole(raw: bytes, separator: str) -> bool:
    """Whether every quote begins a field or ends one, and no field holds any."""
    quotes = raw.count(b'"')
    if not quotes:
        return True
    other = b"[^\r\n%s]" % re.escape(separator.encode())
    whole = re.compile(b'(?<!%s)"[^"\n]*"(?!%s)' % (other, other))
    return 2 * sum(1 for _ in whole.finditer(raw.removeprefix(MARK))) == quotes


def _offsets(texts: Any) -> AnyArray:
    known = np.frombuffer(texts.buffers()[1], dtype=np.int64)
    return known[texts.offset : texts.offset + len(texts) + 1]


def loaded(source: str, name: str, column: Fields) -> Loaded:
    """`from_text` of the fields: values, and which are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.texts
    missing = pc.is_in(texts, value_set=pa.array(sorted(MISSING_TEXT), pa.large_string()))
    absent = np.asarray(missing)
    values = _numbers(texts.filter(pc.invert(missing)) if absent.any() else texts)
    if values is not None and not absent.any():
        return Loaded(values, written=column)
    if values is not None:
        filled = np.full(len(texts), np.nan if values.dtype.kind == "f" else 0, values.dtype)
        filled[~absent] = values
        return Loaded(filled, absent, written=column)
    encoded = texts.dictionary_encode()
    each, places = encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
    known = from_text(
        source, name, each
    )  # field by field, so that a field that recurs is as before
    gone = None if known.missing is None else known.missing[places]
    if known.values.dtype.kind == "U":
        present = len(texts) - (0 if gone is None else int(gone.sum()))
        check_memory(source, name, (present, known.values.dtype.itemsize // 4), 4)
    return Loaded(known.values[places], gone, written=column)


def _numbers(texts: Any) -> AnyArray | None:
    """Whole numbers, else finite ones; None where these are not digits as everybody writes them."""
    import pyarrow as pa

    offsets = _offsets(texts)
    seen = np.zeros(256, dtype=np.bool_)
    seen[np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]] = True
    used = set(np.flatnonzero(seen).tolist())
    if ord("+") in used and not used & set(b"eE"):
        return None  # `+3` is a whole number, which pyarrow does not take for one
    for signs, kind in ((DIGITS, pa.int64()), (NUMERIC, pa.float64())):
        if used and used <= set(signs):
            try:
                values: AnyArray = np.array(texts.cast(kind))
            except pa.ArrowInvalid:
                continue
            return values if np.isfinite(values).all() else None
    return None
