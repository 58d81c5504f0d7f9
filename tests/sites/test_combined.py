"""Families made from others: weights, zero inflation, hurdles, truncation."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.bounds.weighted import reaching
from lgmdsl.contract.questions import (
    Augmented,
    Decoupled,
    Expected,
    ExpectedSlopes,
    Pointwise,
    Tilted,
    Widths,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.catalogue import SITES, find_site
from lgmdsl.sites.combined.hurdle import hurdle
from lgmdsl.sites.combined.predictors import Second, with_predictors
from lgmdsl.sites.combined.truncated import truncated
from lgmdsl.sites.combined.weighted import weighted
from lgmdsl.sites.combined.zero_inflated import zero_inflated
from lgmdsl.testing.site_checks import check_site

Y = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 1.0])
N = len(Y)
COUNTS: Mapping[str, Mapping[str, Array]] = {
    "poisson.log_rate": {"exposure": np.array([1.0, 2.0, 1.0, 0.5, 3.0, 1.0, 1.0, 4.0])},
    "negbinomial.log_mean": {
        "size": np.array([1.0, 2.0, 0.3, 0.5, 3.0, 10.0, 1.0, 0.02]),
        "exposure": np.ones(N),
    },
    "binomial.logit": {"n": np.array([1.0, 3.0, 4.0, 2.0, 6.0, 9.0, 20.0, 1.0])},
    "binomial.probit": {"n": np.array([1.0, 3.0, 4.0, 2.0, 6.0, 9.0, 20.0, 1.0])},
}
POSITIVE: Mapping[str, Mapping[str, Array]] = {
    "gamma.log_mean": {"shape": np.linspace(0.3, 5.0, N)},
    "lognormal.mean": {"sd": np.linspace(0.3, 1.5, N)},
    "weibull.log_scale": {"shape": np.linspace(0.3, 2.0, N), "event": np.ones(N)},
    "exponential.log_rate": {"event": np.ones(N)},
}
SHARE = np.linspace(0.05, 0.9, N)
FACTORIES: tuple[Callable[[type[Site]], type[Site]], ...] = (truncated, zero_inflated, hurdle)


def family(name: str) -> type[Site]:
    found = find_site(name)
    assert found is not None
    return found


def zeros(factory: Callable[[type[Site]], type[Site]], name: str) -> Site:
    """Sites of counts with one of the modifiers."""
    more: dict[str, Any] = {}
    if factory is zero_inflated:
        more = {"zero_inflation": SHARE}
    if factory is hurdle:
        more = {"hurdle": SHARE}
    y = np.maximum(Y, 1.0) if factory is truncated else Y
    made: Any = factory(family(name))
    return cast(Site, made(y=y, **COUNTS[name], **more))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("factory", FACTORIES)
def test_counts_conform(factory: Callable[[type[Site]], type[Site]], name: str) -> None:
    check_site(zeros(factory, name))


@pytest.mark.parametrize("name", POSITIVE)
def test_positive_hurdles_conform(name: str) -> None:
    y = np.array([0.0, 0.0, 0.1, 0.4, 1.3, 2.0, 5.0, 7.0])
    made: Any = hurdle(family(name))
    site = made(y=y, **POSITIVE[name], hurdle=SHARE)
    assert site.spec.observed == ("nonnegative",)
    check_site(site)


def test_truncated_poisson_where_zeros_are_nearly_certain() -> None:
    """log(1 - e^-mu) keeps its digits: l = (y - 1) s - log y! - mu/2 - mu^2/24 + ..."""
    made: Any = truncated(family("poisson.log_rate"))
    y = np.array([1.0, 2.0, 4.0])
    site = made(y=y, exposure=np.ones(3))
    for s in (-5.0, -30.0, -400.0, -1e4):
        mu = np.exp(s)
        exact = (y - 1.0) * s - np.log([1.0, 2.0, 24.0]) - 0.5 * mu - mu**2 / 24.0
        answer = site.pointwise(np.full(3, s))
        assert np.allclose(answer.value, exact, rtol=1e-10, atol=1e-9)
        assert np.allclose(answer.slope, y - 1.0 - 0.5 * mu - mu**2 / 12.0, rtol=0, atol=1e-11)
        assert np.allclose(answer.curvature, -0.5 * mu, rtol=2e-2, atol=1e-15)


def test_truncated_negbinomial_of_heavy_tail_near_zero() -> None:
    """P(Y > 0) is small there, and six terms are not all of it."""
    made: Any = truncated(family("negbinomial.log_mean"))
    size, mean = 1e-4, 0.05
    s = np.log(mean)
    y = np.arange(1.0, 20_000.0)
    site = made(y=y, size=np.full(len(y), size), exposure=np.ones(len(y)))
    assert np.exp(site.log_density(np.full(len(y), s))).sum() == pytest.approx(1.0, abs=1e-9)
    k = np.arange(1.0, 4.0)
    law = stats.nbinom(size, size / (size + mean))
    exact = law.logpmf(k) - np.log(-np.expm1(size * np.log(size / (size + mean))))
    assert np.allclose(
        made(y=k, size=np.full(3, size), exposure=np.ones(3)).log_density(np.full(3, s)),
        exact,
        rtol=1e-9,
    )


@pytest.mark.parametrize("factory", FACTORIES)
def test_densities_against_scipy(factory: Callable[[type[Site]], type[Site]]) -> None:
    rng = np.random.default_rng(3)
    s = rng.uniform(-4.0, 4.0, 200)
    y = np.array(rng.integers(0 if factory is not truncated else 1, 12, 200), dtype=float)
    p, size = rng.uniform(0.01, 0.99, 200), np.exp(rng.normal(size=200))
    made: Any = factory(family("negbinomial.log_mean"))
    names: dict[object, str] = {zero_inflated: "zero_inflation", hurdle: "hurdle"}
    more = {} if factory is truncated else {names[factory]: p}
    got = made(y=y, size=size, exposure=np.ones(200), **more).log_density(s)
    law = stats.nbinom(size, size / (size + np.exp(s)))
    f, f0 = law.logpmf(y), law.logpmf(0)
    above = f - np.log1p(-np.exp(f0))
    each: dict[object, Array] = {
        truncated: above,
        zero_inflated: np.where(y > 0, np.log1p(-p) + f, np.log(p + (1 - p) * np.exp(f0))),
        hurdle: np.where(y > 0, np.log1p(-p) + above, np.log(p)),
    }
    assert np.allclose(got, each[factory], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("name", ["poisson.log_rate", "binomial.logit"])
def test_own_expectations_are_those_of_quadrature(
    factory: Callable[[type[Site]], type[Site]], name: str
) -> None:
    site = zeros(factory, name)
    if not isinstance(site, Expected):
        assert not issubclass(family(name), Expected)
        return
    mean, variance = np.linspace(-2.0, 2.0, N), np.linspace(0.05, 1.0, N)
    own = site.expected(mean, variance, second=True)
    lifted = cast(Any, bound("quadrature", Expected).lift(site))
    other = lifted.expected(mean, variance, second=True)
    for part in ("value", "d_mean", "d_variance", "d_mean_variance", "d_variance2"):
        assert np.allclose(getattr(own, part), getattr(other, part), rtol=1e-7, atol=1e-9), part
    assert isinstance(site, ExpectedSlopes)
    slopes, others = (a.expected_slopes(mean, variance) for a in (site, lifted))
    for parameter, slope in slopes.items():
        assert np.allclose(slope, others[parameter], rtol=1e-7, atol=1e-9), parameter


def test_log_concavity_is_declared_of_natural_families_alone() -> None:
    concave = {n for n in COUNTS if Property.LOG_CONCAVE in truncated(family(n)).spec.properties}
    assert concave == {"poisson.log_rate", "binomial.logit"}
    assert all(Property.LOG_CONCAVE not in zero_inflated(family(n)).spec.properties for n in COUNTS)


def scalar_examples() -> list[str]:
    return [n for n, c in SITES.items() if not c.spec.vector and not c.spec.indexed]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("poisson.log_rate", {"y": Y, "exposure": np.ones(N)}),
        ("bernoulli.logit", {"y": np.minimum(Y, 1.0)}),
        ("bernoulli.probit", {"y": np.minimum(Y, 1.0)}),
        ("normal.mean", {"y": Y, "sd": np.full(N, 0.7)}),
        ("lognormal.mean", {"y": Y + 0.5, "sd": np.full(N, 0.7)}),
        ("laplace", {"scale": np.linspace(0.2, 2.0, N)}),
        ("student_t", {"scale": np.ones(N), "df": np.full(N, 4.0)}),
        ("weibull.log_scale", {"y": Y + 0.5, "shape": np.full(N, 2.0), "event": np.ones(N)}),
    ],
)
def test_every_answer_of_a_weighted_site_is_one_of_the_power(
    name: str, fields: dict[str, Array]
) -> None:
    """Weight 2 is two sites: each answer twice that of the site; of any power by quadrature."""
    plain: Any = family(name)(**fields)
    made: Any = weighted(family(name))
    s, v = np.linspace(-1.5, 1.5, N), np.linspace(0.2, 2.0, N)
    w = np.linspace(0.1, 3.0, N)
    site = made(**fields, weight=w)
    assert np.allclose(site.log_density(s), w * plain.log_density(s), rtol=1e-14)
    if isinstance(plain, Pointwise):
        a, b = cast(Pointwise, site).pointwise(s, v), plain.pointwise(s, v)
        for part in ("value", "slope", "curvature", "third"):
            assert np.allclose(getattr(a, part), w * getattr(b, part), rtol=1e-14)
    if isinstance(plain, Tilted | Pointwise) and Property.KINKED not in plain.spec.properties:
        lifted = cast(Any, site if isinstance(site, Tilted) else _tilting(site))
        tilted = lifted.tilted(s, v, 0.8)
        brute = _brute_tilted(site, s, v, 0.8)
        for got, want in zip((tilted.log_mass, tilted.mean, tilted.variance), brute, strict=True):
            assert np.allclose(got, want, rtol=1e-6, atol=1e-8)
    if isinstance(plain, Widths):
        _check_widths(site, plain, w, s, v)
    if isinstance(plain, Augmented):
        assert isinstance(site, Augmented)
        one, two = plain.weights(s, v), site.weights(s, v)
        assert np.allclose(two.precision, w * one.precision)
        assert np.allclose(two.correction, w * one.correction)
    if isinstance(plain, Decoupled):
        assert isinstance(site, Decoupled)
        slope, ones = 0.05 * w * np.sign(Y - 1.5), np.ones(N)
        best = site.conjugate(slope, ones, ones, ones)
        value = _decoupled(site, best.h, best.sigma, slope)
        assert np.allclose(value, best.value, rtol=1e-9, atol=1e-9)
        for dh, ds in ((1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3)):
            nearby = _decoupled(site, best.h + dh, np.maximum(best.sigma + ds, 0.0), slope)
            assert np.all(nearby <= value + 1e-9)
    for slope_name, slope in plain.parameter_slopes(s).items():
        assert np.allclose(site.parameter_slopes(s)[slope_name], w * slope)


def _tilting(site: Site) -> object:
    return bound("quadrature", Tilted).lift(site)


def _brute_tilted(site: Site, m: Array, v: Array, power: float) -> tuple[Array, Array, Array]:
    t = np.linspace(-10.0, 10.0, 40_001)
    out = []
    for i in range(len(m)):
        s = m[i] + np.sqrt(v[i]) * t
        l = site.take(np.full(len(t), i)).log_density(s)
        f = np.exp(power * l - 0.5 * t * t) / np.sqrt(2.0 * np.pi) * (t[1] - t[0])
        mass = f.sum()
        mean = (f * s).sum() / mass
        out.append((np.log(mass), mean, (f * (s - mean) ** 2).sum() / mass))
    log_mass, mean, variance = (np.array(column) for column in zip(*out, strict=True))
    return log_mass, mean, variance


def _check_widths(site: Any, plain: Widths, w: Array, s: Array, z: Array) -> None:
    """t^w >= exp(b s - s^2 / (2 gamma) - h / 2) everywhere, and equal where it touches."""
    a = cast(Widths, site).widths(s, z)
    for x in np.linspace(-6.0, 6.0, 25):
        level = a.shift * x - 0.5 * x * x / a.width - 0.5 * a.h
        assert np.all(level <= site.log_density(np.full(N, x)) + 1e-9)
    touching = np.sqrt(z + s * s)
    level = a.shift * touching - 0.5 * touching**2 / a.width - 0.5 * a.h
    assert np.allclose(level, site.log_density(touching), rtol=1e-9, atol=1e-9)
    assert np.allclose(a.penalty, w * plain.widths(s, z).penalty)


def _decoupled(site: object, h: Array, sigma: Array, slope: Array) -> Array:
    answer = cast(Expected, site).expected(h, sigma**2)
    return answer.value - slope * h + sigma - 0.5 * (sigma - 1.0) ** 2


def test_bounds_of_weighted_sites() -> None:
    """w times the bound of the site, and never above the expectation."""
    made: Any = weighted(family("bernoulli.logit"))
    w = np.linspace(0.1, 3.0, N)
    site = made(y=np.minimum(Y, 1.0), weight=w)
    for name in ("jaakkola", "bohning"):
        lower = reaching(bound(name, Expected), made)
        assert lower.applies_to(made) == ""
        low = cast(Expected, lower.lift(site)).expected(np.linspace(-2, 2, N), np.ones(N)).value
        exact = cast(Any, bound("quadrature", Expected).lift(site))
        assert np.all(low <= exact.expected(np.linspace(-2, 2, N), np.ones(N)).value + 1e-12)


def test_weight_zero_has_no_influence() -> None:
    made: Any = weighted(family("poisson.log_rate"))
    site = made(y=Y, exposure=np.ones(N), weight=np.zeros(N))
    assert np.all(site.log_density(np.full(N, 50.0)) == 0.0)


@pytest.mark.parametrize("factory", [*FACTORIES, weighted])
def test_derived_families_are_made_once_and_pickled(
    factory: Callable[[type[Site]], type[Site]],
) -> None:
    made = factory(family("poisson.log_rate"))
    assert made is factory(family("poisson.log_rate"))
    assert pickle.loads(pickle.dumps(made)) is made and copy.deepcopy(made) is made
    if factory is not weighted:
        twice = weighted(made)
        assert pickle.loads(pickle.dumps(twice)) is twice
    site: Any = pickle.loads(pickle.dumps(zeros(truncated, "poisson.log_rate")))
    assert np.array_equal(site.y, np.maximum(Y, 1.0))


@pytest.mark.parametrize("factory", [zero_inflated, hurdle])
def test_no_distribution_function_with_two_predictors_either(
    factory: Callable[[type[Site]], type[Site]],
) -> None:
    """Of a family that has none: what the PIT refuses families by."""
    base = family("poisson.log_rate")
    bare = type("Bare", (base,), {"cdf": Site.cdf, "distribution": Site.distribution})
    share = next(iter(set(factory(base).spec.parameters) - set(base.spec.parameters)))
    second = Second(share, f"{share}_logit", "logit")
    for of, none in ((bare, True), (base, False)):
        both = with_predictors(factory(of), (second,))
        for made in (both, weighted(both)):
            assert (made.cdf is Site.cdf) == (made.distribution is Site.distribution) == none


@pytest.mark.parametrize("name", ["asymmetric_laplace.quantile", "laplace.mean"])
def test_tilted_moments_of_a_kinked_family_with_weights(name: str) -> None:
    """Against sums on a fine grid; a weight of 0 leaves the Gaussian."""
    weight, y = np.array([0.0, 0.3, 1.0, 2.0]), np.array([0.4, -1.0, 0.2, 3.0])
    more = {"level": np.array([0.8, 0.3, 0.5, 0.9])} if "quantile" in name else {}
    made: Any = weighted(family(name))
    site = made(y=y, scale=np.array([0.4, 1.0, 0.7, 2.0]), weight=weight, **more)
    assert isinstance(site, Tilted)
    mean, variance = np.array([0.1, 0.5, -1.0, 0.0]), np.array([1.0, 0.5, 2.0, 1.5])
    for power in (1.0, 0.5):
        answer = site.tilted(mean, variance, power)
        for k in range(4):
            grid = mean[k] + np.sqrt(variance[k]) * np.linspace(-9.0, 9.0, 36001)
            one = cast(Site, site).take(np.full(len(grid), k))
            log = power * one.log_density(grid) - 0.5 * (grid - mean[k]) ** 2 / variance[k]
            density = np.exp(log) / np.sqrt(2.0 * np.pi * variance[k])
            mass = np.trapezoid(density, grid)
            centre = np.trapezoid(density * grid, grid) / mass
            spread = np.trapezoid(density * (grid - centre) ** 2, grid) / mass
            assert answer.log_mass[k] == pytest.approx(np.log(mass), abs=1e-6)
            assert answer.mean[k] == pytest.approx(centre, abs=1e-6)
            assert answer.variance[k] == pytest.approx(spread, rel=1e-6)
