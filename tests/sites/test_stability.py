"""Single formulas at their hard places: far tails, balanced cancellations, infinite slopes."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.numerics.stable import asinh_difference
from lgmdsl.sites.scalar.cloglog import BernoulliCloglog
from lgmdsl.sites.scalar.exponential_rate import GammaLogMean, PoissonLogRate
from lgmdsl.sites.scalar.logistic import even_part
from lgmdsl.sites.scalar.probit import BernoulliProbit
from tests.sites.examples import example


@pytest.mark.parametrize("z", [-1e4, -300.0, -40.0, -5.0, -4.001, -4.0, -1.0, 0.0, 2.0, 30.0])
def test_normal_tail_to_twelve_digits(z: float) -> None:
    with mp.workdps(60):
        x = mp.mpf(z)
        cdf = mp.erfc(-x / mp.sqrt(2)) / 2
        k = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / cdf
        log_cdf = mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if z > 0 else mp.log(cdf)
        known = [log_cdf, k, x + k, 1 - k * (x + k), k * ((x + k) * (x + 2 * k) - 1)]
        wanted = [float(q) for q in known]
    tail = normal_tail(np.array([z]))
    found = [tail.log_cdf, tail.hazard, tail.excess, tail.variance, tail.third]
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=2e-12)


def test_probit_far_tail() -> None:
    site = BernoulliProbit(np.ones(2))
    a = site.pointwise(np.array([-1e4, 1e4]))
    np.testing.assert_allclose(a.slope[0], 1e4 + 1e-4, rtol=1e-14)
    np.testing.assert_allclose(a.curvature, [-1.0 + 1e-8, 0.0], rtol=1e-14)
    # (log Phi)''' ~ 2 / |s|^3
    np.testing.assert_allclose(a.third[0], 2e-12, rtol=1e-6)


def test_cloglog_derivatives_where_the_series_takes_over() -> None:
    s = np.log([1e-12, 9.99e-3, 1.001e-2, 1.0, 30.0, 699.0])
    a = BernoulliCloglog(np.ones(6)).pointwise(s)
    with mp.workdps(50):
        for i, x in enumerate(s):
            known = mp.taylor(lambda t: mp.log(-mp.expm1(-mp.exp(t))), mp.mpf(float(x)), 3)
            wanted = [float(known[0]), float(known[1]), float(2 * known[2]), float(6 * known[3])]
            found = [a.value[i], a.slope[i], a.curvature[i], a.third[i]]
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-290)


def test_even_part_joins_its_series() -> None:
    v = np.array([0.0199999, 0.0200001])
    x = 4 * v**2
    for part in even_part(x):
        assert abs(part[0] / part[1] - 1) < 1e-6
    assert np.all(np.isfinite(even_part(np.array([0.0, 1e300]))))


def test_asinh_difference_keeps_tiny_steps() -> None:
    x = np.array([1e4, -1e4, 0.0, 1e-3, 1e100])
    step = np.array([1e-9, 1e-9, 1e-9, -2e-3, 1e90])
    with mp.workdps(60):
        wanted = [
            float(mp.asinh(mp.mpf(a) + mp.mpf(b)) - mp.asinh(mp.mpf(a)))
            for a, b in zip(x.tolist(), step.tolist(), strict=True)
        ]
    np.testing.assert_allclose(asinh_difference(x, step), wanted, rtol=1e-7)


@pytest.mark.parametrize("name", ["laplace", "exp_power", "student_t", "logistic", "sech2"])
def test_super_gaussian_bound_touches_and_stays_below(name: str) -> None:
    """exp(beta s - s^2 / (2 gamma) - h(gamma) / 2) <= t(s), with equality at s = s*."""
    site = example(name, 5)
    at = np.linspace(0.3, 4.0, 5)
    w = site.widths(at, np.zeros(5))  # type: ignore[attr-defined]
    beta = site.beta  # type: ignore[attr-defined]
    for s in np.linspace(-8.0, 8.0, 41):
        bound = beta * s - 0.5 * s * s / w.width - 0.5 * w.h
        assert np.all(bound <= site.log_density(np.full(5, s)) + 1e-10)
    touching = beta * at - 0.5 * at * at / w.width - 0.5 * w.h
    np.testing.assert_allclose(touching, site.log_density(at), rtol=1e-10)


@pytest.mark.parametrize("size", [3.0, 14.0, 1e3, 1e9, 1e12])
@pytest.mark.parametrize("away", [-2.0, -1e-3, 0.0, 3e-7, 0.4, 1.5])
def test_counts_and_shapes_of_any_size_do_not_cancel(size: float, away: float) -> None:
    """y s - e^s - log y! and its kin are sums of terms as large as y log y; l is of order one."""
    v = min(1e-2, 1.0 / size)
    with mp.workdps(60):
        k = mp.mpf(size)
        for site, s in (
            (PoissonLogRate(np.array([size]), np.array([2.0])), np.log(size / 2.0) + away),
            (GammaLogMean(np.array([7.0]), np.array([size])), np.log(7.0) + away),
        ):
            x = mp.mpf(s)
            if isinstance(site, PoissonLogRate):
                linear, rate = k * (x + mp.log(2)) - mp.loggamma(k + 1), 2 * mp.exp(x)
                d_mean = k - rate * mp.exp(mp.mpf(v) / 2)
            else:
                linear = k * (mp.log(k) - x) + (k - 1) * mp.log(7) - mp.loggamma(k)
                rate = 7 * k * mp.exp(-x)
                d_mean = rate * mp.exp(mp.mpf(v) / 2) - k
            wanted = [linear - rate, linear - rate * mp.exp(mp.mpf(v) / 2), d_mean]
            at, expected = np.array([s]), site.expected(np.array([s]), np.array([v]))
            found = [site.log_density(at)[0], expected.value[0], expected.d_mean[0]]
            # s itself has a rounding error of 1e-16 or so, by which its slope is multiplied.
            loss = 1e-14 * (1.0 + size * abs(away) + abs(s))
            for f, w in zip(found[:2], wanted[:2], strict=True):
                assert f == pytest.approx(float(w), rel=1e-12, abs=loss)
            assert found[2] == pytest.approx(float(wanted[2]), rel=1e-12, abs=1e-14 * size)
