"""Whether the data and the priors say where a hyperparameter is: flat directions and edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.learning.learn import Learned

# A coordinate (log, logit) this far below its start, along which the density is flat, is on its way
# to an edge of its type.
FAR = 3.0
LOADED = 0.3  # of a flat direction's largest entry: coordinates that belong to it


@dataclass(frozen=True)
class Finding:
    """`names`: coordinates; `kind`: `flat` (a direction along which the density hardly falls) or
    `edge` (the density rises towards an edge of a type, as an sd to 0)."""

    kind: str
    names: tuple[str, ...]
    values: tuple[float, ...]


def findings(learned: Learned) -> tuple[Finding, ...]:
    """Flat directions of the density at the mode, and coordinates that ran to an edge from their
    start."""
    frame, names = learned.frame, learned.coordinates.names
    x, start, held = learned.mode.x, learned.start, learned.maximum.edges
    out: list[Finding] = []
    if held:
        values = tuple(float(x[j]) for j in held)
        out.append(Finding("edge", tuple(names[j] for j in held), values))
    if frame is None or learned.maximum.hessian is None:
        return tuple(out)
    told: set[int] = set(held)
    for flat, axis in zip(frame.flat, frame.axes.T, strict=True):
        if not flat:
            continue
        size = np.abs(axis) / np.abs(axis).max()
        loaded = tuple(j for j in range(len(x)) if size[j] >= LOADED and j not in told)
        told.update(loaded)
        for kind, part in (
            ("edge", [j for j in loaded if abs(x[j] - start[j]) > FAR]),
            ("flat", [j for j in loaded if abs(x[j] - start[j]) <= FAR]),
        ):
            if part:
                values = tuple(float(x[j]) for j in part)
                out.append(Finding(kind, tuple(names[j] for j in part), values))
    return tuple(out)
