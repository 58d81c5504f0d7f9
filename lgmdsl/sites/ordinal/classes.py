"""What families of ordered classes share: y is the position of a class, `cuts` separate them.

y = 0 .. L over the cuts phi_0 < ... < phi_{L-1}; cut j divides the classes up to j from those above
it, and a larger s makes higher classes likelier. Sites are scalar; `cuts` is (N, L).
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import ParameterCurve, Widths, WidthsAnswer
from lgmdsl.contract.site import entry_name
from lgmdsl.sites.base import ElementwiseSite
from lgmdsl.sites.scalar.logistic import even_part

if TYPE_CHECKING:
    from numpy.random import Generator


class OrdinalSite(ElementwiseSite):
    """Ordered classes: moments, draws and distribution of the position y follow from `upto`."""

    y: Array
    cuts: Array

    @abstractmethod
    def upto(self, s: Array) -> Array:
        """P(Y <= j | s) for each cut j, the shape of s and a last axis (L,)."""

    @abstractmethod
    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        """dl/dcut and its first two derivatives in s, the shape of s and a last axis (L,)."""

    def cut_slopes(self, s: Array) -> Array:
        """dl/dcut, the shape of s and a last axis (L,)."""
        return self.cut_curves(s)[0]

    @property
    def levels(self) -> int:
        """L, the number of cuts."""
        return int(self.cuts.shape[-1])

    @cached_property
    def code(self) -> IntArray:
        """y as integers with a last axis of length 1."""
        return np.asarray(self.y, dtype=np.int64)[..., None]

    @cached_property
    def above(self) -> BoolArray:
        """Whether y is above the cut, for each cut."""
        return np.asarray(self.code > np.arange(self.levels))

    @cached_property
    def at_cut(self) -> BoolArray:
        """Whether y is the class just below the cut, for each cut."""
        return np.asarray(self.code == np.arange(self.levels))

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The cuts around y, infinite at the ends, in the shape of y."""
        edge = np.full((*self.cuts.shape[:-1], 1), np.inf)
        padded = np.concatenate([-edge, self.cuts, edge], axis=-1)
        if self.cuts.shape[:-1] == np.shape(self.y):  # one row of cuts for each y: a plain lookup
            place = np.arange(0, padded.size, padded.shape[-1]).reshape(np.shape(self.y))
            place = place + self.code[..., 0]
            return padded.reshape(-1)[place], padded.reshape(-1)[place + 1]
        low, high = (np.take_along_axis(padded, self.code + k, axis=-1)[..., 0] for k in (0, 1))
        return low, high

    @cached_property
    def below(self) -> BoolArray:
        """Whether y is the class just above the cut, for each cut."""
        return np.asarray(self.code == np.arange(self.levels) + 1)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        slopes = self.cut_slopes(s)
        return {entry_name("cuts", j): slopes[..., j] for j in range(self.levels)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        parts = self.cut_curves(s)
        return {
            entry_name("cuts", j): ParameterCurve(*(p[..., j] for p in parts))
            for j in range(self.levels)
        }

    def conditional_mean(self, s: Array) -> Array:
        """The mean of the position, sum_j P(Y > j)."""
        return np.asarray((1.0 - self.upto(s)).sum(axis=-1))

    def conditional_variance(self, s: Array) -> Array:
        """The variance of the position."""
        beyond = 1.0 - self.upto(s)
        square = (beyond * (2.0 * np.arange(self.levels) + 1.0)).sum(axis=-1)
        return np.asarray(np.maximum(square - beyond.sum(axis=-1) ** 2, 0.0))

    def sample(self, s: Array, rng: Generator) -> Array:
        drawn = rng.random(np.shape(s))[..., None] > self.upto(s)
        return np.asarray(drawn.sum(axis=-1), dtype=np.float64)

    def cdf(self, s: Array) -> Array:
        return self.distribution(s)[1]

    def distribution(self, s: Array) -> tuple[Array, Array]:
        inside = self.upto(s)
        edge = np.zeros((*inside.shape[:-1], 1))
        padded = np.concatenate([edge, inside, edge + 1.0], axis=-1)
        below, upto = (np.take_along_axis(padded, self.code + k, axis=-1)[..., 0] for k in (0, 1))
        return below, upto


class ShiftedLogistic(OrdinalSite, Widths):
    """l = constant + sum of log sigma(side (s - cut)) over the cuts whose `side` is +-1, not 0.

    Each term is a super-Gaussian site in x = s - cut, beta = side / 2, g = -log 2cosh(sqrt(x^2)/2);
    with a width gamma_j for each of them,

        b = sum beta_j + cut_j / gamma_j,   1 / gamma = sum 1 / gamma_j,
        h = sum h_j + cut_j^2 / gamma_j + 2 beta_j cut_j,   h* = sum h*_j(s - cut_j).
    """

    @property
    @abstractmethod
    def side(self) -> Array:
        """+1, -1 or 0 for each cut, (N, L)."""

    @property
    @abstractmethod
    def constant(self) -> Array:
        """What does not depend on s, (N,)."""

    @property
    @abstractmethod
    def constant_slopes(self) -> Array:
        """Slopes of the constant in the cuts, (N, L)."""

    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        away = s[..., None] - self.cuts
        x = z[..., None] + away * away
        present, beta = self.side != 0.0, 0.5 * self.side
        g, first, second = (np.where(present, part, 0.0) for part in even_part(x))
        weight = -2.0 * first
        pull = (beta * away).sum(axis=-1)
        return WidthsAnswer(
            penalty=-self.constant - g.sum(axis=-1) - pull,
            slope=(weight * away - beta).sum(axis=-1),
            curvature=(weight - 4.0 * away * away * second).sum(axis=-1),
            width=1.0 / weight.sum(axis=-1),
            h=-2.0 * self.constant
            + (-x * weight - 2.0 * g + weight * self.cuts**2 + 2.0 * beta * self.cuts).sum(axis=-1),
            shift=(beta + weight * self.cuts).sum(axis=-1),
        )

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        away = s[..., None] - self.cuts
        weight = np.where(self.side != 0.0, -2.0 * even_part(z[..., None] + away * away)[1], 0.0)
        slopes = self.constant_slopes + weight * away - 0.5 * self.side
        return {entry_name("cuts", j): slopes[..., j] for j in range(self.levels)}
