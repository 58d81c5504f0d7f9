"""What engines say that rounding takes of log evidences."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.contract.status import Status
from lgmdsl.engines.sparse.engine import SparseEngine

WALK = """lgm 1
index t
data y[t] : count
latent a ~ normal(sd = 5)
latent f[t] ~ rw2(sd = 1)
latent e[t] ~ ar1(sd = 0.4, rho = 0.8)
observe y ~ poisson(log_rate = a + f + e)
"""


def walk(steps: int, method: str) -> lgm.Fit:
    """A smooth curve with noise, on the sparse engine."""
    rng, where = np.random.default_rng(0), np.arange(steps) / steps
    y = rng.poisson(np.exp(1.0 + np.sin(9.0 * where) + 0.4 * rng.normal(size=steps)))
    return lgm.fit(lgm.loads(WALK), {"y": y}, method=method, options={"engine": "sparse"})


@pytest.mark.thorough
def test_precisions_that_cancel_take_digits_of_the_evidence() -> None:
    """The log determinant of a second order walk: its noise, seen in weights that differ by less
    than anything, is below what is said, and not by far."""
    fit = walk(10_000, "laplace")
    q, rng = fit.posterior.conditioned, np.random.default_rng(1)
    condition = SparseEngine(q.loosened.linear).condition  # type: ignore[attr-defined]
    values = []
    for _ in range(6):
        weight = tuple(w * (1.0 + 1e-13 * rng.normal(size=w.shape)) for w in q.weight)
        values.append(condition(weight, q.shift).log_normaliser)
    noise = float(np.ptp([*values, q.log_normaliser]))
    assert 0.05 * q.lost < noise < 4.0 * q.lost
    assert 1e-5 < q.lost < 1e-3


def test_fits_converge_to_where_rounding_hides_the_rest() -> None:
    """Noise of 1e-3 nats in the bound: steps that the residual asks for are taken."""
    fit = walk(20_000, "natural-gradient")
    assert fit.status is Status.converged
    assert fit.posterior.conditioned.lost > 1e-4
