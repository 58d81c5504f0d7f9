"""Deviances of counts: compiled ones are those of arrays, also where there is nothing to count."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from lgmdsl.numerics import counts as module
from lgmdsl.numerics.counts import deviance


def test_many_are_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.poisson(3.0, 400), [0, 0, 1e15, 1e300, 0.5]]).astype(np.float64)
    mean = x * np.exp(rng.normal(0.0, 0.3, len(x))) + rng.gamma(1.0, 1.0, len(x))
    mean[400:402] = 1e-320, 1e10
    few = deviance(x, mean, x - mean)
    monkeypatch.setattr(module, "_COMPILED_FROM", 1)
    many = deviance(x, mean, x - mean)
    np.testing.assert_allclose(many, few, rtol=4e-16 * 8)
    grid = deviance(x[:, None], mean[:, None], (x - mean)[:, None] + np.zeros(2))
    np.testing.assert_array_equal(grid, np.stack([many, many], axis=1))


def test_it_is_the_deviance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COMPILED_FROM", 1)
    for x, gap in ((3.0, 0.1), (1e9, 1e-3), (7.0, 20.0), (1e-3, 1e-9)):
        mean = x + gap
        with mpmath.workdps(60):
            a, m = mpmath.mpf(x), mpmath.mpf(x) + mpmath.mpf(gap)
            wanted = float(a * mpmath.log(a / m) + m - a)
        found = deviance(np.array([x]), np.array([mean]), np.array([-gap]))[0]
        assert found == pytest.approx(wanted, rel=1e-13)
