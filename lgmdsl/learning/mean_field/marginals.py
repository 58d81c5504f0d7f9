"""Marginals of hyperparameters, and of what is made of them, under independent factors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.hypers import HyperSpace
from lgmdsl.learning.coordinates.hyper_marginals import Ends, HyperMarginals, Stored
from lgmdsl.learning.integration.landscape import kronecker
from lgmdsl.learning.mean_field.factors import ScaleFactor

if TYPE_CHECKING:
    from numpy.random import Generator

# Normal scores at which factors are tabulated: the trapezoid over them is exact to 1e-10.
SCORES = np.linspace(-7.0, 7.0, 113)
# Draws, of low discrepancy, for functions of several entries.
DRAWS = 4096
# What is costly at each value of the hypers is averaged over every so manyth score (the trapezoid
# is as exact for functions as smooth as densities), or over so many draws.
COARSE, FEW = 4, 512
# Densities are told over so many normal scores to both sides: all but 1e-5 of each tail.
NORMAL_REACH = 4.265
SHIFT = 0.25  # normal scores, to see what a function depends on


@dataclass(frozen=True, eq=False, repr=False)
class FactorMarginals(HyperMarginals):
    """`factors` over the free hypers; the others are at the values of `pinned`."""

    space: HyperSpace
    pinned: Mapping[str, object]
    factors: Mapping[str, ScaleFactor]

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """E[of], of the function's shape."""
        values, weight = self._nodes(of)
        return np.asarray(np.tensordot(weight, values, axes=1))

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """sd[of]; 0 where the value is fixed."""
        values, weight = self._nodes(of)
        mean = np.tensordot(weight, values, axes=1)
        return np.asarray(np.sqrt(np.tensordot(weight, (values - mean) ** 2, axes=1)))

    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        """(Q, ...): of a function of one entry its values at that entry's quantiles, of several
        entries those of draws."""
        alone = self._alone(of)
        scores = special.ndtri(np.clip(levels, 1e-15, 1.0 - 1e-15))
        at = np.sort(np.array([self._at(of, z) for z in scores]), axis=0)
        out = at[np.argsort(np.argsort(levels))]
        if not alone.all():
            draws = np.quantile(self._draws(of), levels, axis=0)
            out = np.where(alone, out, draws)
        return np.asarray(out)

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) points and the density there; NaN where the value is fixed."""
        scores = np.linspace(-NORMAL_REACH, NORMAL_REACH, size)
        x = np.array([self._at(of, z) for z in scores])
        if not self._alone(of).all():
            x = np.where(self._alone(of), x, np.quantile(self._draws(of), special.ndtr(scores), 0))
        with np.errstate(all="ignore"):
            slope = np.abs(np.gradient(x, scores, axis=0))
            normal = np.exp(-0.5 * scores**2) / np.sqrt(2.0 * np.pi)
            p = normal.reshape(-1, *(1 for _ in x.shape[1:])) / slope
        p = np.where(slope > 0.0, p, np.nan)
        order = np.argsort(x, axis=0, kind="stable")
        sorted_ = (np.take_along_axis(a, order, axis=0) for a in (x, p))
        x, p = (np.moveaxis(a, 0, -1) for a in sorted_)
        return np.asarray(x), np.asarray(p)

    def draws(
        self, points: Sequence[Theta], shares: Array, chosen: IntArray, rng: Generator
    ) -> tuple[Theta, ...]:
        """Every hyperparameter in as many draws as are `chosen`: factors know nothing of points."""
        drawn = {
            name: self._table(name, rng.standard_normal((len(chosen), *factor.count.shape)))
            for name, factor in self.factors.items()
        }
        return self._thetas(drawn, len(chosen))

    def nodes(
        self, rows: Callable[[Theta], Array], together: bool = False
    ) -> tuple[tuple[Theta, ...], Array]:
        """Values of the hyperparameters and their weights, to average over what is made of each
        row of `rows` (N, P), or of all of them `together`. None where no row depends on a factor.

        Where each row depends on one entry of one hyper at most, all entries are at the same
        normal score: the rows' averages are right, and not joint ones, unless one entry is all.
        """
        middle, scores = self._at(rows, 0.0), SCORES[::COARSE]
        dependence = np.array([(self._at(rows, s) != middle).any(axis=-1) for s in self._shifts()])
        if not dependence.any():
            return (), np.zeros(0)
        apart = dependence.any(axis=1) if together else dependence
        if apart.sum(axis=0).max() > 1:
            return self._thetas(self._scattered(FEW), FEW), np.full(FEW, 1.0 / FEW)
        weight = np.exp(-0.5 * scores**2)
        return tuple(self._theta(z) for z in scores), weight / weight.sum()

    def factored(self, names: AbstractSet[str]) -> bool:
        """Whether some of `names` have factors, because they are not pinned."""
        return bool(names - self.pinned.keys())

    def record(self) -> Stored:
        """The statistics of the factors, and the names of what is fixed."""
        exponents = {n: f.exponent for n, f in self.factors.items()}
        arrays: dict[str, AnyArray] = {}
        for name, held in self.factors.items():
            arrays |= {f"count_{name}": held.count, f"rate_{name}": held.rate}
        attributes = {
            "fixed": json.dumps(sorted(self.pinned)),
            "exponents": json.dumps(exponents),
        }
        return Stored(attributes, arrays)

    # ---- pieces ----------------------------------------------------------------------------

    def _nodes(self, of: Callable[[Theta], Array]) -> tuple[Array, Array]:
        """(m, ...) values and the weights (m,) of each: on the scores where every entry is a
        function of one hyper entry alone, else at draws."""
        if not self._alone(of).all():
            draws = self._draws(of)
            return draws, np.full(len(draws), 1.0 / len(draws))
        weight = np.exp(-0.5 * SCORES**2)
        return np.array([self._at(of, z) for z in SCORES]), weight / weight.sum()

    def _alone(self, of: Callable[[Theta], Array]) -> BoolArray:
        """Which entries of the function depend on one entry of one hyper at most."""
        middle = self._at(of, 0.0)
        dependence = np.zeros(middle.shape, dtype=np.int64)
        for scores in self._shifts():
            dependence += self._at(of, scores) != middle
        return np.asarray(dependence <= 1)

    def _shifts(self) -> Iterator[Mapping[str, Array]]:
        """Scores that move one entry of one hyper from the middle."""
        for name, factor in self.factors.items():
            for entry in range(factor.count.size):
                one = np.zeros(factor.count.shape)
                one.reshape(-1)[entry] = SHIFT
                yield {name: one}

    def _at(self, of: Callable[[Theta], Array], scores: float | Mapping[str, Array]) -> Array:
        """The function with every entry (or those told of) at a normal score."""
        return np.asarray(of(self._theta(scores)), dtype=np.float64)

    def _theta(self, scores: float | Mapping[str, Array]) -> Theta:
        def give(block: Any, _: Theta) -> Array:
            factor = self.factors[block.name]
            score = scores.get(block.name, 0.0) if isinstance(scores, Mapping) else scores
            return self._table(block.name, np.broadcast_to(score, factor.count.shape))

        return self.space.filled(self.pinned, give)

    def _draws(self, of: Callable[[Theta], Array]) -> Array:
        return np.array(
            [
                np.asarray(of(t), dtype=np.float64)
                for t in self._thetas(self._scattered(DRAWS), DRAWS)
            ]
        )

    def _scattered(self, size: int) -> dict[str, Array]:
        sizes = [f.count.size for f in self.factors.values()]
        scores = special.ndtri(kronecker(size, sum(sizes)))
        parts = np.split(scores, np.cumsum(sizes)[:-1], axis=1)
        return {
            n: self._table(n, p.reshape(size, *f.count.shape))
            for (n, f), p in zip(self.factors.items(), parts, strict=True)
        }

    def _thetas(self, tables: Mapping[str, Array], size: int) -> tuple[Theta, ...]:
        """Every hyperparameter where those with a factor have the values of tables (size, ...)."""

        def given(m: int) -> Theta:
            return self.space.filled(self.pinned, lambda block, _: tables[block.name][m])

        return tuple(given(m) for m in range(size))

    def _table(self, name: str, scores: Array) -> Array:
        """Quantiles at normal scores (..., *shape of the hyper), by a spline of log h through its
        values at SCORES."""
        curves = self._curves[name]
        flat = scores.reshape(-1, len(curves))
        values = [curve(z) for curve, z in zip(curves, flat.T, strict=True)]
        return np.asarray(np.exp(np.array(values)).T.reshape(scores.shape))

    @cached_property
    def _curves(self) -> dict[str, list[Callable[[Array], Array]]]:
        from scipy.interpolate import CubicSpline

        out: dict[str, list[Callable[[Array], Array]]] = {}
        for name, factor in self.factors.items():
            logs = np.log(factor.quantile(special.ndtr(SCORES))).reshape(len(SCORES), -1)
            out[name] = [CubicSpline(SCORES, column) for column in logs.T]
        return out
