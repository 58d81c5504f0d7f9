"""`lgm impute`: files, csv, JSON and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lgmdsl as lgm
from tests.cli.conftest import Run

MODEL = """lgm 1
index p
index i
data y[p, i] : binary?
latent a[p] ~ normal(sd = 1)
latent b[i] ~ normal(sd = 1)
let eta[p, i] = a + b
observe y ~ bernoulli(logit = eta)
"""


def _files(folder: Path) -> tuple[Path, Path, np.ndarray]:
    y = np.random.default_rng(0).integers(0, 2, (8, 3)).astype(float)
    y[0, 0] = y[5, 2] = np.nan
    (folder / "m.lgm").write_text(MODEL)
    np.savez(folder / "d.npz", y=y)
    return folder / "m.lgm", folder / "d.npz", y


def test_files_hold_the_completed_data(run: Run, tmp_path: Path) -> None:
    model, data, y = _files(tmp_path)
    out = tmp_path / "filled.npz"
    ended = run("impute", model, data, "-o", out)
    assert ended.status == 0
    assert ended.out == ""
    assert "2 of 24 entries were missing" in ended.err
    with np.load(out) as found:
        values, sd, chances = found["y"], found["y_sd"], found["y_probability"]
    own = lgm.fit(lgm.loads(MODEL), {"y": y}).impute()
    np.testing.assert_allclose(values, own["y"].values)
    np.testing.assert_allclose(sd, own.sd("y").values)
    np.testing.assert_allclose(chances[..., 1], values)
    assert ((values > 0) & (values < 1)).sum() == 2


def test_csv_json_and_a_wrong_name(run: Run, tmp_path: Path) -> None:
    model, data, _ = _files(tmp_path)
    lines = run("impute", model, data).out.splitlines()
    assert lines[0].split(",") == ["p", "i", "y", "y_sd", "y_probability_0", "y_probability_1"]
    assert len(lines) == 25
    found = run("impute", model, data, "--json").json
    assert found["missing"] == {"y": 2}
    assert found["values"]["y"]["dims"] == ["p", "i"]
    refused = run("impute", model, data, "-o", tmp_path / "filled.txt")
    assert refused.status == 1
    assert "cannot write" in refused.err
