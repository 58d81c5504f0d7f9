"""Two starts where the sites are not log-concave: both reported, the higher one kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.inference.other_starts import at_landmarks

ROBUST = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent b[feat] ~ normal(sd = 5)
let s[obs] = X @ b
observe y ~ student_t(mean = s, scale = {scale}, df = {df})
"""


def outliers(seed: int, scale: float = 0.3) -> dict[str, AnyArray]:
    """A quarter of the rows follows another line."""
    rng = np.random.default_rng(seed)
    n = 80
    X = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    y = X @ [1.0, 2.0, -1.0] + scale * rng.standard_normal(n)
    away = rng.permutation(n)[: n // 4]
    y[away] = X[away] @ [9.0, -3.0, 4.0] + scale * rng.standard_normal(n // 4)
    return {"X": X, "y": y}


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(4))
def test_a_quarter_of_outliers(seed: int) -> None:
    fit = lgm.fit(lgm.loads(ROBUST.format(scale=0.3, df=2)), outliers(seed), "natural-gradient")
    assert fit.converged and len(fit.starts) == 2
    assert all(s.status is Status.converged for s in fit.starts)
    objectives = [e.objective for e in fit.trace]
    assert (np.diff(objectives) > -1e-9 * abs(objectives[-1])).all()
    assert fit.log_evidence == pytest.approx(max(s.objective for s in fit.starts), rel=1e-9)
    np.testing.assert_allclose(fit.mean("b"), [1.0, 2.0, -1.0], atol=0.3)
    assert "W602" not in [w.code for w in fit.warnings]
    assert "find one mode" in fit.provenance["notes"]


def test_the_two_starts_can_end_apart() -> None:
    """Two groups of data that contradict each other: the prior leads to the lighter one."""
    y = np.r_[-4.0 + 0.1 * np.arange(5), 8.0 + 0.1 * np.arange(7)]
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent m ~ normal(mean = -4, sd = 10)\n"
        "let s[obs] = m\nobserve y ~ student_t(mean = s, scale = 0.1, df = 1)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"y": y}, "natural-gradient")
    own, least_squares = (s.objective for s in fit.starts)
    assert least_squares - own > 10.0
    assert fit.log_evidence == pytest.approx(least_squares, rel=1e-9)
    assert abs(float(fit.mean("m")) - 8.3) < 0.5


def test_one_start_where_the_optimum_is_global_or_the_caller_names_the_start() -> None:
    data = outliers(0)
    gaussian = ROBUST.replace(
        "student_t(mean = s, scale = {scale}, df = {df})", "normal(mean = s, sd = 1)"
    )
    assert lgm.fit(lgm.loads(gaussian), data, "natural-gradient").starts == ()
    model = lgm.loads(ROBUST.format(scale=0.3, df=2))
    first = lgm.fit(model, data, "natural-gradient")
    assert lgm.fit(model, data, "natural-gradient", start_from=first).starts == ()


def test_the_landmark_start_is_least_squares(tmp_path: Path) -> None:
    data, df, scale = outliers(1), 4.0, 0.5
    fit = lgm.fit(
        lgm.loads(ROBUST.format(scale=scale, df=df)), data, "natural-gradient", max_steps=0
    )
    from lgmdsl.inference.plan import plan

    found = at_landmarks(plan(fit.canonical, "natural-gradient").at(fit.theta))
    assert isinstance(found, GaussianPosterior)
    variance = df * scale**2
    precision = data["X"].T @ data["X"] / variance + np.eye(3) / 25.0
    np.testing.assert_allclose(
        found.conditioned.latent_mean,
        np.linalg.solve(precision, data["X"].T @ data["y"] / variance),
        rtol=1e-10,
    )
    fit.save(tmp_path / "o.nc")
    assert "least squares" in lgm.load_fit(tmp_path / "o.nc").provenance["starts"]


SPIKE = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent w[feat] ~ flat
let s[obs] = X @ w
observe y ~ normal(mean = s, sd = 0.3)
potential w ~ student_t(scale = 0.001, df = 3)
"""


@pytest.mark.parametrize("method", ["map", "laplace", "double-loop"])
def test_a_spike_of_the_prior_lets_go(method: str) -> None:
    """Both other starts of the mode's methods keep a weight of 1 in a peak 0.001 wide."""
    rng = np.random.default_rng(120)
    X, w = rng.normal(size=(100, 20)), np.zeros(20)
    w[:4] = [2.0, -1.5, 1.0, 3.0]
    data = {"X": X, "y": X @ w + 0.3 * rng.normal(size=100)}
    fit = lgm.fit(lgm.loads(SPIKE), data, method)
    assert fit.converged and [s.name for s in fit.starts] == [
        "own start",
        "least squares",
        "wide peaks",
    ]
    np.testing.assert_allclose(fit.mean("w"), w, atol=0.15)
    objectives = [s.objective for s in fit.starts]
    assert max(objectives) == pytest.approx(objectives[2], abs=1e-6)
    if method != "double-loop":
        assert objectives[2] > max(objectives[:2]) + 100.0
    assert "W602" not in [w.code for w in fit.warnings]  # the other ends are 500 nats lower
