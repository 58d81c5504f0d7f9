"""Whether the density of the hyperparameters has another mode, which an integral around the first
one misses.

Looked for in three ways, each of a few fits:

- mirrored: coefficients and loadings whose signs may be turned together
- exchanged: two coordinates of one kind, such as the sds of two terms, with each other's values,
  as far as these are from where searches begin: so units of data do not matter
- climbing again from the highest of some places around the mode, and from where the density rises
  outwards: one that falls from its mode on every line, as quasi-concave ones do, rises inwards
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.canonical.queries.scales import sizes
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.inference.scout import scout
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.integration import designs
from lgmdsl.learning.integration.visited import Visited
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.ahead import Top, in_basin
from lgmdsl.learning.search.maximise import Maximiser

# A mode that is lower than this many nats has no share that matters.
MATTERS = 6.0
# Another mode is this many sds of the first away, and the density between them VALLEY nats below
# the lower one.
APART, VALLEY = 2.0, 0.3
ALIKE = 0.1  # nats: modes as high
ON_LATTICE = 1e-6  # of a step
# Far from the mode: by so many logs or logits, or so many sds; to all corners of so many.
FAR, FAR_SDS, CORNERS = 2.0, 3.5, (2, 3)
CLIMBS, STEPS = 2, 15  # searches that are made again, and their steps
# While searches look where they lead: the fits' relative tolerance, nats that are not climbed for,
# and steps of a fit that is given up.
ROUGH, ENOUGH, PATIENCE = 1e-5, 0.05, 20


@dataclass(frozen=True)
class OtherMode:
    """`names`: the coordinates that differ by an sd or more; `theta`: the hyperparameters there;
    `below`: nats below the first; `kind`: `mirrored`, `exchanged` or `apart`."""

    kind: str
    names: tuple[str, ...]
    theta: Theta
    below: float


class KeptPlace(NamedTuple):
    """What is kept of a fit: x, (d,), the log density of x with its gradient there, and the sites'
    parameters."""

    x: Array
    theta: Theta
    density: float
    gradient: Array
    weight: Rows
    shift: Rows

    @classmethod
    def of(cls, at: Evaluation) -> KeptPlace:
        q = at.posterior
        return cls(at.x, at.theta, at.density, at.density_gradient, q.weight, q.shift)


def other_mode(found: Visited, design: str) -> OtherMode | None:
    """The highest mode that is found besides the one integrated around; None where there is none,
    or where a lattice holds it too."""
    frame, mode, objective = found.frame, found.mode, found.objective
    places = [*_mirrored(objective, mode, frame), *_exchanged(objective, frame)]
    fits = objective.many([x for _, x in places], mode, KeptPlace.of, near=found.start())
    ends, starts = list[tuple[str, KeptPlace]](), list[KeptPlace]()
    for (kind, _), at in zip(places, fits, strict=True):
        if at is not None and abs(at.density - mode.density) < ALIKE:
            ends.append((kind, at))
        elif at is not None and at.density > mode.density - MATTERS:
            starts.append(at)
    ends += [("apart", at) for at in _climbed(found, starts, design == "grid")]
    modes = [
        (kind, at)
        for kind, at in ends
        if at.density > mode.density - MATTERS
        and not (design == "grid" and near_lattice(found, at.x).any())
        and _valley(objective, mode, at)
    ]
    if not modes:
        return None
    top = max(at.density for _, at in modes)
    kind, at = next(m for m in modes if m[1].density >= top - ALIKE)
    moved = np.abs(at.x - frame.mode) > np.sqrt(np.diag(frame.covariance))
    names = tuple(n for n, m in zip(objective.coordinates.names, moved, strict=True) if m)
    return OtherMode(kind, names, at.theta, mode.density - at.density)


def _mirrored(
    objective: Objective, mode: Evaluation, frame: Standardised
) -> list[tuple[str, Array]]:
    """The mode with the signs of real hypers turned: of each block, and of all loadings."""
    coordinates = objective.coordinates
    linear = linear_hypers(objective.planned.canonical, mode.theta, objective.pinned)
    blocks = [(b.name,) for b in coordinates.blocks if b.type == "real"]
    turned = [*blocks, linear.loadings] if len(linear.loadings) > 1 else blocks
    out = []
    for names in turned:
        x = frame.mode.copy()
        for name in names:
            x[coordinates.slices[name]] *= -1.0
        if distance(frame, x) > 2.0 * APART:
            out.append(("mirrored", x))
    return out


def _exchanged(objective: Objective, frame: Standardised) -> list[tuple[str, Array]]:
    """The mode with the values of two coordinates of the same type and use exchanged, relative to
    where searches begin. The sd of a term and the range of another have no unit in common."""
    coordinates, canonical = objective.coordinates, objective.planned.canonical
    theta = coordinates.unpack(frame.mode)
    every = sizes(canonical, theta, objective.pinned)
    used = {name: bool(size.latent) for size in every for name in size.powers}
    kinds: list[str] = []
    for block in coordinates.blocks:
        own = coordinates.slices[block.name]
        alike = block.type not in ("covariance", "simplex", "ordered")
        kind = f"{block.type} {used.get(block.name)}"
        kinds += [kind if alike else f"{block.name} {j}" for j in range(own.start, own.stop)]
    origin, out = objective.origin, []
    for i, j in itertools.combinations(range(frame.size), 2):
        x = frame.mode.copy()
        x[[i, j]] = origin[[i, j]] + (x - origin)[[j, i]]
        if kinds[i] == kinds[j] and distance(frame, x) > 2.0 * APART:
            out.append(("exchanged", x))
    return out


def _climbed(found: Visited, starts: list[KeptPlace], lattice: bool) -> list[KeptPlace]:
    """Other ends of searches from some starts, from where the density rises outwards and, of two
    hyperparameters or more, from the highest of the places around. Places and searches are by a
    scouting method, where there is one, and what it finds is searched again by the fits' own.
    `lattice`: nobody climbs where an explored lattice has the end."""
    frame, mode, objective = found.frame, found.mode, found.objective
    planned = scout(objective.planned, mode.problem)
    survey = objective if planned is None else objective.by(planned)
    top = mode if planned is None else survey.at(mode.x, mode.posterior)
    if top is None:
        survey, top = objective, mode
    sds = np.sqrt(np.diag(frame.covariance))
    reach = np.maximum(FAR * objective.coordinates.scaled, FAR_SDS * sds)
    ways = np.concatenate([np.eye(frame.size), -np.eye(frame.size)])
    if frame.size in CORNERS:
        ways = designs.factorial(frame.size)
    far = [frame.mode + reach * w for w in ways]
    around = survey.many(far, mode, KeptPlace.of, ROUGH, found.start())
    seen = sorted((at for at in around if at is not None), key=lambda s: -s.density)
    starts = [*starts, *(seen[:1] if frame.size > 1 else [])]
    seen += [
        KeptPlace(frame.x(np.array(u)), f.theta, f.density, f.density_gradient, f.weight, f.shift)
        for u, f in found.known.items()
        if f is not None and np.linalg.norm(u) > APART
    ]
    starts += [s for s in seen if s.gradient @ (frame.mode - s.x) < 0.0]
    if lattice:
        starts = [s for s in starts if not _surrounded(found, s.x)]
    search = Maximiser(objective, jacobian=True, limit=STEPS)

    def known(top: Evaluation, at: Evaluation) -> bool:
        there = Top(top.x, search.value(top), sds)
        return (lattice and _surrounded(found, at.x)) or in_basin(search, there, at)

    search = replace(search, known=partial(known, mode))
    beginning = replace(search, objective=survey, known=partial(known, top))
    rough = replace(beginning, rough=ROUGH, enough=ENOUGH, patience=PATIENCE)
    ends = [_end(rough, search, start, mode.posterior) for start in starts[:CLIMBS]]
    if survey is not objective:
        objective.counted(survey)
    return [at for at in ends if at is not None and distance(frame, at.x) > APART]


def _end(
    rough: Maximiser, search: Maximiser, start: KeptPlace, warm: GaussianPosterior
) -> KeptPlace | None:
    """Where searches from a start end, first a rough one, then `search` from its end; None where
    that is in a basin that is known, or none."""
    at = rough.objective.at(
        start.x, replace(warm, weight=start.weight, shift=start.shift), rough.rough
    )
    for climb in (rough, search):
        if at is None or (climb.known is not None and climb.known(at)):
            return None
        end = climb.run(at)
        if end.status is Status.interrupted:
            raise KeyboardInterrupt
        if end.status is not Status.converged:
            return None
        at = search.objective.at(end.at.x, end.at.posterior) if climb is rough else end.at
    return None if at is None else KeptPlace.of(at)


def distance(frame: Standardised, x: Array) -> float:
    """From the mode, in sds."""
    return float(np.linalg.norm(np.linalg.solve(frame.axes, x - frame.mode)))


def _valley(objective: Objective, mode: Evaluation, at: KeptPlace) -> bool:
    """Whether the density half-way is below both."""
    middle = objective.at(0.5 * (mode.x + at.x), mode.posterior)
    return middle is None or middle.density < min(mode.density, at.density) - VALLEY


def near_lattice(found: Visited, x: Array) -> BoolArray:
    """(n,) which fits of an explored lattice are near x, (d,)."""
    size = found.frame.size
    step = designs.step_of(size) * found.stretch.mean(axis=1)
    away = np.linalg.norm((found.u - found.frame.u(x)) / step, axis=1)
    return np.asarray(away < designs.near(size))


def _surrounded(found: Visited, x: Array) -> bool:
    """Whether x is near a cell of the lattice that was explored on all sides. A climb from there
    ends inside the lattice: what is higher and connected with the cell was explored as well."""
    cells = found.u / found.sides(found.u) / designs.step_of(found.frame.size)
    whole = np.abs(cells - np.rint(cells)).max(axis=1) < ON_LATTICE
    least = found.mode.density - designs.drop_of(found.frame.size)
    high = np.array([f.density >= least for _, f in found.fits])
    return bool((near_lattice(found, x) & whole & high).any())
