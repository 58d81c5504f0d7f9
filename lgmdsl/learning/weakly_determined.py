"""Whether the data and the priors say where a hyperparameter is: flat directions, edges, and
bounds of priors that the posterior piles up at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.learning.coordinates.hyper_marginals import prior_ends
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.learn import FAR
from lgmdsl.learning.learned import Learned

LOADED = 0.3  # of a flat direction's largest entry: coordinates that belong to it
# A posterior piles up at a bound where its density next to it is HIGHEST of its maximum at least
# and RISES times that farther inside: in the first tenth of the mass, counted from the bound, and
# in the last but one. An exponential rises by 6.6, the half of a normal by 2.9, a uniform by 1.
HIGHEST, RISES = 0.5, 2.0
TENTHS = np.linspace(0.0, 0.9, 10)


@dataclass(frozen=True)
class Finding:
    """`names`: coordinates; `kind`: `flat` (a direction along which the density hardly falls),
    `edge` (the density rises towards an edge of a type, as an sd to 0) or `bound` (towards one
    that a prior sets); `values`: the coordinates there, of a bound the bound."""

    kind: str
    names: tuple[str, ...]
    values: tuple[float, ...]


def findings(learned: Learned) -> tuple[Finding, ...]:
    """Flat directions of the density at the mode, and coordinates that ran to an edge from their
    start, but for one at which latents are 0 and nothing else happens."""
    frame, names = learned.frame, learned.coordinates.names
    x, start, held = learned.mode.x, learned.start, learned.maximum.edges
    out: list[Finding] = []
    bounds = _bounds(learned.coordinates)
    at_bound = {j: _nearer(bounds[j], float(x[j])) for j in held if j in bounds}
    at_bound = {j: end for j, end in at_bound.items() if np.isfinite(end)}
    out += [Finding("bound", (names[j],), (end,)) for j, end in at_bound.items()]
    edges = [j for j in held if j not in at_bound and j not in learned.vanished]
    if edges:
        values = tuple(float(x[j]) for j in edges)
        out.append(Finding("edge", tuple(names[j] for j in edges), values))
    if learned.integrated is not None:
        piled = piled_up(learned.coordinates, learned.integrated.posterior.quantile)
        out += piled
        held = (*held, *(names.index(f.names[0]) for f in piled))
    if frame is None or learned.maximum.hessian is None:
        return tuple(out)
    reported: set[int] = {*held, *learned.vanished}
    far = learned.coordinates.scaled & (np.abs(x - start) > FAR)  # a real has no edge
    for flat, axis in zip(frame.flat, frame.axes.T, strict=True):
        if not flat:
            continue
        size = np.abs(axis) / np.abs(axis).max()
        loaded = tuple(j for j in range(len(x)) if size[j] >= LOADED and j not in reported)
        reported.update(loaded)
        for kind, part in (
            ("edge", [j for j in loaded if far[j]]),
            ("flat", [j for j in loaded if not far[j]]),
        ):
            if part:
                values = tuple(float(x[j]) for j in part)
                out.append(Finding(kind, tuple(names[j] for j in part), values))
    return tuple(out)


def piled_up(
    coordinates: Coordinates, quantile: Callable[[Callable[[Theta], Array], Array], Array]
) -> list[Finding]:
    """Bounds of priors at which the posterior, whose quantiles (Q, ...) of a function of the
    hyperparameters at levels (Q,) are given, piles up."""
    out = []
    for block in coordinates.blocks:
        lower, upper = prior_ends(block)
        if np.isnan(lower).all() and np.isnan(upper).all():
            continue

        def of(theta: Theta, name: str = block.name) -> Array:
            return np.asarray(theta[name])

        slots = coordinates.names[coordinates.slices[block.name]]
        tenths = quantile(of, np.r_[TENTHS, 1.0]).reshape(len(TENTHS) + 1, -1)
        for name, low, high, ends in zip(slots, lower.flat, upper.flat, tenths.T, strict=True):
            # from the bound inwards
            out += [Finding("bound", (name,), (float(low),))] if _rises(ends - low) else []
            out += [Finding("bound", (name,), (float(high),))] if _rises(high - ends[::-1]) else []
    return out


def _rises(distances: Array) -> bool:
    """Whether a density rises to a bound, from the tenths (11,) of the distance to it; False where
    these are NaN."""
    widths = np.diff(np.r_[0.0, distances[1:]])
    density = 1.0 / np.maximum(widths, np.finfo(float).tiny)
    piled = density[0] >= HIGHEST * density.max() and density[0] >= RISES * density[-2]
    return bool(np.isfinite(distances).all() and piled)


def _bounds(coordinates: Coordinates) -> dict[int, tuple[float, float]]:
    """Lower and upper bounds that priors set, by coordinate; NaN where they set none."""
    out = {}
    for block in coordinates.blocks:
        entries = coordinates.slices[block.name]
        ends = prior_ends(block)
        if ends[0].size == entries.stop - entries.start:
            pairs = zip(ends[0].flat, ends[1].flat, strict=True)
            out.update({entries.start + k: (float(a), float(b)) for k, (a, b) in enumerate(pairs)})
    return out


def _nearer(ends: tuple[float, float], x: float) -> float:
    """The end that a coordinate x is at: x rises with the value."""
    return ends[1] if x > 0.0 else ends[0]
