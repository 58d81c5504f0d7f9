"""Standard errors of a few hyperparameters of very many, by a linear solve for each.

    cov(x_j, x_k) = e_j'(-H)^-1 e_k,   -H v = (g(x^ - h v) - g(x^ + h v)) / 2h

at a maximum x^ with gradients g of evidence + log prior, by conjugate gradients that are
preconditioned by the curvature M of EM's complete data, where EM has one: eigenvalues of M^-1 (-H)
are shares of the information that is not missing (Dempster, Laird and Rubin 1977), and as many
products do for a hundred hyperparameters as for a hundred thousand. A product is two fits; the
length of p in M, which says how long h may be, is known from the recursion.

Directions along which nothing is known (`unidentified`) are left out, as for few hyperparameters;
what moves along them, or along one whose curvature is not positive, has no standard error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.canonical.queries.loadings import linear_hypers, unbounded
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.inference.driver import Tolerances
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.coordinates.vector import Coordinates, coordinate_names
from lgmdsl.learning.em.em import ACCELERATIONS, EM
from lgmdsl.learning.objective.log_posterior import FINER, Evaluation, Objective
from lgmdsl.learning.search.maximise import FARTHEST, Maximum
from lgmdsl.learning.search.metric import Metric
from lgmdsl.learning.starts.factor_axes import loadings
from lgmdsl.learning.unidentified import NONE, unidentified

MAX_COORDINATES_SOLVED = 200  # coordinates that are solved for: each takes some tens of fits
LENGTH = 0.03  # of differences, in sds of the complete data
PRODUCTS = 300  # of one solve
# A solve ends where its last steps, LAST of them, have added less than this share of a variance:
# its estimates rise to the variance.
SHARE, LAST = 2e-4, 3
SAMPLED = 9  # loadings whose curvature stands for that of all
OPEN = 1e-5  # the share of a coordinate's unit vector along what is not identified


def coordinates_of(coordinates: Coordinates, asked: Sequence[str]) -> IntArray:
    """(k,) the coordinates of hypers by name, `s`, or of entries, `c[item 3]`, in order. All those
    of a covariance or of probabilities, whose entries each depend on several.

    Raises MethodError E104 for what is no free hyper or no entry of one, and for too many.
    """
    chosen: list[int] = []
    for one in asked:
        name, _, labels = one.strip().partition("[")
        block = next((b for b in coordinates.blocks if b.name == name.strip()), None)
        if block is None:
            raise MethodError(_unknown(one, [b.name for b in coordinates.blocks]))
        own = coordinates.slices[block.name]
        if not labels:
            chosen.extend(range(own.start, own.stop))
            continue
        known = [re.sub(r"\s", "", n) for n in coordinate_names(block, coordinates.space.labels)]
        entry = re.sub(r"\s", "", one)
        if block.type in ("covariance", "simplex") or entry not in known:
            names = coordinate_names(block, coordinates.space.labels)[:3]
            joint = block.type in ("covariance", "simplex")
            raise MethodError(_unknown(one, [block.name] if joint else names))
        chosen.append(own.start + known.index(entry))
    if len(set(chosen)) > MAX_COORDINATES_SOLVED:
        raise MethodError(_too_many(len(set(chosen))))
    return np.unique(np.array(chosen, dtype=np.int64))


@dataclass
class Differences:
    """-H at a maximum by differences of gradients. `units`: (d,) those of the coordinates."""

    objective: Objective
    at: Evaluation
    units: Array = field(init=False)

    def __post_init__(self) -> None:
        own = self.objective.tolerances
        self.objective = replace(
            self.objective, tolerances=Tolerances(FINER * own.evidence, FINER * own.mean)
        )
        self.units = self.objective.units(self.at.x)

    def times(self, v: Array, length: float | None = None) -> Array | None:
        """-H v, for v (d,) of `length` in sds of the complete data; None where a fit fails."""
        h = FARTHEST / max(float(np.abs(v / self.units).max()), 1e-300)
        if length is not None:
            h = min(h, LENGTH / max(length, 1e-300))
        ends = self.objective.many(
            [self.at.x - h * v, self.at.x + h * v], self.at, attrgetter("gradient")
        )
        if ends[0] is None or ends[1] is None:
            return None
        return np.asarray((ends[0] - ends[1]) / (2.0 * h))

    def along(self, v: Array) -> float:
        """v'Hv."""
        product = self.times(v)
        return np.nan if product is None else -float(v @ product)

    def typical(self, which: IntArray) -> float:
        """The median size of some of the second derivatives in coordinates `which`."""
        some = which[np.linspace(0, len(which) - 1, min(SAMPLED, len(which))).astype(np.int64)]
        sizes = []
        for j in some:
            v = np.zeros(len(self.at.x))
            v[j] = 1.0
            sizes.append(abs(self.along(v)))
        return float(np.median(sizes))


def chosen_errors(objective: Objective, maximum: Maximum, chosen: IntArray) -> Standardised | None:
    """The mode, and axes (d, k) in whose span the `chosen` coordinates have their joint covariance,
    the others 0; None where none of them has a standard error."""
    at, size = maximum.at, len(maximum.at.x)
    curvature = Differences(objective, at)
    unknown = unidentified(objective, at, curvature, maximum.edges)
    metric = _metric(objective, at, curvature.units)
    solved: dict[int, Array] = {}
    turning = _turning(objective, at)
    for j in chosen:
        slope = np.zeros(size)
        slope[j] = 1.0
        if turning[j] or np.linalg.norm(unknown[j]) > OPEN:
            continue
        solution = _solved(curvature, metric, slope, unknown)
        if solution is not None:
            solved[int(j)] = solution
    objective.counted(curvature.objective)
    while solved:
        kept = np.array(sorted(solved))
        block = np.array([solved[int(j)][kept] for j in kept])
        try:
            root = np.linalg.cholesky(0.5 * (block + block.T))
        except np.linalg.LinAlgError:  # of two that are all but one: the less certain is open
            solved.pop(int(kept[np.diag(block).argmax()]))
            continue
        axes = np.zeros((size, len(kept)))
        axes[kept] = root
        return Standardised(at.x, axes, np.zeros(len(kept), dtype=bool))
    return None


def _turning(objective: Objective, at: Evaluation) -> BoolArray:
    """(d,) loadings of several factors whose rotations `unidentified` does not know, as in a long
    table: a solve may be over before it comes to a direction of which each has so little."""
    canonical, slices = objective.planned.canonical, objective.coordinates.slices
    linear = linear_hypers(canonical, at.theta, objective.pinned).loadings
    known = {o.hyper for group in loadings(canonical, linear).values() for o in group}
    free = unbounded(canonical, at.theta, objective.pinned) - known
    out = np.zeros(len(at.x), dtype=bool)
    for block in canonical.blocks:
        for term in block.form.terms:
            for factor in term.factors:
                if set(factor.dims) & set(term.summed):
                    for name in factor.depends & free & slices.keys():
                        out[slices[name]] = True
    return out


def _metric(objective: Objective, at: Evaluation, units: Array) -> Metric:
    em = EM.of(objective, at.theta, ACCELERATIONS[0])
    found = None if em is None else em.metric(at)
    return Metric(lambda g: units**2 * g) if found is None else found


def _solved(curvature: Differences, metric: Metric, slope: Array, unknown: Array) -> Array | None:
    """(d,) (-H)^-1 slope in the complement of `unknown`; None where the curvature along a direction
    is not positive, a fit fails, or PRODUCTS are too few."""

    def inside(v: Array) -> Array:
        return np.asarray(v - unknown @ (unknown.T @ v))

    left, out = inside(slope), np.zeros(len(slope))
    z = inside(metric.solve(left))
    p, rho = z, float(left @ z)
    squared, gains = rho, list[float]()
    for _ in range(PRODUCTS):
        product = curvature.times(p, np.sqrt(squared))
        if product is None:
            return None
        product = inside(product)
        bend = float(p @ product)
        if not bend > NONE * squared:
            return None
        step = rho / bend
        out, left = out + step * p, left - step * product
        gains.append(step * rho)
        z = inside(metric.solve(left))
        following = float(left @ z)
        if sum(gains[-LAST:]) <= SHARE * sum(gains) or following <= 1e-12 * squared:
            return out
        share = following / rho
        p, rho, squared = z + share * p, following, following + share**2 * squared
    return None


def _unknown(asked: str, known: Collection[str]) -> Diagnostic:
    return Diagnostic(
        "E104",
        f"option `standard_errors` cannot be `{asked.strip()}`",
        help=f"name free hypers or entries of them, such as {', '.join(known)}",
    )


def _too_many(count: int) -> Diagnostic:
    return Diagnostic(
        "E104",
        f"option `standard_errors` asks for {count} values, each by a solve of its own",
        help=f"name entries, up to {MAX_COORDINATES_SOLVED} in all, as in "
        "`standard_errors=c[item 3]`",
    )
