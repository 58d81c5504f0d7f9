"""Priors so stiff that rounding weighs: rw2 over many points, against extended precision."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import AnyArray
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.operators.explicit import Identity
from lgmdsl.structures.catalogue import structure


def rw2(n: int, sd: float) -> LinearGaussian:
    walk = structure("rw2", n, sd=sd, sum_to_zero=False)
    predictor = Predictor({"f": Identity(n)}, np.zeros(n))
    return LinearGaussian((PriorBlock("f", (walk,), np.zeros(n)),), (predictor,))


def factored(n: int, scale: float) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The band of L, LL' = scale D'D + I, in extended precision."""
    exact = np.longdouble
    d0, d1 = np.full(n, exact(6)), np.full(n - 1, exact(-4))
    d0[[0, -1]], d0[[1, -2]], d1[[0, -1]] = 1, 5, -2
    l0, l1, l2 = np.zeros(n, exact), np.zeros(n, exact), np.zeros(n, exact)
    for i in range(n):
        l0[i] = np.sqrt(exact(scale) * d0[i] + 1 - l1[i - 1] ** 2 - l2[i - 2] ** 2)
        if i + 1 < n:
            l1[i] = (exact(scale) * d1[i] - l1[i - 1] * l2[i - 1]) / l0[i]
        if i + 2 < n:
            l2[i] = exact(scale) / l0[i]
    return l0, l1, l2


def forward(band: tuple[AnyArray, AnyArray, AnyArray], x: AnyArray) -> AnyArray:
    l0, l1, l2 = band
    out = x.astype(np.longdouble)
    for i in range(len(out)):
        if i >= 1:
            out[i] -= l1[i - 1] * out[i - 1]
        if i >= 2:
            out[i] -= l2[i - 2] * out[i - 2]
        out[i] /= l0[i]
    return out


@pytest.mark.skipif(bool(np.finfo(np.longdouble).eps > 1e-18), reason="no extended precision here")
def test_rw2_over_thousands_of_points() -> None:
    """Q's entries are 7e11 times the data's weight. With entries that are each rounded by
    themselves the evidence is off by 1."""
    n, sd = 10_000, 0.05
    linear = rw2(n, sd)
    y = np.sin(np.arange(n) / n * 6) + np.random.default_rng(0).normal(size=n)
    q = SparseEngine(linear).condition((np.ones(n),), (y,))
    assert not isinstance(q, Failed)
    walk = linear.blocks[0].factors[0]
    band = factored(n, float(walk.precision()[0, 0]))
    half = forward(band, y)
    value = 0.5 * walk.log_det_precision() + np.log(2 * np.pi) - np.log(band[0]).sum()
    assert q.log_normaliser == pytest.approx(float(value + 0.5 * half @ half), abs=5e-3)


@pytest.mark.thorough
def test_beyond_double_precision_is_no_impropriety() -> None:
    n = 200_000
    outcome = SparseEngine(rw2(n, 0.01)).condition((np.ones(n),), (np.zeros(n),))
    assert isinstance(outcome, Failed) and outcome.rounding
    assert "rounding hides what the data say" in outcome.reason


@pytest.mark.parametrize("n", [5_000, 10_000])
def test_the_slope_in_the_sd_of_a_stiff_walk(n: int) -> None:
    """Entries of Q and Q^+ pair to numbers of 1e10 that cancel to n - 2: the slope is not made of
    them. At 5,000 points it was off by 1, and the search for the sd found no maximum."""
    sd, step = 3.0, 1e-2
    y = np.sin(np.arange(n) / n * 6) + np.random.default_rng(0).normal(size=n)

    def conditioned(log_sd: float) -> Conditioned:
        found = SparseEngine(rw2(n, float(np.exp(log_sd)))).condition((np.ones(n),), (y,))
        assert not isinstance(found, Failed)
        return found

    at = np.log(sd)
    adjoint = conditioned(at).adjoints().precision["f"]
    slope = sd * float(rw2(n, sd).blocks[0].factors[0].pullback_precision(adjoint)["sd"])
    near, far = (
        conditioned(at + t).log_normaliser - conditioned(at - t).log_normaliser
        for t in (step, 2 * step)
    )
    assert slope == pytest.approx((8.0 * near - far) / (12.0 * step), abs=2e-3)
