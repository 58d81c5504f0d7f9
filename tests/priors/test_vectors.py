"""Priors of ordered and simplex hypers, and flat."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.priors.catalogue import prior
from lgmdsl.priors.location import log_order_probability

MEAN, SD = np.array([0.3, 1.0, 0.6]), np.array([0.7, 1.2, 0.4])


def test_order_probability() -> None:
    """Of two normals in closed form; of three by the bivariate normal of their differences."""
    log, _, _ = log_order_probability(MEAN[:2], SD[:2])
    gap = (MEAN[1] - MEAN[0]) / np.hypot(SD[0], SD[1])
    assert float(log) == pytest.approx(stats.norm.logcdf(gap), rel=1e-13)
    step = np.array([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    cover = step @ np.diag(SD**2) @ step.T
    want = stats.multivariate_normal.cdf(step @ MEAN, cov=cover, abseps=1e-10, releps=1e-10)
    both, _, _ = log_order_probability(np.stack([MEAN, np.zeros(3)]), np.stack([SD, np.ones(3)]))
    assert np.exp(both) == pytest.approx([want, 1 / 6], rel=1e-8)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_equal_normals_come_in_every_order(count: int) -> None:
    found = prior("normal", "ordered", mean=0.4, sd=1.3)
    value = np.linspace(-1, 2, count)
    whole = stats.norm(0.4, 1.3).logpdf(value).sum() + np.log(np.arange(1, count + 1)).sum()
    assert found.log_density(value) == pytest.approx(whole, rel=1e-13)
    if count > 1:
        assert found.log_density(value[::-1]) == -np.inf


def test_very_different_normals() -> None:
    """A sharp one between wide ones, and an order that is hardly possible."""
    mean, sd = np.array([-50.0, 0.0, 60.0]), np.array([30.0, 1e-3, 20.0])
    want = stats.norm.cdf(50 / 30) * stats.norm.sf(-3.0)
    assert np.exp(log_order_probability(mean, sd)[0]) == pytest.approx(want, rel=1e-6)
    log, _, _ = log_order_probability(np.array([8.0, 0.0]), np.ones(2))
    assert float(log) == pytest.approx(stats.norm.logcdf(-8 / np.sqrt(2)), rel=1e-9)


@pytest.mark.parametrize("equal", [True, False])
def test_slopes_of_ordered_normals(equal: bool) -> None:
    mean, sd = (np.full(3, 0.4), np.full(3, 0.9)) if equal else (MEAN, SD)
    value = np.array([[-0.3, 0.6, 0.8], [0.1, 0.2, 1.4]])

    def log(m: Array, s: Array) -> float:
        return prior("normal", "ordered", mean=m, sd=s).log_density(value)

    gradient = prior("normal", "ordered", mean=mean, sd=sd).gradient(value)
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        want = (log(mean + step, sd) - log(mean - step, sd)) / 2e-5
        assert gradient["mean"][k] == pytest.approx(want, rel=1e-6, abs=1e-7)
        want = (log(mean, sd + step) - log(mean, sd - step)) / 2e-5
        assert gradient["sd"][k] == pytest.approx(want, rel=1e-6, abs=1e-7)
    one = prior("normal", "ordered", mean=0.4, sd=0.9).gradient(value)
    if equal:
        # one number moves all entries, and the order does not notice
        assert one["mean"] == pytest.approx(gradient["mean"].sum(), rel=1e-9)
        assert one["sd"] == pytest.approx(gradient["sd"].sum(), rel=1e-9)


@pytest.mark.parametrize(("mean", "sd"), [(0.5, 1.2), (MEAN, SD)])
def test_ordered_draws(mean: Array | float, sd: Array | float) -> None:
    """Draws increase, and their middle entry follows phi F G / P."""
    found = prior("normal", "ordered", mean=mean, sd=sd)
    drawn = found.sample(np.random.default_rng(5), (3000, 3))
    assert (np.diff(drawn, axis=-1) > 0).all()
    m, s = np.ones(3) * mean, np.ones(3) * sd
    x = np.linspace(-8, 8, 4001)
    shape = stats.norm(m[1], s[1]).pdf(x) * stats.norm(m[0], s[0]).cdf(x)
    below = np.cumsum(shape * stats.norm(m[2], s[2]).sf(x))
    middle = drawn[:, 1]
    assert stats.kstest(middle, lambda v: np.interp(v, x, below / below[-1])).pvalue > 0.01
    start = found.typical((2, 3))
    assert (np.diff(start, axis=-1) > 0).all() and start.shape == (2, 3)


def test_typical_values_of_means_that_run_down_increase() -> None:
    apart = stats.norm.ppf((np.arange(3) + 0.625) / 3.25)
    for mean in (np.array([3.0, 3.0, -1.0]), -1e-4 * apart):  # the second brings all to 0
        found = prior("normal", "ordered", mean=mean, sd=1e-4)
        assert (np.diff(found.typical((3,))) > 1e-8).all()


def test_dirichlet_against_scipy() -> None:
    alpha = np.array([0.7, 2.0, 3.5])
    value = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    found = prior("dirichlet", "simplex", alpha=alpha)
    want = sum(stats.dirichlet(alpha).logpdf(v) for v in value)
    assert found.log_density(value) == pytest.approx(want, rel=1e-13)
    gradient = found.gradient(value)
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        ahead, behind = (
            prior("dirichlet", "simplex", alpha=alpha + s * step).log_density(value)
            for s in (1, -1)
        )
        assert gradient["alpha"][k] == pytest.approx((ahead - behind) / 2e-6, rel=1e-7)
    along = np.array([[1e-6, -1e-6, 0.0], [0.0, 1e-6, -1e-6]])
    step = (found.log_density(value + along) - found.log_density(value - along)) / 2.0
    assert float((gradient["value"] * along).sum()) == pytest.approx(step, rel=1e-7)
    assert found.log_density(value + 0.01) == -np.inf
    assert found.typical((2, 3)).sum(axis=-1) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("alpha", [2.0, np.array([0.02, 0.5, 3.0])])
def test_dirichlet_draws(alpha: Array | float) -> None:
    found = prior("dirichlet", "simplex", alpha=alpha)
    drawn = found.sample(np.random.default_rng(2), (3000, 3))
    a = np.ones(3) * alpha
    assert drawn.sum(axis=-1) == pytest.approx(np.ones(3000)) and (drawn > 0).all()
    for k in (1, 2):
        known = stats.beta(a[k], a.sum() - a[k])
        assert stats.kstest(drawn[:, k], known.cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("type_", "shape"),
    [
        ("real", ()),
        ("positive", (2,)),
        ("unit", ()),
        ("correlation", (2,)),
        ("covariance", (2, 2)),
        ("simplex", (3,)),
        ("ordered", (3,)),
    ],
)
def test_flat(type_: str, shape: tuple[int, ...]) -> None:
    found = prior("flat", type_)
    value = found.typical(shape)
    assert value.shape == shape and found.log_density(value) == 0.0
    if type_ == "ordered":
        np.testing.assert_array_equal(value, [-1.0, 0.0, 1.0])
    assert not found.gradient(value)["value"].any()
    bounded = type_ in ("unit", "correlation", "simplex")
    assert found.proper is bounded
    if not bounded:
        with pytest.raises(TypeError, match="improper"):
            found.sample(np.random.default_rng(0), shape)
        return
    drawn = found.sample(np.random.default_rng(0), (2000, *shape))
    first = drawn.reshape(2000, -1)[:, 0]
    known = {"unit": stats.uniform(), "correlation": stats.uniform(-1, 2)}
    assert stats.kstest(first, known.get(type_, stats.beta(1, 2)).cdf).pvalue > 0.01
