"""Properties of the answers over the whole plane of means and variances, by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.bounds.quadrature import ExpectedByQuadrature, TiltedByQuadrature
from lgmdsl.contract.questions import Expected, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.catalogue import SITES
from tests.sites.examples import example

EVERY = [s.spec.name for s in SITES.shipped() if not s.spec.vector]
# Of the others the log density is -inf for some s: no expectations.
NAMES = [
    s.spec.name
    for s in SITES.shipped()
    if not s.spec.vector and Property.LIMITED not in s.spec.properties
]
means = st.floats(-8.0, 8.0)
sds = st.floats(np.log(0.1), np.log(10.0)).map(lambda x: float(np.exp(x)))
names = st.sampled_from(NAMES)


def expecting(site: Site) -> Expected:
    return site if isinstance(site, Expected) else ExpectedByQuadrature().lift(site)


def tilting(site: Site) -> Tilted:
    return site if isinstance(site, Tilted) else TiltedByQuadrature().lift(site)


@given(names, means, sds, st.integers(0, 5))
def test_twice_d_variance_is_the_second_derivative_in_the_mean(
    name: str, mean: float, sd: float, seed: int
) -> None:
    """2 f_v = f_mm, and f_m is the derivative of f; by five-point differences."""
    site = example(name, 4, seed)
    h = 2e-3 * sd
    v = np.full(4, sd * sd)
    f = expecting(site)
    values, slopes = [], []
    for k in (-2, -1, 1, 2):
        a = f.expected(np.full(4, mean + k * h), v)
        values.append(a.value)
        slopes.append(a.d_mean)
    middle = f.expected(np.full(4, mean), v)

    def slope(y: list[Array]) -> Array:
        return np.asarray((y[0] - 8 * y[1] + 8 * y[2] - y[3]) / (12 * h))

    for found, known, level in (
        (slope(values), middle.d_mean, np.abs(middle.value)),
        (slope(slopes), 2 * middle.d_variance, np.abs(middle.d_mean)),
    ):
        assert np.all(np.abs(found - known) <= 1e-6 * (1 + np.abs(known)) + 1e-10 * level / h)


@given(names, means, sds, st.integers(0, 5))
def test_log_mass_derivatives_are_the_tilted_moments(
    name: str, mean: float, sd: float, seed: int
) -> None:
    """dlog Z/dm = (tilted mean - m) / v: two answers that must agree."""
    site = example(name, 4, seed)
    h = 2e-3 * sd
    v = np.full(4, sd * sd)
    f = tilting(site)
    z = [f.tilted(np.full(4, mean + k * h), v).log_mass for k in (-2, -1, 1, 2)]
    slope = (z[0] - 8 * z[1] + 8 * z[2] - z[3]) / (12 * h)
    a = f.tilted(np.full(4, mean), v)
    known = (a.mean - mean) / v
    level = 1e-10 * np.abs(a.log_mass) / h
    assert np.all(np.abs(slope - known) <= 1e-6 * (1 + np.abs(known)) + level)


@pytest.mark.thorough
@given(names, st.integers(0, 5), st.randoms(use_true_random=False))
def test_rows_do_not_see_each_other(name: str, seed: int, random: object) -> None:
    """Answers for permuted and split rows are the permuted and split answers, to the last bit."""
    rng = np.random.default_rng(seed)
    site = example(name, 12, seed)
    m, v = rng.uniform(-8, 8, 12), rng.uniform(0.01, 100.0, 12)
    order = rng.permutation(12)
    whole = expecting(site).expected(m, v)
    moved = expecting(site.take(order)).expected(m[order], v[order])
    np.testing.assert_allclose(moved.value, whole.value[order], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(moved.d_variance, whole.d_variance[order], rtol=1e-12, atol=1e-13)
    first, second = np.arange(5), np.arange(5, 12)
    tilts = tilting(site).tilted(m, v)
    halves = [tilting(site.take(r)).tilted(m[r], v[r]).mean for r in (first, second)]
    np.testing.assert_allclose(np.concatenate(halves), tilts.mean, rtol=1e-12, atol=1e-12)


@given(names, means, sds, st.integers(0, 5))
def test_jensen(name: str, mean: float, sd: float, seed: int) -> None:
    """E[log t] <= log E[t]; log-concave sites: E[l] <= l(m), and the tilted variance <= v."""
    site = example(name, 4, seed)
    m, v = np.full(4, mean), np.full(4, sd * sd)
    f, tilted = expecting(site).expected(m, v), tilting(site).tilted(m, v)
    slack = 1e-9 * (1 + np.abs(f.value))
    assert np.all(f.value <= tilted.log_mass + slack)
    assert np.all(tilted.variance > 0)
    if Property.LOG_CONCAVE in site.spec.properties:
        assert np.all(f.value <= site.log_density(m) + slack)
        assert np.all(f.d_variance <= 1e-12)
        assert np.all(tilted.variance <= v * (1 + 1e-12))


@pytest.mark.parametrize("name", NAMES)
def test_no_variance_gives_the_site_itself(name: str) -> None:
    """At variance 0 f = l, f_m = l' and the tilted mass is t; near 0 the same to its size."""
    site = example(name, 6)
    m = np.linspace(-3.05, 3.1, 6)
    zero = np.zeros(6)
    f = expecting(site).expected(m, zero)
    np.testing.assert_allclose(f.value, site.log_density(m), rtol=1e-12, atol=1e-12)
    tilted = tilting(site).tilted(m, zero, 0.5)
    np.testing.assert_allclose(tilted.log_mass, 0.5 * site.log_density(m), rtol=1e-13)
    assert np.array_equal(tilted.mean, m)
    assert np.array_equal(tilted.variance, zero)
    near = expecting(site).expected(m, np.full(6, 1e-12))
    np.testing.assert_allclose(near.d_mean, f.d_mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_far_outside_the_accurate_range_answers_stay_finite(name: str) -> None:
    """|m| to 1e4, sd from 1e-6 to 1e3 (and 0): no NaN, no infinity, no warning."""
    m, sd = (
        a.ravel()
        for a in np.meshgrid(
            [0.0, 1e-8, 8.0, -8.0, 300.0, -300.0, 1e4, -1e4], [0.0, 1e-6, 1e-3, 1.0, 30.0, 1e3]
        )
    )
    site = example(name, len(m), seed=3)
    if Property.LIMITED in site.spec.properties:
        # a point outside of the support has a mass of 0
        m, sd, site = m[sd >= 1.0], sd[sd >= 1.0], site.take(sd >= 1.0)
    else:
        e = expecting(site).expected(m, sd**2, second=True)
        assert e.d_mean_variance is not None and e.d_variance2 is not None
        moments = (e.value, e.d_mean, e.d_variance, e.d_mean_variance, e.d_variance2)
        assert all(np.isfinite(part).all() for part in moments)
    for power in (1.0, 0.3):
        t = tilting(site).tilted(m, sd**2, power)
        for part in (t.log_mass, t.mean, t.variance):
            assert np.all(np.isfinite(part))
        assert np.all((t.variance > 0) | (sd == 0))
