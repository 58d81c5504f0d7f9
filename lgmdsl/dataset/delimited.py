""".csv files: a header line, then one row for each line; columns are typed when asked for."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lgmdsl.dataset.arrow_csv import Fields, loaded, plain_columns
from lgmdsl.dataset.convert import from_text
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.refusals import refused, refusing
from lgmdsl.memory import budget, size_text

# What a field of text costs in memory over its bytes in the file, measured on CPython 3.11.
GROWTH = 20
HEADER = "write the table there: a line with the names of the columns, and a line for each row"


def read_csv(path: Path) -> Mapping[str, Entry]:
    """The columns of a .csv file (UTF-8, quoted fields, `,` `;` or tab between fields).

    A field that is empty or `NA`, `NaN`, `N/A`, `NULL` is missing. Raises E306 for a file without
    a header, for rows of another length than the header (with their line numbers), for a repeated
    column name and for text that is not UTF-8.
    """
    source = path.name
    with refusing(source, "not a readable .csv file"):
        size = path.stat().st_size
        if size * GROWTH > budget():
            raise refused(source, f"{size_text(size)} of text are larger than memory allows")
        names, columns = _columns(source, path.read_bytes())
    header = [name.strip() for name in names]
    _check_header(source, header)
    return {
        name: Entry(
            name, source, (len(column),), partial(_typed, source, name, column), table=str(path)
        )
        for name, column in zip(header, columns, strict=True)
        if name
    }


def _columns(source: str, raw: bytes) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The header and the fields of each column."""
    plain = plain_columns(raw)
    if plain is not None:
        return plain
    header, *body = _rows(source, _decoded(source, raw))
    return header, list(zip(*body, strict=True)) if body else [()] * len(header)


def _typed(source: str, name: str, column: Sequence[str]) -> Loaded:
    with refusing(source, f"column `{name}` cannot be read"):
        if isinstance(column, Fields):
            return loaded(source, name, column)
        return from_text(source, name, column)


def _decoded(source: str, raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refused(source, "it is UTF-16 text", help="save it as UTF-8")
    if b"\x00" in raw:
        raise refused(source, "it holds zero bytes, so it is not text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refused(source, f"line {line} is not UTF-8 text", help="save it as UTF-8") from error


def _rows(source: str, text: str) -> list[list[str]]:
    """The header and the rows, all of one length; blank lines are skipped."""
    first = text.split("\n", 1)[0]
    if not text.strip():
        raise refused(source, "it is empty", help=HEADER)
    if first.startswith("sep="):
        raise refused(
            source, f"its first line, `{first.strip()}`, names no columns", help="delete that line"
        )
    separator = max(",;\t", key=first.count)
    # newlines inside quoted fields are kept: splitlines would also split at form feeds
    lines = (f"{line}\n" for line in text.removesuffix("\n").split("\n"))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    rows: list[list[str]] = []
    ragged: list[tuple[int, int]] = []
    wanted = -1
    lone = separator not in first
    for row in _parsed(source, reader):
        if not row or (row == ["\r"]) or (len(row) == 1 and not row[0].strip() and not lone):
            continue
        if wanted < 0:
            wanted = len(row)
        elif len(row) != wanted:
            ragged.append((reader.line_num, len(row)))
        rows.append(row)
    if ragged:
        more = f", and {len(ragged) - 3} more" if len(ragged) > 3 else ""
        examples = [f"line {line} has {_fields(number)}" for line, number in ragged[:3]]
        raise refused(
            source,
            f"its rows differ in length: the header has {_fields(wanted)}",
            details=("; ".join(examples) + more,),
            help=_remedy(rows, wanted),
        )
    if not rows:
        raise refused(source, "it is empty", help=HEADER)
    if lone:
        _check_lone(source, rows)
    return rows


def _parsed(source: str, reader: Any) -> Iterator[list[str]]:
    """Rows, as long as their quotes are closed."""
    before = 0
    try:
        for row in reader:
            before = reader.line_num
            yield row
    except csv.Error as error:
        raise refused(
            source,
            f"a field with quotes, from line {before + 1} on, does not end where its quotes do",
            help='close the quotes; one that is part of a field is written twice: "a ""b"" c"',
        ) from error


def _fields(number: int) -> str:
    return f"{number} field{'s' if number != 1 else ''}"


def _remedy(rows: Sequence[Sequence[str]], wanted: int) -> str:
    """What to do where the header and the rows differ in length."""
    if rows[0][0].startswith("#"):
        return "the first line names the columns: delete the line above"
    lengths = {len(row) for row in rows[1:]}
    if lengths == {wanted + 1}:
        return "name the first column too; in R: write.csv(..., row.names = FALSE)"
    if len(lengths) == 1:
        return "the first line names the columns: delete the line above, or name them all"
    return 'quote fields that hold the separator: "a, b"'


def _check_lone(source: str, rows: Sequence[Sequence[str]]) -> None:
    """A single column may be several, between separators that are not read."""
    for sign, called in (("|", "`|`"), (None, "blanks")):
        parts = {len(row[0].split(sign)) for row in rows}
        numbers = any(is_number(part) for row in rows[1:] for part in row[0].split(sign))
        if len(parts) == 1 and parts != {1} and numbers:
            raise refused(
                source,
                f"its fields stand between {called}",
                help="write them between commas, semicolons or tabs",
            )


def _check_header(source: str, header: Sequence[str]) -> None:
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    if repeated:
        raise refused(source, f"its header names `{repeated[0]}` twice")
    named = sum(map(bool, header))
    if len(header) > 2 * named:
        raise refused(
            source,
            f"its first line names {named} of {len(header)} columns",
            help="delete what stands above the names of the columns, or name all columns",
        )
    if header and all(is_number(name) for name in header):
        raise refused(
            source,
            "it has no header: its first line holds numbers",
            help="make the first line the names of the columns",
        )


def is_number(text: str) -> bool:
    """Whether a text is read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
