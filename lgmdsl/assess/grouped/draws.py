"""Exact draws and evidences of models with groups, within a budget of operations."""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.assess.estimator import Drawing, Estimator, ExactDraws, MixturePoint, allotted
from lgmdsl.assess.grouped.border import (
    DRAWN,
    SCRAMBLINGS,
    SITE,
    GroupedPoint,
)
from lgmdsl.assess.grouped.groups import Groups, groups_of
from lgmdsl.assess.grouped.lattice import Lattice
from lgmdsl.assess.grouped.split import NoGroups
from lgmdsl.contract.site import log_concave

# Draws of the border: of a point at least, of all points together at least and at most, and those
# that an evidence is made of.
FEWEST, LEAST, MOST, EVIDENCE = 32, 160, 2048, 32
# Of the budget, what draws of the latents may take: fewer are drawn where they are very many.
DRAWING, FEW = 0.3, 1000
GAIN = 4.0  # independent draws that a quasi-random one may count as


class ByGroups(Estimator):
    """Quadrature of small groups given a border of few latents, where sites are log-concave: other
    modes are beyond a lattice. What it took of one point is tried first at the next."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.lattice: Lattice | None = None
        self.error = self.operations = 0.0  # of the last evidence
        self.affordable, self.skip = 0.0, 0

    def applies(self, point: MixturePoint) -> bool:
        return log_concave(point.sites)

    def cost(self, point: MixturePoint) -> float:
        try:
            groups = _groups(point)
            return GroupedPoint(point, groups).price(EVIDENCE if len(groups.border) else 1)
        except (NoGroups, np.linalg.LinAlgError):
            return math.inf

    @np.errstate(all="ignore")
    def log_evidence(self, point: MixturePoint) -> float:
        at = GroupedPoint(point, _groups(point))
        at.fit(self.lattice)
        border = at.border(EVIDENCE, self.seed)
        self.lattice, self.error = at.lattice, border.error
        self.operations = SITE * at.evaluations
        return border.log_evidence

    def at(self, point: MixturePoint, drawing: Drawing) -> ExactDraws | None:
        groups, budget, shares = _groups(point), drawing.budget, np.asarray(drawing.shares)
        at, number = GroupedPoint(point, groups), drawing.number
        first, points = drawing.first, int(np.count_nonzero(drawing.counts))
        # One sequence for all points, whose borders are much alike in these units.
        if first:
            self.lattice, self.skip = None, 0
        least = max(LEAST, FEWEST * points) if at.split.rank else 1
        if first and at.price(least) + at.tables(least) > budget:
            return None
        at.fit(self.lattice)
        self.lattice = at.lattice
        if first:
            draws = int(drawing.counts.sum())
            most = DRAWING * budget / (DRAWN * point.linear.size)
            rest = budget - SITE * at.evaluations * points
            rest -= DRAWN * min(draws, most) * point.linear.size
            self.affordable = min(rest / (at.tables(1) + SITE * at.each), float(MOST))
            if self.affordable < least or most < FEW:
                return None
            self.affordable /= float(shares[drawing.counts > 0].sum())
            if most < draws:
                drawing.counts = allotted(drawing.shares, int(most))
        share = max(self.affordable * point.share, FEWEST)
        if points == 1:  # nets are most even
            share = 2.0 ** np.floor(np.log2(share))
        border = at.border(int(min(share, at.most())), self.seed, self.skip)
        self.skip += len(border.draws) // SCRAMBLINGS
        z = at.latents(border, drawing.count, np.random.default_rng([self.seed, number, 23]))
        worst = 0.0  # of a border without latents, nothing but the draws of the groups
        if at.split.rank:
            worst = max(border.scatter(), 1.0 / (GAIN * border.effective))
        way = _words(groups)
        return ExactDraws(
            z=z,
            point=np.full(len(z), number),
            chains=SCRAMBLINGS,
            ess=1.0 / max(worst, 1.0 / len(z)),
            r_hat=math.sqrt(1.0 + worst * border.parts),
            operations=SITE * at.evaluations + at.tables(len(border.draws)) + DRAWN * z.size,
            basis=f"exact by {way}",
            made=way,
            log_evidence=border.log_evidence,
        )


def _groups(point: MixturePoint) -> Groups:
    groups = groups_of(point.linear)
    if groups is None:
        raise NoGroups("latents do not fall into small groups")
    return groups


def _words(groups: Groups) -> str:
    """`quadrature of 294 groups given 4 shared latents`."""
    count, shared = groups.count, len(groups.border)
    of = f" of {count:,} groups" if count > 1 else ""
    given = f" given {shared} shared latent{'' if shared == 1 else 's'}" if shared else ""
    return f"quadrature{of}{given}"
