"""Engine for few observed of many correlated latents: N vectors of length D with one covariance K,
each seen through few rows (Khan 2012, section 6.4.4).

    z_n ~ N(0, K),   s_n = B_n z_n + c_n,   S_n = B_n K B_n',   C_n = (S_n + W_n^-1)^-1
    Cov(z_n) = K - K B_n' C_n B_n K,   E[z_n] = K B_n' alpha_n,   alpha_n = b_n - W_n E[s_n]

C = W (I + SW)^-1 exists for any weights, 0 and negative ones too. A conditioning is N factors of
the size of a vector's rows, never of D; dlog_normaliser/dK = sum_n B_n'(alpha alpha' - C)B_n / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Failure, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors, flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.grouped.wide_factor import WideFactor
from lgmdsl.engines.shared.factored import FactoredConditioned, entries_of
from lgmdsl.engines.shared.partition import Partition
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import Trait

MOST = 8  # entries of a row
UNSUITED = f"a row has no latents, or more than {MOST}"


@dataclass(frozen=True, eq=False)
class WideRows:
    """Rows by the N vectors of length `size` that they touch, up to M each, padded; `columns`,
    `values` (N, M, E): their entries, 0 where there are fewer."""

    size: int
    groups: Partition
    columns: IntArray
    values: Array

    @classmethod
    def of(cls, b: sp.csr_array, size: int) -> WideRows:
        """The vectors and rows of B, (P, N size), each row of one vector."""
        group = (b.indices[b.indptr[:-1]] // size).astype(np.int64)
        rows = Partition(group, b.shape[1] // size)
        line, column = entries_of(b)
        entry = np.arange(len(line)) - b.indptr[line]
        shape = (rows.count, rows.width, int(np.diff(b.indptr).max()))
        columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        place = group[line], rows.place[line], entry
        columns[place], values[place] = column % size, b.data
        return cls(size, rows, columns, values)

    def between(self, k: Array) -> Array:
        """(N, M, M) B_n K B_n'."""
        out = np.zeros((*self.groups.table.shape, self.groups.width))
        for e, f in product(range(self.columns.shape[2]), repeat=2):
            pairs = k[self.columns[:, :, None, e], self.columns[:, None, :, f]]
            out += self.values[:, :, None, e] * pairs * self.values[:, None, :, f]
        return out

    def gathered(self, m: Array, some: slice = slice(None)) -> Array:
        """(G, M, D) B_n m for some vectors, m (D, D)."""
        picked = m[self.columns[some]]  # (G, M, E, D)
        return np.asarray(np.einsum("gmed,gme->gmd", picked, self.values[some]))

    def summed(self, weights: Array) -> Array:
        """(D, D) sum_n B_n' weights_n B_n, for (N, M, M)."""
        out = np.zeros(self.size * self.size)
        for e, f in product(range(self.columns.shape[2]), repeat=2):
            place = self.columns[:, :, None, e] * self.size + self.columns[:, None, :, f]
            share = self.values[:, :, None, e] * weights * self.values[:, None, :, f]
            out += np.bincount(place.reshape(-1), share.reshape(-1), len(out))
        return out.reshape(self.size, self.size)


class WideEngine(Engine):
    """One block `iid * ... * structure` whose rows each touch a single vector."""

    name: ClassVar[str] = "wide"
    summary: ClassVar[str] = (
        "independent groups with long correlated vectors, of which each row sees one"
    )
    notes: ClassVar[Notes] = Notes(
        formula="S_g = B_g K B_g' over the rows of each group g, never of the vector's length",
        support="one block iid * ... * structure, each row with one vector",
        advice="for long vectors seen in few rows: factors of the size of its rows",
        example="lgm fit groups.lgm groups.npz --option engine=wide",
        see_also=("batched", "covariance"),
    )

    def __init__(self, linear: LinearGaussian) -> None:
        reason = self.refuses(linear)
        if reason:
            raise TypeError(reason)
        self.linear = linear
        (block,) = linear.blocks
        self.covariance = np.ascontiguousarray(block.factors[-1].covariance())
        self.b = _rows(linear)
        self.rows = WideRows.of(self.b, len(self.covariance))
        self.mu = np.asarray(block.mean, dtype=np.float64)
        offset = flatten(tuple(p.offset for p in linear.predictors))
        self.start = np.asarray(self.b @ self.mu + offset)
        self.s = self.rows.between(self.covariance)  # (N, M, M)

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        refusal = plain_refusal(linear)
        if refusal:
            return refusal
        b = _rows(linear)
        counts = np.diff(b.indptr)
        if not len(counts) or counts.min() < 1 or counts.max() > MOST:
            return UNSUITED
        return (
            "" if _within(b, linear.blocks[0].factors[-1].size) else "a row joins several vectors"
        )

    @property
    def prior_mean(self) -> Rows:
        return split(self.start, self.linear.predictors)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        w = self.rows.groups.padded(flatten(weight))
        identity = np.eye(w.shape[1])
        half: Array | None = None
        if (w >= 0.0).all():
            root = np.sqrt(w)
            try:
                factor = np.linalg.cholesky(identity + root[:, :, None] * self.s * root[:, None, :])
            except np.linalg.LinAlgError:
                return Failed(kind=Failure.INDEFINITE)
            scaled: Array = np.linalg.inv(factor) * root[:, None, :]
            c, half = scaled.transpose(0, 2, 1) @ scaled, scaled
            half_log_det = float(np.log(np.einsum("nii->ni", factor)).sum())
        else:
            whole = identity + self.s * w[:, None, :]
            # The eigenvalues of I + SW are those of I + R'WR, S = RR', which must be positive.
            if not (np.linalg.eigvals(whole).real > 0.0).all():
                return Failed(kind=Failure.INDEFINITE)
            c = w[:, :, None] * np.linalg.inv(whole)
            c = 0.5 * (c + c.transpose(0, 2, 1))
            half_log_det = 0.5 * float(np.linalg.slogdet(whole)[1].sum())
        if not np.isfinite(c).all():
            return Failed(kind=Failure.NOT_FINITE)
        return FactoredConditioned(WideFactor(self, weight, c, half, half_log_det), shift)

    def spread(self, x: Array | sp.csr_array) -> Array:
        """(N, D) X K; rows of X that are mostly 0 cost what is not."""
        if isinstance(x, np.ndarray) and np.count_nonzero(x) < 0.2 * x.size:
            x = sp.csr_array(x)
        return np.asarray(x @ self.covariance)


def plain_refusal(linear: LinearGaussian) -> str:
    """Why the model is refused, as far as that can be said without B."""
    if linear.constraints is not None:
        return "constraints join its vectors"
    if len(linear.blocks) != 1:
        return "it takes one block of latents"
    (block,) = linear.blocks
    *others, last = block.factors
    if not others or not all(Trait.IDENTITY in f.traits() for f in others):
        return f"block `{block.name}` is not `iid * ...` with one structure last"
    if Shape.COVARIANCE not in last.shape or last.constraints().shape[0]:
        return f"block `{block.name}` ({last.name}) has no covariance, or is tied"
    for p in linear.predictors:
        if p.event:
            return "its sites are scalar"
        if any(not o.is_sparse for o in p.columns.values()):
            return "an operator is dense"
        if any(p.rows > o.entries for o in p.columns.values()):
            return UNSUITED
    return ""


def _rows(linear: LinearGaussian) -> sp.csr_array:
    """B, (P, n)."""
    b = sp.csr_array(StackedPredictors(linear).sparse())
    if not b.has_canonical_format:
        b = b.copy()
        b.sum_duplicates()
    return b


def _within(b: sp.csr_array, size: int) -> bool:
    """Whether the latents of each row are of one vector, of `size`."""
    group = b.indices // size
    first = np.repeat(group[b.indptr[:-1]], np.diff(b.indptr))
    return bool((group == first).all())
