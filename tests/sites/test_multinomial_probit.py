"""Multinomial probit: conformance, two classes, classes far behind, orthants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.bounds.catalogue import bound
from lgmdsl.contract.questions import Expected
from lgmdsl.numerics.expectations.log_sum_exp import contrasts_of
from lgmdsl.sites.vector.multinomial_probit import CategoricalProbit, largest, positive
from lgmdsl.testing.site_checks import check_site


@pytest.mark.thorough
def test_it_conforms() -> None:
    everything = np.ones((4, 2))
    check_site(CategoricalProbit(np.arange(4.0) % 2, everything), predictors=2)
    check_site(CategoricalProbit(np.array([2.0]), np.ones((1, 3))))


def test_two_classes_are_a_probit() -> None:
    s = np.array([[3.0, 0.0], [-20.0, 1.0], [0.0, 0.0], [-300.0, 300.0]])
    a = CategoricalProbit(np.zeros(4), np.ones((4, 2))).pointwise(s)
    np.testing.assert_allclose(
        a.value, special.log_ndtr((s[:, 0] - s[:, 1]) / np.sqrt(2)), rtol=1e-12
    )
    m, v = np.array([0.5, -1.0]), np.array([[1.0, 0.3], [0.3, 2.0]])
    found = lgm.sites.expected("categorical.probit", 0, m, v)
    known = lgm.sites.expected("bernoulli.probit", 1, 1.5 / np.sqrt(2), 2.4 / 2.0)
    assert found.value == pytest.approx(known.value, rel=1e-6)
    assert found.d_mean[0] == pytest.approx(known.d_mean / np.sqrt(2), rel=1e-6)
    assert found.d_variance[0, 0] == pytest.approx(known.d_variance / 2.0, rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0])
def test_probabilities_by_a_finer_rule(scale: float) -> None:
    s = scale * np.random.default_rng(0).normal(size=5)
    for y in (0, 3):
        lead = np.delete(s[y] - s, y)
        u = np.linspace(-12.0, max(0.0, -lead.min()) + 12.0, 200_001)
        h = special.log_ndtr(u[:, None] + lead).sum(axis=1) - 0.5 * u * u
        known = special.logsumexp(h) + np.log((u[1] - u[0]) / np.sqrt(2.0 * np.pi))
        found = CategoricalProbit(np.array([float(y)]), np.ones((1, 5)))
        assert found.log_density(s[None])[0] == pytest.approx(known, rel=1e-11)
        value, slope = found.sloped(s[None, None])
        assert value[0, 0] == pytest.approx(known, rel=1e-6)
        np.testing.assert_allclose(slope[0], found.pointwise(s[None]).slope, rtol=1e-5, atol=1e-7)


def test_one_class_is_certain() -> None:
    site = CategoricalProbit(np.array([1.0, 0.0]), np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    at = site.pointwise(np.random.default_rng(0).normal(size=(2, 3)))
    assert at.value.tolist() == [0.0, -np.inf] and not at.slope[0].any()
    np.testing.assert_allclose(
        site.predictive(np.zeros((2, 3)), np.tile(np.eye(3), (2, 1, 1))),
        [[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]],
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("k", "sd", "step"), [(2, 3.0, 0.02), (3, 0.4, 0.2), (3, 3.0, 0.14), (4, 0.8, 0.5)]
)
def test_expectations_up_to_four_classes(k: int, sd: float, step: float) -> None:
    """To 2e-6, against a finer lattice of the finer rule."""
    rng = np.random.default_rng(k)
    root, mean = sd * rng.normal(size=(k, k)) / np.sqrt(k), rng.normal(size=k)
    found = lgm.sites.expected("categorical.probit", 1, mean, root @ root.T)
    square, turn = np.linalg.eigh(contrasts_of(k).T @ root @ root.T @ contrasts_of(k))
    line = step * np.arange(-int(7.5 / step), int(7.5 / step) + 1)
    t = np.stack(np.meshgrid(*[line] * (k - 1), indexing="ij"), axis=-1).reshape(-1, k - 1)
    t = t[(t**2).sum(axis=1) < 7.5**2]
    w = np.exp(-0.5 * (t**2).sum(axis=1))
    s = mean + t @ (contrasts_of(k) @ turn * np.sqrt(np.maximum(square, 0.0))).T
    l = CategoricalProbit(np.ones(len(s)), np.ones((len(s), k))).log_density(s)
    assert found.value == pytest.approx(w @ l / w.sum(), rel=2e-6, abs=2e-6)


def test_expectations_of_many_classes_within_the_stated_error() -> None:
    """Four classes, against the average over many draws."""
    rng, k = np.random.default_rng(3), 4
    error = bound("quadrature", Expected, CategoricalProbit).spec.error
    mean, root = rng.normal(size=k), rng.normal(size=(k, k))
    site = CategoricalProbit(np.zeros(20_000), np.ones((20_000, k)))
    s = mean + rng.normal(size=(20_000, k)) @ root.T
    drawn = site.sloped(s[None])[0][0]
    found = lgm.sites.expected("categorical.probit", 0, mean, root @ root.T)
    noise = 4.0 * drawn.std() / np.sqrt(20_000)
    assert found.value == pytest.approx(drawn.mean(), abs=error * (1 + abs(found.value)) + noise)


@pytest.mark.parametrize(("size", "error"), [(1, 1e-12), (2, 1e-10), (3, 3e-6), (5, 3e-4)])
def test_orthants_beside_scipy(size: int, error: float) -> None:
    rng = np.random.default_rng(size)
    root, mean = 2.0 * rng.normal(size=(5, size, size)), 2.0 * rng.normal(size=(5, size))
    spread = root @ root.transpose(0, 2, 1) + 0.5 * (np.eye(size) + 1.0)
    cdf: Any = stats.multivariate_normal.cdf
    known = [
        cdf(m, np.zeros(size), v, abseps=max(1e-9, 0.1 * error))
        for m, v in zip(mean, spread, strict=True)
    ]
    np.testing.assert_allclose(positive(mean, spread), known, atol=error)


def test_orthants() -> None:
    """Equal correlations of 1/2: 1 / (D + 1); two dimensions: Sheppard's formula; sums to 1."""
    for d in (1, 2, 3, 5):
        half = 0.5 * (np.eye(d) + 1.0)
        assert positive(np.zeros((1, d)), half[None])[0] == pytest.approx(1 / (d + 1), abs=3e-4)
    r = -0.7
    found = positive(np.zeros((1, 2)), np.array([[[1.0, r], [r, 1.0]]]))[0]
    assert found == pytest.approx(0.25 + np.arcsin(r) / (2 * np.pi), abs=1e-4)
    rng = np.random.default_rng(1)
    root = rng.normal(size=(2, 4, 4))
    p = largest(
        rng.normal(size=(2, 4)),
        root @ root.transpose(0, 2, 1) + np.eye(4),
        np.array([[True] * 4, [True, False, True, True]]),
    )
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert p[1, 1] == 0.0
