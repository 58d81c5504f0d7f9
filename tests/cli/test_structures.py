"""`lgm check` with data builds the priors: what a structure refuses of its axis is told there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Run

MODEL = """lgm 1
index t
data y[t] : real
data at[t] : real
data g[t, t] : graph
hyper s : positive {s}
hyper r : correlation = {r}
latent f[t] ~ {prior}
let m[t] = f
observe y ~ normal(mean = m, sd = 0.5)
"""
DATA: dict[str, Any] = {
    "y": np.arange(5.0),
    "at": np.array([0.0, 1.0, 1.0, 2.0, 3.0]),
    "g": np.zeros((5, 5)),
}
FREE = "~ half_normal(sd = 1)"


@pytest.mark.parametrize("s", ["= 0.5", FREE])
@pytest.mark.parametrize(
    ("prior", "code", "told"),
    [
        ("besag(graph = g, sd = s)", "E401", "no member of `t` has a neighbour in `g`"),
        ("bym2(graph = g, sd = s, mix = 0.5)", "E401", "no member of `t` has a neighbour in `g`"),
        ("seasonal(sd = s, period = 12)", "E205", "a period of 12 points is longer than `t`"),
        ("rw1(sd = 1, at = at * s)", "E303", "positions of `rw1` repeat"),
    ],
)
def test_check_tells_what_a_structure_refuses(
    run: Run, tmp_path: Path, prior: str, code: str, told: str, s: str
) -> None:
    place, data = tmp_path / "m.lgm", tmp_path / "d.npz"
    place.write_text(MODEL.format(prior=prior, s=s, r=0.5))
    np.savez(data, **DATA)
    assert run("check", place).status == 0
    done = run("check", place, data)
    if code == "E303" and s == FREE:  # a value may be the stand-in's fault
        assert done.status == 0
    else:
        assert done.status == 1 and f"error[{code}]: {told}" in done.err


def test_stand_ins_for_free_hypers_are_not_blamed(run: Run, tmp_path: Path) -> None:
    place, data = tmp_path / "m.lgm", tmp_path / "d.npz"
    np.savez(data, **DATA)
    place.write_text(MODEL.format(prior="ar1(sd = 1, rho = r)", s=FREE, r="2 * s - 3"))
    assert run("check", place, data).status == 0
    place.write_text(MODEL.format(prior="ar1(sd = 1, rho = r)", s="= 2", r="2 * s - 3"))
    done = run("check", place, data)
    assert done.status == 1 and "error[E303]" in done.err and "`r`" in done.err


@pytest.mark.parametrize(
    ("prior", "told"),
    [
        ("~ pc_df(u = 1.5, alpha = 0.1)", "`u` of `pc_df` must be above 2"),
        ("~ inv_gamma(shape = 1, scale = y0 - 3)", "`scale` of `inv_gamma` must be positive"),
    ],
)
def test_what_a_hyperprior_refuses_is_told_though_its_hyper_is_free(
    run: Run, tmp_path: Path, prior: str, told: str
) -> None:
    place, data = tmp_path / "m.lgm", tmp_path / "d.npz"
    text = MODEL.format(prior="normal(sd = s)", s=prior, r=0.5)
    place.write_text(text.replace("hyper s", "data y0 : positive\nhyper s"))
    np.savez(data, **DATA, y0=2.0)
    assert run("check", place).status == 0
    done = run("check", place, data)
    assert done.status == 1 and f"error[E303]: {told}" in done.err and "m.lgm:7:" in done.err
