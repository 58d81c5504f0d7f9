"""The rows of a problem, cut into batches at random: every batch has a share of each site block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.joint import some_rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.stacked import StackedPredictors, split


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of each site block, by position, with the model at them."""

    rows: tuple[IntArray, ...]
    linear: LinearGaussian
    expecting: tuple[Expected, ...]
    sizes: tuple[int, ...]

    @cached_property
    def designs(self) -> tuple[StackedPredictors, ...]:
        """B of each site block, explicit at these rows."""
        blocks = self.linear.blocks
        return tuple(
            StackedPredictors(LinearGaussian(blocks, (p,))) for p in self.linear.predictors
        )

    def moved(self, root: Array) -> tuple[Array, ...]:
        """B R for each site block, (P, r)."""
        return tuple(d.times(root) for d in self.designs)

    def values(self, z: Array) -> Rows:
        """s = B z + c."""
        flat = [d.times(z) + d.offset for d in self.designs]
        return split(np.concatenate([np.zeros(0), *flat]), self.linear.predictors)

    def expected(self, mean: Rows, variance: Rows) -> tuple[ExpectedAnswer, ...]:
        """The answers of its rows, without second derivatives."""
        moments = zip(mean, variance, strict=True)
        return tuple(self.asked(k, False)(m, v) for k, (m, v) in enumerate(moments))

    def asked(self, k: int, second: bool) -> Callable[[Array, Array], ExpectedAnswer]:
        """(mean, variance) -> the answer of its rows of site block k."""
        return some_rows(self.expecting[k], self.rows[k], self.sizes[k], second)


class Batches:
    """`count` batches of about `size` rows of `problem`. A site block with fewer rows than there
    are batches has one in each, again and again."""

    def __init__(self, problem: Problem, size: int, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.sizes = tuple(len(m) for m in problem.engine.prior_mean)
        self.count = max(1, -(-sum(self.sizes) // size))
        rng = np.random.default_rng((seed, 0))
        self._shuffled = tuple(rng.permutation(n) for n in self.sizes)

    def order(self, number: int) -> IntArray:
        """The batches in the random order of a pass."""
        return np.random.default_rng((self.seed, 1, number)).permutation(self.count)

    def batch(self, *numbers: int) -> Batch:
        """Some batches together."""
        few = tuple(
            np.unique(np.concatenate([self._share(shuffled, k) for k in numbers]))
            for shuffled in self._shuffled
        )
        problem = self.problem
        return Batch(few, problem.engine.linear.of_rows(few), problem.expecting(), self.sizes)

    def _share(self, shuffled: IntArray, k: int) -> IntArray:
        size = len(shuffled)
        if 0 < size < self.count:
            return shuffled[k % size : k % size + 1]
        return shuffled[k * size // self.count : (k + 1) * size // self.count]
