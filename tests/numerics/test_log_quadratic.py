"""E[log(1 + x^2)] of a Gaussian in closed form, against mpmath and the rule it stands in for."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.sites.quadrature import Averaged, expected_by_quadrature
from lgmdsl.sites.scalar.student_t import (
    NEAR_NORMAL,
    StudentTMean,
    StudentTPotential,
    expected_log_quadratic,
)

PLACES = [
    (0.0, 1.0), (0.5, 0.3), (3.0, 0.1), (0.0, 1e-3), (10.0, 1.0), (100.0, 1.0), (0.0, 30.0),
    (5.0, 1e3), (1e5, 1e4), (0.0, 0.09), (0.0, 0.088), (7.0, 0.63), (-7.0, 0.62), (1e8, 1e3),
]  # fmt: skip


@pytest.mark.parametrize(("mean", "sd"), PLACES)
def test_it_is_the_integral(mean: float, sd: float) -> None:
    found = [float(a[0]) for a in expected_log_quadratic(np.array([mean]), np.array([sd]))]
    with mp.workdps(20):
        kinks = [(c - mean) / sd for c in (-1.0, 0.0, 1.0) if abs(c - mean) < 12.0 * sd]
        ends = sorted({-12.0, 0.0, 12.0, *kinks})
        functions = (
            lambda x: mp.log(1 + x * x),
            lambda x: 2 * x / (1 + x * x),
            lambda x: 2 * (1 - x * x) / (1 + x * x) ** 2,
        )
        for value, f in zip(found, functions, strict=True):
            known = mp.quad(lambda t, f=f: f(mean + sd * t) * mp.npdf(t), ends)
            size = max(abs(known), mp.mpf("1e-3") if f is functions[0] else 1e-12 / sd)
            assert abs(value - known) < 1e-11 * size


def test_far_out_and_narrow() -> None:
    """No overflow; the limits l, l' and l'' at the mean; nothing where there is nothing."""
    mean, none = np.array([0.0, 2.0, -1e3, 1e200]), np.full(4, 1e-13)
    value, slope, bend = expected_log_quadratic(mean, none)
    square = np.minimum(mean, 1e100) ** 2
    np.testing.assert_allclose(value[:3], np.log1p(square[:3]), atol=1e-14)
    assert value[3] == pytest.approx(2.0 * np.log(1e200))
    np.testing.assert_allclose(slope, 2.0 * mean / (1.0 + square) * (mean < 1e100), atol=1e-14)
    want = 2.0 * (1.0 - square) / (1.0 + square) / (1.0 + square)
    np.testing.assert_allclose(bend, want, atol=1e-12)
    with np.errstate(invalid="ignore"):
        assert np.isnan(expected_log_quadratic(np.array([np.nan]), np.ones(1))).all()


@pytest.mark.parametrize("df", [2e-6, 0.5, 4.0, 30.0, NEAR_NORMAL])
def test_sites_answer_as_by_the_rule(df: float) -> None:
    rng = np.random.default_rng(0)
    mean, variance = 3.0 * rng.normal(size=40), np.exp(4.0 * rng.normal(size=40))
    scale, y = np.exp(rng.normal(size=40)), rng.normal(size=40)
    for site in (
        StudentTMean(y, scale, np.full(40, df)),
        StudentTPotential(scale, np.full(40, df)),
    ):
        assert isinstance(site, Averaged) and site.averaged(mean, variance) is not None
        closed = expected_by_quadrature(site, mean, variance)
        rule = expected_by_quadrature(site, mean, variance, second=True)
        for name in ("value", "d_mean", "d_variance"):
            size = 1.0 + np.abs(getattr(rule, name))
            gap = np.abs(getattr(closed, name) - getattr(rule, name)) / size
            assert gap.max() < 1e-9, name


def test_of_many_degrees_of_freedom_the_rule_has_more_digits() -> None:
    site = StudentTPotential(np.ones(2), np.array([3.0, 2.0 * NEAR_NORMAL]))
    assert site.averaged(np.zeros(2), np.ones(2)) is None
    answer = expected_by_quadrature(site, np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(answer.value, site.log_density(np.zeros(2)), rtol=1e-12)
