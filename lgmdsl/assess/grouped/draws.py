"""Exact draws and evidences of models with groups, within a budget of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.grouped.border import (
    DRAWN,
    SCRAMBLINGS,
    SITE,
    GroupedPoint,
)
from lgmdsl.assess.grouped.groups import Groups, groups_of
from lgmdsl.assess.grouped.lattice import Lattice
from lgmdsl.assess.sampling.draws import MixturePoint, shared_out

# Draws of the border: of a point at least, of all points together at least and at most, and those
# that an evidence is made of.
FEWEST, LEAST, MOST, EVIDENCE = 32, 160, 2048, 32
# Of the budget, what draws of the latents may take: fewer are drawn where they are very many.
DRAWING, FEW = 0.3, 1000
GAIN = 4.0  # independent draws that a quasi-random one may count as


@dataclass(frozen=True, eq=False)
class GroupedDraws:
    """Equally weighted draws of p(z | y), (draws, n), point after point, `point` (draws,) that of
    each. `chains`: scramblings of the sequence that the border is drawn by. `ess`: as many
    independent draws as give the border's means, squares and 5 and 95 % points with the error that
    differences between scramblings show; `r_hat` the spread between over that within them, as of
    chains. `operations`: counted; `log_evidences`: log p(y | theta_k) of the points that were drawn
    from; `way`: what was done, in words."""

    z: Array
    point: IntArray
    chains: int
    ess: float
    r_hat: float
    operations: float
    log_evidences: tuple[float, ...]
    way: str


@dataclass(frozen=True)
class GroupedEvidence:
    """log p(y | theta), its standard error, and what it took."""

    log: float
    error: float
    operations: float


def evidence_price(point: MixturePoint, groups: Groups) -> float:
    """Operations of an evidence at one point, about. Raises NoGroups."""
    return GroupedPoint(point, groups).price(EVIDENCE if len(groups.border) else 1)


def grouped_evidence(
    point: MixturePoint, groups: Groups, seed: int, known: Lattice | None = None
) -> tuple[GroupedEvidence, Lattice]:
    """The evidence at a point, and the lattice that it took; `known`: one to try first. Raises
    NoGroups."""
    at = GroupedPoint(point, groups)
    at.fit(known)
    border = at.border(EVIDENCE, seed)
    evidence = GroupedEvidence(border.log_evidence, border.error, SITE * at.evaluations)
    return evidence, at.lattice


def grouped_draws(
    points: Iterable[MixturePoint],
    draws: int = 4000,
    seed: int = 0,
    budget: float = np.inf,
    weights: Sequence[float] | None = None,
) -> GroupedDraws | None:
    """Draws of sum_k weight_k p(z | y, theta_k), as `sampling.mixture_draws`; None where a model
    has no groups or `budget`, in operations, does not reach. Raises NoGroups where it has, and they
    cannot be integrated over. The same arguments give the same draws."""
    if weights is None:
        points = tuple(points)
        weights = [p.weight for p in points]
    counts = shared_out(weights, draws)
    drawn_points = int(np.count_nonzero(counts))
    whole = sum(w for w, n in zip(weights, counts, strict=True) if n)
    spent, lattice = 0.0, None
    pieces: list[tuple[int, Array]] = []
    logs, way, skip = list[float](), "", 0
    # One sequence for all points, whose borders are much alike in these units.
    inverse = squares = 0.0
    for number, point in enumerate(points):
        count = counts[number]
        if not count:
            continue
        groups = groups_of(point.linear)
        if groups is None:
            return None
        at = GroupedPoint(point, groups)
        least = max(LEAST, FEWEST * drawn_points) if at.split.rank else 1
        if not pieces and at.price(least) + at.tables(least) > budget:
            return None
        at.fit(lattice)
        lattice = at.lattice
        if not pieces:
            most = DRAWING * budget / (DRAWN * point.linear.size)
            rest = budget - SITE * at.evaluations * drawn_points
            rest -= DRAWN * min(draws, most) * point.linear.size
            affordable = min(rest / (at.tables(1) + SITE * at.each), float(MOST))
            if affordable < least or most < FEW:
                return None
            if most < draws:
                counts = shared_out(weights, int(most))
                count = counts[number]
        share = max(affordable * point.weight / whole, FEWEST)
        if drawn_points == 1:  # nets are most even
            share = 2.0 ** np.floor(np.log2(share))
        border = at.border(int(min(share, at.most())), seed, skip)
        skip += len(border.draws) // SCRAMBLINGS
        z = at.latents(border, count, np.random.default_rng([seed, number, 23]))
        spent += SITE * at.evaluations + at.tables(len(border.draws))
        spent += DRAWN * z.size
        worst = 0.0  # of a border without latents, nothing but the draws of the groups
        if at.split.rank:
            worst = max(border.scatter(), 1.0 / (GAIN * border.effective))
        inverse += point.weight**2 * max(worst, 1.0 / count)
        squares += point.weight * (1.0 + worst * border.parts)
        pieces.append((number, z))
        logs.append(border.log_evidence)
        way = way or _words(groups)
    if not pieces:
        return None
    return GroupedDraws(
        z=np.concatenate([z for _, z in pieces]),
        point=np.concatenate([np.full(len(z), number) for number, z in pieces]),
        chains=SCRAMBLINGS,
        ess=whole**2 / inverse,
        r_hat=float(np.sqrt(squares / whole)),
        operations=spent,
        log_evidences=tuple(logs),
        way=way,
    )


def _words(groups: Groups) -> str:
    """`quadrature of 294 groups given 4 shared latents`."""
    count, shared = groups.count, len(groups.border)
    of = f" of {count:,} groups" if count > 1 else ""
    given = f" given {shared} shared latent{'' if shared == 1 else 's'}" if shared else ""
    return f"quadrature{of}{given}"
