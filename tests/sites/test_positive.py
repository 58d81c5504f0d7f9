"""Densities of lifetimes, extremes and skewed noise against mpmath, near and far out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.sites.catalogue import site
from lgmdsl.sites.observed import make_sites

mp = pytest.importorskip("mpmath")
from tests.sites.reference_densities import DENSITIES  # noqa: E402

COUNT = 200
RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "inverse_gaussian.log_mean": {"shape": (0.05, 50.0)},
    "loglogistic.log_scale": {"shape": (0.2, 30.0)},
    "gompertz.log_rate": {"shape": (-2.0, 2.0)},
    "generalized_gamma.location": {"scale": (0.05, 5.0), "shape": (-3.0, 3.0)},
    "generalized_pareto.log_scale": {"shape": (-0.95, 3.0)},
    "gev.location": {"scale": (0.05, 5.0), "shape": (-0.95, 3.0)},
    "skew_normal.mean": {"sd": (0.05, 5.0), "skew": (-0.995, 0.995)},
    "asymmetric_laplace.quantile": {"scale": (0.05, 5.0), "level": (0.001, 0.999)},
    "logistic.mean": {"scale": (0.05, 5.0)},
}
TINY = (0.0, 1e-12, -1e-7, 1e-4, -3e-3, 0.02)  # of shapes and skews that go through 0


def points(name: str, seed: int = 0) -> tuple[Array, Array, dict[str, Array]]:
    """y, s and parameters: ordinary, far in either tail, and near the limits of a shape of 0."""
    rng = np.random.default_rng(seed)
    given = {k: rng.uniform(*r, COUNT) for k, r in RANGES[name].items()}
    for key in ("shape", "skew"):
        if key in given and RANGES[name][key][0] < 0.0:
            given[key][: 5 * len(TINY)] = np.tile(TINY, 5)
    if name == "gompertz.log_rate":
        given["event"] = (np.arange(COUNT) % 2).astype(float)
    positive = site(name).spec.observed[0] in ("positive", "nonnegative")
    spread = np.where(np.arange(COUNT) % 4 == 3, 8.0, 1.0)
    y = np.exp(spread * rng.standard_normal(COUNT)) if positive else spread * rng.normal(size=COUNT)
    s = spread * rng.standard_normal(COUNT)
    return y, s + (0.0 if positive else y * (np.arange(COUNT) % 2)), given


def exact(name: str, y: float, s: float, given: dict[str, Any]) -> Any:
    p = {k: mp.mpf(float(v)) for k, v in given.items()}
    return DENSITIES[name](mp.mpf(float(s)), mp.mpf(float(y)), p)


@pytest.mark.parametrize("name", RANGES)
def test_log_densities_are_exact_to_1e_12(name: str) -> None:
    y, s, given = points(name)
    got = make_sites(site(name), y, given).log_density(s)
    want = [exact(name, y[i], s[i], {k: v[i] for k, v in given.items()}) for i in range(COUNT)]
    inside = np.array([mp.isfinite(w) for w in want])
    np.testing.assert_array_equal(np.isneginf(got), ~inside)
    assert inside.sum() > COUNT // 2
    known = np.array([float(w) for w in want])
    capped = inside & (known < -1e100)  # exponentials are capped: low all the same
    assert (got[capped] < -1e90).all()
    plain = inside & ~capped
    np.testing.assert_allclose(got[plain], known[plain], rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", RANGES)
def test_derivatives_are_exact_to_1e_9(name: str) -> None:
    """In s to third order, in the parameters, and in both, against mpmath's differences."""
    y, s, given = points(name, seed=1)
    rows = np.arange(0, COUNT, 5)
    sites = make_sites(site(name), y, given)
    answer, curves = sites.pointwise(s), sites.parameter_curves(s)  # type: ignore[attr-defined]
    slopes = sites.parameter_slopes(s)
    mp.mp.dps = 130
    for i in map(int, rows):
        p = {k: v[i] for k, v in given.items()}
        if not np.isfinite(answer.value[i]) or answer.value[i] < -1e50:
            continue

        def in_s(x: Any, order: int = 0, p: Any = p, i: int = i) -> Any:
            values = {k: mp.mpf(float(v)) for k, v in p.items()}

            def f(a: Any) -> Any:
                return DENSITIES[name](a, mp.mpf(float(y[i])), values)

            return mp.diff(f, mp.mpf(x), order) if order else f(mp.mpf(x))

        for order, part in ((1, answer.slope), (2, answer.curvature), (3, answer.third)):
            if name.startswith("asymmetric"):
                break
            want = float(in_s(float(s[i]), order))
            assert part[i] == pytest.approx(want, rel=1e-9, abs=1e-9), (i, order, p)
        for key, slope in slopes.items():

            def both(a: Any, b: Any, key: str = key, p: Any = p, i: int = i) -> Any:
                values = {k: mp.mpf(float(v)) for k, v in p.items()} | {key: b}
                return DENSITIES[name](a, mp.mpf(float(y[i])), values)

            at, centre = mp.mpf(float(p[key])), mp.mpf(float(s[i]))
            h = mp.mpf("1e-14")
            if key == "skew" and abs(at) < 1e-9:
                continue  # the cube root: `test_the_slope_in_a_skew_of_zero`
            ahead, behind = both(centre, at + h), both(centre, at - h)
            if not (mp.isfinite(ahead) and mp.isfinite(behind)):
                continue
            want = float((ahead - behind) / (2 * h))
            assert slope[i] == pytest.approx(want, rel=1e-9, abs=1e-8), (i, key, p, s[i], y[i])
            for order in (1, 2):
                if name.startswith("asymmetric"):
                    break
                k = mp.mpf("1e-12")
                ends = [
                    (mp.diff(lambda a, b=b: both(a, b), centre, order)) for b in (at + k, at - k)
                ]
                want = float((ends[0] - ends[1]) / (2 * k))
                part = curves[key].slope if order == 1 else curves[key].curvature
                assert part[i] == pytest.approx(want, rel=1e-7, abs=1e-7), (i, key, order, p)
    mp.mp.dps = 40
