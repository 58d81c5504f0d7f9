"""One model with the free directions of its walks as latents of their own: f = g + F a.

F is an orthonormal basis of the directions of density 1 of an intrinsic prior N(0, s^2 U^+), g the
same prior held at 0 along its whole null space, and a flat, so that

    s = B f + c = B g + (B F) a + c,   log_normaliser and all moments of s the same.

As s -> 0 the precision U / s^2 outgrows what the data say along F, and next to it rounding hides
that. Of g and a neither is hidden: a keeps the precision (B F)'W(B F), g tends to 0, and both with
all their digits down to the least s that has a square.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Engine, Failed, Rows
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.shared.conditioned import Lazy
from lgmdsl.engines.shared.prior import is_flat
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.engines.shared.wrapped import WrappedConditioned
from lgmdsl.numerics.sparse.base import entries_of, filled
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Identity, Sparse

if TYPE_CHECKING:
    from numpy.random import Generator

# The largest entry of a precision, in units of what the data say along a free direction: beyond,
# free directions are latents of their own. 1e8 leaves eight digits of what they say.
STIFF = 1e8


@dataclass(frozen=True)
class Loose(Structure):
    """Density 1 in `order` directions."""

    order: int
    name: ClassVar[str] = "loose"

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.DIAGONAL | Shape.SPARSE | Shape.IMPROPER

    def variance(self) -> Array:
        return np.full(self.order, np.inf)

    def precision(self) -> SparseMatrix:
        return sp.csr_array((self.order, self.order))

    def log_det_precision(self) -> float:
        return 0.0

    def null_space(self) -> Array:
        return np.eye(self.order)

    @property
    def nullity(self) -> int:
        return self.order


@dataclass(frozen=True, eq=False)
class Freed:
    """A block of the model: `held`, its prior without free directions; `basis` F, (n, k) csr, of
    the block of flat latents `loose`; `largest`: entry of its precision."""

    held: PriorBlock
    loose: PriorBlock
    basis: SparseMatrix
    largest: float

    @classmethod
    def of(cls, block: PriorBlock) -> Freed | None:
        """None where there is no free direction, or more than one factor has any."""
        open_ = [k for k, f in enumerate(block.factors) if f.nullity]
        if is_flat(block) or len(open_) != 1 or np.any(block.mean):
            return None
        split = block.factors[open_[0]].held()
        if split is None:
            return None
        structure, basis = split
        largest, factors = 1.0, list(block.factors)
        factors[open_[0]] = structure
        for k, f in enumerate(block.factors):
            if Shape.PRECISION not in f.shape:
                return None
            largest *= float(np.abs(f.precision().diagonal()).max())
            if k < open_[0]:
                basis = sp.csr_array(sp.kron(sp.eye_array(f.size), basis, format="csr"))
            elif k > open_[0]:
                basis = sp.csr_array(sp.kron(basis, sp.eye_array(f.size), format="csr"))
        size = basis.shape[1]
        loose = PriorBlock(f"{block.name}.loose", (Loose(size),), np.zeros(size))
        return cls(replace(block, factors=tuple(factors)), loose, basis, largest)


class Loosened:
    """`linear` with the free directions of the blocks `freed` as latents of their own, on an engine
    of the class `kind`."""

    def __init__(
        self, linear: LinearGaussian, freed: Mapping[str, Freed], kind: type[Engine]
    ) -> None:
        self.linear, self.freed, self.kind = linear, freed, kind
        # (P, k) B F of all blocks, side by side, and the largest entry of the precision of each.
        self.lines = sp.csr_array(
            sp.hstack([_stacked(linear, name, f.basis) for name, f in freed.items()])
        )
        self.largest = np.repeat(
            [f.largest for f in freed.values()], [f.basis.shape[1] for f in freed.values()]
        )

    @classmethod
    def of(cls, linear: LinearGaussian, kind: type[Engine]) -> Loosened | None:
        """None where no prior has free directions."""
        pairs = ((b.name, Freed.of(b)) for b in linear.blocks)
        freed = {name: f for name, f in pairs if f is not None}
        return cls(linear, freed, kind) if freed else None

    def instead(self, weight: Rows, shift: Rows) -> Conditioned | None:
        """The posterior by the other model where a prior is stiff; None where none is, or the other
        model has no posterior."""
        if not self.stiff(weight) or self.engine is None:
            return None
        q = self.engine.condition(weight, shift)
        return None if isinstance(q, Failed) else LoosenedConditioned(self, q)

    def stiff(self, weight: Rows) -> bool:
        """Whether a prior is so stiff next to sites of these weights that rounding would hide what
        they say of its free directions."""
        pull = SiteWeight(self.linear.predictors, weight).sparse()
        said = np.abs(np.asarray((self.lines.multiply(pull @ self.lines)).sum(axis=0))).reshape(-1)
        return bool((self.largest > STIFF * said).any())

    @cached_property
    def engine(self) -> Engine | None:
        """The engine of the model with more latents; None where its kind does not take it."""
        linear = self.model
        return None if self.kind.refuses(linear) else self.kind.build(linear, 0)

    @cached_property
    def model(self) -> LinearGaussian:
        """The model with more latents."""
        blocks = [f for b in self.linear.blocks for f in self._blocks(b)]
        predictors = tuple(
            replace(p, columns=self.columns(p.columns)) for p in self.linear.predictors
        )
        constraints = self.linear.constraints
        if constraints is not None:
            constraints = Constraints(self.columns(constraints.columns), constraints.values)
        return LinearGaussian(tuple(blocks), predictors, constraints)

    def _blocks(self, block: PriorBlock) -> tuple[PriorBlock, ...]:
        freed = self.freed.get(block.name)
        return (block,) if freed is None else (freed.held, freed.loose)

    def columns(self, columns: Mapping[str, Operator]) -> dict[str, Operator]:
        """What enters rows of the other model."""
        out = dict[str, Operator]()
        for name, operator in columns.items():
            out[name] = operator
            if name in self.freed:
                out[self.freed[name].loose.name] = _line(operator, self.freed[name].basis)
        return out

    @cached_property
    def back(self) -> SparseMatrix:
        """(n, n') f of all latents of the other model."""
        parts = []
        for b in self.linear.blocks:
            one = sp.eye_array(b.size, format="csr")
            freed = self.freed.get(b.name)
            parts.append(one if freed is None else sp.hstack([one, freed.basis], format="csr"))
        return sp.csr_array(sp.block_diag(parts, format="csr"))


_lines: WeakKeyDictionary[Operator, list[tuple[SparseMatrix, Operator]]] = WeakKeyDictionary()


def _line(operator: Operator, basis: SparseMatrix) -> Operator:
    """B F; the same object for the same two, by which engines know it at the next theta."""
    known = _lines.setdefault(operator, [])
    for f, found in list(known):
        if f is basis:
            return found
    explicit = operator.is_sparse or operator.in_memory
    made: Operator
    if explicit:
        made = Sparse(sp.csr_array(operator.sparse() @ basis))
    else:
        made = Dense(operator.matvec(basis.toarray()))
    known.append((basis, made))
    return made


def _stacked(linear: LinearGaussian, name: str, basis: SparseMatrix) -> SparseMatrix:
    """(P, k) B F of one block at all rows."""
    return sp.csr_array(
        sp.vstack(
            [
                _line(p.columns[name], basis).sparse()
                if name in p.columns
                else sp.csr_array((p.rows, basis.shape[1]))
                for p in linear.predictors
            ]
            or [sp.csr_array((0, basis.shape[1]))]
        )
    )


class LoosenedConditioned(WrappedConditioned):
    """Answers of the first model from those of the other one, `inner`."""

    def __init__(self, loosened: Loosened, inner: Conditioned) -> None:
        self.loosened, self.inner = loosened, inner
        self.weight, self.shift = inner.weight, inner.shift
        self.log_normaliser = inner.log_normaliser

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        shifted = self.inner.with_shift(shift)
        return (
            shifted if isinstance(shifted, Failed) else LoosenedConditioned(self.loosened, shifted)
        )

    @property
    def mean(self) -> Rows:
        return self.inner.mean

    @property
    def variance(self) -> Rows:
        return self.inner.variance

    @cached_property
    def latent_mean(self) -> Array:
        return np.asarray(self.loosened.back @ self.inner.latent_mean)

    @cached_property
    def latent_variance(self) -> Array:
        linear = self.loosened.linear
        where, theirs = linear.slices, self.loosened.model.slices
        out = np.empty(linear.size)
        for b in linear.blocks:
            if b.name in self.loosened.freed:
                one = Predictor({b.name: Identity(b.size)}, np.zeros(b.size))
                out[where[b.name]] = self.project(one)[1]
            else:
                out[where[b.name]] = self.inner.latent_variance[theirs[b.name]]
        return out

    @property
    def latent_variance_error(self) -> Array | None:
        return None

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        columns = self.loosened.columns(predictor.columns)
        return self.inner.project(replace(predictor, columns=columns), full)

    def solve(self, rhs: Array) -> Array:
        back = self.loosened.back
        return np.asarray(back @ self.inner.solve(np.ascontiguousarray(back.T @ rhs)))

    def squared_length(self, slope: Array) -> float:
        return self.inner.squared_length(np.asarray(self.loosened.back.T @ slope))

    def sample(self, rng: Generator, size: int) -> Array:
        return np.asarray((self.loosened.back @ self.inner.sample(rng, size).T).T)

    def draw(self, rng: Generator, size: int) -> Draws:
        drawn = self.inner.draw(rng, size)
        return Draws(np.asarray((self.loosened.back @ drawn.z.T).T), drawn.radius, drawn.rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """Adjoints of the first model: B acts on g, and through B F on a."""
        inner, freed = self.inner.adjoints(tilt), self.loosened.freed
        names = [b.name for b in self.loosened.linear.blocks]
        mean = {n: inner.mean[n] for n in names}
        for name, f in freed.items():  # a mean along F is no other prior
            mean[name] = mean[name] - f.basis @ (f.basis.T @ mean[name])
        operator = tuple(self._operators(columns) for columns in inner.operator)
        return replace(inner, operator=operator, mean=mean)

    def _operators(self, inner: Mapping[str, Any]) -> Mapping[str, object]:
        freed = self.loosened.freed

        def maker(name: str) -> Callable[[], object]:
            if name not in freed:
                return lambda: inner[name]
            return lambda: _joined(inner[name], inner[freed[name].loose.name], freed[name].basis)

        loose = {f.loose.name for f in freed.values()}
        return Lazy({name: maker(name) for name in inner if name not in loose})


def _joined(own: Any, line: Any, basis: SparseMatrix) -> object:
    """dF/dB + dF/d(BF) F', on the pattern of the former where it is sparse."""
    lines = sp.csr_array(line)
    if isinstance(own, np.ndarray):
        return own + np.asarray((lines @ basis.T).toarray())
    pattern = sp.csr_array(own)
    row, column = entries_of(pattern)
    more = lines[row].multiply(sp.csr_array(basis[column])).sum(axis=1)
    return filled(pattern, pattern.data + np.asarray(more).reshape(-1))
