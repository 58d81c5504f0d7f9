"""Standard errors of the iterative engine's estimates on random problems, beside dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.conditioned import IterativeConditioned
from lgmdsl.engines.iterative.determinant import controlled_mean
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.iterative.variance import inflation, regressed
from lgmdsl.operators.base import Operator
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.differences import DifferenceOperator
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.independent import Flat, Normal
from lgmdsl.testing.engine_models import Case

KINDS = ("image", "sparse", "chain", "dense", "stiff")


def problem(kind: str, seed: int) -> Case:
    """About 200 latents: an image, a sparse design with long rows, a chain, a dense design, or data
    a thousand times as precise as the prior along half of all directions."""
    rng = np.random.default_rng((KINDS.index(kind), seed))
    n = 200 if kind != "image" else 196
    prior: Structure = Normal(n, 0.0, float(np.exp(rng.normal())) if kind == "sparse" else 1.0)
    operators: list[Operator] = [Identity(n)]
    if kind == "image":
        grid, psf, prior = (14, 14), rng.uniform(size=(3, 5)), Flat(n)
        operators = [
            Convolution(grid, psf / psf.sum(), "circular"),
            DifferenceOperator(grid, 0),
            DifferenceOperator(grid, 1),
        ]
    elif kind == "chain":
        prior = structure("ar1", n, sd=np.asarray(1.0), rho=np.asarray(rng.uniform(0.3, 0.95)))
        operators.append(Sparse(sp.csr_array(rng.uniform(size=(300, n)) < 0.015, dtype=float)))
    elif kind == "dense":
        operators = [Dense(rng.normal(size=(int(rng.integers(60, 400)), n)))]
    else:
        rows, share = (300, rng.uniform(0.06, 0.2)) if kind == "sparse" else (100, 0.2)
        held = rng.normal(size=(rows, n)) * (rng.uniform(size=(rows, n)) < share)
        operators = [Sparse(sp.csr_array(held)), *([] if kind == "sparse" else operators)]
    predictors = tuple(Predictor({"u": o}, np.zeros(o.shape[0])) for o in operators)
    weight = [np.exp(rng.normal(size=p.rows) * rng.uniform(0.0, 2.0)) for p in predictors]
    if kind == "image":
        weight[0][:] = 10.0 ** rng.uniform(0.0, 4.0)
    if kind == "stiff":
        weight[0][:], weight[1][:] = 1e6, 1e-3
    shift = tuple(rng.normal(size=p.rows) for p in predictors)
    block = PriorBlock("u", (prior,), np.zeros(n))
    return Case(kind, LinearGaussian((block,), predictors), tuple(weight), shift)


def flat(rows: Rows) -> Array:
    return np.concatenate(rows)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "count"), [("image", 20), ("sparse", 20), ("chain", 20), ("dense", 20), ("stiff", 4)]
)
def test_errors_are_as_large_as_they_say(kind: str, count: int) -> None:
    """(estimate - exact) / error has sd 1, of log_normaliser and of variances; means are exact."""
    of_log, of_rows, of_latents = [], [], []
    for seed in range(count):
        case = problem(kind, seed)
        q = IterativeEngine(case.linear, seed=seed).condition(case.weight, case.shift)
        exact = PrecisionEngine(case.linear).condition(case.weight, case.shift)
        assert isinstance(q, IterativeConditioned) and not isinstance(exact, Failed)
        sd = np.sqrt(exact.latent_variance)
        assert np.abs((q.latent_mean - exact.latent_mean) / sd).max() < 1e-5
        error, miss = flat(q.variance_error), flat(q.variance) - flat(exact.variance)
        chance = error > 0.0  # a row without entries has none
        assert np.abs(miss[~chance]).max(initial=0.0) < 1e-12
        of_rows.append(np.mean((miss[chance] / error[chance]) ** 2))
        latent = (q.latent_variance - exact.latent_variance) / q.latent_variance_error
        of_latents.append(np.mean(latent**2))
        of_log.append((q.log_normaliser - exact.log_normaliser) / q.log_normaliser_error)
    assert 0.8 < np.sqrt(np.mean(of_rows)) < 1.25
    assert 0.8 < np.sqrt(np.mean(of_latents)) < 1.25
    # So few of them are known to a third.
    assert 0.4 < np.sqrt(np.mean(np.square(of_log))) < 1.6
    assert abs(np.mean(of_log)) < 3.0 / np.sqrt(count)


def test_the_error_of_a_mean_of_squares() -> None:
    """E (1 - K/X)^2 by simulation; none exists for K <= 4."""
    rng = np.random.default_rng(0)
    for k in (10, 20, 80):
        ratio = k / rng.chisquare(k, size=400_000)
        assert np.mean((1.0 - ratio) ** 2) == pytest.approx(inflation(k), rel=0.03)
    assert inflation(4) == np.inf


def test_what_is_known_of_a_control_is_left_out_of_chance() -> None:
    """Cov((b'u), (b'u~)) and Var(b'u~) known: unbiased, and better than any control variate."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(4000, 20))
    control = 0.9 * u + np.sqrt(1 - 0.81) * rng.normal(size=u.shape)
    out, error = regressed(u, control, np.full(4000, 0.9), np.ones(4000))
    assert abs(out.mean() - 1.0) < 0.005
    assert out.std() == pytest.approx((1 - 0.81) * np.sqrt(2 / 20), rel=0.1)
    assert np.sqrt(np.mean(((out - 1.0) / error) ** 2)) == pytest.approx(1.0, abs=0.06)


def test_a_slope_fitted_to_the_others_leaves_no_bias() -> None:
    """Values whose scale follows the control: a slope fitted to all of them would bias the mean."""
    rng = np.random.default_rng(2)
    misses, errors, spread = [], [], []
    for _ in range(3000):
        y = rng.normal(size=16)
        x = 2.0 * y + 0.2 * (y**2 - 1.0) + 0.5 * rng.normal(size=16)
        mean, error = controlled_mean(x, y)
        misses.append(mean)
        errors.append(error)
        spread.append(x.std() / 4.0)
    assert abs(np.mean(misses)) < 4 * np.std(misses) / np.sqrt(len(misses))
    assert np.std(misses) < 0.85 * np.mean(spread)
    assert 0.8 < np.sqrt(np.mean(np.square(np.divide(misses, errors)))) < 1.25


def test_what_cannot_be_resolved_is_said() -> None:
    """Eigenvalues twenty orders apart: no mean rather than a wrong one."""
    case = problem("stiff", 0)
    weight = (np.full_like(case.weight[0], 1e20), case.weight[1])
    hard = IterativeEngine(case.linear).condition(weight, (weight[0] * 0.01, case.shift[1]))
    assert isinstance(hard, Failed) and hard.rounding and "badly conditioned" in hard.reason


def test_samples_double_where_neighbours_leave_much_to_chance() -> None:
    case = problem("chain", 3)
    rough = IterativeEngine(case.linear, samples=5, most=40)
    q = rough.condition(case.weight, case.shift)
    assert isinstance(q, IterativeConditioned)
    share = flat(q.variance_error) / np.maximum(flat(q.variance), 1e-300)
    assert rough.samples in (10, 20, 40)
    assert rough.samples == 40 or np.sqrt(np.mean(share**2)) <= 0.05
    alone = IterativeEngine(case.linear, samples=rough.samples, most=rough.samples)
    again = alone.condition(case.weight, case.shift)
    assert isinstance(again, IterativeConditioned)
    assert np.allclose(flat(again.variance), flat(q.variance), rtol=1e-2)
