"""Quantiles of mixtures of normals, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.posterior import normal_mixtures
from lgmdsl.posterior.normal_mixtures import distribution, mixed_quantile

LEVELS = np.array([1e-6, 0.001, 0.05, 0.5, 0.95, 0.9999])


def mixtures(apart: float, unequal: float, count: int = 300) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.full(6, 0.3))
    means = apart * rng.normal(size=(6, count))
    return weights, means, np.exp(unequal * rng.normal(size=(6, count)))


@pytest.mark.parametrize("apart", [0.0, 0.1, 3.0, 100.0])
@pytest.mark.parametrize("unequal", [0.0, 2.0])
def test_quantiles_are_where_the_distribution_says(apart: float, unequal: float) -> None:
    parts = mixtures(apart, unequal)
    found = mixed_quantile(*parts, LEVELS)
    level = np.broadcast_to(LEVELS[:, None], found.shape)
    np.testing.assert_allclose(distribution(*parts, found), level, rtol=1e-9)


def test_fixed_parts_are_steps() -> None:
    weights, means, sds = mixtures(1.0, 0.5)
    sds[1] = 0.0
    found = mixed_quantile(weights, means, sds, LEVELS)
    level = LEVELS[:, None]
    assert (distribution(weights, means, sds, found) >= level * (1.0 - 1e-9)).all()
    before = found - 1e-9 * (1.0 + np.abs(found))
    assert (distribution(weights, means, sds, before) <= level).all()


def test_an_entry_is_the_same_alone_and_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of an integration are alike: their quantiles take some three steps each, also where
    other entries take more, and where a median is 0."""
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(np.ones(9))
    means = rng.normal(size=1000) + 0.05 * rng.normal(size=(9, 1000))
    sds = 0.3 * np.exp(0.1 * rng.normal(size=(9, 1000)))
    means[:, 0], means[:, 1] = 0.0, 40.0 * np.arange(9)
    sizes = []

    def counted(w: Array, m: Array, s: Array, x: Array) -> Array:
        sizes.append(x.size)
        return distribution(w, m, s, x)

    monkeypatch.setattr(normal_mixtures, "distribution", counted)
    found = mixed_quantile(weights, means, sds, LEVELS[2:5])
    assert sum(sizes) <= 3.5 * found.size
    for k in (0, 1, 7):
        alone = mixed_quantile(weights, means[:, [k]], sds[:, [k]], LEVELS[2:5])
        np.testing.assert_allclose(alone[:, 0], found[:, k], rtol=1e-13)
