"""Fits in the tails: along each coordinate to both sides, the others kept near their best.

    x(t) = mode + t C_j / sd_j,   then x_o += P_oo^-1 g_o   from the gradient g where the march is

C = P^-1 is the covariance that the curvature at the mode has, so that the march begins along the
conditional means of a normal density and follows a ridge that bends. It ends where the density has
fallen by DROP, which 0.2 % of a normal marginal lie beyond, and an exponential tail of the slope
there would hold no more than BEYOND.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.integration.visited import Visited

FIRST = 2.4  # sds of the first fit of a march
DROP, SERIOUS = 5.0, 3.5  # nats below the mode: where marches may end, and what they end above
BEYOND, LOWEST = 1e-3, 9.0  # of the mass; nats below the mode where all marches end
SHORTEST, LONGEST = 1.3, 2.5  # factors of the distance between a fit and the next
STEPS = 9
SLOWEST = 0.1  # nats an sd: the slope of a tail
CORRECTION = 1.5  # sds that the others are moved by at most at a step
# The outermost fits along a log, in its units and of the way from the mode; what a slope may be
# off; a step for differences.
OUTER, HALF, CLOSE, NEAR = 0.5, 0.5, 0.1, 1e-4
HALVINGS = 2  # of a step to where there is no fit


@dataclass(frozen=True)
class March:
    """Along coordinate `j` to one `side`: the last place `x` (d,) that has a fit, `fall` nats below
    the mode, its distance `t` (sds of x_j), the `step` in x that is next, and how often it was
    halved. `ended`: whether the density has fallen off; `lost`: whether no fit was to be had."""

    j: int
    side: float
    x: Array
    step: Array
    t: float = 0.0
    fall: float = 0.0
    halved: int = 0
    ended: bool = False
    lost: bool = False

    @property
    def open(self) -> bool:
        return not (self.ended or self.lost)


@dataclass(frozen=True)
class Tails:
    """Coordinates along which the density has not fallen off where the march ended: `unbounded`
    for its steps were spent, `lost` for there was no fit farther out."""

    unbounded: tuple[int, ...]
    lost: tuple[int, ...]


def marched(visited: Visited) -> Tails:
    """Fit along every coordinate to both sides, all marches a step at a time."""
    frame = visited.frame
    covariance = frame.covariance
    sds = np.sqrt(np.diag(covariance))
    precision: Array = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    marches = [
        March(j, side, frame.mode, side * FIRST * covariance[:, j] / sds[j])
        for j in range(frame.size)
        for side in (-1.0, 1.0)
    ]
    for _ in range(STEPS):
        going = [k for k, m in enumerate(marches) if m.open]
        if not going:
            break
        places = [frame.u(marches[k].x + marches[k].step) for k in going]
        visited.at_u(np.array(places))
        for k, u in zip(going, places, strict=True):
            marches[k] = _following(marches[k], visited, u, sds, precision)
    serious = [m for m in marches if not m.ended and m.fall < SERIOUS]
    return Tails(
        tuple(sorted({m.j for m in serious if not m.lost})),
        tuple(sorted({m.j for m in serious if m.lost})),
    )


def slow_tails(visited: Visited) -> tuple[int, ...]:
    """Coordinates that are logs, along which the square of what they are logs of, times the
    density, still rises at the outermost fits: the variance is infinite, or lies where no fit
    is."""
    frame, coordinates = visited.frame, visited.objective.coordinates
    fits = [f for _, f in visited.fits]
    x = np.array([frame.x(u) for u in visited.u])
    out = []
    for j in np.flatnonzero(coordinates.logs == 1.0):
        reach = x[:, j].max() - frame.mode[j]
        outer = np.flatnonzero(x[:, j] > x[:, j].max() - min(OUTER, HALF * max(reach, 0.0)))
        if not len(outer):
            continue
        k = max(outer, key=lambda i: fits[i].density)  # where the others are near their best
        both = np.array([x[k], x[k]])
        both[1, j] += NEAR
        low, high = coordinates.natural(both, fits[k].theta)[:, j]
        grows = np.log(high / low) / NEAR if low > 0.0 else 0.0  # 1 for a log, 0 at an end
        if grows > 0.5 and fits[k].density_gradient[j] + 2.0 * grows > -CLOSE:
            out.append(int(j))
    return tuple(out)


def _following(march: March, visited: Visited, u: Array, sds: Array, precision: Array) -> March:
    """The march after the fit at u, or none, was made."""
    found = visited.known_at(u)
    if found is None:
        if march.halved == HALVINGS:
            return replace(march, lost=True)
        return replace(march, step=0.5 * march.step, halved=march.halved + 1)
    x = march.x + march.step
    fall = visited.mode.density - found.density
    t = abs(x[march.j] - visited.frame.mode[march.j]) / sds[march.j]
    away = x - visited.frame.mode
    along = found.density_gradient @ away / abs(away[march.j])
    slope = max(-float(along) * float(sds[march.j]), SLOWEST)
    beyond = np.exp(-fall) / (slope * np.sqrt(2.0 * np.pi))
    if fall >= DROP and (beyond <= BEYOND or fall >= LOWEST):
        return replace(march, x=x, t=t, fall=fall, ended=True)
    if march.halved:  # farther out there is no fit
        return replace(march, x=x, t=t, fall=fall, lost=True)
    # The root of the fall is linear along a normal density.
    factor = np.clip(np.sqrt(1.2 * DROP / max(fall, 1e-3)), SHORTEST, LONGEST)
    step = (factor - 1.0) * t * sds[march.j] * away / abs(away[march.j])
    others = np.arange(len(x)) != march.j
    wanted = np.linalg.solve(precision[np.ix_(others, others)], found.density_gradient[others])
    step[others] += wanted / max(
        1.0, float(np.max(np.abs(wanted) / sds[others], initial=0.0)) / CORRECTION
    )
    return replace(march, x=x, t=t, fall=fall, step=step)
