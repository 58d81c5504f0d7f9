"""Vector-valued sites through a vector bound: two solvers and two engines reach one optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.status import Status
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.operators.explicit import Dense
from lgmdsl.structures.catalogue import structure
from lgmdsl_backends.cholesky import Cholesky
from lgmdsl_backends.coordinate_ascent import CoordinateAscent
from lgmdsl_backends.natural_gradient import NaturalGradient
from tests.backends.softmax import Softmax


class LogBound(Expected):
    """E[log sum exp s] <= log sum_k exp(m_k + V_kk / 2)."""

    def __init__(self, y: Array) -> None:
        self.y = y.astype(int)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        k = mean.shape[1]
        top = mean + 0.5 * np.einsum("nii->ni", variance)
        p, one = special.softmax(top, axis=1), np.eye(k)[self.y]
        value = (one * mean).sum(axis=1) - special.logsumexp(top, axis=1)
        spread = p[:, :, None] * np.eye(k)
        bend = p[:, :, None] * p[:, None, :] - spread
        return ExpectedAnswer(value, one - p, -0.5 * spread, d_mean2=bend)


class Bohning(Expected):
    """The quadratic of curvature A = (I - 11'/K) / 2 (all K predictors), expanded at the mean."""

    def __init__(self, y: Array) -> None:
        self.site = Softmax(y)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        k = mean.shape[1]
        curve = 0.5 * (np.eye(k) - 1.0 / k)
        at = self.site.pointwise(mean)
        value = at.value - 0.5 * np.einsum("ij,nij->n", curve, variance)
        flat = np.broadcast_to(-0.5 * curve, variance.shape).copy()
        return ExpectedAnswer(value, at.slope, flat, d_mean2=at.curvature)


BOUNDS = {"log": LogBound, "bohning": Bohning}


def solved(back: type, engine: type[Engine], bound: str, seed: int) -> tuple[Run, Softmax]:
    rng = np.random.default_rng(seed)
    n, k, size = 5, 3, 6
    sd = np.exp(rng.normal(size=size))
    block = PriorBlock("z", (structure("normal", size, sd=sd),), rng.normal(size=size))
    predictor = Predictor({"z": Dense(rng.normal(size=(n * k, size)))}, rng.normal(size=n * k), k)
    linear = LinearGaussian((block,), (predictor,))
    y = rng.integers(0, k, n).astype(float)
    problem = Problem((Softmax(y),), (BOUNDS[bound](y),), engine(linear))
    return run(back(), problem, Tolerances(1e-12, 1e-7), 400), Softmax(y)


@given(st.integers(0, 2**20), st.sampled_from(sorted(BOUNDS)))
@settings(max_examples=8)
def test_solvers_and_engines_agree(seed: int, bound: str) -> None:
    best, site = solved(NaturalGradient, CovarianceEngine, bound, seed)
    assert best.status is Status.converged and best.posterior is not None
    rises = np.diff([e.objective for e in best.trace])
    assert (rises > -1e-9).all()
    others = (
        (NaturalGradient, PrecisionEngine),
        (Cholesky, CovarianceEngine),
        (CoordinateAscent, PrecisionEngine),  # of bounds that cannot be asked about some rows
    )
    for back, engine in others:
        other, _ = solved(back, engine, bound, seed)
        assert other.posterior is not None
        assert other.posterior.log_evidence == pytest.approx(
            best.posterior.log_evidence, rel=1e-7, abs=1e-7
        )
        a, b = best.posterior.conditioned, other.posterior.conditioned
        np.testing.assert_allclose(
            (a.latent_mean - b.latent_mean) / np.sqrt(a.latent_variance), 0.0, atol=1e-3
        )
    # Both are bounds of the evidence, by Monte Carlo over the prior of five softmax sites.
    q = best.posterior.conditioned
    linear = q.linear  # type: ignore[attr-defined]
    rng = np.random.default_rng(seed)
    sd = np.sqrt(linear.blocks[0].factors[0].variance())
    z = linear.blocks[0].mean + sd * rng.normal(size=(40_000, linear.size))
    predictor = linear.predictors[0]
    s = predictor.columns["z"].matvec(z.T).T + predictor.offset
    sites = s.reshape(len(z) * 5, 3)
    draws = Softmax(np.tile(site.y, len(z))).log_density(sites).reshape(-1, 5).sum(axis=1)
    assert best.posterior.log_evidence <= special.logsumexp(draws) - np.log(len(z)) + 0.1
