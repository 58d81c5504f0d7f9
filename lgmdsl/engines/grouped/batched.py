"""Engine for posteriors that split over an index: many groups of a few latents, none in a loop.

With K_n = R_n R_n' the prior covariance of a group, A_n = I + R_n'B_n'W_n B_n R_n and EE' = A_n^-1,

    Cov(z_n) = (R_n E)(R_n E)',   log_normaliser = ... - sum_n log|A_n| / 2

for any K_n, singular ones too (`batched_prior`). Memory is linear in the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, NamedTuple
from weakref import ReferenceType, ref

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Failure, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors, flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.grouped.batched_factor import BatchedFactor
from lgmdsl.engines.grouped.batched_prior import form_of, joins, roots
from lgmdsl.engines.grouped.plates import WIDEST, Plates, plates_of, rows_join
from lgmdsl.engines.shared.factored import FactoredConditioned
from lgmdsl.engines.shared.partition import site_of_rows
from lgmdsl.engines.shared.prior import BlockPrior, is_tied
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.sparse.base import times
from lgmdsl.operators.base import Operator
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import Trait

# Weights (noise sds of 1e-3 against the latents' effect) from which on a product B'WB loses digits
# that the data have: its square root is factored instead.
STIFF = 1e6
JOINED = "the latents do not split into many small groups"


class BatchedEngine(Engine):
    """Proper blocks with sparse precisions, operators that join few latents, no constraints."""

    name: ClassVar[str] = "batched"
    summary: ClassVar[str] = "many small independent groups of latents at once"
    notes: ClassVar[Notes] = Notes(
        formula="A_g = Q_g + B_g' W B_g of each group g, in arrays (groups, L, L)",
        support="proper priors whose rows each join the latents of one group; no constraints",
        advice="for factor analysis and item response: persons with a few factors each",
        example="lgm fit persons.lgm persons.npz --option engine=batched",
        see_also=("wide", "sparse"),
    )

    def __init__(self, linear: LinearGaussian) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear = linear
        examined = _examined(linear)
        assert examined.pattern is not None, "refuses asks for plates"
        self.blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
        b, plates = examined.pattern
        self.plates = plates
        self.mu = np.concatenate([p.mean for p in self.blocks])
        self.b = b
        local = np.zeros(linear.rows * plates.width)
        local[plates.entry] = b.data
        self.local = local.reshape(linear.rows, plates.width)  # each row of B in its group
        self.prior = roots(self.blocks, plates)
        self.offset = flatten(tuple(p.offset for p in linear.predictors))
        self.start = times(b, self.mu) + self.offset
        self.flops = 0.0
        # The weighted rows of a group, and what `_factored` made of them, when all last had one.
        self._shared: tuple[Array, tuple[Array, Array, float]] | None = None

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        return _examined(linear).refusal

    @cached_property
    def prior_mean(self) -> Rows:
        return split(self.start, self.linear.predictors)

    @cached_property
    def rows_by_group(self) -> Array:
        """(N, M, L) B."""
        return self.plates.rows.padded(self.local)

    @cached_property
    def white(self) -> Array:
        """(P, L) B R, each row in its group."""
        if self.prior.unit:
            return self.local
        return self.plates.rows.flat(self.rows_by_group @ self.prior.root)

    @cached_property
    def alike(self) -> bool:
        """Whether all groups have the same rows of B and the same K: with the same weights too, as
        Boehning's bound gives them, their posterior covariances are one."""
        b = self.rows_by_group
        return len(self.prior.root) == 1 and bool((b[-1] == b[0]).all() and (b == b[:1]).all())

    def transposed(self, y: Array) -> Array:
        """B'y by groups, (N, L), for (P,)."""
        rows = self.plates.rows.padded(y)
        return np.asarray(np.einsum("nml,nm->nl", self.rows_by_group, rows))

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        w = SiteWeight(self.linear.predictors, weight)
        weighted = self.plates.rows.padded(w.times(self.white))
        one = self.alike and bool((weighted == weighted[:1]).all())
        if one and self._shared is not None and np.array_equal(self._shared[0], weighted[0]):
            return FactoredConditioned(BatchedFactor(self, weight, w, *self._shared[1]), shift)
        some = slice(1) if one else slice(None)

        def rooted() -> Array | None:
            root = w.root(self.white)
            return None if root is None else self.plates.rows.padded(root)[some]

        factored = self._factored(self.plates.rows.padded(self.white)[some], weighted[some], rooted)
        if isinstance(factored, Failed):
            return factored
        if one:
            factored = factored[0], factored[1], self.plates.groups * factored[2]
            self._shared = weighted[0].copy(), factored
        return FactoredConditioned(BatchedFactor(self, weight, w, *factored), shift)

    def _factored(
        self, rows: Array, weighted: Array, rooted: Callable[[], Array | None]
    ) -> tuple[Array, Array, float] | Failed:
        """(RE)' and E', (G, L, L), and sum log|A| / 2 of G groups, for their rows BR, WBR and,
        where they are called for, W^(1/2)BR."""
        a = rows.transpose(0, 2, 1) @ weighted
        index = np.arange(self.plates.width)
        a[:, index, index] += 1.0
        self.flops += 2.0 * self.local.size * self.plates.width * len(a) / self.plates.groups
        halves = rooted() if a[:, index, index].max(initial=0.0) > STIFF else None
        try:
            root = np.linalg.cholesky(a) if halves is None else _orthogonal(halves)
        except np.linalg.LinAlgError:
            return Failed(kind=Failure.INDEFINITE)
        if not np.isfinite(root).all():
            return Failed(kind=Failure.NOT_FINITE)
        half_log_det = float(np.log(np.abs(root[:, index, index])).sum())
        white = np.linalg.inv(root)
        if self.prior.unit:
            return white, white, half_log_det
        return white @ self.prior.root.transpose(0, 2, 1), white, half_log_det


def _orthogonal(rooted: Array) -> Array:
    """Roots of I + X'X, (G, L, L) lower triangular, for X (G, M, L): by QR, which has twice the
    digits."""
    width = rooted.shape[2]
    unit = np.broadcast_to(np.eye(width), (len(rooted), width, width))
    upper = np.linalg.qr(np.concatenate([rooted, unit], axis=1), mode="r")
    return np.asarray(upper).transpose(0, 2, 1)


class _Examined(NamedTuple):
    """Why a model is refused, or its B and plates."""

    linear: ReferenceType[LinearGaussian]
    refusal: str
    pattern: tuple[SparseMatrix, Plates] | None = None


_latest: list[_Examined] = []  # one: that of the model which is asked about several times in a row


def _examined(linear: LinearGaussian) -> _Examined:
    """What there is to say of a model."""
    known = _latest[0] if _latest else None
    if known is None or known.linear() is not linear:
        known = _examine(linear)
        _latest[:] = [known]
    return known


def plates_in(linear: LinearGaussian) -> Plates:
    """The groups of a model that `BatchedEngine` does not refuse."""
    pattern = _examined(linear).pattern
    assert pattern is not None, "a model that is not refused has groups"
    return pattern[1]


def _examine(linear: LinearGaussian) -> _Examined:
    reference, refusal = ref(linear), plain_refusal(linear)
    if refusal:
        return _Examined(reference, refusal)
    b, q = _pattern(linear)
    plates = plates_of(b, q, site_of_rows(linear.predictors))
    return _Examined(reference, JOINED) if plates is None else _Examined(reference, "", (b, plates))


def plain_refusal(linear: LinearGaussian) -> str:
    """Why the model is refused, as far as that can be said without its whole pattern."""
    if linear.constraints is not None:
        return "constraints join its groups"
    for block in linear.blocks:
        names = " * ".join(f.name for f in block.factors)
        tied = any(is_tied(f) for f in block.factors)
        if Shape.IMPROPER in block.shape or tied:
            return f"block `{block.name}` ({names}) is improper, or tied"
        if form_of(block) is None:
            return f"block `{block.name}` ({names}) has no sparse precision and a large covariance"
    for p in linear.predictors:
        for name, operator in p.columns.items():
            if not operator.is_sparse and _wide(operator):
                return f"the first row has more than {WIDEST} entries of `{name}`"
    if not linear.blocks:
        return "there are no latents"
    large = (f for b in linear.blocks for f in b.factors if f.size > WIDEST)
    chained = any(f.joined or Trait.COVARIANCE in f.traits() for f in large)
    return JOINED if chained or rows_join(linear) else ""


def _wide(operator: Operator) -> bool:
    """Whether a dense operator joins too many latents, by its first row."""
    rows = operator.shape[0]
    if rows and operator.in_memory:
        return bool(np.count_nonzero(operator.dense()[0]) > WIDEST)
    return rows > 0 and bool(np.count_nonzero(operator.rmatvec(np.eye(1, rows)[0])) > WIDEST)


def _pattern(linear: LinearGaussian) -> tuple[SparseMatrix, SparseMatrix]:
    """B, (P, n), and what the prior joins, (n, n), csr."""
    b = StackedPredictors(linear).sparse()
    if not b.has_canonical_format:
        b = b.copy()
        b.sum_duplicates()
    priors = [joins(BlockPrior(p, linear.starts[p.name])) for p in linear.blocks]
    return b, sp.csr_array(sp.block_diag(priors, format="csr"))
