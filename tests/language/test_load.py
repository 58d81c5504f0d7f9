"""Files: each way of not being readable is an E306 with its reason."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lgmdsl.errors import DataError, ModelError
from lgmdsl.language.load import load, loads

MODEL = "lgm 1\nindex obs\nlatent u[obs] ~ normal(sd = 1)\n"


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        load(path)
    assert caught.value.codes == ("E306",)
    return str(caught.value)


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "m.lgm"
    file.write_text(MODEL, encoding="utf-8")
    assert load(file) == load(str(file)) == loads(MODEL)
    assert load(file).checked.source.name == str(file)


def test_missing_file(tmp_path: Path) -> None:
    (tmp_path / "glmm.lgm").write_text(MODEL, encoding="utf-8")
    assert "no such file" in refused(tmp_path / "gllm.lgm")
    assert "did you mean" in refused(tmp_path / "gllm.lgm")
    assert "cannot be listed" in refused(tmp_path / "no" / "such.lgm")


def test_a_folder(tmp_path: Path) -> None:
    assert "it is a folder" in refused(tmp_path)


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "m.lgm"
    file.write_bytes(b"lgm 1\n# caf\xe9\n")
    assert "byte 11 (line 2) is not UTF-8" in refused(file)


def test_a_data_file(tmp_path: Path) -> None:
    file = tmp_path / "d.npz"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", bytes(range(256)) * 9)
    file.write_bytes(packed.getvalue())
    assert "this looks like a data file" in refused(file)


def test_a_huge_file(tmp_path: Path) -> None:
    file = tmp_path / "m.lgm"
    with file.open("wb") as out:
        out.truncate(10**9)
    assert "1,000,000,000 bytes" in refused(file)


def test_a_name_that_no_file_can_have() -> None:
    assert "cannot read" in refused(Path("a\0b.lgm"))


def test_errors_of_all_kinds_come_together() -> None:
    """A syntax error does not hide the errors of the statements that do not depend on it."""
    text = (
        "lgm 1\nindex obs\nlatent u[obs] = normal(sd = 1)\nlatent v[obs] ~ rw9(sd = 1)\n"
        "let lost[obs] = = u\nlet eta[obs] = lost + u\nlet mu[obs] = nothing\n"
    )
    with pytest.raises(ModelError) as caught:
        loads(text)
    assert caught.value.codes == ("E101", "E103", "E109", "E103")


def test_reading_loads_no_numerical_library() -> None:
    code = (
        "import sys; from lgmdsl.language.load import loads; loads(sys.argv[1]).to_lgm();"
        "print([m for m in ('numpy', 'scipy', 'xarray', 'networkx', 'click', 'rich', 'hypothesis')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, MODEL], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
