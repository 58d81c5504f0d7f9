"""Expectations of intervals under wide predictors, and moments of rows without variance."""

from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.sites import quadrature
from lgmdsl.sites.catalogue import family
from lgmdsl.sites.combined.interval import interval
from lgmdsl.sites.quadrature import (
    expected_by_quadrature,
    slopes_by_quadrature,
    tilted_by_quadrature,
)

NAMES = {
    "generalized_gamma.location": {"scale": 0.8, "shape": 0.5},
    "gompertz.log_rate": {"shape": 0.1},
    "loglogistic.log_scale": {"shape": 2.0},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sd", [0.3, 1.0, 2.0])
def test_wide_intervals_are_not_integrated_by_few_nodes(name: str, sd: float) -> None:
    """Nodes of one row lie on both sides of its interval, where the smaller tail is another."""
    low, high = np.array([0.1, 1.0, 3.0, 0.5]), np.array([5.0, 40.0, 300.0, 0.6])
    cls: Any = interval(family(name))

    def site(low: Array, high: Array) -> Any:
        given = {k: np.full(len(low), v) for k, v in NAMES[name].items()}
        ones = np.ones(len(low))
        return cls(y=ones, event=ones, lower=low, upper=high, **given)

    t = np.linspace(-9.0, 9.0, 4001)
    weight = np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()
    got = expected_by_quadrature(site(low, high), np.zeros(4), np.full(4, sd**2)).value
    for value, a, b in zip(got, low, high, strict=True):
        one = site(np.full(len(t), a), np.full(len(t), b)).log_density(sd * t)
        assert value == pytest.approx(weight @ one, rel=1e-8)


def test_rows_without_variance_cost_no_quadrature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of hypers alone: all rows were integrated, and the answer thrown away."""
    y, mean = np.array([0.5, 2.0, 1.0]), np.array([0.0, 0.3, 1.0])
    cls: Any = family("generalized_pareto.log_scale")
    site = cls(y=y, shape=np.full(3, 0.2))
    seen: list[int] = []
    whole: Any = vars(quadrature)["log_moments"]

    def counted(f: Any, low: Array, *rest: Any) -> Any:
        seen.append(len(low))
        return whole(f, low, *rest)

    monkeypatch.setattr(quadrature, "log_moments", counted)
    for variance in (np.zeros(3), np.array([0.0, 0.5, 0.0])):
        seen.clear()
        tilted = tilted_by_quadrature(site, mean, variance)
        slopes = slopes_by_quadrature(site, mean, variance)["shape"]
        assert set(seen) <= {1}
        np.testing.assert_allclose(tilted.log_mass[[0, 2]], site.log_density(mean)[[0, 2]])
        np.testing.assert_array_equal(tilted.mean[[0, 2]], mean[[0, 2]])
        np.testing.assert_allclose(slopes[[0, 2]], site.parameter_slopes(mean)["shape"][[0, 2]])
