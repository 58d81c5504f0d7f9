"""Bounds of admixtures against quadrature over the one contrast of two topics: never above."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.contract.questions import Expected
from lgmdsl.sites.vector.admixture import AdmixtureSoftmax

LOWER = ("tilted", "log", "bohning", "product-of-sigmoids")
T, _GAUSS = np.polynomial.hermite_e.hermegauss(199)
W = _GAUSS / _GAUSS.sum()


def expectation(site: AdmixtureSoftmax, mean: Array, variance: Array) -> float:
    """E[l] of a document: l knows s_1 - s_2 alone."""
    sd = np.sqrt(variance[0, 0] + variance[1, 1] - 2.0 * variance[0, 1])
    s = np.stack([mean[0] - mean[1] + sd * T, np.zeros_like(T)], axis=1)
    return float(W @ site.take(np.zeros(len(T), dtype=np.int64)).log_density(s))


def evidence(site: AdmixtureSoftmax, mean: Array, variance: Array) -> float:
    """log p(y) under s ~ N(mean, variance), by the trapezoidal rule."""
    sd = np.sqrt(variance[0, 0] + variance[1, 1] - 2.0 * variance[0, 1])
    t = np.linspace(-9.0, 9.0, 4001)
    s = np.stack([mean[0] - mean[1] + sd * t, np.zeros_like(t)], axis=1)
    l = site.take(np.zeros(len(t), dtype=np.int64)).log_density(s)
    return float(special.logsumexp(l, b=stats.norm.pdf(t) * (t[1] - t[0])))


@st.composite
def documents(draw: st.DrawFn) -> tuple[AdmixtureSoftmax, Array, Array, Array, Array]:
    """A document of up to 60 words, two topics over up to six words; a prior, and a q."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    words, length = draw(st.integers(2, 6)), draw(st.integers(0, 60))
    beta = rng.dirichlet(np.full(words, draw(st.sampled_from([0.2, 1.0, 5.0]))), size=2)
    beta = 0.999 * beta + 0.001 / words
    share = special.expit(rng.normal(scale=3.0))
    p = share * beta[0] + (1.0 - share) * beta[1]
    site = AdmixtureSoftmax(rng.multinomial(length, p / p.sum())[None].astype(float), beta)

    def covariance(scale: float) -> Array:
        root = scale * rng.normal(size=(2, 2))
        return np.asarray(root @ root.T + 0.01 * np.eye(2))

    return (
        site,
        2.0 * rng.normal(size=2),
        covariance(draw(st.sampled_from([0.5, 1.5]))),
        2.0 * rng.normal(size=2),
        covariance(draw(st.sampled_from([0.1, 0.5, 1.5]))),
    )


def divergence(m: Array, v: Array, mean: Array, variance: Array) -> float:
    """KL(N(m, v) || N(mean, variance))."""
    inverse, away = np.linalg.inv(variance), m - mean
    logs = np.linalg.slogdet(variance)[1] - np.linalg.slogdet(v)[1]
    return 0.5 * float(np.trace(inverse @ v) + away @ inverse @ away - len(m) + logs)


@given(documents())
@settings(max_examples=40)
def test_no_bound_is_above(drawn: tuple[AdmixtureSoftmax, Array, Array, Array, Array]) -> None:
    """Neither above E[l] at any q, nor, less the divergence from the prior, above log p(y)."""
    site, prior, spread, m, v = drawn
    truth, whole = expectation(site, m, v), evidence(site, prior, spread)
    apart = divergence(m, v, prior, spread)
    assert truth - apart <= whole + 1e-5
    for name in LOWER:
        lifted = bound(name, Expected, AdmixtureSoftmax).lift(site)
        assert isinstance(lifted, Expected)
        found = float(lifted.expected(m[None], v[None]).value[0])
        assert found <= truth + 1e-6 * (1.0 + abs(truth)), name
        assert found - apart <= whole + 1e-6 * (1.0 + abs(whole)), name


@pytest.mark.parametrize("name", ["tilted", "log", "bohning"])
def test_they_are_exact_of_certain_predictors(name: str) -> None:
    rng = np.random.default_rng(5)
    y = rng.poisson(2.0, size=(4, 5)).astype(float)
    site, m = AdmixtureSoftmax(y, rng.dirichlet(np.ones(5), size=2)), rng.normal(size=(4, 2))
    lifted = bound(name, Expected, AdmixtureSoftmax).lift(site)
    assert isinstance(lifted, Expected)
    v = np.tile(1e-10 * np.eye(2), (4, 1, 1))
    found = lifted.expected(m, v).value
    np.testing.assert_allclose(found, site.log_density(m), atol=1e-6)
