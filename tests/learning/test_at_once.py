"""Scales that are bound for 0 are moved there at once, where slopes and values agree, and nowhere
else; and what that saves of a search next to a covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.learning.search.at_bounds import EARLY, LEFT, Edges
from tests.benchmarks.many_hypers import COVARIANCE, ratings

Slope = Callable[[Array], Array]


class Searched:
    """An objective of scales h = e^x that starts at h = 1: values f(h), slopes f'(h) h."""

    def __init__(self, f: Callable[[Array], float], slope: Slope, size: int = 1) -> None:
        self.f, self.slope, self.origin, self.fits = f, slope, np.zeros(size), 0
        every = np.ones(size, dtype=bool)
        self.coordinates = SimpleNamespace(logs=np.ones(size), alone=every, ending=every)

    def at(self, x: Array, posterior: object = None) -> Any:
        self.fits += 1
        h = np.exp(x)
        return SimpleNamespace(
            x=x, value=float(self.f(h)), gradient=self.slope(h) * h, posterior=None
        )

    def moved(self, before: float, now: float, vain: int = 0) -> tuple[Edges, Any]:
        size = len(self.origin)
        edges = replace(Edges.none(size), vain=vain)
        last, at = (self.at(np.log(np.full(size, h))) for h in (before, now))
        return edges.at_once(self, last, at)  # type: ignore[arg-type]


def test_a_scale_bound_for_0_goes_there() -> None:
    one = Searched(lambda h: -900.0 * float(h @ h), lambda h: -1800.0 * h)
    edges, found = one.moved(0.3, 0.2)
    assert edges.held.all() and edges.vain == 0
    assert -2.0 * LEFT < found.gradient[0] < 0.0


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        # a maximum at 0.002, far below; then one of a density that falls again before 0
        (lambda h: -900.0 * float((h - 0.002) @ (h - 0.002)), lambda h: -1800.0 * (h - 0.002)),
        (lambda h: float((-900.0 * h**2 - 1e-3 / h).sum()), lambda h: -1800.0 * h + 1e-3 / h**2),
    ],
)
def test_a_maximum_inside_is_not_passed(f: Any, slope: Slope) -> None:
    edges, found = Searched(f, slope).moved(0.3, 0.2)
    assert found is None and not edges.held.any() and edges.vain == 1


def test_it_is_not_tried_for_ever_nor_of_another_law() -> None:
    one = Searched(lambda h: -900.0 * float(h @ h), lambda h: -1800.0 * h)
    edges, found = one.moved(0.3, 0.2, vain=EARLY)
    assert found is None and one.fits == 2 and edges.vain == EARLY
    assert one.moved(0.2, 0.3)[1] is None  # on its way up
    assert one.moved(0.9, 0.8)[1] is None  # where it began
    for power in (0.5, 1.0, 4.0):
        other = Searched(
            lambda h, p=power: -900.0 * float((h**p).sum()),  # type: ignore[misc]
            lambda h, p=power: -900.0 * p * h ** (p - 1.0),  # type: ignore[misc]
        )
        assert other.moved(0.3, 0.2)[1] is None and other.fits == 2


def test_reals_stay() -> None:
    one = Searched(lambda h: -900.0 * float(h @ h), lambda h: -1800.0 * h)
    one.coordinates.logs[:] = 0.0
    assert one.moved(0.3, 0.2)[1] is None


def test_noise_next_to_a_covariance() -> None:
    """One rating of each cell does not tell noise from the covariance's diagonal: the search went
    along the log of its sd, in 45 fits of a step each, to the same maximum."""
    size = 12
    columns = {**ratings("gaussian", 50 * size, size), "unit": (2.0 * size + 3.0) * np.eye(size)}
    model = lgm.loads(COVARIANCE.format(df=size + 2))
    fit = lgm.fit(model, columns, hyper="em")
    assert fit.converged and fit.learning is not None
    assert fit.learning.fits <= 41  # 39
    assert fit.learning.steps[-1].objective > -6010.43976
    assert float(fit.theta["t"]) < 1e-3 and [w.code for w in fit.warnings] == ["W605"]
