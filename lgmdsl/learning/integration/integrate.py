"""Integrating over hyperparameters: fits at design points, their weights, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.standardised import (
    Standardised,
    gaussian_log_integral,
    standardised,
)
from lgmdsl.learning.integration import designs
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior, hyper_posterior, matched
from lgmdsl.learning.integration.landscape import Landscape
from lgmdsl.learning.integration.other_modes import APART, OtherMode, near_lattice, other_mode
from lgmdsl.learning.integration.refine import DOUBT, SERIOUS, marched, refined, slow_tails
from lgmdsl.learning.integration.visited import Fitted, Known, Visited
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import Maximiser

# Points whose weight is below this share of the largest are left out of the mixture.
NEGLIGIBLE = 1e-4
# Up to so many hyperparameters are integrated where nothing else is said; more than MOST never.
FEW, MOST = 6, 8
LATTICE = 2  # up to so many are integrated on a lattice where no design is named
# Secant steps for the length of a half-axis, its limits in sds, and the log ratio that is close
# enough.
STRETCHINGS, LIMITS, CLOSE = 3, (0.2, 6.0), 0.15
# The share of the posterior that a mode has to have; by a normal approximation, which may be poor.
SHARE, AT_FIRST = 0.01, 1e-3
NARROW = 0.1  # sd of a coordinate below which the differences of a Hessian are taken again
# The share of the integral that the process may leave uncertain, by sds that are wide rather than
# narrow, and the share that may lie where no fit was to be had or did not converge.
ROUGH, MISSED = 0.4, 0.2


@dataclass(frozen=True, eq=False)
class Integrated:
    """`points`: the fits and their posterior weights, which sum to 1, the heaviest first;
    `log_evidence`: log p(y); `modes`: how many were integrated around; `lost`: design points where
    there was no fit; `unfinished`: points of weight whose fit did not converge; `uncertain`: the
    share of the integral that the fits leave open; `doubtful`: what is reported and more
    uncertain than is tolerated, and by how much, or ""; `unbounded`: coordinates along which
    the exploration ended before the density had fallen off; `slow`: those along which it falls off
    so slowly that their variance may be infinite; `holds`: whether all this leaves an
    integral that may be trusted; `other`: a mode that was not integrated around."""

    design: str
    points: tuple[tuple[Fitted, float], ...]
    posterior: HyperPosterior
    log_evidence: float
    modes: int
    lost: int
    unfinished: int
    uncertain: float
    doubtful: str
    unbounded: tuple[str, ...]
    slow: tuple[str, ...]
    holds: bool
    other: OtherMode | None

    @property
    def bounded(self) -> bool:
        """Whether the fits say how large the integral is."""
        return not self.unbounded and self.uncertain < 1.0


def default_design(size: int) -> str:
    """A lattice for few hyperparameters, the composite design for more."""
    return "grid" if size <= LATTICE else "ccd"


@dataclass(frozen=True, eq=False)
class Explored:
    """Fits around one mode: the design's places z with the log of their weights under a normal
    density; `open` coordinates, along which the density has not fallen off."""

    visited: Visited
    z: Array
    log_rule: Array
    open: frozenset[int]


def integrate(
    objective: Objective,
    mode: Evaluation,
    frame: Standardised,
    design: str,
    others: Sequence[Evaluation] = (),
    made: Known | None = None,
) -> Integrated:
    """Fit at the points of a design around the mode, and around each of the `others`: further local
    maxima of the density of the coordinates. Those with less than SHARE of the posterior do not
    count. `made`: what is known, and what is made, as it comes."""
    made = Known() if made is None else made
    first = explored(Visited(objective, mode, frame, made=made), design)
    further = _further(first, others, design)
    regions = [first, *(explored(v, design) for v in further)]
    while True:
        found = refined([r.visited for r in regions], explore=not any(r.open for r in regions))
        posterior = hyper_posterior(objective.coordinates, found.landscape)
        owner = found.landscape.owner(posterior.z)
        shares = np.array([posterior.weights[owner == k].sum() for k in range(len(regions))])
        small = [k for k in range(1, len(regions)) if shares[k] < SHARE]
        if not small:
            break
        regions = [r for k, r in enumerate(regions) if k not in small]
    points = _points(found.landscape, posterior, regions, design)
    open_ = sorted(frozenset[int]().union(*(r.open for r in regions)))
    lost = sum(f is None for r in regions for f in r.visited.known.values())
    unfinished = [w for f, w in points if not f.converged]
    missed = max(found.missing, sum(unfinished))
    return Integrated(
        design,
        points,
        posterior,
        posterior.log_integral + frame.log_volume,
        len(regions),
        lost if found.missing else 0,
        len(unfinished),
        found.open,
        found.doubtful if found.doubt > DOUBT else "",
        tuple(objective.coordinates.names[j] for j in open_),
        tuple(objective.coordinates.names[j] for j in slow_tails(first.visited)),
        not open_ and found.open <= ROUGH and missed <= MISSED,
        _elsewhere(regions, other_mode(first.visited, design)),
    )


def _elsewhere(regions: Sequence[Explored], other: OtherMode | None) -> OtherMode | None:
    """A mode that is none of those integrated around."""
    if other is None:
        return None
    x = regions[0].visited.objective.coordinates.pack(other.theta)
    near = any(np.linalg.norm(r.visited.frame.u(x)) < APART for r in regions)
    return None if near else other


def _further(first: Explored, others: Sequence[Evaluation], design: str) -> list[Visited]:
    """Where the other modes are, each with its own frame: those that matter, by a normal
    approximation with the half-axes, and that are not inside the first's lattice."""
    objective, out = first.visited.objective, list[Visited]()
    regions, heights = [first.visited], [_normal_integral(first.visited)]
    for at in others:
        held = design == "grid" and first.visited.objective.coordinates.size <= 2
        if held and near_lattice(first.visited, at.x).any():
            continue
        made = first.visited.made
        region = Visited(objective, at, frame_at(objective, at, made), made=made)
        region.stretch = stretches(region.frame.size, region)
        regions.append(region)
        heights.append(_normal_integral(region))
    top = max(heights)
    for region, height in zip(regions[1:], heights[1:], strict=True):
        if height > top + np.log(AT_FIRST):
            out.append(region)
    return out


def frame_at(objective: Objective, at: Evaluation, made: Known | None = None) -> Standardised:
    """Standardised coordinates at a mode that no search has a scale of. `made` keeps the
    Hessian."""
    made = Known() if made is None else made
    search, scaled = Maximiser(objective, jacobian=True), objective.coordinates.scaled
    known = made.hessians.get(at.x.tobytes())
    if known is not None:
        return standardised(at.x, known, scaled)
    hessian = search.hessian(at, np.ones(len(at.x)))
    frame = standardised(at.x, hessian, scaled)
    sds = np.sqrt(np.diag(frame.covariance))
    if hessian is not None and sds.min() < NARROW:
        hessian = search.hessian(at, sds)
        frame = standardised(at.x, hessian, scaled)
    if hessian is not None:
        made.hessians[at.x.tobytes()] = hessian
    return frame


def _normal_integral(region: Visited) -> float:
    """log of the integral of the split normal density around a mode."""
    volume = float(np.log(region.stretch.mean(axis=1)).sum()) + region.frame.log_volume
    return region.mode.density + volume + gaussian_log_integral(region.frame.size)


def explored(visited: Visited, design: str) -> Explored:
    """The half-axes, the fits of the design and those in the tails."""
    size, open_ = visited.frame.size, frozenset[int]()
    if len(visited.known) == 0:
        visited.stretch = stretches(size, visited)
    if design == "grid":
        z, unbounded = _lattice(size, visited)
        log_rule = np.zeros(len(z))
        if unbounded:
            axes = np.abs(visited.frame.axes).argmax(axis=0)
            open_ |= {int(axes[k]) for k in unbounded}
    elif design == "ccd":
        z = designs.composite(size)
        log_rule = np.log(designs.composite_weights(size, len(z)))
    else:
        z, rule = designs.gauss_hermite(size)
        log_rule = np.log(rule)
    visited.at(z)
    if design == "grid" and size == 1:
        ends = sorted(visited.fits, key=lambda pair: float(pair[0][0]))
        falls = [visited.mode.density - ends[k][1].density for k in (0, -1)]
        open_ |= {0} if min(falls) < SERIOUS else frozenset()
    else:
        tails = marched(visited)
        open_ |= {*tails.unbounded, *tails.lost}
    return Explored(visited, z, log_rule, open_)


def _points(
    landscape: Landscape, posterior: HyperPosterior, regions: Sequence[Explored], design: str
) -> tuple[tuple[Fitted, float], ...]:
    """The mixture: fits and weights that give the posterior's mass, means and second moments around
    each mode, as near as may be to a rule. That of a lattice or of Gauss-Hermite nodes around a
    single mode is the design's; else a fit stands for what is nearest to it."""
    owner, own = landscape.owner(posterior.z), landscape.places(posterior.z)
    points: list[tuple[Fitted, float]] = []
    for k, region in enumerate(regions):
        visited, mass = region.visited, posterior.weights[owner == k]
        nodes = own[k][owner == k]
        if design != "ccd" and len(regions) == 1:
            z = region.z
            density = np.array(visited.at(z))
            kept = np.isfinite(density)
            log_rule = region.log_rule + density + np.log(volumes(z, visited.stretch)).sum(axis=1)
            if design == "gauss-hermite":
                log_rule = log_rule + 0.5 * np.einsum("nd,nd->n", z, z)
            rule = np.exp(log_rule[kept] - log_rule[kept].max())
            places = visited.moved(z)[kept]
            fits = np.array([visited.known_at(u) for u in places], dtype=object)
        else:
            places, fits = landscape.places_of(k), np.array(landscape.fits[k], dtype=object)
            scale = visited.stretch.mean(axis=1)
            gap = ((nodes[:, None, :] - places) / scale) ** 2
            rule = np.bincount(gap.sum(axis=2).argmin(axis=1), mass, minlength=len(places))
            fits, places, rule = fits[rule > 0.0], places[rule > 0.0], rule[rule > 0.0]
        frame = visited.frame
        natural = posterior.coordinates.natural(
            frame.x(np.concatenate([nodes, places])), visited.mode.theta
        )
        both = natural[: len(nodes)], natural[len(nodes) :]
        total = float(mass.sum())
        weights = total * matched(nodes, mass / total, places, rule / rule.sum(), both)
        points += [(f, float(w)) for f, w in zip(fits, weights, strict=True)]
    least = NEGLIGIBLE * max(w for _, w in points)
    kept_points = sorted(((f, w) for f, w in points if w >= least), key=lambda p: -p[1])
    total = sum(w for _, w in kept_points)
    return tuple((f, w / total) for f, w in kept_points)


def stretches(size: int, found: Visited) -> Array:
    """(d, 2) lengths of the half-axes, negative and positive: where the density has fallen by 1
    nat, over sqrt(2). Found by a few secant steps on the root of the fall, which is linear along a
    normal density."""
    top = found.at_u(np.zeros((1, size)))[0]
    lengths = np.ones((size, 2))
    sought = [(j, side) for j in range(size) for side in (0, 1)]
    for _ in range(STRETCHINGS):
        places = np.zeros((len(sought), size))
        for row, (j, side) in zip(places, sought, strict=True):
            row[j] = (-1.0, 1.0)[side] * np.sqrt(2.0) * lengths[j, side]
        rest = []
        for (j, side), value in zip(sought, found.at_u(places), strict=True):
            fall = top - value
            factor = 1.0 / np.sqrt(max(fall, 0.04)) if np.isfinite(fall) else 0.5
            lengths[j, side] = np.clip(lengths[j, side] * np.clip(factor, 0.4, 2.5), *LIMITS)
            if abs(np.log(factor)) > CLOSE:
                rest.append((j, side))
        sought = rest
        if not sought:
            break
    return lengths


def volumes(z: Array, stretch: Array) -> Array:
    """(n, d) how much of u each coordinate of z stands for: the stretch of its side, the mean of
    both at 0."""
    sides = np.where(z < 0.0, stretch[:, 0], stretch[:, 1])
    return np.where(z == 0.0, stretch.mean(axis=1), sides)


def _lattice(size: int, found: Visited) -> tuple[Array, list[int]]:
    """The explored cells' places z, and the axes along which the exploration was cut short."""
    cells: list[tuple[int, ...]] = []
    step = designs.step_of(size)

    def explore(wave: Sequence[tuple[int, ...]]) -> list[float]:
        """-inf for what the slopes of all neighbours say is so low that it may be left out."""
        least = found.mode.density - designs.drop_of(size) - designs.lower_of(size)
        wanted = [c for c in wave if not any(c) or _highest(c, cells, step, found) > least]
        cells.extend(wanted)
        values = found.at(step * np.array(wanted, dtype=np.float64)) if wanted else []
        by_cell = dict(zip(wanted, values, strict=True))
        return [by_cell.get(c, -np.inf) for c in wave]

    cut = designs.explored(size, explore)
    return step * np.array(cells, dtype=np.float64), cut


def _highest(
    cell: tuple[int, ...], made: Sequence[tuple[int, ...]], step: float, found: Visited
) -> float:
    """The highest of what the tangents at the fits of a cell's neighbours give for it: above the
    density where that is log-concave."""
    z, highest = step * np.array(cell, dtype=np.float64), -np.inf
    x = found.frame.x(found.moved(z[None])[0])
    for near in designs.neighbours(cell):
        if near in made:
            u = found.moved(step * np.array(near, dtype=np.float64)[None])[0]
            fit = found.known_at(u)
            if fit is not None:
                slope = fit.density_gradient @ (x - found.frame.x(u))
                highest = max(highest, fit.density + float(slope))
    return highest
