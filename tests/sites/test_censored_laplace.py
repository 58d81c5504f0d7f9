"""Averages of censored Laplace sites against sums over panels of any width, and in any unit."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.sites.censored.laplace import LaplaceCensored

Y, SCALE = 0.3, 0.7
ROWS = (
    (0.0, np.nan, np.nan), (1.0, -0.2, 0.9), (1.0, 0.3, 0.3001), (1.0, np.nan, 0.4),
    (1.0, -50.0, 60.0), (1.0, np.nan, np.nan),
)  # fmt: skip
GAUSSIANS = ((0.3, 0.5), (2.0, 4.0), (-5.0, 1e-4), (0.3001, 1e-4), (30.0, 100.0), (0.0, 1e4))
CASES = [(*row, *g) for row in ROWS for g in GAUSSIANS]


def _sites(unit: float = 1.0) -> tuple[LaplaceCensored, Array, Array]:
    event, lower, upper, mean, variance = np.array(CASES).T
    n = len(CASES)
    site = LaplaceCensored(
        np.full(n, Y * unit), np.full(n, SCALE * unit), event, lower * unit, upper * unit
    )
    return site, mean * unit, variance * unit * unit


def _panels(i: int, power: float) -> tuple[Array, Array]:
    """Nodes and weights, with edges at every end and thick about each."""
    _, lower, upper, mean, variance = CASES[i]
    sd = np.sqrt(variance)
    tops = [mean, mean + power * variance / SCALE, mean - power * variance / SCALE]
    widths = np.concatenate(
        [-np.geomspace(1e-3, 200.0, 25)[::-1], [0], np.geomspace(1e-3, 200, 25)]
    )
    centres = [*tops, Y, *(x for x in (lower, upper) if np.isfinite(x))]
    edges = np.concatenate([x + widths * k for x in centres for k in (sd, SCALE)])
    edges = np.unique(np.clip(edges, min(tops) - 12.0 * sd, max(tops) + 12.0 * sd))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * nodes).ravel(), (half * weights).ravel()


def _shares(
    site: LaplaceCensored, i: int, power: float
) -> tuple[LaplaceCensored, Array, Array, float]:
    mean, variance = CASES[i][3:]
    s, weight = _panels(i, power)
    some = site.take(np.full(len(s), i))
    assert isinstance(some, LaplaceCensored)
    level = power * some.log_density(s) - 0.5 * (s - mean) ** 2 / variance
    share = weight * np.exp(level - level.max())
    log_mass = level.max() + np.log(share.sum()) - 0.5 * np.log(2.0 * np.pi * variance)
    return some, s, share / share.sum(), float(log_mass)


@pytest.mark.parametrize("i", range(len(CASES)))
def test_expectations(i: int) -> None:
    site, mean, variance = _sites()
    answer = site.expected(mean, variance, True)
    slopes = site.expected_slopes(mean, variance)["scale"]
    some, s, share, _ = _shares(site, i, 0.0)
    l, t = some.log_density(s), (s - mean[i]) / np.sqrt(variance[i])
    # Derivatives in mean and variance by Stein's identities, of l alone.
    v = variance[i]
    known = {
        "value": share @ l,
        "d_mean": share @ (l * t) / v**0.5,
        "d_variance": share @ (l * (t * t - 1.0)) / (2.0 * v),
        "d_mean_variance": share @ (l * (t**3 - 3.0 * t)) / (2.0 * v**1.5),
        "d_variance2": share @ (l * (t**4 - 6.0 * t * t + 3.0)) / (4.0 * v * v),
    }
    for k, (name, value) in enumerate(known.items()):
        rounding = 1e-13 * max(1.0, float(np.abs(l).max())) / v ** (0.5 * k)
        found = float(getattr(answer, name)[i])
        assert found == pytest.approx(float(value), rel=1e-9, abs=1e-10 + rounding), name
    by_scale = share @ some.parameter_slopes(s)["scale"]
    assert slopes[i] == pytest.approx(float(by_scale), rel=1e-9, abs=1e-9)


@pytest.mark.few(33)
@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("i", range(len(CASES)))
def test_tilted_moments(i: int, power: float) -> None:
    site, mean, variance = _sites()
    answer = site.tilted(mean, variance, power)
    slopes = site.tilted_slopes(mean, variance, power)["scale"]
    some, s, share, log_mass = _shares(site, i, power)
    centre = float(share @ s)
    assert answer.log_mass[i] == pytest.approx(log_mass, rel=1e-10, abs=1e-10)
    assert answer.mean[i] == pytest.approx(centre, rel=1e-10, abs=1e-10)
    assert answer.variance[i] == pytest.approx(float(share @ (s - centre) ** 2), rel=1e-9)
    by_scale = share @ some.parameter_slopes(s)["scale"]
    assert slopes[i] == pytest.approx(float(by_scale), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_any_unit(unit: float) -> None:
    one, two = _sites(), _sites(unit)
    e, f = one[0].expected(*one[1:], True), two[0].expected(*two[1:], True)
    p, q = one[0].tilted(*one[1:]), two[0].tilted(*two[1:])
    assert np.allclose(f.d_mean * unit, e.d_mean, rtol=1e-11, atol=1e-12)
    assert f.d_mean_variance is not None and e.d_mean_variance is not None
    assert np.allclose(f.d_mean_variance * unit**3, e.d_mean_variance, rtol=1e-8, atol=1e-9)
    assert np.allclose(q.mean / unit, p.mean, rtol=1e-11, atol=1e-12)
    assert np.allclose(q.variance / unit**2, p.variance, rtol=1e-10, atol=0.0)


def test_points_are_limits() -> None:
    site, mean, variance = _sites()
    away = np.abs(mean - Y) > 1e-3
    e, t = site.expected(mean, 0.0 * variance), site.tilted(mean, 0.0 * variance)
    assert np.allclose(e.value[away], site.log_density(mean)[away], rtol=1e-8)
    assert np.array_equal(t.mean, mean) and not t.variance.any()
