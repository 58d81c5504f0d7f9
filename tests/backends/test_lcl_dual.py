"""The dual of decoupled inference: gradient, Hessian, tangents, minimisers, convexification."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at, expected
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.plan import plan
from lgmdsl_backends.lcl.backend import by_lbfgs, by_newton
from lgmdsl_backends.lcl.dual import Dual, setting_of
from tests.backends.test_coordinate_ascent import TWO_BLOCKS, two_blocks

LINE = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
latent f[obs] ~ gp(at = x, kernel = se(sd = {sd}, length = 1))
observe y ~ {site}
"""


def line(unit: float = 1.0) -> dict[str, Array]:
    """A sine with two outliers 50 units away."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3.0, 3.0, 20))
    y = np.sin(x) + 0.05 * rng.normal(size=20)
    y[[3, 12]] += 50.0
    return {"x": x, "y": unit * y}


def dual(damping: float) -> Dual:
    """The dual at a point that is no optimum."""
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), two_blocks(), method="laplace")
    problem = plan(fit.canonical, "lcl").at(fit.theta)
    s = problem.engine.prior_mean
    answers = expected(problem, s, tuple(np.ones_like(x) for x in s))
    weight = tuple(np.full(len(x), 0.3) for x in s)
    return dual_at(problem, weight, tuple(a.d_mean for a in answers), damping)


def dual_at(problem: Problem, weight: Rows, shift: Rows, damping: float) -> Dual:
    point, setting = elbo_at(problem, weight, shift), setting_of(problem, 100)
    assert isinstance(point, ElboPoint) and not isinstance(setting, Failed)
    return Dual(problem, setting, point, damping, 1.0)


def inside(d: Dual) -> Array:
    """A point of the box away from its edges."""
    x = d.x0.copy()
    x[: d.size] = np.clip(
        0.8 * x[: d.size], d.box.low[: d.size] + 0.05, d.box.high[: d.size] - 0.05
    )
    x[d.size :] *= 1.2
    return x


@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_the_dual_s_gradient_and_hessian(damping: float) -> None:
    """By differences; a Newton step d solves H d = -g on the free coordinates."""
    d = dual(damping)
    x, step = inside(d), 1e-4
    here = d.evaluate(x)
    assert here is not None
    free = np.ones(2 * d.size, dtype=bool)
    free[[2, 15, 2 * d.size - 1]] = False
    newton = here.step(free)
    assert newton is not None and (newton[~free] == 0.0).all()

    def along(direction: Array) -> tuple[float, Array]:
        up, down = d.evaluate(x + step * direction), d.evaluate(x - step * direction)
        assert up is not None and down is not None
        bend = (up.gradient - down.gradient) / (2.0 * step)
        return (up.value - down.value) / (2.0 * step), bend

    for k in (0, 3, 13, 14, 19, 20, 33, 34, 39):
        rise, _ = along(np.eye(2 * d.size)[k])
        assert rise == pytest.approx(here.gradient[k], abs=1e-6, rel=1e-5)
    size = float(np.abs(newton).max())
    bend = along(newton / size)[1] * size
    np.testing.assert_allclose(bend[free], -here.gradient[free], rtol=2e-4, atol=2e-5)


def test_the_tangent_starts_the_scalar_problems() -> None:
    d = dual(0.0)
    x, along = inside(d), np.random.default_rng(0).normal(size=2 * d.size)
    here = d.evaluate(x)
    assert here is not None
    gaps = []
    for t in (1e-3, 5e-4):
        moved = x + t * along * np.abs(x)
        there = d.evaluate(moved)
        assert there is not None
        h, sigma = here.tangent(moved[: d.size], moved[d.size :])
        gaps.append(np.abs(np.concatenate([h - there.pairs.h, sigma - there.pairs.sigma])).max())
    assert gaps[0] < 1e-4 and gaps[1] == pytest.approx(gaps[0] / 4.0, rel=0.05)


def test_two_minimisers_of_one_dual() -> None:
    d = dual(0.0)
    start = d.evaluate(d.x0)
    assert start is not None
    best = by_newton(d, start, 1e-7)
    used = []
    for scaled in (True, False):
        evaluated: list[Array] = []
        d = dual(0.0)
        right = d.evaluate
        d.evaluate = lambda x, n=None, e=evaluated, r=right: e.append(x) or r(x, n)  # type: ignore
        other = by_lbfgs(d, start, 1e-5, 20, 5000, scaled)
        held = d.box.held(other.x, other.gradient)
        assert other.gap(held) <= 1e-5 and other.value == pytest.approx(best.value, rel=1e-10)
        np.testing.assert_allclose(other.x, best.x, rtol=1e-3, atol=1e-5)
        used.append(len(evaluated))
    assert 4 * used[0] < used[1]


def test_what_is_not_concave_is_made_so() -> None:
    """At an outlier of a Student-t site; the rows without one need nothing."""
    text = LINE.format(sd=1, site="student_t(mean = f, scale = 0.05, df = 4)")
    fit = lgm.fit(lgm.loads(text), line(), "natural-gradient")
    problem = plan(fit.canonical, "lcl").at(fit.theta)
    d = dual_at(problem, fit.posterior.weight, fit.posterior.shift, 0.0)
    (answer,) = problem.expecting()
    f = answer.expected(d.h0, d.sigma0**2, second=True)
    assert f.d_mean_variance is not None and f.d_variance2 is not None
    across, cross = d.proximal - f.curvature, 2.0 * d.sigma0 * f.d_mean_variance
    along = d.penalty - 2.0 * f.d_variance - 4.0 * d.sigma0**2 * f.d_variance2
    assert (f.curvature > 0.0).any() and (d.proximal == 0.0).any()
    assert (across > 0.0).all() and (along > 0.0).all() and (across * along > 1.2 * cross**2).all()
