"""What pyarrow reads of a .csv file is what the library's own reader reads, and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lgmdsl.dataset import arrow_csv, delimited
from lgmdsl.dataset.arrow_csv import Fields, plain_columns
from lgmdsl.dataset.delimited import read_csv
from lgmdsl.errors import DataError

pytest.importorskip("pyarrow")

FIELDS = [
    *("0", "1", "-7", "+3", "007", "01234", "1.10", "1e2", "1E+05", "-1e-3", ".5", "5.", "1e", "-"),
    *("--1", "1-2", "12345678901234567890", "9223372036854775807", "9223372036854775808"),
    *("0.1000000000000000055511151231257827", "1e999", "-1e-999", "inf", "nan", "1_000", "0x1F"),
    *("", "NA", "N/A", "NaN", "nan", "NULL", " NA", " ", " 1", "1 ", "\t2", "1,5", "1;5", "1.5.2"),
    *("2024-01-31", "2024-01-31T12:00:00", "12:30", "true", "TRUE", "False", "yes", "a", "Ålesund"),
    *('"a"', '"a, b"', '"a ""b"" c"', '""', '"1"', 'a"b', '"a"b', ' "a"', '"a\nb"', '"', "\x0c"),
    *("\x85", "\u2028", "\u0661\u0662", "\ufeff", "\x00", "\r", "x" * 200),
]


def outcome(path: Path) -> Any:
    """All that a reader says of a file: what it refuses, or its columns."""
    try:
        return {name: column(entry) for name, entry in read_csv(path).items()}
    except DataError as error:
        return str(error)


def column(entry: Any) -> Any:
    try:
        found = entry.loaded
    except DataError as error:
        return str(error)
    settled = found.settled()
    parts = (found.values, found.missing, found.texts, settled.kept, settled.absent)
    shown = [None if part is None else np.asarray(part) for part in parts]
    return [None if s is None else (s.dtype, s.tobytes()) for s in shown], list(found.written)


def agree(raw: bytes, folder: Path) -> bool:
    """Both readers say the same; whether pyarrow was the one that read."""
    path = folder / "table.csv"
    path.write_bytes(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_csv, "LARGE", 0)
        by_arrow, taken = outcome(path), plain_columns(raw) is not None
        patch.setattr(delimited, "plain_columns", lambda raw: None)
        assert by_arrow == outcome(path)
    return taken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv")


ROWS = st.lists(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4), max_size=6)


@given(
    rows=ROWS,
    separator=st.sampled_from([",", ";", "\t"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.sampled_from(["", "\ufeff"]),
    last=st.booleans(),
)
@example(rows=[["1", "1,5"], ["2", "2,5"]], separator=";", end="\r\n", mark="\ufeff", last=True)
def test_odd_files(
    folder: Path, rows: list[list[str]], separator: str, end: str, mark: str, last: bool
) -> None:
    text = end.join(separator.join(row) for row in [["a", "b"], *rows]) + (end if last else "")
    agree((mark + text).encode(), folder)


PLAIN = [field for field in FIELDS if not set(field) & set('",;\t\n\r\x00')]


@given(
    kinds=st.lists(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4), min_size=2),
    order=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_odd_columns(folder: Path, kinds: list[list[str]], order: list[int], end: str) -> None:
    """Files that pyarrow reads, whose columns hold few kinds of fields each."""
    columns = [[fields[k % len(fields)] for k in order] for fields in kinds]
    lines = [[f"c{k}" for k in range(len(columns))], *map(list, zip(*columns, strict=True))]
    assert agree(end.join(",".join(line) for line in lines).encode(), folder)


@pytest.mark.parametrize(
    "text",
    [
        "id,x\n12345678901234567890,1\n12345678901234567891,2\n",  # ids that no number holds
        "zip,x\n01234,1.10\n1234,1.1\n",
        "y,x\n1,2.5\n,NA\n3,-1e-3\n",
        'y,who\n1,"Oslo"\n2,"Bergen, Norway"\n',
        '"y","who"\r\n1,"Oslo"\r\n2,"Bergen"\r\n',
        "when;x\n2024-01-31;1,5\n2024-02-01;2,5\n",
        "y,t\n1,true\n2,FALSE\n",
        "y,x\n9223372036854775807,1\n-9223372036854775808,2\n",
        "y,x\nNA,\nNA,\n",
        "\ufeffy,x\n1,2\n",
    ],
)
def test_plain_files_are_read_by_pyarrow(folder: Path, text: str) -> None:
    assert agree(text.encode(), folder)


@pytest.mark.parametrize(
    "raw",
    [
        b"y,x\n1,2\n3\n",
        b"y,x\n1,2\n\n3,4\n",
        b'y,x\n1,"a\nb"\n',
        b'y,x\n1,"a\n',
        b"y,x\n1,\xff\n",
        b"y,x\n1,\x00\n",
        b"y,x\r1,2\r",
        b"y\n1\n2\n",
        b"sep=,\ny,x\n1,2\n",
        b"y,x\n1," + b"a" * (1 << 17) + b"b\n",
        b"y,y\n1,2\n",
        b"1,2\n3,4\n",
        b"y,,\n1,2,3\n",
        b"",
        b"y,x",
        b"y,x\n",
        b'y,x\na"b,"',  # a quote that begins a field and ends one
        b"y,x\n+3,1\n",
    ],
)
def test_files_that_are_refused_or_read_by_the_other_reader(folder: Path, raw: bytes) -> None:
    agree(raw, folder)


def test_small_files_do_not_import_pyarrow() -> None:
    assert plain_columns(b"y,x\n1,2\n") is None


def test_fields_are_a_sequence_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_csv, "LARGE", 0)
    plain = plain_columns(b"y,x\n1,a\n2,b\n")
    assert plain is not None
    fields = plain[1][1]
    assert isinstance(fields, Fields) and len(fields) == 2
    assert (fields[0], fields[-1], fields[:1], list(fields)) == ("a", "b", ["a"], ["a", "b"])
    assert np.asarray(fields).tolist() == ["a", "b"]
