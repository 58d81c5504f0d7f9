"""What a third party's g promises, checked on a grid: t(s) = exp(g(s^2)), g decreasing and convex.

The grid is in units of the x at which g has fallen by 1 (or by half of all that it falls), so that
the unit in which s is measured does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array, IntArray

Function = Callable[[Array], Array]

DECADES = 120  # powers of ten of x, up and down, among which g has to fall
REACH = 12  # of them about that place, on the grid
PER_DECADE = 100  # its points
FARTHEST = 1e8  # x at which a site is still finite: |s| of 1e4, in the unit of s and in that of g
LEAST = 1e-60  # x in that unit below which derivatives are those there, to stay finite at a kink
OFF = 1.0123  # places the grid where no round number is
AGREEMENT = 1e-6  # of the integral of a derivative over a cell of the grid, relative
CORNER = 1e-3  # the same, of a cell in which g'' jumps: g' bends there
NOISE = 1e-13  # of g and dg, relative
MOST_CORNERS = 12  # places where g'' may jump
ROUNDING = 1e-9  # of dg and of its terms, relative
RISE = 1e-3  # of dg from 1e-12 to 1e-16, relative, that shows it has no limit at 0


class Even(NamedTuple):
    """g, g' and g'' as functions of x = s^2 >= 0, each elementwise on arrays."""

    g: Function
    dg: Function
    d2g: Function


@dataclass(frozen=True)
class Profile:
    """What the values of g show: `distance`, the s about which log t bends, `least` the smallest x
    at which derivatives are asked for, whether g' is infinite at 0 (`kinked`), whether g'' jumps
    somewhere (`cornered`), and whether log t is concave."""

    distance: float
    least: float
    kinked: bool
    cornered: bool
    concave: bool


def profile(name: str, even: Even) -> Profile:
    """Profile of a site's g. Raises TypeError, in one sentence, for a promise that is not kept."""
    with np.errstate(all="ignore"):
        unit = _unit(name, even)
        x = OFF * unit * np.logspace(-REACH, REACH, 2 * REACH * PER_DECADE + 1)
        far = np.array([LEAST * unit, FARTHEST * unit, FARTHEST])
        values = [_finite(name, part, getattr(even, part), np.r_[x, far]) for part in Even._fields]
        _elementwise(name, even, x)
        g, dg, d2g = (v[: len(x)] for v in values)
        cornered = _check(name, even, x, g, dg, d2g)
        low, lower = even.dg(unit * np.array([1e-12, 1e-16]))
        kinked = bool(lower < (1.0 + RISE) * low)
        # l'' = 2 g' + 4 x g''
        concave = bool(np.all(2.0 * d2g * x <= (1.0 + ROUNDING) * -dg))
        distance = math.sqrt(unit)
        if not kinked:
            near = np.array([1e-4 * unit])
            bend = float(even.d2g(near)[0])
            # Student's t bends at its singularity, where x = -g'(0) / g''(0)
            if bend > 0.0:
                distance = min(distance, math.sqrt(float(-even.dg(near)[0]) / bend))
    return Profile(distance, LEAST * unit, kinked, cornered, concave)


def _unit(name: str, even: Even) -> float:
    """The x at which g has fallen by 1, or by half of all that it falls."""
    x = np.logspace(-DECADES, DECADES, 8 * DECADES + 1)
    top = float(_values(name, "g", even.g, np.zeros(1))[0])
    if not math.isfinite(top):
        raise TypeError(f"site {name}: g(0) is {top:g}, and has to be finite")
    fall = top - _values(name, "g", even.g, x)
    known = np.isfinite(fall)
    most = float(np.max(fall[known], initial=0.0))
    if not most > ROUNDING * (1.0 + abs(top)):
        raise TypeError(f"site {name}: g does not decrease, so that the potential says nothing")
    return float(x[int(np.argmax(known & (fall >= min(1.0, 0.5 * most))))])


def _values(name: str, part: str, f: Function, x: Array) -> Array:
    """f at x, as it is for arrays of floats of x's shape."""
    given = x.copy()
    try:
        out = np.asarray(f(given))
    except Exception as error:
        raise TypeError(
            f"site {name}: {part} does not take an array of x = s^2 ({type(error).__name__}: "
            f"{error})"
        ) from error
    if out.shape != x.shape or out.dtype.kind not in "fiu":
        raise TypeError(
            f"site {name}: {part} of an array of shape {x.shape} is one of shape {out.shape} and "
            f"type {out.dtype}, wanted real numbers of the same shape"
        )
    if not np.array_equal(given, x):
        raise TypeError(f"site {name}: {part} changes the array that it is given")
    return out.astype(np.float64)


def _finite(name: str, part: str, f: Function, x: Array) -> Array:
    """f at x. Raises TypeError where it is not finite."""
    out = _values(name, part, f, x)
    bad = np.flatnonzero(~np.isfinite(out))
    if len(bad):
        at = float(x[bad[0]])
        raise TypeError(
            f"site {name}: {part} is {out[bad[0]]:g} at x = {at:.3g}, and has to be finite "
            f"wherever |s| = sqrt(x) is up to {math.sqrt(max(FARTHEST, float(x.max()))):.3g}"
        )
    return out


def _elementwise(name: str, even: Even, x: Array) -> None:
    """Raises TypeError for a function whose value at one x depends on the others."""
    some = x[::7]
    half = len(some) // 4 * 2
    for part, f in zip(Even._fields, even, strict=True):
        whole = _values(name, part, f, some)[:half]
        table = _values(name, part, f, some[:half][::-1].reshape(2, -1)).reshape(-1)[::-1]
        if not np.allclose(whole, table, rtol=1e-10, atol=0.0):
            raise TypeError(
                f"site {name}: {part} is not elementwise: its value at one x depends on the others"
            )


def _check(name: str, even: Even, x: Array, g: Array, dg: Array, d2g: Array) -> bool:
    """Whether g'' jumps somewhere. Raises TypeError where g is not decreasing or not convex, or dg
    or d2g is not a derivative."""
    k = int(np.argmax(dg))
    if dg[k] > 0.0:
        raise TypeError(f"site {name}: g is not decreasing: dg is {dg[k]:.6g} at x = {x[k]:.4g}")
    top = abs(float(even.g(np.zeros(1))[0]))
    noise = NOISE * (np.abs(g[1:]) + top)
    bends = _apart(x, g, even.dg, AGREEMENT, noise)
    if _many(bends) or len(_apart(x, g, even.dg, CORNER, noise)):
        raise TypeError(f"site {name}: " + _wrong("dg", "g", x, g, even.dg, bends))
    corners = _apart(x, dg, even.d2g, AGREEMENT, NOISE * np.abs(dg[:-1]))
    if _many(corners):
        raise TypeError(f"site {name}: " + _wrong("d2g", "dg", x, dg, even.d2g, corners))
    k = int(np.argmin(d2g * x - ROUNDING * dg))
    if d2g[k] * x[k] < ROUNDING * dg[k]:  # dg <= 0
        raise TypeError(f"site {name}: g is not convex: d2g is {d2g[k]:.6g} at x = {x[k]:.4g}")
    falls = np.flatnonzero(np.diff(dg) < ROUNDING * dg[:-1])
    if len(falls):
        k = int(falls[0])
        raise TypeError(
            f"site {name}: g is not convex: dg falls from {dg[k]:.12g} at x = {x[k]:.4g} to "
            f"{dg[k + 1]:.12g} at x = {x[k + 1]:.4g}"
        )
    return bool(len(corners))


def _apart(x: Array, f: Array, slope: Function, agreement: float, noise: Array) -> IntArray:
    """Cells of the grid x over which f changes by something else than the integral of `slope`."""
    change = np.diff(f)
    off = np.abs(change - _integrals(x, slope))
    return np.flatnonzero(~(off <= agreement * np.abs(change) + noise))


def _many(cells: IntArray) -> bool:
    """Whether there are more cells than those of a few places where the integrand is not smooth."""
    return len(cells) > MOST_CORNERS or bool(np.any(np.diff(cells) == 1))


def _integrals(x: Array, slope: Function) -> Array:
    """Integrals of `slope` over the cells of the grid, by four-point Gauss-Legendre in log x."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    half = 0.5 * np.diff(np.log(x))
    points = np.sqrt(x[:-1] * x[1:])[:, None] * np.exp(half[:, None] * nodes)
    return np.asarray(half * ((points * slope(points)) @ weights))


def _wrong(part: str, of: str, x: Array, f: Array, slope: Function, cells: IntArray) -> str:
    """Which function is no derivative of which, and where."""
    change, integral = np.diff(f), _integrals(x, slope)
    share = np.abs(change - integral)[cells] / (np.abs(change[cells]) + 1e-300)
    k = int(cells[int(np.argmax(share))])
    width = x[k + 1] - x[k]
    return (
        f"{part} is not the derivative of {of}: about x = {x[k]:.4g}, {part} is "
        f"{integral[k] / width:.9g} and differences of {of} give {change[k] / width:.9g}"
    )
