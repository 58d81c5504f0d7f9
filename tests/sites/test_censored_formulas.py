"""Formulas of censored families: the sites' own answers, and differences of these in parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.numerics import jets
from lgmdsl.sites.catalogue import family
from lgmdsl.sites.combined.entered import entered

# name: the parameter that has a predictor, its value, the others
FAMILIES: dict[str, tuple[str, float, dict[str, float]]] = {
    "normal.mean": ("sd", 0.7, {}),
    "lognormal.mean": ("sd", 0.7, {}),
    "student_t.mean": ("scale", 0.6, {"df": 4.0}),
    "gamma.log_mean": ("shape", 1.7, {}),
    "weibull.log_scale": ("shape", 1.4, {}),
}
NONE, STEP = np.nan, 1e-4
# observed; right-censored; from below, from above, between, narrow, very narrow, far out
EVENT = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
LOWER = np.array([NONE, NONE, 0.8, NONE, 0.5, 1.2, 0.7, 6.0])
UPPER = np.array([NONE, NONE, NONE, 1.5, 3.0, 1.3, 0.7 + 1e-7, 9.0])
Y = np.array([0.9, 1.1, 1.0, 1.0, 1.0, 1.25, 0.7, 7.0])
N = len(Y)


def sites(name: str, entry: Array | None = None) -> Any:
    parameter, value, others = FAMILIES[name]
    made: Any = family(f"{name}.censored")
    fields = {n: np.full(N, v) for n, v in {**others, parameter: value}.items()}
    fields |= {"event": EVENT, "lower": LOWER, "upper": UPPER}
    if entry is None:
        return made(y=Y, **fields)
    late: Any = entered(made)
    return late(y=Y, entry=entry, **fields)


def formula(site: Any, s: Array, parameter: str) -> jets.Jet:
    p = {n: jets.constant(getattr(site, n), 3) for n in site.spec.parameters}
    p[parameter] = jets.variable(getattr(site, parameter), 1, 3)
    out: jets.Jet = site.formula(jets.variable(s, 0, 3), p)
    return out


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_formulas_are_the_sites_own_answers(name: str, late: bool) -> None:
    entry = np.array([0.2, 0.3, NONE, NONE, 0.1, 0.4, 0.0, 2.0]) if late else None
    if late and name in ("normal.mean", "student_t.mean"):
        pytest.skip("entry is of positive numbers")
    site, parameter = sites(name, entry), FAMILIES[name][0]
    for level in (-0.7, 0.2, 1.1):
        s = np.full(N, level) + np.linspace(-0.1, 0.1, N)
        l, own = formula(site, s, parameter), site.pointwise(s)
        wanted = (own.value, own.slope, own.curvature, own.third)
        for k, (part, tol) in enumerate(zip(wanted, (1e-11, 1e-10, 1e-8, 1e-6), strict=True)):
            np.testing.assert_allclose(l.derivative(*(0,) * k), part, rtol=tol, atol=tol)
        slope = site.parameter_slopes(s)[parameter]
        np.testing.assert_allclose(l.derivative(1), slope, rtol=1e-6, atol=1e-7)
        changed = (getattr(site, parameter) + side * STEP for side in (1.0, -1.0))
        up, down = (
            formula(dataclasses.replace(site, **{parameter: value}), s, parameter)
            for value in changed
        )
        for key in ((0, 1), (1, 1), (0, 0, 1), (0, 1, 1), (1, 1, 1)):
            rest = list(key)
            rest.remove(1)
            difference = (up.derivative(*rest) - down.derivative(*rest)) / (2.0 * STEP)
            np.testing.assert_allclose(l.derivative(*key), difference, rtol=2e-5, atol=2e-5)
