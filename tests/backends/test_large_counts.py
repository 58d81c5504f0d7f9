"""Counts and shapes whose log densities are sums of huge terms: the evidence keeps its digits, or
is withheld."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.contract.status import Status

POISSON = (
    "lgm 1\nindex obs\ndata y[obs] : count\nlatent a[obs] ~ normal(sd = 10)\n"
    "let s[obs] = a\nobserve y ~ poisson(log_rate = s)\n"
)
GAMMA = (
    "lgm 1\nindex obs\ndata y[obs] : positive\n"
    "latent a[obs] ~ normal(sd = 10)\nlet s[obs] = a\n"
    "observe y ~ gamma(log_mean = s, shape = 1e9)\n"
)


def prior(log_y: float) -> float:
    """log N(log y; 0, 10^2)."""
    return float(-0.5 * np.log(200.0 * np.pi) - log_y**2 / 200.0)


@pytest.mark.parametrize("method", ["ep", "natural-gradient", "laplace", "coordinate-ascent"])
@pytest.mark.parametrize("y", [1e6, 1e9])
def test_counts(method: str, y: float) -> None:
    """The likelihood is as good as a Gaussian in s, of mass 1 / y and sd 1 / sqrt(y)."""
    fit = lgm.fit(lgm.loads(POISSON), {"y": np.array([y])}, method)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(prior(np.log(y)) - np.log(y), abs=5e-14 * y + 0.2 / y)
    assert float(fit.mean("a")[0]) == pytest.approx(np.log(y), abs=1.0 / np.sqrt(y))
    assert float(fit.sd("a")[0]) == pytest.approx(1.0 / np.sqrt(y), rel=1e-3)


@pytest.mark.parametrize("method", ["ep", "natural-gradient", "laplace"])
def test_shapes(method: str) -> None:
    fit = lgm.fit(lgm.loads(GAMMA), {"y": np.array([1e5])}, method)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(prior(np.log(1e5)) - np.log(1e5), abs=5e-5)
    assert float(fit.sd("a")[0]) == pytest.approx(1e-4 / np.sqrt(10.0), rel=1e-3)


@pytest.mark.parametrize("method", ["ep", "natural-gradient", "laplace", "cholesky"])
def test_an_evidence_without_digits_is_withheld(method: str) -> None:
    fit = lgm.fit(lgm.loads(POISSON), {"y": np.array([1e15])}, method)
    assert fit.status is not Status.converged and np.isnan(fit.log_evidence)
    assert "no log evidence: rounding" in fit.summary()
    assert "W601" in {w.code for w in fit.warnings}
