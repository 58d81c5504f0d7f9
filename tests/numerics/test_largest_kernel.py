"""The compiled rule for the largest of several Gaussians, against the plain one and erfcx."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lgmdsl.numerics.expectations.largest_kernel import COEFFICIENTS, log_largest, mills
from lgmdsl.sites.vector.multinomial_probit import COMPILED, CategoricalProbit


def test_mills_ratio() -> None:
    x = np.concatenate([np.linspace(0.0, 40.0, 401), np.geomspace(50.0, 1e8, 20)])
    known = np.sqrt(np.pi / 2.0) * special.erfcx(x / np.sqrt(2.0))
    found = np.array([mills(v, COEFFICIENTS) for v in x])
    np.testing.assert_allclose(found, known, rtol=3e-11)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("scale", [0.5, 3.0, 60.0])
def test_against_the_finer_rule(classes: int, scale: float) -> None:
    rng = np.random.default_rng(classes)
    n = 40
    s, y = scale * rng.normal(size=(n, classes)), rng.integers(0, classes, n)
    offered = rng.random((n, classes)) < 0.8
    offered[np.arange(n), y] = True
    site = CategoricalProbit(y.astype(np.float64), offered.astype(np.float64))
    known = site.pointwise(s)
    value, slope = log_largest(s[None], y, offered)
    np.testing.assert_allclose(value[0], known.value, rtol=3e-7, atol=3e-7)
    np.testing.assert_allclose(slope[0], known.slope, rtol=2e-6, atol=2e-6)


def test_what_cannot_be_chosen() -> None:
    offered = np.array([[True, False, True], [False, True, False], [True, True, True]])
    value, slope = log_largest(np.ones((1, 3, 3)), np.array([1, 1, 7]), offered)
    assert value[0].tolist() == [-np.inf, 0.0, -np.inf] and not slope[0].any()


def test_many_points_take_the_compiled_rule_and_few_the_plain_one() -> None:
    rng = np.random.default_rng(2)
    site = CategoricalProbit(np.array([0.0, 2.0]), np.ones((2, 3)))
    s = rng.normal(size=(COMPILED // 2, 2, 3))
    many, few = site.sloped(s), site.sloped(s[:5])
    for a, b in zip(many, few, strict=True):
        np.testing.assert_allclose(a[:5], b, rtol=1e-6, atol=1e-7)
