"""Counts, Tweedie and Dirichlet against their definitions in 50 digits, sums and SciPy."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.errors import DataError
from lgmdsl.sites.catalogue import SITES
from lgmdsl.sites.counts import com_poisson, tweedie
from lgmdsl.sites.counts.base import cumulated
from lgmdsl.sites.vector.dirichlet import DirichletMultinomialSoftmax, DirichletSoftmax
from lgmdsl.testing.site_checks import check_site
from tests.sites.reference_densities import DENSITIES

Real = Any
POINTS = 200
lg = mp.loggamma


def _extreme_counts(rng: np.random.Generator) -> Array:
    few = rng.poisson(10 ** rng.uniform(-1, 2, POINTS))
    return np.where(rng.random(POINTS) < 0.7, few, rng.integers(0, 10**6 + 1, POINTS)).astype(float)


def _worst(name: str, s: Array, known: list[Real], **fields: Array) -> float:
    found = SITES[name](**fields).log_density(s)
    gaps = [abs(k - mp.mpf(float(f))) / max(abs(k), 1) for k, f in zip(known, found, strict=True)]
    return float(max(gaps))


@pytest.mark.parametrize(
    ("name", "parameter", "low", "high"),
    [
        ("negbinomial.log_mean", "size", -3, 8),
        ("negbinomial1.log_mean", "dispersion", -6, 4),
        ("generalized_poisson.log_mean", "dispersion", 0, 3),
    ],
)
def test_log_masses_in_fifty_digits(name: str, parameter: str, low: float, high: float) -> None:
    """Counts to 1e6, parameters near their limits, predictors far from the counts."""
    rng = np.random.default_rng(5)
    y, value, e = (
        _extreme_counts(rng),
        10 ** rng.uniform(low, high, POINTS),
        rng.gamma(2.0, size=POINTS),
    )
    far = rng.normal(size=POINTS) * rng.choice([0.01, 0.3, 3.0, 30.0], POINTS)
    s = np.log(np.maximum(y, 0.5) / e) + far
    with mp.workdps(50):
        known = []
        for row in zip(s, y, value, e, strict=True):
            at, k, v, exposure = (mp.mpf(float(x)) for x in row)
            known.append(DENSITIES[name](at, k, {parameter: v, "exposure": exposure}))
        assert _worst(name, s, known, y=y, exposure=e, **{parameter: value}) < 1e-12


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_beta_binomial_masses_in_eighty_digits(link: str) -> None:
    rng = np.random.default_rng(6)
    n = np.maximum(_extreme_counts(rng), 1.0)
    y = rng.binomial(n.astype(int), rng.random(POINTS)).astype(float)
    c, s = 10 ** rng.uniform(-2, 8, POINTS), rng.normal(size=POINTS)
    known = []
    with mp.workdps(80):
        for i in range(POINTS):
            at, k, total, conc = (mp.mpf(float(x[i])) for x in (s, y, n, c))
            parameters = {"n": total, "concentration": conc}
            known.append(DENSITIES[f"betabinomial.{link}"](at, k, parameters))
        assert _worst(f"betabinomial.{link}", s, known, y=y, n=n, concentration=c) < 1e-12


@pytest.mark.thorough
def test_tweedie_densities_in_fifty_digits() -> None:
    """Powers from 1.001, where the density has a peak for each number of terms, to 1.999."""
    rng = np.random.default_rng(7)
    y = np.where(rng.random(POINTS) < 0.2, 0.0, 10 ** rng.uniform(-3, 6, POINTS))
    power = rng.choice([1.001, 1.05, 1.3, 1.5, 1.9, 1.999], POINTS)
    d = 10 ** rng.uniform(-1, 3, POINTS)
    s = np.log(np.maximum(y, 0.1)) + rng.normal(size=POINTS)
    known, kept = [], []
    with mp.workdps(50):
        for i in range(POINTS):
            level = _tweedie(*(mp.mpf(float(x[i])) for x in (y, s, d, power)))
            if level is not None:
                kept.append(i)
                known.append(level)
        assert len(kept) > 100
        fields = {"y": y[kept], "dispersion": d[kept], "power": power[kept]}
        assert _worst("tweedie.log_mean", s[kept], known, **fields) < 1e-12


def _tweedie(y: Real, s: Real, d: Real, p: Real) -> Real:
    """By the series of Dunn and Smyth; None where it takes too many terms."""
    m = mp.exp(s)
    if y == 0:
        return -(m ** (2 - p)) / (d * (2 - p))
    a = (2 - p) / (p - 1)
    z = a * mp.log(y) - (1 + a) * mp.log(d) - a * mp.log(p - 1) - mp.log(2 - p)
    peak = y ** (2 - p) / (d * (2 - p))
    width = mp.sqrt(peak / (1 + a))
    first, last = max(1, int(peak - 16 * width - 30)), int(peak + 18 * width + 60)
    if last - first > 2000:
        return None
    terms = [j * z - lg(1 + j) - lg(j * a) for j in range(first, last + 1)]
    top = max(terms)
    level = top + mp.log(sum(mp.exp(t - top) for t in terms)) - mp.log(y)
    return (y * m ** (1 - p) / (1 - p) - m ** (2 - p) / (2 - p)) / d + level


@pytest.mark.few(8)
@pytest.mark.parametrize("nu", [0.01, 0.3, 1.0, 2.0, 9.0])
@pytest.mark.parametrize("s", [-8.0, -1.0, 0.3, 1.6, 3.4])
def test_conway_maxwell_against_sums_in_forty_digits(s: float, nu: float) -> None:
    law = com_poisson.Law(*com_poisson.computed(np.array([s]), nu))
    with mp.workdps(40):
        mean, rate = mp.exp(s), mp.mpf(float(law.delta[0])) + nu * mp.mpf(s)
        top = int(mean * (1 + 60 / mp.mpf(max(nu, 0.5)))) + 120
        for _ in range(6):
            heights = [k * rate - nu * lg(k + 1) for k in range(top)]
            total = sum(mp.exp(h) for h in heights)
            shares = [mp.exp(h) / total for h in heights]
            first = sum(k * p for k, p in enumerate(shares))
            spread = sum((k - first) ** 2 * p for k, p in enumerate(shares))
            rate += (mean - first) / spread
        known = rate - nu * mp.mpf(s)
        assert abs(law.delta[0] - known) < 1e-12 * max(1, abs(known))
        assert abs(law.variance[0] / spread - 1) < 1e-12
        zero = -mean * law.delta[0] - nu * mean - law.log_total[0]  # log P(0)
        assert abs(zero + mp.log(total)) < 1e-12 * max(1, mp.log(total))


def test_conway_maxwell_at_an_exponent_of_1_is_poisson() -> None:
    rng = np.random.default_rng(2)
    y, s = rng.poisson(20.0, 50).astype(float), rng.normal(2.5, 1.0, 50)
    one = np.ones(50)
    site = SITES["com_poisson.log_mean"](y, one, one)  # type: ignore[call-arg]
    np.testing.assert_allclose(site.log_density(s), stats.poisson.logpmf(y, np.exp(s)), rtol=1e-12)


@pytest.mark.parametrize("nu", [0.05, 0.6, 3.0, 12.0])
def test_tables_of_conway_maxwell_agree_with_sums(nu: float) -> None:
    """The tables, and the limits at both ends where they take over."""
    large = np.log(1e14 * max(nu, 1.0 / nu))
    x = np.concatenate([np.linspace(-18.0, 12.0, 400), [com_poisson.SMALL - 1e-9, large - 1e-9]])
    by_tables = np.array(com_poisson.law(x, nu))
    direct = com_poisson.computed(x, nu)
    errors = com_poisson._errors(np.exp(x), com_poisson.Law(*direct))
    assert (np.abs(by_tables - direct) / errors).max() < 30.0
    for edge in (com_poisson.SMALL, large):
        inside, outside = (
            np.array(com_poisson.law(np.array([edge + side * 1e-9]), nu)) for side in (-1, 1)
        )
        np.testing.assert_allclose(
            inside[[0, 1, 2, 8, 9]], outside[[0, 1, 2, 8, 9]], rtol=1e-7, atol=1e-7
        )


@pytest.mark.parametrize("a", [0.01, 0.5, 1.0, 4.0])
def test_tables_of_the_compound_poisson_agree_with_sums(a: float) -> None:
    x = np.random.default_rng(3).uniform(-35.0, 25.0, 800)
    by_tables = tweedie.series(x, a)
    direct = [tweedie.series(x[i : i + 400], a) for i in (0, 400)]
    for k in range(3):
        known = np.concatenate([d[k] for d in direct])
        scale = 1.0 + np.abs(known) + (1.0 + a) * np.exp(0.5 * np.maximum(x, 0.0))
        assert (np.abs(by_tables[k] - known) / scale).max() < 1e-11


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("negbinomial1.log_mean", {"dispersion": 3.0, "exposure": 2.0}),
        ("generalized_poisson.log_mean", {"dispersion": 6.0, "exposure": 2.0}),
        ("com_poisson.log_mean", {"dispersion": 0.3, "exposure": 2.0}),
        ("com_poisson.log_mean", {"dispersion": 40.0, "exposure": 2.0}),
        ("betabinomial.logit", {"n": 300.0, "concentration": 0.4}),
        ("betabinomial.probit", {"n": 3000.0, "concentration": 900.0}),
    ],
)
@pytest.mark.parametrize("s", [-1.0, 0.6, 5.0])
def test_distribution_functions_are_sums(name: str, fields: dict[str, float], s: float) -> None:
    top = int(fields.get("n", 40_000.0))
    y = np.arange(top + 1.0)
    every = _many(name, y, fields)
    mass = np.exp(every.log_density(np.full(len(y), s)))
    assert mass.sum() == pytest.approx(1.0, abs=1e-11)
    some = np.unique(np.array([0, 1, 5, 17, 40, 130, top // 7, top // 2, top - 1, top]))
    found = _many(name, y[some], fields).cdf(np.full(len(some), s))
    np.testing.assert_allclose(found, np.cumsum(mass)[some], atol=1e-11)


def _many(name: str, y: Array, fields: dict[str, float]) -> Site:
    return SITES[name](y=y, **{k: np.full(len(y), v) for k, v in fields.items()})  # type: ignore[call-arg]


def test_sums_over_blocks_of_large_counts() -> None:
    """P(Y <= y) where masses are spread over a million counts."""
    y = np.array([9.9e5, 1.0e6, 1.002e6, 1.01e6])
    site = _many("negbinomial1.log_mean", y, {"dispersion": 9.0, "exposure": 1.0})
    s = np.full(4, np.log(1e6))
    np.testing.assert_allclose(cumulated(site, s), site.cdf(s), atol=1e-11)


@pytest.mark.parametrize("power", [1.02, 1.4, 1.8])
def test_tweedie_distribution_is_the_integral_of_the_density(power: float) -> None:
    """By the trapezoidal rule in log y: a mass at 0, and the rest."""
    u = np.linspace(-40.0, 7.0, 20_001)
    y, one = np.exp(u), np.ones(len(u))
    site = SITES["tweedie.log_mean"](y, 2.5 * one, power * one)  # type: ignore[call-arg]
    s = np.full(len(u), 1.3)
    density = np.exp(site.log_density(s)) * y
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(u)
    zero = SITES["tweedie.log_mean"](0.0 * one, 2.5 * one, power * one)  # type: ignore[call-arg]
    below, at_zero = zero.distribution(s)
    assert below[0] == 0.0
    known = at_zero[0] + np.append(0.0, np.cumsum(steps))
    assert known[-1] == pytest.approx(1.0, abs=2e-5)
    np.testing.assert_allclose(site.cdf(s), known, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "limit", "loose"),
    [
        ("negbinomial1.log_mean", {"dispersion": 1e-20}, 1e-6),
        ("generalized_poisson.log_mean", {"dispersion": 1.0}, 1e-12),
        ("com_poisson.log_mean", {"dispersion": 1.0 + 1e-9}, 1e-6),
    ],
)
def test_limits_are_poisson(name: str, limit: dict[str, float], loose: float) -> None:
    y = np.array([0.0, 1.0, 4.0, 40.0])
    site = _many(name, y, {**limit, "exposure": 1.0})
    for s in (-20.0, 0.3, 3.0, 8.0):
        wanted = y * s - np.exp(s) - special.gammaln(y + 1.0)
        np.testing.assert_allclose(site.log_density(np.full(4, s)), wanted, rtol=loose, atol=loose)
        answer = site.pointwise(np.full(4, s))  # type: ignore[attr-defined]
        np.testing.assert_allclose(answer.slope, y - np.exp(s), rtol=loose, atol=loose)
        np.testing.assert_allclose(answer.curvature, -np.exp(s), rtol=loose, atol=loose)


def test_a_large_concentration_is_binomial() -> None:
    y, n = np.array([0.0, 3.0, 20.0]), np.full(3, 20.0)
    for link in ("logit", "probit", "cloglog"):
        binomial = SITES[f"binomial.{link}"](y, n)  # type: ignore[call-arg]
        other = SITES[f"betabinomial.{link}"](y, n, np.full(3, 1e8))  # type: ignore[call-arg]
        for x in (-2.0, 0.4):
            a, b = (site.pointwise(np.full(3, x)) for site in (binomial, other))  # type: ignore[attr-defined]
            np.testing.assert_allclose(b.value, a.value, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(b.curvature, a.curvature, rtol=1e-4, atol=1e-4)


def test_a_large_dispersion_is_geometric() -> None:
    y = np.arange(8.0)
    site = _many("com_poisson.log_mean", y, {"dispersion": 1e7, "exposure": 1.0})
    wanted = stats.geom.logpmf(y + 1.0, 1.0 / (1.0 + np.exp(0.7)))
    np.testing.assert_allclose(site.log_density(np.full(8, 0.7)), wanted, rtol=1e-5)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_dirichlet_families_against_scipy(k: int) -> None:
    rng = np.random.default_rng(k)
    s, c = rng.normal(size=(20, k)), rng.gamma(2.0, 5.0, 20)
    alpha = c[:, None] * special.softmax(s, axis=1)
    y = np.stack([rng.dirichlet(a + 0.5) for a in alpha])
    found = DirichletSoftmax(y, c).log_density(s)
    known = [stats.dirichlet.logpdf(y[i] / y[i].sum(), alpha[i]) for i in range(20)]
    np.testing.assert_allclose(found, known, rtol=1e-11)
    n = rng.integers(1, 2000, 20)
    counts = np.stack([rng.multinomial(t, rng.dirichlet(a)) for t, a in zip(n, alpha, strict=True)])
    site = DirichletMultinomialSoftmax(counts.astype(float), n.astype(float), c)
    masses = [stats.dirichlet_multinomial.logpmf(counts[i], alpha[i], n[i]) for i in range(20)]
    np.testing.assert_allclose(site.log_density(s), np.ravel(masses), rtol=1e-10)


def test_two_classes_are_beta_binomial() -> None:
    y, n, c = np.array([3.0, 0.0, 9.0, 400.0]), np.array([7.0, 5.0, 9.0, 900.0]), np.full(4, 2.3)
    s = np.array([0.4, -2.0, 1.0, 0.1])
    pair = DirichletMultinomialSoftmax(np.stack([y, n - y], axis=1), n, c)
    one = SITES["betabinomial.logit"](y, n, c)  # type: ignore[call-arg]
    np.testing.assert_allclose(pair.log_density(s[:, None]), one.log_density(s), rtol=1e-12)
    a, b = pair.pointwise(s[:, None]), one.pointwise(s)  # type: ignore[attr-defined]
    np.testing.assert_allclose(a.slope[:, 0], b.slope, rtol=1e-10)
    np.testing.assert_allclose(a.curvature[:, 0, 0], b.curvature, rtol=1e-10)
    np.testing.assert_allclose(a.third[:, 0], b.third, rtol=1e-9)
    curves = (pair.parameter_curves(s[:, None]), one.parameter_curves(s))
    for x, z in zip(*(curve["concentration"] for curve in curves), strict=True):
        np.testing.assert_allclose(np.ravel(x), z, rtol=1e-8, atol=1e-12)


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("predictors", [2, 3])
def test_dirichlet_families_conform(predictors: int) -> None:
    rng = np.random.default_rng(1)
    check_site(DirichletSoftmax(rng.dirichlet(np.ones(3) * 2.0, 5), rng.uniform(1, 20, 5)), 0, 3)
    n = rng.integers(1, 7, 5)
    y = np.stack([rng.multinomial(k, [0.2, 0.3, 0.5]) for k in n]).astype(float)
    site = DirichletMultinomialSoftmax(y, n.astype(float), rng.uniform(0.5, 20, 5))
    check_site(site, 0, predictors)


def test_finite_far_out() -> None:
    for name in ("negbinomial1.log_mean", "generalized_poisson.log_mean", "com_poisson.log_mean"):
        for d in (1.0, 1.0 + 1e-8, 1e6):
            y = np.array([0.0, 1.0, 1e6])
            site = _many(name, y, {"dispersion": d, "exposure": 3.0})
            for s in (-1e4, -300.0, 300.0, 1e4):
                a = site.pointwise(np.full(3, s))  # type: ignore[attr-defined]
                for part in (a.value, a.slope, a.curvature, a.third):
                    assert np.isfinite(part).all(), (name, d, s)


REFUSED = [
    (
        "generalized_poisson.log_mean",
        {"dispersion": 0.8, "exposure": 1.0},
        "error[E303]: `generalized_poisson` takes a dispersion of at least 1, not 0.8\n"
        "  = note: below 1 its probabilities do not add up to 1\n"
        "  = help: write dispersion = 1 + d with hyper d : positive, or take com_poisson, which is "
        "underdispersed too",
    ),
    (
        "tweedie.log_mean",
        {"dispersion": 0.8, "power": 2.0},
        "error[E303]: `tweedie` takes a power between 1 and 2, not 2\n"
        "  = note: 1 is a Poisson number of equal terms, 2 is gamma, which has no zeros\n"
        "  = help: write power = 1 + p with hyper p : unit; at 2 take gamma",
    ),
]


@pytest.mark.parametrize(("name", "fields", "message"), REFUSED)
def test_what_is_refused_and_how(name: str, fields: dict[str, float], message: str) -> None:
    with pytest.raises(DataError) as caught:
        _many(name, np.ones(2), fields)
    assert [line.strip() for line in str(caught.value).splitlines()] == [
        line.strip() for line in message.splitlines()
    ]
