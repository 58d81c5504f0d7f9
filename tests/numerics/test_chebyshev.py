"""Functions by tables: what is asked for again is at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.numerics.chebyshev import Panels
from lgmdsl.sites.combined.truncated import truncated
from lgmdsl.sites.counts.com_poisson import ComPoissonLogMean


def both(x: Array) -> tuple[Array, Array]:
    values = np.stack([np.exp(x), np.sin(3.0 * x)])
    return values, 1e-13 * (1.0 + np.abs(values))


def test_values_first_ones_and_those_asked_for_again() -> None:
    panels, x = Panels(both), np.linspace(-2.0, 3.0, 500)
    whole = panels(x)
    np.testing.assert_allclose(whole, both(x)[0], rtol=1e-11, atol=1e-11)
    assert panels(x.copy()) is not None and np.shares_memory(panels(x.copy()), whole)
    np.testing.assert_array_equal(panels(x, 1), whole[:1])
    other = x + 0.1
    few = panels(other, 1)
    np.testing.assert_allclose(few, both(other)[0][:1], rtol=1e-11)
    np.testing.assert_allclose(panels(other), both(other)[0], rtol=1e-11, atol=1e-11)
    x[0] += 0.25  # the caller's array is its own
    np.testing.assert_allclose(panels(x)[:, 0], both(x[:1])[0][:, 0], rtol=1e-11, atol=1e-11)


def test_a_truncated_law_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """P(0) and P(y) are of one law; a density takes two of its ten functions."""
    y = np.tile([1.0, 2.0, 5.0], 40)
    fields = {"y": y, "dispersion": np.full(120, 0.7), "exposure": np.ones(120)}
    site: Any = truncated(ComPoissonLogMean)(**fields)
    s = np.linspace(-1.0, 2.0, 120)
    site.log_density(s)
    asked: list[tuple[int, int | None]] = []
    plain = Panels._at

    def at(self: Panels, x: Array, first: int | None) -> Array:
        asked.append((len(x), first))
        return plain(self, x, first)

    monkeypatch.setattr(Panels, "_at", at)
    site.pointwise(s + 0.01)
    assert asked == [(120, 10)]
    asked.clear()
    site.log_density(s + 0.02)
    assert asked == [(120, 2)]
