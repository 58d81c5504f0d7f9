"""Every real data set: its model checks with its data, and fits at pinned hyperparameters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main

from .data import LOADERS, MODELS, Data, model_text
from .pinned import PINNED

GAUSSIAN = ("rats", "drivers")
METHODS = ("laplace", "natural-gradient", "ep")


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "data"


def case_data(case: str, folder: Path) -> Data:
    return LOADERS[case][1](folder)


def test_every_model_has_a_case() -> None:
    assert {f"{model}.lgm" for model, _ in LOADERS.values()} == {
        path.name for path in MODELS.glob("*.lgm")
    }
    assert set(PINNED) == set(LOADERS)


@pytest.mark.parametrize("case", LOADERS)
def test_model_checks_with_its_data(
    case: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", **case_data(case, folder))  # type: ignore[arg-type]
    model = MODELS / f"{LOADERS[case][0]}.lgm"
    status = main(["check", str(model), str(tmp_path / "data.npz")])
    told = capsys.readouterr()
    assert not status and "ok" in told.out, told.out + told.err
    warned = ["W401"] if case == "scotland" else []  # its three islands
    assert re.findall(r"\b[EW]\d{3}\b", told.err) == warned, told.err


@pytest.mark.few(7)
@pytest.mark.parametrize("case", LOADERS)
def test_fits_at_pinned_hypers(case: str, folder: Path) -> None:
    """All three converge; means agree; the variational bound is under EP's estimate."""
    model, data = lgm.loads(model_text(case)), case_data(case, folder)
    fits = [lgm.fit(model, data, method, fixed=PINNED[case]) for method in METHODS]
    laplace, variational, ep = fits
    assert all(fit.converged for fit in fits)
    assert variational.log_evidence <= ep.log_evidence + 1e-6
    for block in ep.canonical.latents:
        sd = np.ravel(variational.sd(block.name))
        gap = np.ravel(variational.mean(block.name) - ep.mean(block.name)) / sd
        assert np.abs(gap).max() < 0.2, (block.name, np.abs(gap).max())
        if case in GAUSSIAN:
            exact = np.ravel(laplace.mean(block.name) - ep.mean(block.name)) / sd
            assert np.abs(exact).max() < 1e-6
    if case in GAUSSIAN:
        assert laplace.log_evidence == pytest.approx(ep.log_evidence, rel=1e-8)
