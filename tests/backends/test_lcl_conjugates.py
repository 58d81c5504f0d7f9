"""The scalar problems of decoupled inference: the box S of every family, and the closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Decoupled, Expected
from lgmdsl.contract.site import Property, Site
from lgmdsl.inference.routes import answering
from lgmdsl.numerics.optimisation.newton import PairTerms
from lgmdsl.sites.catalogue import SITES, site
from lgmdsl_backends.lcl.dual import conjugates, slope_limits
from tests.sites.examples import example
from tests.sites.reference_densities import DENSITIES, Real


def _laplace_mass(s: Real, y: Real, p: Mapping[str, Real]) -> Real:
    """Laplace noise: the density of an exact row, else the mass of its interval."""

    def survive(x: Real) -> Real:
        x /= p["scale"]
        return mp.exp(-x) / 2 if x > 0 else 1 - mp.exp(x) / 2

    low, high = y if not p["event"] else p["lower"], p["upper"]
    if p["event"] and mp.isnan(low) and mp.isnan(high):
        return DENSITIES["laplace.mean"](s, y, p)
    if not mp.isnan(low) and low > s:
        return mp.log(survive(low - s) - (0 if mp.isnan(high) else survive(high - s)))
    upto = 1 if mp.isnan(high) else survive(s - high)
    return mp.log(upto - (0 if mp.isnan(low) else survive(s - low)))


KNOWN = {**DENSITIES, "laplace.mean.censored": _laplace_mass}
AWAY = (400, 800)  # from 0, where slopes are at their limits or go on growing


def known_limit(name: str, row: Site, side: int) -> float:
    """The limit of l' as s goes to side * infinity, from the density in 40 digits."""
    y = None if row.spec.potential else mp.mpf(float(row.y[0]))  # type: ignore[attr-defined]
    p = {k: _exact(getattr(row, k)[0]) for k in row.spec.parameters}
    if p.get("lower") == p.get("upper"):  # an exact row
        p |= {k: mp.nan for k in ("lower", "upper") if k in p}
    h = mp.mpf("1e-12")
    with mp.workdps(40):
        near, far = (
            (KNOWN[name](x + h, y, p) - KNOWN[name](x - h, y, p)) / (2 * h)
            for x in (mp.mpf(side * away) for away in AWAY)
        )
    return -side * np.inf if abs(far) > 1.5 * abs(near) and abs(far) > 1.0 else float(far)


def _exact(value: Any) -> Any:
    return [mp.mpf(float(v)) for v in value] if np.ndim(value) else mp.mpf(float(value))


SCALAR = [
    s.spec.name
    for s in SITES.shipped()
    if not (s.spec.vector or Property.LIMITED in s.spec.properties)
]


@pytest.mark.parametrize("name", SCALAR)
def test_the_box_is_the_range_of_slopes(name: str) -> None:
    sites: Any = example(name)
    answer: Any = answering(type(sites), Expected)(sites)
    low, high = slope_limits(sites, answer)
    if Property.LOG_CONCAVE not in sites.spec.properties:
        assert np.isneginf(low).all() and np.isposinf(high).all()
        return
    for found, side in ((low, 1), (high, -1)):
        known = [known_limit(name, sites.take(np.array([k])), side) for k in range(len(sites))]
        np.testing.assert_allclose(found, known, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("centre", [-3e6, 4e5])
def test_the_box_lies_about_far_observations(centre: float) -> None:
    laplace, normal = (site(n) for n in ("laplace.mean", "normal.mean"))
    y = np.array([centre])
    far: Any = laplace(y, np.full(1, 2.0))  # type: ignore[call-arg]
    np.testing.assert_allclose(slope_limits(far, far), [[-0.5], [0.5]])
    free: Any = normal(y, np.full(1, 50.0))  # type: ignore[call-arg]
    assert np.isinf(slope_limits(free, free)).all()


@pytest.mark.parametrize(
    "name", ["poisson.log_rate", "gamma.log_mean", "normal.log_var", "laplace.mean", "laplace"]
)
def test_closed_forms_are_what_newton_finds(name: str) -> None:
    sites: Any = example(name)
    n, rng = len(sites), np.random.default_rng(1)
    f = sites.expected(rng.uniform(-1.5, 1.5, n), rng.uniform(0.3, 2.0, n))
    pull, penalty, centre = rng.uniform(0.2, 2.0, (3, n))
    zero = np.zeros(n)
    terms = PairTerms(f.d_mean, pull, penalty, zero, zero, zero, centre)

    closed, found = (
        conjugates([answer], (zero,), terms, zero, np.ones(n)) for answer in (sites, _Plain(sites))
    )
    assert isinstance(sites, Decoupled)
    assert found.settled.all()
    for part in ("h", "sigma", "value", "hh", "hs", "ss"):
        np.testing.assert_allclose(
            getattr(closed, part),
            getattr(found, part),
            rtol=1e-4 if len(part) == 2 else 1e-7,
            atol=1e-7,
            err_msg=part,
        )


class _Plain(Expected):
    """Expected alone of a site that answers more."""

    def __init__(self, sites: Expected) -> None:
        self.sites = sites

    def expected(self, mean: Array, variance: Array, second: bool = False) -> Any:
        return self.sites.expected(mean, variance, second)
