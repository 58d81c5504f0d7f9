"""Files that are damaged, foreign, hostile or too large end in E306, and say why."""

from __future__ import annotations

import os
import resource
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lgmdsl.dataset import read
from lgmdsl.errors import DataError
from tests.data.models import ROWS, bind, one
from tests.operations import Calls


def refused(source: Any, name: str = "", code: str = "E306") -> str:
    """The message of a refusal, of the file or (with `name`) of one of its entries."""
    with pytest.raises(DataError) as caught:
        dataset = read(source)
        if name:
            _ = dataset.entries[name].loaded
    assert caught.value.codes == (code,)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".nc"])
def test_foreign_and_damaged_files(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"d{suffix}"
    assert "no such file" in refused(file)
    file.mkdir()
    assert "directory" in refused(file)
    file.rmdir()
    for content in (b"", b"\x00" * 100, b"\xff\xd8\xff\xe0JFIF" + b"\x00" * 50, b"\xff" * 200):
        file.write_bytes(content)
        assert "d" + suffix in refused(file)
    if suffix in (".npz", ".parquet"):
        assert "copy it again" in refused(file)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    file = tmp_path / "d.npz"
    file.write_bytes(b"x")
    file.chmod(0)
    assert "permission" in refused(file)


def test_endings_and_sources_that_are_not_read(tmp_path: Path) -> None:
    for name in ("d.txt", "d", "d.npy", "d.pkl"):
        (tmp_path / name).write_bytes(b"1")
        assert ".npz .csv .parquet .nc" in refused(tmp_path / name)
    for source in (3, None, b"d.npz", np.zeros(3), object()):
        assert "not a source of data" in refused(source)


def npz(file: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", content)
    return file


def header(text: str, version: int = 1) -> bytes:
    raw = text.encode("latin1")
    return b"\x93NUMPY" + bytes([version, 0]) + len(raw).to_bytes(2, "little") + raw


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "harmed"),))

    np.savez(tmp_path / "d.npz", y=np.array([Bomb()], dtype=object), x=[1.0])
    assert "never unpickled" in refused(tmp_path / "d.npz", "y")
    assert not (tmp_path / "harmed").exists()
    assert read(tmp_path / "d.npz").entries["x"].loaded.values.tolist() == [1.0]


def test_too_large_is_refused_before_it_is_expanded(tmp_path: Path) -> None:
    shape = (10**7, 10**7)
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n"
    file = npz(tmp_path / "d.npz", "y", header(text))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Calls() as counted:
        message = refused(file, "y")
    assert "10000000 x 10000000 values of 8 bytes are 800 TB" in message
    assert counted.number < 20_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kB
    assert grown < 100_000


def test_bomb_is_refused_by_the_memory_it_needs(tmp_path: Path, monkeypatch: Any) -> None:
    np.savez_compressed(tmp_path / "d.npz", y=np.zeros(1 << 20))
    assert (tmp_path / "d.npz").stat().st_size < 1 << 16
    monkeypatch.setenv("LGM_MEMORY", str(1 << 22))
    assert "8.39 MB" in refused(tmp_path / "d.npz", "y")


def test_widening_is_counted_too(tmp_path: Path, monkeypatch: Any) -> None:
    data = {"y": np.zeros((512, 512), dtype=np.int8)}
    monkeypatch.setenv("LGM_MEMORY", str(1 << 20))
    with pytest.raises(DataError, match=r"2\.1 MB"):
        text = "lgm 1\nindex obs\nindex feat\ndata y[obs, feat] : count\n"
        bind(text + "latent b ~ normal(sd = 1)\npotential b ~ laplace(scale = 1)\n", data)


HEADERS = [
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }",  # more than is there
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }",  # less than is there
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-2,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2.0,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': 2}",
    "{'descr': '<f8', 'shape': (2,)}",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
    "__import__('os').getcwd()",
    "(" * 300 + ")" * 300,
    "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 70 + ")}",
    "",
]


@pytest.mark.parametrize("text", HEADERS)
def test_headers_that_lie(text: str, tmp_path: Path) -> None:
    refused(npz(tmp_path / "d.npz", "y", header(text) + b"\x00" * 16), "y")


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    for content in (b"", b"\x93NUM", b"hello", header("{}", version=9), header("x" * 9)[:12]):
        assert "`y`" in refused(npz(tmp_path / "d.npz", "y", content), "y")


SPARSE = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("indices", [0, 7]),
        ("indices", [0, -1]),
        ("indices", [0.0, 1.0]),
        ("indices", [0]),
        ("indptr", [0, 2]),
        ("indptr", [0, 3, 2]),
        ("indptr", [0, 1, 9]),
        ("shape", [2, 2, 2]),
        ("shape", [-2, 2]),
        ("shape", [2.0, 2.0]),
        ("data", ["a", "b"]),
        ("indptr", [1, 1, 2]),
        ("shape", [10**15, 2]),
    ],
)
def test_sparse_parts_that_contradict_one_another(part: str, value: Any, tmp_path: Path) -> None:
    parts = {f"X.{k}": np.array(v) for k, v in (SPARSE | {part: value}).items()}
    np.savez(tmp_path / "d.npz", **parts)  # type: ignore[arg-type]
    with pytest.raises(DataError) as caught:
        bind(one("real", "obs, feat"), tmp_path / "d.npz", {"y": "X"})
    assert caught.value.codes == ("E306",) and "X" in str(caught.value)


CSV = [
    ("a,b\n1,2\n3\n", "line 3 has 1 field"),
    ("a,b\n1,2,3\n", "line 2 has 3 fields"),
    ("a,a\n1,2\n", "names `a` twice"),
    ("1,2\n3,4\n", "no header"),
    ("", "it is empty"),
    ("\n\n", "it is empty"),
    ('a,b\n"1,2\n', "quotes, from line 2"),
    ("a\n\x00\n", "zero bytes"),
    ("a|b\n1|2\n", "between `|`"),
    ("a b\n1 2\n", "between blanks"),
    ("a,b\n1,2,3\n4,5,6\n", "row.names = FALSE"),
    ("# mine\na,b\n1,2\n", "delete the line above"),
    ("sep=;\na;b\n1;2\n", "first line, `sep=;`, names no columns"),
]


def test_a_column_of_several_words_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("full name\nAnn Lee\nBo Li\n", encoding="utf-8")
    assert list(read(tmp_path / "d.csv").entries) == ["full name"]


@pytest.mark.parametrize(("text", "reason"), CSV)
def test_csv_that_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    assert reason in refused(tmp_path / "d.csv")


def test_csv_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes("a\nx\nZoë\n".encode("latin-1"))
    assert "line 3 is not UTF-8" in refused(tmp_path / "d.csv")
    (tmp_path / "d.csv").write_bytes("a\n1\n".encode("utf-16"))
    assert "UTF-16" in refused(tmp_path / "d.csv")


def test_csv_as_it_comes_from_other_programs(tmp_path: Path) -> None:
    text = '\ufeff"","y";x'.replace(";", ",") + ',who,flag\r\n"1",3,NA,"a, b",TRUE\r\n\r\n'
    text += '"2", 4 ,1.5,"say ""hi""",false\r\n"3",0,,ann,FALSE'
    (tmp_path / "d.csv").write_text(text, encoding="utf-8", newline="")
    got = bind(ROWS, tmp_path / "d.csv")
    assert got.values["y"].tolist() == [3.0, 4.0, 0.0]
    assert got.missing["x"].tolist() == [True, False, True]
    assert got.indices["subject"].labels.tolist() == ["a, b", "ann", 'say "hi"']
    assert got.values["flag"].tolist() == [1.0, 0.0, 0.0]
    (tmp_path / "d.csv").write_text("y;x;who;flag\n1;2;a;0\n", encoding="utf-8")
    assert bind(ROWS, tmp_path / "d.csv").values["y"].tolist() == [1.0]


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr("lgmdsl.dataset.arrow.find_spec", lambda name: None)
    assert "pip install 'lgmdsl[data]'" in refused(tmp_path / "d.parquet")


def test_a_name_in_two_sources(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", y=[1.0])
    assert "is in d.npz too" in refused([tmp_path / "d.npz", {"y": [2.0]}])
