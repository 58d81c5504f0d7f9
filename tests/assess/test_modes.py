"""Modes of small posteriors and what they are worth together, against grids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.accuracy.limits import LEVELS, NORMAL
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.assess.estimator import ExactDraws, MixturePoint
from lgmdsl.assess.modes.search import Landscape, Modes, cost, modes, modes_or_scales
from lgmdsl.assess.modes.weighed import FromModes, affordable, weighed
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.plan import plan

LOCATION = """lgm 1
index obs
data y[obs] : real
latent m ~ normal(sd = {sd})
let s[obs] = m
observe y ~ student_t(mean = s, scale = {scale}, df = {df})
"""
LINE = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
let s[obs] = a + b * x
observe y ~ student_t(mean = s, scale = 0.3, df = 2)
"""


def fitted(text: str, data: dict[str, object]) -> tuple[Fit, Problem]:
    fit = lgm.fit(lgm.loads(text), data, "natural-gradient")
    return fit, plan(fit.canonical, fit.method).at(fit.theta)


def found(fit: Fit, problem: Problem) -> Modes:
    known = modes(problem, fit.posterior.conditioned)
    assert known is not None
    return known


def from_modes(
    problem: Problem, q: Conditioned, known: Modes, seed: int, budget: float
) -> ExactDraws | None:
    at = MixturePoint.of(problem, q)
    return FromModes(seed, known.z).draws([at], [1.0], 1000, budget)


def grid(level: Callable[[Array], Array]) -> tuple[Array, Array, float]:
    """Points, their probabilities, and the log of the integral."""
    x = np.linspace(-40.0, 40.0, 400001)
    log = level(x)
    top = log.max()
    p = np.exp(log - top)
    return x, p / p.sum(), float(top + np.log(p.sum() * (x[1] - x[0])))


@pytest.mark.parametrize("seed", range(8))
def test_all_modes_of_two_groups_are_found_and_weighed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    df, scale, sd = rng.choice([1.0, 2.0, 4.0]), np.exp(rng.uniform(-1.5, 0.3)), rng.uniform(2, 6)
    first, second = rng.integers(1, 6, 2)
    y = np.r_[rng.normal(size=first) * scale, rng.uniform(2, 7) + rng.normal(size=second) * scale]

    def level(x: Array) -> Array:
        logs = sum(stats.t.logpdf(v, df, x, scale) for v in y)
        return np.asarray(stats.norm.logpdf(x, 0.0, sd) + logs)

    x, p, log_evidence = grid(level)
    tops = np.flatnonzero((p[1:-1] > p[:-2]) & (p[1:-1] > p[2:])) + 1
    fit, problem = fitted(LOCATION.format(sd=sd, scale=scale, df=df), {"y": y})
    known = found(fit, problem)
    np.testing.assert_allclose(np.sort(known.z[:, 0]), x[tops], atol=1e-3)
    whole = weighed(known, problem.engine.linear, 20000)
    assert whole.log_evidence == pytest.approx(log_evidence, abs=0.03)
    mean = p @ x
    true = np.sqrt(p @ (x - mean) ** 2)
    errors = whole.errors(fit.posterior.conditioned)
    q = fit.posterior.conditioned
    shift, ratio = (q.latent_mean[0] - mean) / true, np.sqrt(q.latent_variance[0]) / true
    assert errors.mean[0] == pytest.approx(shift, abs=0.05)
    assert errors.sd[0] == pytest.approx(ratio - 1.0, abs=0.05)
    if len(tops) > 1:
        valley = tops[0] + p[tops[0] : tops[-1]].argmin()
        shares = np.sort([p[:valley].sum(), p[valley:].sum()])
        kept = np.sort(np.r_[whole.share, np.zeros(2)])[-2:]
        np.testing.assert_allclose(kept, shares, atol=0.05)


@pytest.mark.thorough
def test_two_lines_of_two_latents() -> None:
    """A second line through as many rows has its mass by a grid of both coefficients."""
    x = np.linspace(-1.0, 1.0, 12)
    y = np.where(np.arange(12) % 2 == 0, 1.0 + 2.0 * x, -1.0 - 2.0 * x)
    y = y + 0.1 * np.sin(7.0 * np.arange(12))
    fit, problem = fitted(LINE, {"x": x, "y": y})
    a = np.linspace(-6.0, 6.0, 601)
    predictors = a[:, None, None] + a[None, :, None] * x
    log = stats.t.logpdf(y, 2.0, predictors, 0.3).sum(axis=2)
    log = log + stats.norm.logpdf(a, 0.0, 3.0)[:, None] + stats.norm.logpdf(a, 0.0, 3.0)
    truth = special.logsumexp(log) + 2.0 * np.log(a[1] - a[0])
    whole = weighed(found(fit, problem), problem.engine.linear, 20000)
    assert whole.log_evidence == pytest.approx(truth, abs=0.03)
    at = MixturePoint.of(problem, fit.posterior.conditioned)
    assert FromModes().log_evidence(at) == pytest.approx(truth, abs=0.1)
    p = np.exp(log - special.logsumexp(log))
    up = p[a > 0.0].sum()
    drawn = whole.resampled(4000, np.random.default_rng(0))
    assert (drawn[:, 0] > 0.0).mean() == pytest.approx(up, abs=0.04)
    assert 0.2 < up < 0.8  # both matter


def vector_problem() -> tuple[Fit, Problem]:
    from tests.benchmarks.accuracy.cases import small_case_of

    case = small_case_of("admixture.softmax", 0)
    fit = lgm.fit(lgm.loads(case.text), case.data, "natural-gradient", fixed=case.fixed)
    return fit, plan(fit.canonical, fit.method).at(fit.theta)


def test_quantiles_of_a_gaussian_that_is_near_are_told_apart_from_those_of_draws() -> None:
    """Heavy-tailed rows around 0: 3,000 draws by themselves are up to 0.15 sds off at
    a 5 or 95 % point."""
    y = np.random.default_rng(3).standard_t(4, size=25)
    fit, problem = fitted(LOCATION.format(sd=3.0, scale=1.0, df=4.0), {"y": y})
    x, p, _ = grid(
        lambda m: stats.norm.logpdf(m, 0, 3) + stats.t.logpdf(y[:, None] - m, 4).sum(axis=0)
    )
    q = fit.posterior.conditioned
    mean, sd = p @ x, np.sqrt(p @ x**2 - (p @ x) ** 2)
    ends = np.interp(LEVELS, np.cumsum(p), x)
    off = np.abs(
        q.latent_mean + np.outer((-NORMAL, NORMAL), np.sqrt(q.latent_variance))[:, 0] - ends
    )
    for seed in range(6):
        whole = weighed(found(fit, problem), problem.engine.linear, seed=seed)
        errors = whole.errors(q)
        assert abs(errors.quantile.item() - off.max() / sd) < 0.03
        assert abs(errors.mean.item() - (q.latent_mean.item() - mean) / sd) < 0.06


@pytest.mark.parametrize("vector", [False, True])
def test_derivatives_are_those_of_the_level(vector: bool) -> None:
    if vector:
        fit, problem = vector_problem()
    else:
        rng = np.random.default_rng(3)
        x = rng.normal(size=9)
        fit, problem = fitted(LINE, {"x": x, "y": rng.standard_t(1, 9)})
    land = Landscape(problem.sites, problem.engine.linear, fit.posterior.conditioned)
    u = np.random.default_rng(0).normal(size=(4, land.size))
    slope, bent = land.derivatives(u)
    h, unit = 1e-4, np.eye(land.size)
    for j in range(land.size):
        up, down = u + h * unit[j], u - h * unit[j]
        numeric = (land.level(up) - land.level(down)) / (2 * h)
        np.testing.assert_allclose(slope[:, j], numeric, rtol=1e-5, atol=1e-6)
        turn = (land.derivatives(up)[0] - land.derivatives(down)[0]) / (2 * h)
        np.testing.assert_allclose(-bent[:, j], turn, rtol=1e-5, atol=1e-5)


def test_what_is_not_affordable_is_not_searched() -> None:
    fit, problem = fitted(LOCATION.format(sd=5, scale=0.1, df=2), {"y": [-3.0, 4.0, 4.1]})
    q, linear = fit.posterior.conditioned, problem.engine.linear
    known = modes(problem, q, 20 * cost(linear))
    assert known is not None and known.points <= 20
    assert modes(problem, q, 5 * cost(linear)) is None
    assert affordable(linear, 1e5) < affordable(linear, 1e6)
    assert from_modes(problem, q, known, 0, 1e4) is None


def test_the_same_seed_gives_the_same_draws() -> None:
    fit, problem = fitted(LOCATION.format(sd=5, scale=0.1, df=2), {"y": [-3.0, 4.0, 4.1]})
    q = fit.posterior.conditioned
    known = found(fit, problem)
    one, two, other = (from_modes(problem, q, known, seed, 1e9) for seed in (0, 0, 1))
    assert one is not None and two is not None and other is not None
    np.testing.assert_array_equal(one.z, two.z)
    assert (one.z != other.z).any()


def test_peaks_with_kinks_are_drawn_from_too() -> None:
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent a ~ normal(sd = 2)\nlet s[obs] = a\n"
        "potential s ~ exp_power(scale = 0.3, power = 0.7)\nobserve y ~ normal(mean = s, sd = 3)\n"
    )
    y = np.array([4.1, 4.2, 1.3])
    fit, problem = fitted(text, {"y": y})
    q = fit.posterior.conditioned
    assert modes(problem, q) is None
    known = modes_or_scales(problem, q)
    assert known is not None

    def level(x: Array) -> Array:
        bump = -3.0 * np.abs(x / 0.3) ** 0.7 - 3.0 * np.log(0.6 * special.gamma(1.0 + 1.0 / 0.7))
        logs = sum(stats.norm.logpdf(v, x, 3.0) for v in y)
        return np.asarray(stats.norm.logpdf(x, 0.0, 2.0) + bump + logs)

    x, p, truth = grid(level)
    whole = weighed(known, problem.engine.linear, 20000)
    assert whole.log_evidence == pytest.approx(truth, abs=0.05)
    sd = np.sqrt(p @ (x - p @ x) ** 2)
    ratio = np.sqrt(q.latent_variance[0]) / sd
    assert whole.errors(q).sd[0] == pytest.approx(ratio - 1.0, abs=0.05)


def test_quantiles_of_a_confined_gaussian_are_held_against_the_posterior() -> None:
    """Draws are around the Gaussian that a mean field confines, whose sds are three times as large:
    the ends of the confined one are as far off as a grid over both coefficients says."""
    rng = np.random.default_rng(1)
    x = 2.0 + rng.normal(size=20)
    y = 1.0 + 0.5 * x + 0.5 * rng.standard_t(4, 20)
    fit = lgm.fit(lgm.loads(LINE), {"x": x, "y": y}, "mean-field")
    q = fit.posterior.conditioned
    problem = plan(fit.canonical, fit.method).at(fit.theta)
    known = modes(problem, q.unconfined)
    assert known is not None
    errors = weighed(known, problem.engine.linear, 20000).errors(q)
    axes = [m + 7.0 * s * np.linspace(-1, 1, 301) for m, s in zip(
        q.latent_mean, np.sqrt(q.unconfined.latent_variance), strict=True)]  # fmt: skip
    a, b = np.meshgrid(*axes, indexing="ij")
    log = stats.norm.logpdf(a, 0.0, 3.0) + stats.norm.logpdf(b, 0.0, 3.0)
    log = log + sum(stats.t.logpdf(v, 2.0, a + b * u, 0.3) for u, v in zip(x, y, strict=True))
    p = np.exp(log - log.max())
    for k, axis in enumerate(axes):
        marginal = p.sum(axis=1 - k) / p.sum()
        sd = np.sqrt(marginal @ (axis - marginal @ axis) ** 2)
        ends = q.latent_mean[k] + np.array([-NORMAL, NORMAL]) * np.sqrt(q.latent_variance[k])
        off = np.abs(ends - np.interp(LEVELS, np.cumsum(marginal), axis)).max() / sd
        assert off > 0.5
        assert errors.quantile[k] == pytest.approx(off, abs=0.06)


def test_what_the_data_leave_open_is_drawn_from_the_prior() -> None:
    """Topics of 12 short documents under a wide prior: plateaus far from the only mode, which means
    0.3 sds off and an evidence 0.5 nats too low had passed by, worth many draws."""
    totals = (3120, 1120, 220, 330, 1610, 21, 210, 250, 440, 620, 100, 110)
    y = np.array([[n // 10**k % 10 for k in (3, 2, 1, 0)] for n in totals])
    topics = np.array(
        [[0.02, 0.494, 0.464, 0.022], [0.222, 0.573, 0.177, 0.028], [0.019, 0.344, 0.593, 0.044]]
    )
    text = (
        "lgm 1\nindex obs\nindex class = 3\nindex word = 4\n"
        "latent w[class] ~ normal(sd = 12)\nlet eta[obs, class] = w\n"
        "hyper t[class, word] : simplex ~ dirichlet(alpha = 1)\ndata y[obs, word] : count\n"
        "observe y ~ admixture(softmax = eta, emission = t)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"y": y}, fixed={"t": topics})
    z = 12.0 * np.random.default_rng(1).standard_normal((400_000, 3))
    level = special.xlogy(y.sum(axis=0), special.softmax(z, axis=1) @ topics).sum(axis=1)
    weight = special.softmax(level)
    mean = weight @ z
    sd = np.sqrt(weight @ (z - mean) ** 2)
    assert np.abs((fit.mean("w").values - mean) / sd).max() < 0.06
    np.testing.assert_allclose(fit.sd("w").values, sd, rtol=0.05)
    ratio = special.gammaln(y.sum(axis=1) + 1.0).sum() - special.gammaln(y + 1.0).sum()
    exact = special.logsumexp(level) - np.log(len(z)) + ratio
    assert fit.log_evidence_corrected == pytest.approx(exact, abs=0.1)
