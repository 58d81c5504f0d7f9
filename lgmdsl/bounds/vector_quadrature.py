"""The rule `quadrature` of vector sites that are no softmax: points over the contrasts.

Up to three contrasts take a lattice whose step follows the largest sd of a contrast, more take
quasi-Monte Carlo, all sites and steps the same points, so that the objective is smooth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes, Sloped
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.expectations.log_sum_exp import Rule, contrasts_of, level, rule
from lgmdsl.vocabulary.notes import Notes

PAIRS = 512  # of quasi-Monte Carlo points, beyond two contrasts
ENTRIES_PER_PASS = 1 << 20
# Added to the variances of the contrasts: the slope in a variance of 0 is then a difference too.
LEAST = 1e-8


@dataclass(frozen=True)
class VectorByQuadrature(Bound):
    """E[l] by points: 2e-6 relative up to three classes at predictor sds to 3 and four at sds to 2;
    5e-3 with more. `seed` scrambles the points beyond four classes."""

    seed: int = 0

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Sloped,
        gives=Expected,
        guarantee=Guarantee.NUMERICAL,
        error=5e-3,
        summary="expectations of other vector sites by points over the contrasts, to 5e-3",
        notes=Notes(
            formula="E[log t(s)] over the contrasts of the predictors, by a lattice or "
            "quasi-random points",
            support="vector sites that give their slopes (Sloped)",
            advice="taken by itself; no gap, to the error that is stated",
            example="lgm fit classes.lgm classes.npz --method natural-gradient --bound quadrature",
            see_also=("jaakkola", "tilted", "natural-gradient", "ep"),
        ),
    )

    def applies_to(self, site: type[Site]) -> str:
        if issubclass(site, Sloped):
            return ""
        return f"{site.spec.name} does not give its slopes at many points (Sloped)"

    def lift(self, site: Site) -> VectorExpected:
        if not isinstance(site, Sloped):
            raise TypeError(self.applies_to(type(site)))
        return VectorExpected(site, self.seed)


@dataclass(frozen=True, eq=False)
class VectorExpected(Expected, ExpectedSlopes):
    """E[l] with the derivatives of that very sum in the means and the variances."""

    site: Site
    seed: int = 0

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """s = m + C S t with C the contrasts and S the symmetric root of their variance; with
        G = sum w sym(l' t') the derivative X in that variance solves X S + S X = G."""
        n, k = mean.shape
        value, d_mean, d_variance = np.empty(n), np.empty((n, k)), np.empty((n, k, k))
        contrasts = _directions(self.site, k)
        spread = contrasts.T @ variance @ contrasts + LEAST * np.eye(contrasts.shape[1])
        squares, turn = np.linalg.eigh(spread)
        root = np.sqrt(np.maximum(squares, LEAST))
        for few, (t, w) in _pieces(root, self.seed):
            u, r = turn[few], root[few]
            roots = (u * r[:, None, :]) @ u.transpose(0, 2, 1)
            move = contrasts @ roots @ t.T  # (n, K, P)
            s = mean[few] + move.transpose(2, 0, 1)
            height, slope = cast(Sloped, self.site.take(few)).sloped(s)
            value[few], d_mean[few] = w @ height, np.einsum("p,pnk->nk", w, slope)
            g = contrasts.T @ np.einsum("pnk,pd->nkd", slope, w[:, None] * t)
            g = 0.5 * (g + g.transpose(0, 2, 1))
            x = u @ ((u.transpose(0, 2, 1) @ g @ u) / (r[:, :, None] + r[:, None, :]))
            d_variance[few] = contrasts @ (x @ u.transpose(0, 2, 1)) @ contrasts.T
        return ExpectedAnswer(value, d_mean, d_variance)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """Averages of the site's slopes in its parameters."""
        k = mean.shape[1]
        if not self.site.parameter_slopes(mean):
            return {}
        contrasts = _directions(self.site, k)
        spread = contrasts.T @ variance @ contrasts + LEAST * np.eye(contrasts.shape[1])
        values, turn = np.linalg.eigh(spread)
        sds = np.sqrt(np.maximum(values, LEAST))
        move = contrasts @ (turn * sds[:, None, :]) @ turn.transpose(0, 2, 1)
        out: dict[str, Array] = {}
        for few, (t, w) in _pieces(sds, self.seed):
            some = self.site.take(few)
            for point, weight in zip(t, w, strict=True):
                for name, slope in some.parameter_slopes(mean[few] + move[few] @ point).items():
                    if name not in out:
                        shared = name in self.site.spec.shared
                        out[name] = np.zeros(slope.shape if shared else len(mean))
                    rows = ... if name in self.site.spec.shared else few
                    out[name][rows] += weight * slope
        return out

    def take(self, rows: IntArray) -> VectorExpected:
        """The answer of some rows."""
        return VectorExpected(self.site.take(rows), self.seed)


def _directions(site: Site, predictors: int) -> Array:
    """C, (K, r): l changes with C's alone, contrasts of the predictors or all of them."""
    free = site.contrasts(predictors) is None
    return np.eye(predictors) if free else contrasts_of(predictors)


def _pieces(sds: Array, seed: int) -> Iterator[tuple[IntArray, Rule]]:
    """Rows whose coordinates, of sds (N, r), share a rule, and the rule; a few at a time."""
    axes = sds.shape[1]
    levels = np.array([level(x, axes) for x in sds.max(axis=1, initial=0.0)])
    for one in np.unique(levels):
        points, rows = rule(axes, int(one), PAIRS, seed), np.flatnonzero(levels == one)
        size = max(1, len(rows) * len(points[0]) * (axes + 1) // ENTRIES_PER_PASS)
        yield from ((few, points) for few in np.array_split(rows, size))
