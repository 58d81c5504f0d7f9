"""What sites with classes answer in addition to the questions of back ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from lgmdsl.arrays import Array, BoolArray

if TYPE_CHECKING:
    from lgmdsl.contract.site import Site


class ClassMoments(NamedTuple):
    """P(class) of one trial, mean and sd of the counts, (N, K) each; 0 where none is on offer."""

    probability: Array
    mean: Array
    sd: Array

    @classmethod
    def of_one_trial(cls, probability: Array) -> ClassMoments:
        """A class is a count of one trial."""
        spread = np.sqrt(np.maximum(probability * (1.0 - probability), 0.0))
        return cls(probability, probability, spread)

    @classmethod
    def of_counts(cls, trials: Array, probability: Array, inside: Array) -> ClassMoments:
        """Moments of counts from E[p] and `inside` = E[p (1 - p)]:
        Var y = n E[p (1 - p)] + n^2 (E[p] - E[p (1 - p)] - E[p]^2)."""
        n, p = trials[:, None], probability
        spread = n * inside + n * n * np.maximum(p - inside - p * p, 0.0)
        return cls(p, n * p, np.sqrt(np.maximum(spread, 0.0)))


class Classes(ABC):
    """The predictive distribution of classes, or of counts over them."""

    @abstractmethod
    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        """Moments of the classes for s ~ N(mean, variance), (N, L) and (N, L, L)."""


class OneClass(Classes):
    """Observations are one class each."""

    @abstractmethod
    def log_mass(self, mean: Array, variance: Array) -> Array:
        """log E[t(s)], s ~ N(mean, variance), (N,)."""


class Pieces(NamedTuple):
    """Sites made of observations (N,) with K predictors: at which of these each has a site, what
    that site observes, and the parameters of the sites, (N, K) each."""

    reached: BoolArray
    y: Array
    parameters: Mapping[str, Array]


class Split(ABC):
    """A family whose data the compiler writes as scalar sites of another one, `into` by name:
    back ends never see it."""

    into: ClassVar[str]

    @classmethod
    def split(cls, values: Mapping[str, Array], size: int) -> Pieces:
        """The sites of the values of y and of the parameters, in which no hyper is. The default:
        `pieces`, of families whose data become sites without parameters."""
        reached, observed = cls.pieces(values["y"], size)
        return Pieces(reached, observed, {})

    @staticmethod
    @abstractmethod
    def pieces(y: Array, size: int) -> tuple[BoolArray, Array]:
        """Which of `size` predictors each of the observations (N,) has a site at, and what that
        site observes, (N, size) each."""


class Separable(ABC):
    """A vector family whose log density is a sum of terms in one predictor each: the compiler
    writes each as a scalar site. Questions on data (predictions, leave-one-out) go to the family.
    """

    note: ClassVar[str]  #: what `lgm explain` says of it

    @classmethod
    @abstractmethod
    def terms(cls) -> type[Site]:
        """The family of the terms: this one's parameters, and `term`, the predictor's number."""

    @staticmethod
    @abstractmethod
    def reached(y: Array, size: int) -> BoolArray:
        """At which of `size` predictors each observation has a term, (N, size)."""


def among(offered: BoolArray) -> Array:
    """(N, K, K - 1): the contrasts s_j - s_i of each row's first class on offer, i, with the others
    on offer, j; the columns that are left over are zero."""
    n, k = offered.shape
    out = np.zeros((n, k, max(k - 1, 0)))
    order = np.argsort(~offered, axis=1, kind="stable")
    counts, rows = offered.sum(axis=1), np.arange(n)
    for j in range(1, k):
        some = rows[counts > j]
        out[some, order[some, j], j - 1] = 1.0
        out[some, order[some, 0], j - 1] = -1.0
    return out
