"""Integrating over hyperparameters: fits at design points, their weights, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning import designs
from lgmdsl.learning.hyper_posterior import HyperPosterior, doubtful, hyper_posterior, matched
from lgmdsl.learning.objective import Evaluation, Objective
from lgmdsl.learning.other_modes import OtherMode, other_mode
from lgmdsl.learning.standardised import Standardised
from lgmdsl.learning.visited import Fitted, Visited

# Points whose weight is below this share of the largest are left out of the mixture.
NEGLIGIBLE = 1e-4
# Up to so many hyperparameters are integrated where nothing else is said; more than MOST never.
FEW, MOST = 6, 8
# Secant steps for the length of a half-axis, its limits in sds, and the log ratio that is close
# enough.
STRETCHINGS, LIMITS, CLOSE = 3, (0.2, 6.0), 0.15
ROUNDS = 6  # of fits where the surrogate of the density is in doubt


@dataclass(frozen=True, eq=False)
class Integrated:
    """`points`: the fits and their posterior weights, which sum to 1, the heaviest first;
    `log_evidence`: log p(y); `lost`: design points where there was no fit; `unfinished`: points of
    weight whose fit did not converge; `unbounded`: whether the exploration ended before the
    density had fallen off; `other`: a mode that was not integrated around."""

    design: str
    points: tuple[tuple[Fitted, float], ...]
    posterior: HyperPosterior
    log_evidence: float
    lost: int
    unfinished: int
    unbounded: bool
    other: OtherMode | None


def default_design(size: int) -> str:
    """A lattice for one or two hyperparameters, the composite design for more."""
    return "grid" if size <= 2 else "ccd"


def integrate(
    objective: Objective,
    mode: Evaluation,
    frame: Standardised,
    design: str,
    others: Sequence[Evaluation] = (),
) -> Integrated:
    """Fit at the points of a design around the mode."""
    found = Visited(objective, mode, frame)
    size = frame.size
    found.stretch = stretches(size, found)
    unbounded = False
    if design == "grid":
        z, unbounded = _lattice(size, found)
        log_rule = np.zeros(len(z))
    elif design == "ccd":
        z = designs.composite(size)
        log_rule = np.log(designs.composite_weights(size, len(z)))
    else:
        z, rule = designs.gauss_hermite(size)
        log_rule = np.log(rule)
    density = np.array(found.at(z))
    fitted = found.surrogate()
    for _ in range(ROUNDS):
        doubted = doubtful(fitted)
        if not len(doubted):
            break
        found.at_u(doubted)
        fitted = found.surrogate()
    posterior = hyper_posterior(objective.coordinates, frame, fitted)
    kept = np.isfinite(density)
    if design != "ccd":
        # The composite design's weights are those of a normal density; the others' take the
        # density itself, and the stretches' share of the volume.
        log_rule = log_rule + density + np.log(volumes(z, found.stretch)).sum(axis=1)
        if design == "gauss-hermite":
            log_rule = log_rule + 0.5 * np.einsum("nd,nd->n", z, z)
    rule = np.exp(log_rule[kept] - log_rule[kept].max())
    weights = matched(posterior, found.moved(z)[kept], rule / rule.sum())
    weights = np.where(weights < NEGLIGIBLE * weights.max(), 0.0, weights)
    weights /= weights.sum()
    fits = [found.fit(place) for place in z[kept]]
    order = np.argsort(-weights, kind="stable")
    points = tuple((fits[k], float(weights[k])) for k in order if weights[k] > 0.0)
    return Integrated(
        design, points, posterior, posterior.log_integral + frame.log_volume,
        int((~kept).sum()), sum(not p.converged for p, _ in points), unbounded,
        other_mode(found, design),
    )  # fmt: skip


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


def _lattice(size: int, found: Visited) -> tuple[Array, bool]:
    """The explored cells' places z, and whether the exploration was cut short."""
    cells: list[tuple[int, ...]] = []
    step = designs.STEP.get(size, 1.5)

    def explore(wave: Sequence[tuple[int, ...]]) -> list[float]:
        cells.extend(wave)
        return found.at(step * np.array(wave, dtype=np.float64))

    cut = designs.explored(size, explore)
    return step * np.array(cells, dtype=np.float64), cut
