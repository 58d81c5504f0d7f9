"""Averages of vector sites by points, against scalar quadrature and sums over a grid."""

from __future__ import annotations

import numpy as np

from lgmdsl.assess.averages import log_density, log_moments, vector_log_mass
from lgmdsl.sites.scalar.logistic import BinomialLogit
from lgmdsl.sites.vector.admixture import AdmixtureSoftmax
from lgmdsl.sites.vector.softmax import CategoricalSoftmax, MultinomialSoftmax


def test_counts_over_two_classes_are_binomial() -> None:
    """With a reference class; 400 trials too, where the density is far narrower than the prior."""
    n, y = np.array([1.0, 7.0, 400.0]), np.array([1.0, 2.0, 330.0])
    m, v = np.array([0.3, -2.0, 0.0]), np.array([0.5, 2.0, 4.0])
    two = MultinomialSoftmax(np.stack([y, n - y], axis=1), n)
    one = BinomialLogit(y, n)
    at = m[:, None], v[:, None, None]
    np.testing.assert_allclose(log_density(two, *at), log_density(one, m, v), rtol=1e-3)
    mean, spread = log_moments(two, *at)
    known, known_spread = log_moments(one, m, v)
    np.testing.assert_allclose(mean, known, rtol=2e-3)
    np.testing.assert_allclose(spread, known_spread, rtol=2e-2)


def test_masses_of_classes_are_their_probabilities() -> None:
    """The softmax's own way is by derivatives of E[log sum exp]."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3, 3))
    m, v = rng.normal(size=(3, 3)), root @ root.transpose(0, 2, 1)
    v[0] = np.outer([1.0, -1.0, 0.5], [1.0, -1.0, 0.5])  # singular
    site = CategoricalSoftmax(np.arange(3.0), np.ones((3, 3)))
    np.testing.assert_allclose(vector_log_mass(site, m, v), log_density(site, m, v), atol=2e-3)


def test_texts_of_two_topics() -> None:
    """Not log-concave: over the one contrast by a fine sum."""
    rng = np.random.default_rng(2)
    y = rng.multinomial(40, rng.dirichlet(np.ones(6)), size=3).astype(float)
    site = AdmixtureSoftmax(y, rng.dirichlet(np.full(6, 0.3), size=2))
    m, v = rng.normal(size=(3, 2)), np.tile(np.diag([2.0, 1.5]), (3, 1, 1))
    t = np.linspace(-8.0, 8.0, 4001)
    w = np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()
    for i in range(3):
        s = np.stack([m[i, 0] + np.sqrt(3.5) * t, np.full_like(t, m[i, 1])], axis=1)
        l = site.take(np.full(len(t), i)).log_density(s)
        known = np.log(w @ np.exp(l - l.max())) + l.max()
        found = log_density(site, m, v)[i]
        assert abs(found - known) < 0.02
