"""Every example through check, fmt, info, explain, graph and methods."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run

NAMES = (
    "01_logistic", "01b_logistic_laplace", "02_gp_classification", "03_poisson_glmm",
    "03b_random_slopes", "04_tokyo", "05_bym2", "05b_space_time", "06_stochvol", "07_binary_fa",
    "08_stick_breaking", "09_mixed_fa", "10_deblur", "11_ctm", "12_discrete_choice",
)  # fmt: skip


@pytest.mark.few(5)
@pytest.mark.parametrize("name", NAMES)
def test_example(run: Run, shared: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.lgm"
    shutil.copy(shared / "examples" / f"{name}.lgm", path)
    path.chmod(0o644)
    assert run("check", path).status == 0
    assert run("info", path).out.startswith(str(path))
    for language in ("dot", "mermaid", "svg"):
        assert run("graph", path, "--to", language).status == 0
    explained = run("explain", path)
    assert explained.status == 0 and explained.err == ""
    assert all(len(line) <= 110 for line in explained.out.splitlines())
    found = run("explain", path, "--json").json
    verdicts = run("methods", path, "--json").json["methods"]
    assert found["methods"] == verdicts
    for verdict in verdicts:
        assert verdict["runs"] == (not verdict["reasons"])
        if found["not_available"]:
            assert not verdict["runs"]
    assert run("fmt", path).status == 0
    formatted = path.read_text()
    assert run("fmt", path).status == 0 and path.read_text() == formatted
    assert run("check", path).status == 0
