"""P(Y < y | s) and P(Y <= y | s) of every observation family against scipy.stats."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.sites.catalogue import SITES
from lgmdsl.testing.site_checks import site_failures
from tests.sites.examples import example

OBSERVING = [s.spec.name for s in SITES.shipped() if not (s.spec.potential or s.spec.vector)]
POTENTIALS = [s.spec.name for s in SITES.shipped() if s.spec.potential]


class classes:
    """The law of a position among classes, from P(Y <= j) at each cut."""

    def __init__(self, upto: Array) -> None:
        one = np.ones((len(upto), 1))
        self.table = np.hstack([0.0 * one, upto, one])

    def cdf(self, y: Array) -> Array:
        return np.take_along_axis(self.table, y.astype(int)[:, None] + 1, axis=1)[:, 0]


def adjacent(log_odds: Array) -> Array:
    """P(Y <= j) from the log odds of each class to the one before it."""
    odds = np.exp(np.cumsum(np.hstack([np.zeros((len(log_odds), 1)), log_odds]), axis=1))
    return np.asarray(np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)[:, :-1])


def probit_odds(x: Array) -> Array:
    """log Phi(x) / Phi(-x)."""
    return np.asarray(stats.norm.logcdf(x) - stats.norm.logsf(x))


class prentice:
    """log y = s + scale log(shape^2 g) / shape, g ~ Gamma(shape^-2)."""

    def __init__(self, s: Array, scale: Array, shape: Array) -> None:
        self.s, self.scale, self.shape = s, scale, shape

    def cdf(self, y: Array) -> Array:
        k = self.shape**-2.0
        g = k * np.exp(self.shape * (np.log(y) - self.s) / self.scale)
        return np.where(self.shape > 0.0, special.gammainc(k, g), special.gammaincc(k, g))


def centred_skew(s: Array, sd: Array, skew: Array) -> Any:
    size = np.abs(skew) ** (2.0 / 3.0)
    delta = np.sign(skew) * np.sqrt(
        np.pi / 2.0 * size / (size + (2.0 - np.pi / 2.0) ** (2.0 / 3.0))
    )
    omega = sd / np.sqrt(1.0 - 2.0 * delta**2 / np.pi)
    alpha = delta / np.sqrt(1.0 - delta**2)
    return stats.skewnorm(alpha, s - omega * delta * np.sqrt(2.0 / np.pi), omega)


def asymmetric(s: Array, scale: Array, level: Array) -> Any:
    """SciPy's, with rates kappa and 1 / kappa: kappa^2 = level / (1 - level)."""
    kappa = np.sqrt(level / (1.0 - level))
    return stats.laplace_asymmetric(kappa, s, scale / np.sqrt(level * (1.0 - level)))


def negative_binomial(mean: Array, size: Array) -> Any:
    return stats.nbinom(size, size / (size + mean))


def beta_binomial(p: Any, share: Any) -> Any:
    return stats.betabinom(p.n, share * p.concentration, (1.0 - share) * p.concentration)


class counted:
    """The law of a count from its log masses, by a sum over all counts up to y."""

    def __init__(self, log_mass: Callable[[Array], Array]) -> None:
        counts = np.arange(400.0)
        self.upto = np.cumsum(np.stack([np.exp(log_mass(np.array(k))) for k in counts]), axis=0)

    def cdf(self, y: Array) -> Array:
        places = np.arange(len(y)), np.maximum(y, 0.0).astype(int)
        return np.where(y < 0.0, 0.0, self.upto[places[1], places[0]])


def consul(y: Any, mean: Array, dispersion: Array) -> Array:
    """Consul and Famoye (1992)."""
    theta, share = mean / np.sqrt(dispersion), 1.0 - 1.0 / np.sqrt(dispersion)
    rate = theta + share * y
    return np.asarray(np.log(theta) + (y - 1.0) * np.log(rate) - rate - special.gammaln(y + 1.0))


def conway(mean: Any, dispersion: Any) -> Callable[[Array], Array]:
    """Conway and Maxwell (1962), its rate by bisection of the mean."""
    counts, nu = np.arange(1500.0)[:, None], 1.0 / dispersion
    low, high = np.full(len(mean), -60.0), 9.0 * nu + 9.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        terms = counts * middle - nu * special.gammaln(counts + 1.0)
        under = (np.exp(terms - special.logsumexp(terms, axis=0)) * counts).sum(axis=0) < mean
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    total = special.logsumexp(counts * low - nu * special.gammaln(counts + 1.0), axis=0)
    return lambda y: np.asarray(y * low - nu * special.gammaln(y + 1.0) - total)


class compound:
    """A Poisson number of gamma terms."""

    def __init__(self, mean: Array, dispersion: Array, power: Array) -> None:
        self.rate = mean ** (2.0 - power) / (dispersion * (2.0 - power))
        self.shape = (2.0 - power) / (power - 1.0)
        self.scale = dispersion * (power - 1.0) * mean ** (power - 1.0)

    def cdf(self, y: Array) -> Array:
        terms = np.arange(1.0, 3000.0)[:, None]
        masses = stats.poisson.pmf(terms, self.rate)
        inner = stats.gamma.cdf(y, terms * self.shape, scale=self.scale)
        return np.where(y < 0.0, 0.0, np.exp(-self.rate) + (masses * inner).sum(axis=0))


KNOWN: dict[str, Callable[[Any, Array], Any]] = {
    "normal.mean": lambda p, s: stats.norm(s, p.sd),
    "student_t.mean": lambda p, s: stats.t(p.df, s, p.scale),
    "laplace.mean": lambda p, s: stats.laplace(s, p.scale),
    "normal.log_var": lambda p, s: stats.norm(p.mean, np.exp(0.5 * s)),
    "gamma.log_mean": lambda p, s: stats.gamma(p.shape, scale=np.exp(s) / p.shape),
    "lognormal.mean": lambda p, s: stats.lognorm(p.sd, scale=np.exp(s)),
    "exponential.log_rate": lambda p, s: stats.expon(scale=np.exp(-s)),
    "weibull.log_scale": lambda p, s: stats.weibull_min(p.shape, scale=np.exp(s)),
    "beta.logit_mean": lambda p, s: stats.beta(
        p.concentration * special.expit(s), p.concentration * special.expit(-s)
    ),
    "bernoulli.logit": lambda p, s: stats.bernoulli(special.expit(s)),
    "bernoulli.probit": lambda p, s: stats.bernoulli(special.ndtr(s)),
    "bernoulli.cloglog": lambda p, s: stats.bernoulli(-np.expm1(-np.exp(s))),
    "binomial.logit": lambda p, s: stats.binom(p.n, special.expit(s)),
    "binomial.probit": lambda p, s: stats.binom(p.n, special.ndtr(s)),
    "poisson.log_rate": lambda p, s: stats.poisson(p.exposure * np.exp(s)),
    "ordinal.logit": lambda p, s: classes(stats.logistic.cdf(p.cuts - s[:, None])),
    "ordinal.probit": lambda p, s: classes(stats.norm.cdf(p.cuts - s[:, None])),
    "ordinal.logit.continuation": lambda p, s: classes(
        1.0 - np.cumprod(stats.logistic.sf(p.cuts - s[:, None]), axis=1)
    ),
    "ordinal.probit.continuation": lambda p, s: classes(
        1.0 - np.cumprod(stats.norm.sf(p.cuts - s[:, None]), axis=1)
    ),
    "ordinal.logit.adjacent": lambda p, s: classes(adjacent(s[:, None] - p.cuts)),
    "ordinal.logit.stereotype": lambda p, s: classes(
        adjacent(np.diff(p.scores, axis=1) * (s[:, None] - p.cuts))
    ),
    "ordinal.probit.adjacent": lambda p, s: classes(adjacent(probit_odds(s[:, None] - p.cuts))),
    "ordinal.probit.stereotype": lambda p, s: classes(
        adjacent(probit_odds(np.diff(p.scores, axis=1) * (s[:, None] - p.cuts)))
    ),
    "inverse_gaussian.log_mean": lambda p, s: stats.invgauss(np.exp(s) / p.shape, scale=p.shape),
    "loglogistic.log_scale": lambda p, s: stats.fisk(p.shape, scale=np.exp(s)),
    "gompertz.log_rate": lambda p, s: stats.gompertz(np.exp(s) / p.shape, scale=1 / p.shape),
    "generalized_gamma.location": lambda p, s: prentice(s, p.scale, p.shape),
    "generalized_pareto.log_scale": lambda p, s: stats.genpareto(p.shape, scale=np.exp(s)),
    "gev.location": lambda p, s: stats.genextreme(-p.shape, s, p.scale),
    "skew_normal.mean": lambda p, s: centred_skew(s, p.sd, p.skew),
    "asymmetric_laplace.quantile": lambda p, s: asymmetric(s, p.scale, p.level),
    "logistic.mean": lambda p, s: stats.logistic(s, p.scale),
    "negbinomial.log_mean": lambda p, s: negative_binomial(p.exposure * np.exp(s), p.size),
    "negbinomial1.log_mean": lambda p, s: negative_binomial(
        p.exposure * np.exp(s), p.exposure * np.exp(s) / p.dispersion
    ),
    "binomial.cloglog": lambda p, s: stats.binom(p.n, -np.expm1(-np.exp(s))),
    "betabinomial.logit": lambda p, s: beta_binomial(p, special.expit(s)),
    "betabinomial.probit": lambda p, s: beta_binomial(p, special.ndtr(s)),
    "betabinomial.cloglog": lambda p, s: beta_binomial(p, -np.expm1(-np.exp(s))),
    "generalized_poisson.log_mean": lambda p, s: counted(
        lambda y: consul(y, p.exposure * np.exp(s), p.dispersion)
    ),
    "com_poisson.log_mean": lambda p, s: counted(conway(p.exposure * np.exp(s), p.dispersion)),
    "tweedie.log_mean": lambda p, s: compound(np.exp(s), p.dispersion, p.power),
}


def plain(name: str) -> str:
    """A censored family has the distribution of the response before censoring."""
    return name.removesuffix(".censored")


def test_every_family_that_observes_is_compared() -> None:
    assert set(KNOWN) == {plain(name) for name in OBSERVING}


@pytest.mark.parametrize("name", OBSERVING)
def test_distribution_is_that_of_scipy(name: str) -> None:
    count = 40
    site: Any = example(name, count, seed=4)
    s = np.linspace(-2.5, 2.5, count)
    known = KNOWN[plain(name)](site, s)
    below, upto = site.distribution(s)
    assert upto.shape == below.shape == (count,)
    np.testing.assert_allclose(upto, known.cdf(site.y), rtol=1e-11, atol=1e-15)
    before = known.cdf(site.y - 1.0) if site.spec.discrete else known.cdf(site.y)
    if "nonnegative" in site.spec.observed:  # 0 has a mass of its own
        before = np.where(site.y == 0.0, 0.0, before)
    np.testing.assert_allclose(below, before, rtol=1e-11, atol=1e-15)
    assert np.array_equal(site.cdf(s), upto)
    assert site.censored.dtype == np.bool_
    if name.endswith(".censored"):  # `censored_example` knows which
        assert np.array_equal(site.censored, ~np.isin(np.arange(count) % 8, (0, 6)))
    else:
        assert np.array_equal(site.censored, getattr(site, "event", np.ones(count)) == 0.0)


@pytest.mark.parametrize("name", OBSERVING)
def test_distribution_at_predictors_that_are_far_off(name: str) -> None:
    """Within [0, 1] and without warnings, for every s of the contract; 0 and 1 in the limits."""
    site = example(name, 12, seed=1)
    for far in (-1e4, -300.0, 300.0, 1e4):
        below, upto = site.distribution(np.full(12, far))
        assert np.all((below >= 0.0) & (below <= upto) & (upto <= 1.0))


@pytest.mark.parametrize("name", POTENTIALS)
def test_potentials_have_none(name: str) -> None:
    site = example(name, 3)
    with pytest.raises(TypeError):
        site.distribution(np.zeros(3))
    with pytest.raises(TypeError):
        site.cdf(np.zeros(3))
    assert site.censored.shape == (3,)


@pytest.mark.parametrize("name", ["gamma.log_mean", "poisson.log_rate"])
def test_the_conformance_check_reads_it(name: str) -> None:
    right = example(name)

    def cdf(self: Site, s: Array) -> Array:
        return np.asarray(type(right).cdf(self, s) ** 1.01)

    wrong = type("Wrong", (type(right),), {"cdf": cdf})
    site = wrong(**{n: getattr(right, n) for n in ("y", *right.spec.parameters)})
    assert any("cdf()" in failure for failure in site_failures(site))


POSITIVE = [
    s.spec.name
    for s in SITES.shipped()
    if {"positive", "nonnegative"} & set(s.spec.observed) and not s.spec.vector
]


@pytest.mark.parametrize("name", sorted(set(POSITIVE) - {"tweedie.log_mean"}))
def test_nothing_lies_at_zero(name: str) -> None:
    """Brackets of quantiles end at 0."""
    sites, s = example(name, 6), np.linspace(-1.0, 1.0, 6)
    fields: dict[str, Any] = {"y": np.zeros(6)}
    with np.errstate(all="ignore"):
        assert (dataclasses.replace(sites, **fields).cdf(s) == 0.0).all()
