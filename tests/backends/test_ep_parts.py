"""Parts of EP: the inner problem's derivatives, rows without variance, cavities that are flat or
improper, answers that cannot be divided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Tilted, TiltedAnswer
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl_backends.ep import ExpectationPropagation
from lgmdsl_backends.ep.backend import begin, beginnings
from lgmdsl_backends.ep.double_loop import _model, _newton, _point_at, _solved, advance, minimise
from lgmdsl_backends.ep.double_loop import begin as begin_outer
from lgmdsl_backends.ep.matching import Matched, condition, matched, target_of
from lgmdsl_backends.ep.parallel import sweep
from tests.backends.climbing import GP, HEAVY, KINKED, TWO, problem, solved
from tests.backends.test_natural_gradient import hard_gp

TIGHT = Tolerances(1e-12, 1e-7)


def point(text: str, power: float = 1.0) -> tuple[Problem, Matched]:
    given = problem(text, "ep")
    at = begin(given, power)
    assert isinstance(at, Matched)
    return given, at


@pytest.mark.parametrize(("text", "power"), [(GP, 1.0), (TWO, 0.6), (HEAVY, 1.0), (KINKED, 0.8)])
def test_the_inner_problem_s_derivatives(text: str, power: float) -> None:
    """Gradient and Newton's model against differences of the value, off the minimum."""
    given, at = point(text, power)
    reference = at.mean + 0.3 * np.sqrt(at.variance), 1.3 * at.variance
    held = _point_at(given, at.weight, at.shift, reference, power)
    assert held is not None
    model = _model(given, held)
    n = len(at.mean)

    def value(move: Array) -> float:
        weight = held.weight + move[n:]
        shift = held.shift + move[:n] + move[n:] * held.mean
        found = _point_at(given, weight, shift, reference, power)
        assert found is not None
        return found.value

    rng = np.random.default_rng(0)
    # Changes of a tenth of the least cavity precision, slopes in the same proportion.
    size = np.r_[0.1 / np.sqrt(held.cavity_variance), 0.1 / held.cavity_variance]
    full = np.zeros((2 * n, 2 * n))
    full[:n, :n], full[n:, n:] = model.covariance, 0.5 * model.covariance**2
    i = np.arange(n)
    full[i, i] += model.spread
    full[n + i, n + i] += model.fourth
    full[i, n + i] = full[n + i, i] = model.cross
    for _ in range(3):
        d = size * rng.uniform(-1.0, 1.0, 2 * n)
        h = 1e-3
        low, middle, high = value(-h * d), value(0 * d), value(h * d)
        assert model.gradient @ d == pytest.approx((high - low) / (2 * h), rel=1e-4, abs=1e-6)
        bend = (high - 2 * middle + low) / h**2
        assert d @ full @ d == pytest.approx(bend, rel=2e-2, abs=1e-4)


def test_the_inner_minimum_matches_all_moments() -> None:
    given, at = point(GP)
    found = minimise(given, at.weight, at.shift, (at.mean, 1.2 * at.variance), 1.0)
    assert found is not None
    np.testing.assert_allclose(found.tilted_mean, found.mean, atol=1e-6)
    np.testing.assert_allclose(found.tilted_variance, found.variance, rtol=1e-6)
    step = _newton(_model(given, found))
    assert step is not None and abs(step.slope) < 1e-12


def test_the_inner_minimum_is_found_from_far_away() -> None:
    """Sites matched at variance 1 under a prior of variance 3000: tilted means are tens of sds from
    q's, and full Newton steps would leave the domain."""
    text, data = hard_gp(100)
    fit = lgm.fit(lgm.loads(text), data, "ep")
    given = plan(fit.canonical, "ep").at(fit.theta)
    _, at, _ = beginnings(given, 1.0)
    with np.errstate(all="ignore"):
        found = minimise(given, at.weight, at.shift, (at.mean, at.variance), 1.0)
    assert found is not None
    np.testing.assert_allclose(found.tilted_variance, found.variance, rtol=1e-5)


def test_an_inner_minimum_on_the_border() -> None:
    """A reference wider than any tilted density: the cavity loses all its precision, the means
    match, and q stays wider than the tilted density."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : count\nlatent z ~ normal(sd = 100)\n"
        "let s[obs] = z\nobserve y ~ poisson(log_rate = s)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"y": np.array([7])}, "ep")
    given = plan(fit.canonical, "ep").at(fit.theta)
    at = begin(given, 1.0)
    assert isinstance(at, Matched)
    with np.errstate(all="ignore"):
        outer = _solved(given, at, (at.mean, np.full(1, 2.0)))
    assert outer is not None
    found = outer.inner
    assert found.cavity_variance[0] > 1e6
    assert found.tilted_mean == pytest.approx(found.mean, abs=1e-6)
    assert found.variance[0] > 1.5 * found.tilted_variance[0]


@pytest.mark.parametrize("power", [1.0, 0.6])
def test_the_bound_is_the_free_energy(power: float) -> None:
    """-A_q* - 1/e sum A_i* + 1/e sum A_g* at q's marginals, each conjugate from its own optimum."""
    given, at = point(TWO, power)
    outer = begin_outer(given, at)
    assert outer is not None
    q = outer.inner

    def gaussian(precision: Array, shift: Array) -> Array:  # A_g
        return np.asarray(shift**2 / (2 * precision) - 0.5 * np.log(precision / (2 * np.pi)))

    def dot(precision: Array, shift: Array) -> float:  # natural parameters times q's moments
        return float(np.sum(shift * q.mean - 0.5 * precision * (q.variance + q.mean**2)))

    cavity = 1 / q.cavity_variance, q.cavity_mean / q.cavity_variance
    own = 1 / q.variance, q.mean / q.variance
    answers = [
        site.tilted(m, v, power)
        for site, m, v in zip(
            given.tilting(), np.split(q.cavity_mean, 2), np.split(q.cavity_variance, 2), strict=True
        )
    ]
    log_mass = np.concatenate([a.log_mass for a in answers]) + gaussian(*cavity)
    q_conjugate = dot(q.weight, q.shift) - q.conditioned.log_normaliser
    site_conjugates = dot(*cavity) - log_mass.sum()
    own_conjugates = dot(*own) - gaussian(*own).sum()
    free = q_conjugate + (site_conjugates - own_conjugates) / power
    assert outer.bound == pytest.approx(-free, rel=1e-10)


def test_the_double_loop_s_bound_rises_and_ends_at_the_evidence() -> None:
    given, at = point(KINKED)
    outer = begin_outer(given, at)
    bounds = []
    for _ in range(12):
        assert outer is not None
        bounds.append(outer.bound)
        outer = advance(given, outer)
    assert (np.diff(bounds) > 0.0).all()
    fixed = solved(KINKED, "ep", tol=1e-10)
    assert bounds[-1] == pytest.approx(fixed.log_evidence, abs=1e-4)
    assert bounds[-1] < fixed.log_evidence + 1e-9


def test_the_evidence_is_stationary_in_the_sites() -> None:
    """At the fixed point: what the gradient in hyperparameters rests on."""
    fit = solved(TWO, "ep", tol=1e-11)
    given = problem(TWO, "ep")
    weight, shift = np.concatenate(fit.weight), np.concatenate(fit.shift)
    rng = np.random.default_rng(0)
    d = rng.normal(size=len(weight)) * 1e-3
    values = []
    for k in (-1, 0, 1):
        at = matched(given, weight + k * d, shift + k * d, 1.0)
        assert isinstance(at, Matched)
        values.append(at.value)
    assert abs(values[2] - values[0]) < 1e-3 * abs(values[2] - 2 * values[1] + values[0])


ROWS = (
    "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : count\nlatent c ~ {prior}\n"
    "latent b ~ normal(sd = 2)\nlet s[obs] = x * b{more}\nobserve y ~ poisson(log_rate = s)\n"
)


@pytest.mark.parametrize("mode", ["parallel", "sequential", "double-loop"])
def test_rows_that_meet_no_latent(mode: str) -> None:
    """A row of zeros has no variance: it adds its log density and moves nothing."""
    text = ROWS.format(prior="normal(sd = 1)", more="")
    data = {"x": np.array([0.0, 1.0, -0.5, 0.0]), "y": np.array([2, 3, 1, 0])}
    fit = lgm.fit(lgm.loads(text), data, "ep", options={"mode": mode}, tol=1e-9)
    some = {k: v[1:3] for k, v in data.items()}
    without = lgm.fit(lgm.loads(text), some, "ep", tol=1e-9)
    assert fit.converged
    # log density at s = 0: -1 - log y!.
    assert fit.log_evidence == pytest.approx(without.log_evidence - 2 - np.log(2), rel=1e-9)
    assert fit.mean("b").item() == pytest.approx(without.mean("b").item(), abs=1e-6)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_row_that_alone_fixes_a_flat_latent(mode: str) -> None:
    """Its cavity is flat: what matches is the normalised likelihood, here that of log gamma."""
    from scipy import special

    text = (
        "lgm 1\nindex obs\ndata y[obs] : count\nlatent c[obs] ~ flat\n"
        "let s[obs] = c\nobserve y ~ poisson(log_rate = s)\n"
    )
    y = np.array([1, 4, 30])
    fit = lgm.fit(lgm.loads(text), {"y": y}, "ep", options={"mode": mode})
    assert fit.converged
    np.testing.assert_allclose(fit.mean("c"), special.digamma(y), atol=1e-6)
    np.testing.assert_allclose(fit.sd("c"), np.sqrt(special.polygamma(1, y)), rtol=1e-6)
    # int e^{ys - e^s} / y! ds = Gamma(y) / y!
    assert fit.log_evidence == pytest.approx(-np.log(y).sum(), abs=1e-6)


def test_a_sweep_is_one_update_after_another() -> None:
    """The rank-one updates against conditioning anew after each row."""
    given, at = point(TWO)
    swept = sweep(given, at)
    weight, shift = at.weight.copy(), at.shift.copy()
    for i in range(len(weight)):
        now = matched(given, weight, shift, 1.0)
        assert isinstance(now, Matched)
        target = target_of(now)
        weight[i], shift[i] = target[0][i], target[1][i]
    np.testing.assert_allclose(swept[0], weight, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(swept[1], shift, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("moved", ["weights", "slopes"])
def test_the_residual_bounds_the_undamped_step(moved: str) -> None:
    """Near the fixed point, with only the weights off or only the slopes: what one step changes."""
    fit = solved(GP, "ep", tol=1e-11)
    given = problem(GP, "ep")
    rng = np.random.default_rng(1)
    weight, shift = np.concatenate(fit.weight), np.concatenate(fit.shift)
    mean = np.concatenate(fit.posterior.conditioned.mean)
    if moved == "weights":
        change = 0.03 * weight * rng.uniform(-1.0, 1.0, len(weight))
        weight, shift = weight + change, shift + change * mean
    else:
        shift = shift + 0.02 * rng.normal(size=len(shift))
    at = matched(given, weight, shift, 1.0)
    assert isinstance(at, Matched)
    step = matched(given, *target_of(at), 1.0)
    assert isinstance(step, Matched)
    means = np.abs(step.mean - at.mean) / np.sqrt(at.variance)
    variances = np.abs(step.variance / at.variance - 1.0)
    largest = max(means.max(), variances.max())
    assert 0.2 * at.residual < largest < 1.1 * at.residual
    assert at.residual > 5e-3
    assert fit.trace[-1].residual < 1e-8


def test_saturated_sites_weigh_nothing() -> None:
    """P(y = 1) is 1 to the last digit: weights of 0, never below, whatever rounding says."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : binary\nlatent z[obs] ~ normal(sd = 1.7)\n"
        "latent c ~ normal(sd = 1.3)\nlet s[obs] = z + c + 40\n"
        "observe y ~ bernoulli(probit = s)\n"
    )
    for mode in ("parallel", "sequential"):
        fit = lgm.fit(lgm.loads(text), {"y": np.ones(9, int)}, "ep", options={"mode": mode})
        assert fit.converged and fit.steps <= 1
        assert (fit.weight[0] >= 0.0).all() and fit.weight[0].max() < 1e-12
        assert fit.log_evidence == pytest.approx(0.0, abs=1e-12)


def test_improper_cavities_and_factors_that_fail_are_values() -> None:
    given, at = point(HEAVY)
    wide = at.weight.copy()
    wide[0] = -1e3
    with np.errstate(all="ignore"):  # as the driver has it
        assert isinstance(matched(given, wide, at.shift, 1.0), Failed)
        # Rows 0 and -2 are the same: their weights leave a good q, and the first one no cavity.
        pair = np.zeros_like(wide)
        pair[0], pair[-2] = 50.0, -20.0
        assert not isinstance(condition(given, pair, at.shift), Failed)
        outcome = matched(given, pair, at.shift, 1.0)
        assert isinstance(outcome, Failed) and "cavity" in outcome.reason
        assert isinstance(matched(given, np.full_like(wide, np.nan), at.shift, 1.0), Failed)
        assert isinstance(matched(given, at.weight, at.shift + np.inf, 1.0), Failed)


@dataclass(frozen=True, eq=False)
class Whole(Tilted):
    """An answer without `take`, and one that is not finite on request."""

    inner: Tilted
    broken: bool = False

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        found = self.inner.tilted(mean, variance, power)
        return replace(found, mean=found.mean * np.nan) if self.broken else found


def test_answers_that_cannot_be_divided() -> None:
    given, at = point(TWO)
    whole = replace(given, answers=tuple(Whole(a) for a in given.tilting()))
    for own, other in zip(sweep(given, at), sweep(whole, at), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)


def test_moments_that_are_not_finite_end_the_run_without_one() -> None:
    given = problem(TWO, "ep")
    broken = replace(given, answers=tuple(Whole(a, True) for a in given.tilting()))
    result = run(ExpectationPropagation(), broken, TIGHT)
    assert result.posterior is None and result.status is Status.numerical_error
    assert "tilted moment" in result.reason
