"""`lgm fit --hyper`: what is printed and written where hyperparameters are learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.learning.glmm import GLMM, counts


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    (tmp_path / "m.lgm").write_text(GLMM)
    np.savez(tmp_path / "d.npz", **counts(groups=8))  # type: ignore[arg-type]
    return str(tmp_path / "m.lgm"), str(tmp_path / "d.npz"), str(tmp_path / "o.nc")


def test_hyperparameters_are_integrated_unless_told_otherwise(
    files: tuple[str, str, str], run: Run
) -> None:
    model, data, out = files
    found = run("fit", model, data, "--json", "-o", out)
    assert found.status == 0, found.err
    hyper = json.loads(found.out)["hyper"]
    assert hyper["s"]["sd"] > 0.0
    page = run("summary", out).out
    assert "integrated over" in page and max(map(len, page.splitlines())) <= 80


def test_the_mode_is_told_as_one(files: tuple[str, str, str], run: Run) -> None:
    model, data, _ = files
    assert "at the mode of evidence and prior" in run("fit", model, data, "--hyper", "map").out


def test_a_wrong_design_is_an_error(files: tuple[str, str, str], run: Run) -> None:
    model, data, _ = files
    found = run("fit", model, data, "--option", "integration=cdd")
    assert found.status == 1 and "did you mean `ccd`" in found.err


def test_a_search_starts_where_it_is_told(files: tuple[str, str, str], run: Run) -> None:
    model, data, _ = files
    limited = ("fit", model, data, "--hyper", "map", "--option", "learning_steps=1", "--json")
    ends = [json.loads(run(*limited, "--start", f"s={s}").out)["hyper"]["s"] for s in (0.05, 3)]
    # 0.543 and 0.513 after one step, though the places that the data give are searched as well, and
    # 0.526 from these alone. The mode is 0.511.
    assert abs(ends[0]["mean"] - ends[1]["mean"]) > 0.02
    alone = json.loads(run(*limited).out)["hyper"]["s"]["mean"]
    assert min(abs(end["mean"] - alone) for end in ends) > 0.005
    wrong = run("fit", model, data, "--start", "S=1")
    assert wrong.status == 1 and "E103" in wrong.err
    assert run("fit", model, data, "--start", "s").status == 2
