"""Bounds of cumulative logits and continuation ratios, through shifted logistic sites."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from lgmdsl.bounds.catalogue import bound
from lgmdsl.bounds.quadrature import ExpectedByQuadrature
from lgmdsl.contract.questions import Expected
from lgmdsl.sites.catalogue import site
from tests.sites.examples import example

NAMES = ["jaakkola", "bohning", "piecewise-quadratic-8", "piecewise-linear-10"]
FAMILIES = ["ordinal.logit", "ordinal.logit.continuation"]


def lifted(name: str, sites: Any) -> Expected:
    found = bound(name, Expected)
    assert not found.applies_to(type(sites))
    return cast(Expected, found.lift(sites))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_bounds_lie_below_by_their_gap_at_most(name: str, family: str) -> None:
    sites: Any = example(family, 40)
    rng = np.random.default_rng(0)
    mean, variance = 4.0 * rng.normal(size=40), 10.0 ** rng.uniform(-3.0, 2.0, 40)
    truth = ExpectedByQuadrature().lift(sites).expected(mean, variance).value
    found = lifted(name, sites).expected(mean, variance).value
    assert np.all(found <= truth + 1e-9)
    terms = np.abs(sites.side).sum(axis=1)
    assert np.all(truth - found <= terms * bound(name, Expected).spec.error + 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name: str, family: str) -> None:
    sites: Any = example(family, 60)
    rng = np.random.default_rng(1)
    m, v = 3.0 * rng.normal(size=60), 10.0 ** rng.uniform(-1.0, 1.5, 60)
    f = lifted(name, sites).expected
    a, h = f(m, v, second=True), 1e-5
    assert a.d_mean_variance is not None and a.d_variance2 is not None
    for known, high, low in (
        (a.d_mean, f(m + h, v).value, f(m - h, v).value),
        (a.d_variance, f(m, v + h).value, f(m, v - h).value),
        (a.curvature, f(m + h, v).d_mean, f(m - h, v).d_mean),
        (a.d_mean_variance, f(m + h, v).d_variance, f(m - h, v).d_variance),
        (a.d_variance2, f(m, v + h).d_variance, f(m, v - h).d_variance),
    ):
        np.testing.assert_allclose(known, (high - low) / (2.0 * h), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_two_classes_are_a_logistic_site(name: str) -> None:
    y = np.array([0.0, 1.0, 0.0, 1.0])
    m, v = np.array([-2.0, 0.3, 1.1, 4.0]), np.array([0.2, 3.0, 9.0, 1.0])
    one: Any = site("bernoulli.logit")
    known = lifted(name, one(y)).expected(m - 0.7, v)
    for family in FAMILIES:
        made: Any = site(family)
        found = lifted(name, made(y, np.full((4, 1), 0.7))).expected(m, v)
        for part in ("value", "d_mean", "d_variance"):
            np.testing.assert_allclose(getattr(found, part), getattr(known, part), rtol=1e-12)


def test_laws_that_are_not_logistic_take_none() -> None:
    for family in ("ordinal.probit", "ordinal.probit.continuation", "ordinal.logit.adjacent"):
        told = bound("jaakkola", Expected).applies_to(site(family))
        assert "not logistic" in told
