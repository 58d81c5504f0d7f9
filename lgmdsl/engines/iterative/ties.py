"""Constraints in the iterative engine, the user's and those of the prior's structures: k + p more
solves of A' = A + E diag(tau) E', see `restriction`; tau comes in as weights of pseudo-rows E'z."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.shared.prior import is_flat
from lgmdsl.engines.shared.prior_precision import SparsePrior
from lgmdsl.engines.shared.restriction import columns_of
from lgmdsl.numerics.sparse.base import times
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Stack, parts_of
from lgmdsl.operators.select import Select

PROBES = 4  # random vectors by which rows are seen to be in the span of the constraints
RANK, NOTHING = 1e-10, 1e-24  # of the singular values; of a row's square, what is rounding
MOST = 64  # constraints, each of which is a solve and a vector
WIDEST = 2000  # latents of a flat block that a constraint may reach: its directions are dense


class Ties:
    """Cz = e with the pins that make A' definite."""

    def __init__(self, linear: LinearGaussian) -> None:
        self.prior = SparsePrior(linear)
        self.rows, self.pins, self.broken = self.prior.rows, self.prior.pins, self.prior.broken
        self.target = self.prior.values - times(self.rows, self.prior.mu)
        self.usual = self.prior.tau(self.pins)

    @staticmethod
    def of(linear: LinearGaussian) -> Ties | None:
        """None where nothing is constrained."""
        return Ties(linear) if _count(linear) else None

    @staticmethod
    def refuses(linear: LinearGaussian) -> str:
        """Why these constraints are too many or too wide; empty where they are not."""
        if not _count(linear):
            return ""
        constraints = linear.constraints
        for b in linear.blocks:
            if (
                constraints is not None
                and b.name in constraints.columns
                and is_flat(b)
                and b.size > WIDEST
            ):
                return f"a constraint reaches the flat block `{b.name}` of {b.size} latents"
        if _count(linear) > MOST:
            return f"{_count(linear)} constraints, each of them a solve, want a factorisation"
        return ""

    def extended(self, b: Operator) -> Operator:
        """B with the pseudo-rows E'."""
        if not len(self.pins):
            return b
        return Stack((*parts_of(b), Select(self.pins, b.shape[1])))

    @cached_property
    def columns(self) -> Array:
        """[C', E]."""
        return columns_of(self.rows, self.pins)

    @cached_property
    def away(self) -> Array:
        """(n,) from mu to the mean of the constrained prior."""
        return np.asarray(self.prior.mean - self.prior.mu)

    def outside(self, residual: Array) -> Array:
        """A residual (n,) without what multipliers of the constraints make up for."""
        rows = self.columns[:, : self.rows.shape[0]].T
        return np.asarray(residual - rows.T @ np.linalg.solve(rows @ rows.T, rows @ residual))

    @cached_property
    def _probes(self) -> tuple[Array, Array]:
        """(n, PROBES) normals, and their parts outside the span of the constraints."""
        rows = self.columns[:, : self.rows.shape[0]]
        left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
        basis = left[:, sizes > RANK * sizes.max(initial=0.0)]
        probes = np.random.default_rng(0).standard_normal((len(rows), PROBES))
        return probes, probes - basis @ (basis.T @ probes)

    def fixed(self, operator: Operator) -> BoolArray:
        """(rows,) which rows of a functional the constraints determine: those that are 0 on every
        vector that the constraints leave free."""
        probes, free = self._probes
        whole, rest = operator.matvec(probes), operator.matvec(free)
        return np.asarray((rest**2).sum(axis=1) <= NOTHING * (whole**2).sum(axis=1))


def _count(linear: LinearGaussian) -> int:
    structural = 0
    for b in linear.blocks:
        counts = [f.constraints().shape[0] for f in b.factors]
        if any(counts):
            # Of a product C_1 z = 0 at every place of the others, at the least.
            structural += sum(k * b.size // f.size for k, f in zip(counts, b.factors, strict=True))
    constraints = linear.constraints
    return structural + (0 if constraints is None else len(constraints.values))
