"""Result files that earlier versions wrote load, and say what they said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.files.store import FORMAT, PLAIN
from lgmdsl.cli.main import main

from .cases import CASES
from .keep import answers

FOLDER = Path(__file__).parent
KEPT = sorted(FOLDER.glob("format_*/*.nc"))
# Predictions and quantiles condition the prior on the stored sites again: exact engines agree to
# rounding, estimates of variances to their error. Quantiles of integrated hyperparameters are read
# between nodes, by a rule that was made better since the files were written.
SINCE = {3: {"drawn"}, 4: {"streamed"}, 5: {"covariance", "sharded"}}  # formats of their own
CLOSE = {"iterative": 0.1, "integrated": 1e-3, "covariance": 1e-3}


def test_every_format_is_kept_in_every_way() -> None:
    for number in range(1, FORMAT + 1):
        since = SINCE.get(number, set(CASES).difference(*SINCE.values()))
        assert {p.stem for p in KEPT if p.parent.name == f"format_{number}"} >= since


@pytest.mark.few(6)
@pytest.mark.parametrize("file", KEPT, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_kept_file_says_what_it_said(file: Path) -> None:
    case, expected = CASES[file.stem], json.loads(file.with_suffix(".json").read_text())
    fit = lgm.load_fit(file)
    found = json.loads(json.dumps(answers(fit, case)))
    assert found.keys() == expected.keys()
    for exact in ("moments", "log_evidence", "audit"):  # stored, not computed
        _agree(found.get(exact), expected.get(exact), 1e-12)
    for computed in ("quantiles", "predictions"):
        _agree(found.get(computed), expected.get(computed), CLOSE.get(file.stem, 1e-6))
    rest = expected.keys() - {"moments", "log_evidence", "audit", "quantiles", "predictions"}
    assert {k: found[k] for k in rest} == {k: expected[k] for k in rest}


@pytest.mark.parametrize("file", KEPT, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_kept_file_saves_again(file: Path, tmp_path: Path) -> None:
    fit = lgm.load_fit(file)
    fit.save(tmp_path / "again.nc")
    again = lgm.load_fit(tmp_path / "again.nc")
    assert again.provenance == fit.provenance and again.log_evidence == fit.log_evidence
    for block in fit.canonical.latents:
        np.testing.assert_array_equal(again.mean(block.name), fit.mean(block.name))
        np.testing.assert_array_equal(again.sd(block.name), fit.sd(block.name))


def _agree(found: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            _agree(found[key], expected[key], tolerance)
    elif expected is not None:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture
def fit_file(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / "format_1" / "fixed.nc", tmp_path / "f.nc"))


def refusal(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What Python and the command line say of a file that is refused."""
    with pytest.raises(lgm.DataError) as caught:
        lgm.load_fit(file)
    assert caught.value.codes == ("E306",)
    assert main(["summary", str(file)]) == 1
    assert capsys.readouterr().err.strip() == str(caught.value)
    return str(caught.value)


def test_a_file_of_a_later_format_is_refused_by_who_wrote_it(
    fit_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(fit_file, "a") as file:
        file.attrs["lgmdsl_format"] = FORMAT + 1
        file.attrs["lgmdsl_version"] = "7.1.2"
        del file["site"]  # whatever a later format holds
    said = refusal(fit_file, capsys)
    assert f"was written by lgmdsl 7.1.2 in format {FORMAT + 1}" in said
    assert lgm.__version__ in said and "pip install 'lgmdsl>=7.1.2'" in said
    with h5py.File(fit_file, "a") as file:
        del file.attrs["lgmdsl_version"]
    assert "a later version" in refusal(fit_file, capsys)


def test_a_file_says_its_format_and_who_wrote_it(fit_file: Path) -> None:
    lgm.load_fit(fit_file).save(fit_file)
    with h5py.File(fit_file, "r") as file:
        assert file.attrs["lgmdsl_format"] == PLAIN < FORMAT
        assert file.attrs["lgmdsl_version"] == lgm.__version__


@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(
    part: float, fit_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = fit_file.read_bytes()
    fit_file.write_bytes(content[: int(part * len(content))])
    refusal(fit_file, capsys)


def test_changed_files_are_refused_or_unchanged_in_what_they_say(fit_file: Path) -> None:
    """A flipped byte lies in an array or attribute, which the digest covers, or in room that the
    format leaves unused."""
    content, rng = fit_file.read_bytes(), np.random.default_rng(5)
    expected, refused = lgm.load_fit(fit_file), 0
    for place in rng.integers(len(content), size=60):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        fit_file.write_bytes(changed)
        try:
            found = lgm.load_fit(fit_file)
        except lgm.DataError as error:
            refused += error.codes == ("E306",)
        else:
            np.testing.assert_array_equal(found.mean("u"), expected.mean("u"))
            assert found.log_evidence == expected.log_evidence
    assert refused >= 10


def test_foreign_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import xarray as xr

    xr.Dataset({"y": ("t", [1.0])}).to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    assert "is not a result file" in refusal(tmp_path / "data.nc", capsys)
    with h5py.File(tmp_path / "half.nc", "w") as file:
        file.attrs["lgmdsl_format"] = "one"
    refusal(tmp_path / "half.nc", capsys)
    with h5py.File(tmp_path / "bare.nc", "w") as file:
        file.attrs["lgmdsl_format"] = 1
    refusal(tmp_path / "bare.nc", capsys)
