"""EP on random models: its modes agree, what must not change its posterior does not, and with much
data in each site it tends to the other methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgmdsl as lgm

FAMILIES = {
    "logit": ("binary", "bernoulli(logit = eta)"),
    "probit": ("binary", "bernoulli(probit = eta)"),
    "poisson": ("count", "poisson(log_rate = eta)"),
    "laplace": ("real", "laplace(mean = eta, scale = 0.7)"),
    "student_t": ("real", "student_t(mean = eta, scale = 0.7, df = 5)"),
}
seeds = st.integers(0, 2**20)


def random_model(seed: int, family: str, sd: float = 1.5) -> tuple[str, dict[str, Any]]:
    """A linear part and a GP over the same rows, some of which are there twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2))
    X[-2:] = X[:2]
    type_, site = FAMILIES[family]
    draws = {
        "binary": rng.integers(0, 2, 12),
        "count": rng.poisson(2.0, 12),
        "real": rng.standard_t(3, 12),
    }
    text = (
        f"lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : {type_}?\n"
        f"latent b[feat] ~ normal(mean = 0.2, sd = {sd})\n"
        "latent u[obs] ~ normal(sd = 0.6)\nlet eta[obs] = X @ b + u + 0.3\n"
        f"observe y ~ {site}\n"
    )
    return text, {"X": X, "y": draws[type_]}


def ep(text: str, data: dict[str, Any], **options: Any) -> lgm.Fit:
    fit = lgm.fit(lgm.loads(text), data, "ep", options=options, tol=1e-9)
    assert fit.converged, fit.trace[-1]
    return fit


@given(seeds, st.sampled_from(["poisson", "laplace"]))
@settings(max_examples=8)
def test_missing_responses_drop_out(seed: int, family: str) -> None:
    text, data = random_model(seed, family)
    gone = np.arange(12) % 3 == 0
    holed = ep(text, {**data, "y": np.where(gone, np.nan, data["y"])})
    without = ep(text, {k: v[~gone] for k, v in data.items()})
    assert holed.log_evidence == pytest.approx(without.log_evidence, rel=1e-8)
    np.testing.assert_allclose(holed.mean("eta").values[~gone], without.mean("eta"), atol=1e-5)


@given(seeds)
@settings(max_examples=5)
def test_many_trials_make_the_methods_one(seed: int) -> None:
    """Binomial sites of 1e2 to 1e4 trials: nearly Gaussian, so EP, the variational fit and Laplace
    draw together as 1/n, in log evidence as in the means (in posterior sds, as 1/sqrt n)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 2))
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata n[obs] : count\n"
        "data y[obs] : count\nlatent b[feat] ~ normal(sd = 1)\nlet eta[obs] = X @ b\n"
        "observe y ~ binomial(n = n, logit = eta)\n"
    )
    for trials in (100, 10_000):
        n = np.full(8, trials)
        y = np.round(trials / (1 + np.exp(-X @ [0.7, -0.4]))).astype(int)
        data = {"X": X, "y": y, "n": n}
        fits = [
            lgm.fit(lgm.loads(text), data, m, tol=1e-10)
            for m in ("ep", "natural-gradient", "laplace")
        ]
        for other in fits[1:]:
            assert abs(fits[0].log_evidence - other.log_evidence) < 5.0 / trials
            shift = np.abs((fits[0].mean("b") - other.mean("b")) / other.sd("b"))
            assert float(shift.max()) < 5.0 / np.sqrt(trials)
            np.testing.assert_allclose(fits[0].sd("b") / other.sd("b"), 1.0, atol=5.0 / trials)
