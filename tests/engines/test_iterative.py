"""The iterative engine against the dense one: means to digits, estimates within their errors."""

from __future__ import annotations

import tracemalloc
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.conditioned import IterativeConditioned
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.iterative.variance import RowGroups, adjacency
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Product
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.differences import DifferenceOperator
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.operators.fourier import Fourier
from lgmdsl.operators.select import Select
from lgmdsl.operators.wavelet import Wavelet
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.independent import Flat, Normal
from lgmdsl.testing.engine_checks import (
    check_distances,
    check_draws,
    check_failure,
    check_offset_adjoint,
)
from lgmdsl.testing.engine_models import Case, random_case

from .unformed import Unformed

N = 8
GRID = (N, N)


def psf() -> Array:
    kernel = np.random.default_rng(1).uniform(size=(3, 5))
    return np.asarray(kernel / kernel.sum())


def image(flat: bool = True, seed: int = 0) -> Case:
    """A blurred image with potentials on differences and wavelet coefficients."""
    rng = np.random.default_rng(seed)
    operators = [
        Convolution(GRID, psf(), "circular"),
        DifferenceOperator(GRID, 0),
        DifferenceOperator(GRID, 1, 1, "circular"),
        Wavelet(GRID, "haar", 2),
        Product((Select(np.arange(0, N * N, 3), N * N), Fourier(GRID))),
    ]
    prior: Structure = Flat(N * N) if flat else Normal(N * N, 0.3, 2.0)
    block = PriorBlock("u", (prior,), np.full(N * N, 0.0 if flat else 0.3))
    predictors = tuple(Predictor({"u": o}, rng.normal(size=o.shape[0])) for o in operators)
    weight = tuple(np.exp(rng.normal(size=p.rows)) for p in predictors)
    shift = tuple(rng.normal(size=p.rows) for p in predictors)
    return Case("image", LinearGaussian((block,), predictors), weight, shift)


def several(seed: int = 0) -> Case:
    """Two blocks with correlated priors and a design with long and short rows."""
    rng = np.random.default_rng(seed)
    chain = PriorBlock(
        "a", (structure("ar1", 30, sd=np.asarray(0.7), rho=np.asarray(0.8)),), np.zeros(30)
    )
    pair = (structure("ar1", 4, sd=np.asarray(1.3), rho=np.asarray(0.5)), structure("iid", 5))
    both = PriorBlock("b", pair, np.zeros(20))
    dense = (rng.uniform(size=(60, 20)) < 0.8) * rng.normal(size=(60, 20))
    design: dict[str, Operator] = {
        "a": Sparse(sp.csr_array(np.eye(30)[rng.integers(30, size=60)])),
        "b": Sparse(sp.csr_array(dense)),
    }
    predictors = (
        Predictor(design, rng.normal(size=60)),
        Predictor({"a": Identity(30)}, np.zeros(30)),
    )
    weight, shift = (rng.uniform(size=60), rng.uniform(size=30)), (np.ones(60), np.ones(30))
    return Case("several", LinearGaussian((chain, both), predictors), weight, shift)


CASES = {"flat": image(), "normal": image(flat=False), "several": several()}


def conditioned(case: Case, **options: object) -> IterativeConditioned:
    q = IterativeEngine(case.linear, **options).condition(case.weight, case.shift)  # type: ignore[arg-type]
    assert isinstance(q, IterativeConditioned)
    return q


def exact(case: Case) -> Conditioned:
    q = PrecisionEngine(case.linear).condition(case.weight, case.shift)
    assert isinstance(q, Conditioned)
    return q


def flat(rows: Rows) -> Array:
    return np.concatenate([r.reshape(-1) for r in rows])


@pytest.mark.parametrize("name", CASES)
def test_means_are_exact(name: str) -> None:
    q, truth = conditioned(CASES[name]), exact(CASES[name])
    sd = np.sqrt(truth.latent_variance)
    assert np.abs((q.latent_mean - truth.latent_mean) / sd).max() < 1e-6
    for a, b in zip(q.mean, truth.mean, strict=True):
        assert np.allclose(a, b, atol=1e-6)
    rhs = np.random.default_rng(0).normal(size=(CASES[name].linear.size, 2))
    assert np.allclose(q.solve(rhs), truth.solve(rhs), atol=1e-8)
    last = CASES[name].linear.predictors[-1]
    assert np.allclose(q.project(last, full=True)[1], truth.project(last, full=True)[1])
    assert np.allclose(q.project(last)[0], truth.project(last)[0], atol=1e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("samples", [20, 600])
def test_variances_and_their_standard_errors(name: str, samples: int) -> None:
    q, truth = conditioned(CASES[name], samples=samples), exact(CASES[name])
    for given, error, wanted in (
        (flat(q.variance), flat(q.variance_error), flat(truth.variance)),
        (q.latent_variance, q.latent_variance_error, truth.latent_variance),
    ):
        miss = (given - wanted) / error
        assert 0.5 < np.sqrt(np.mean(miss**2)) < 1.6
        assert np.abs(miss).max() < 6.0
        assert np.abs(np.mean(given / wanted - 1.0)) < 3.0 * np.mean(error / wanted)
    last = CASES[name].linear.predictors[-1]
    assert np.allclose(q.project(last)[1], q.variance[-1])


def test_short_rows_are_far_better_than_plain_samples() -> None:
    q, truth = conditioned(image(flat=False)), exact(image(flat=False))
    plain = np.mean(q.samples.u**2, axis=1)
    rms = np.sqrt(np.mean((q.latent_variance / truth.latent_variance - 1.0) ** 2))
    assert rms < 0.6 * np.sqrt(np.mean((plain / truth.latent_variance - 1.0) ** 2))


def test_neighbours_leave_less_to_chance() -> None:
    """Of a blurred image two pixels say little; rings about them take error away."""
    case = image()
    linear = LinearGaussian(case.linear.blocks, case.linear.predictors[:3])
    weight = (np.full(N * N, 1e3), *case.weight[1:3])
    truth = exact(Case("blur", linear, weight, case.shift[:3]))
    q = conditioned(Case("blur", linear, weight, case.shift[:3]))
    alone = RowGroups(q.engine.b)
    known = q.engine.entries(*alone.pairs)
    assert known is not None
    plainer, _ = alone.averaged(known(q.w), q.samples)
    rows = slice(N * N, None)
    given, wanted = flat(q.variance)[rows], flat(truth.variance)[rows]
    rms = np.sqrt(np.mean((given / wanted - 1.0) ** 2))
    assert rms < 0.75 * np.sqrt(np.mean((plainer[rows] / wanted - 1.0) ** 2))


def test_the_control_variate_helps_long_rows() -> None:
    """A sparse design with long rows: the plain error is sqrt(2 / K)."""
    rng = np.random.default_rng(3)
    held = rng.normal(size=(400, 300)) * (rng.uniform(size=(400, 300)) < 0.05)
    linear = LinearGaussian(
        (PriorBlock("w", (Normal(300, 0.0, 1.0),), np.zeros(300)),),
        (Predictor({"w": Sparse(sp.csr_array(held))}, np.zeros(400)),),
    )
    case = Case("long", linear, (np.full(400, 0.25),), (np.ones(400),))
    q, truth = conditioned(case, samples=50), exact(case)
    error = q.variance[0] / truth.variance[0] - 1.0
    rms, known = np.sqrt(np.mean(error**2)), np.mean(q.variance_error[0] / q.variance[0])
    assert rms < 0.15 < np.sqrt(2 / 50)
    assert 0.7 < rms / known < 1.4 and abs(error.mean()) < 0.02


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("probes", [16, 400])
def test_log_normaliser_within_its_error(name: str, probes: int) -> None:
    q, truth = conditioned(CASES[name], probes=probes), exact(CASES[name])
    assert abs(q.log_normaliser - truth.log_normaliser) < 4.0 * q.log_normaliser_error
    assert q.log_normaliser_error < 3.0 / np.sqrt(probes)


def test_a_diagonal_posterior_has_no_error() -> None:
    """Nothing is left to chance where D^-1/2 A D^-1/2 is the identity."""
    linear = LinearGaussian(
        (PriorBlock("w", (Normal(5, 0.0, 2.0),), np.zeros(5)),),
        (Predictor({"w": Identity(5)}, np.zeros(5)),),
    )
    case = Case("diagonal", linear, (np.arange(5.0),), (np.ones(5),))
    q, truth = conditioned(case), exact(case)
    assert q.log_normaliser == pytest.approx(truth.log_normaliser, rel=1e-12)
    assert np.allclose(q.variance[0], truth.variance[0], rtol=1e-12)


def test_lanczos_is_below_and_exact_in_the_end() -> None:
    case, last = image(), np.zeros(1)
    truth = flat(exact(case).variance)
    for steps in (10, 30, 64):
        found = flat(conditioned(case, variances="lanczos", steps=steps).variance)
        assert (found >= last - 1e-12).all() and (found <= truth * (1 + 1e-8)).all()
        last = found
    assert np.allclose(last, truth)


def test_same_seed_same_digits() -> None:
    case = image()
    first, second, other = (conditioned(case, seed=s) for s in (5, 5, 6))
    assert first.log_normaliser == second.log_normaliser != other.log_normaliser
    for a, b, c in zip(first.variance, second.variance, other.variance, strict=True):
        assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_a_new_shift_needs_a_mean_only() -> None:
    case = image()
    engine = IterativeEngine(case.linear)
    q = engine.condition(case.weight, case.shift)
    assert isinstance(q, IterativeConditioned)
    before = q.log_normaliser, q.variance
    done = engine.products
    moved = q.with_shift(tuple(2.0 * b for b in case.shift))
    assert isinstance(moved, IterativeConditioned)
    alone = conditioned(Case("moved", case.linear, case.weight, moved.shift))
    assert np.allclose(moved.latent_mean, alone.latent_mean, atol=1e-7)
    assert np.array_equal(moved.variance[0], before[1][0])
    assert moved.log_normaliser - moved.engine.log_determinant(moved.w, moved.diagonal)[0] * 0 == (
        pytest.approx(alone.log_normaliser, rel=1e-9)
    )
    assert engine.products - done < 200 + 36 * 60


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_draws(name: str) -> None:
    case = CASES[name]
    check_distances(IterativeEngine, case)
    if name == "several":
        check_draws(IterativeEngine, case, size=6_000)
    check_offset_adjoint(IterativeEngine, case)


def test_adjoints_of_operators_and_priors() -> None:
    """Estimates of dF/dB and dF/dQ on their patterns, with many samples."""
    case = several()
    given, wanted = conditioned(case, samples=6000).adjoints(), exact(case).adjoints()
    for name in ("a", "b"):
        array = cast("SparseMatrix", given.operator[0][name])
        assert sp.issparse(array)
        pattern = array.toarray() != 0
        truth = np.asarray(wanted.operator[0][name].toarray())  # type: ignore[attr-defined]
        assert np.abs((array.toarray() - truth)[pattern]).max() < 0.1
        assert np.allclose(given.mean[name], wanted.mean[name], atol=1e-6)
        q = sp.csr_array(cast("SparseMatrix", given.precision[name]))
        held = q.toarray() != 0
        precise = np.asarray(wanted.precision[name])
        assert np.abs((q.toarray() - precise)[held]).max() < 0.05


@pytest.mark.parametrize("free", [False, True])
def test_noise_of_any_precision(free: bool) -> None:
    """Covariance Q, intrinsic priors without constraints included."""
    walk = structure("rw1", 6, sd=np.asarray(0.8), sum_to_zero=False)
    other = structure("iid", 2) if free else structure("ar1", 2, rho=np.asarray(0.4))
    block = PriorBlock("w", (walk, other), np.zeros(12))
    linear = LinearGaussian((block,), (Predictor({"w": Identity(12)}, np.zeros(12)),))
    prior = IterativeEngine(linear).prior
    root = prior.noise(np.eye(prior.whites))
    assert np.allclose(root @ root.T, prior.precision.toarray(), rtol=1e-9, atol=1e-9)
    case = Case("walk", linear, (np.ones(12),), (np.ones(12),))
    assert np.allclose(conditioned(case).latent_mean, exact(case).latent_mean, atol=1e-6)
    near = conditioned(case, probes=400)
    assert abs(near.log_normaliser - exact(case).log_normaliser) < 4 * near.log_normaliser_error


def test_nothing_is_written_out() -> None:
    case = image()
    hidden = tuple(
        Predictor({"u": Unformed(p.columns["u"])}, p.offset) for p in case.linear.predictors
    )
    masked = Case("hidden", LinearGaussian(case.linear.blocks, hidden), case.weight, case.shift)
    q, truth = conditioned(masked, samples=200), exact(case)
    assert np.allclose(q.latent_mean, truth.latent_mean, atol=1e-6)
    assert np.sqrt(np.mean((flat(q.variance) / flat(truth.variance) - 1) ** 2)) < 0.12
    assert abs(q.log_normaliser - truth.log_normaliser) < 4.0 * q.log_normaliser_error


@pytest.mark.thorough
def test_failures() -> None:
    check_failure(IterativeEngine)
    case = image()
    negative = (-case.weight[0], *case.weight[1:])
    failed = IterativeEngine(case.linear).condition(negative, case.shift)
    assert isinstance(failed, Failed) and "negative" in failed.reason
    nothing = tuple(np.zeros_like(w) for w in case.weight)
    failed = IterativeEngine(case.linear).condition(nothing, case.shift)
    assert isinstance(failed, Failed) and "u[0]" in failed.reason
    short = IterativeEngine(case.linear, limit=2).condition(case.weight, case.shift)
    assert isinstance(short, Failed) and "2 iterations" in short.reason


def test_refusals() -> None:
    assert "several predictors" in IterativeEngine.refuses(
        random_case(0, False, vector=True).linear
    )
    assert "no sparse precision" in IterativeEngine.refuses(random_case(0).linear)
    wide = structure("rw1", 40, sd=np.asarray(1.0))
    many = PriorBlock("w", (structure("iid", 70), wide), np.zeros(2800))
    intrinsic = LinearGaussian((many,), (Predictor({"w": Identity(2800)}, np.zeros(2800)),))
    assert "70 constraints" in IterativeEngine.refuses(intrinsic)
    pixels = PriorBlock("u", (Flat(2500),), np.zeros(2500))
    tied = Constraints({"u": Dense(np.ones((1, 2500)))}, np.zeros(1))
    linear = LinearGaussian((pixels,), (Predictor({"u": Identity(2500)}, np.zeros(2500)),), tied)
    assert "flat block `u`" in IterativeEngine.refuses(linear)
    with pytest.raises(TypeError, match="flat block"):
        IterativeEngine(linear)


def test_rows_of_an_intercept_take_no_rings() -> None:
    """It neighbours all: rings of its rows would have n^2 entries, before any is refused."""
    size = 4000
    each = np.arange(size)
    rows = sp.csr_array(
        (np.ones(2 * size), (np.tile(each, 2), np.r_[each, np.full(size, size)])),
        shape=(size, size + 1),
    )
    operator = Sparse(rows)
    tracemalloc.start()
    groups = RowGroups(operator, adjacency(operator))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [g.support.shape for g in groups.groups] == [(size, 2)]
    assert peak < 4 * size**2  # bytes
