"""A model whose Gaussian rows are as many as their latents: their sums of squares and products.

Rows y = B z + c + e, e_i ~ N(0, sd^2 / w_i), with one sd and B and c free of hyperparameters, are
with Q R = [W^(1/2) B, W^(1/2) (y - c)] (Golub and Van Loan 2013, section 5.3)

    sum_i w_i log N(y_i | s_i, sd^2) = sum_j log N(r_j | (R z)_j, sd^2) + (w - m) log N(r | 0, sd^2)

for all z and sd, where w is the sum of the weights, m the number of latents, r_j the last column
of R, and (w - m) r^2 the residual sum of squares of the weighted rows: m rows, and one of weight
w - m that no latent is in. Products of B with itself, which would lose half of the digits, are not
formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.merged import merged
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.row_source import Folding
from lgmdsl.contract.site import Property
from lgmdsl.engines.shared.other_rows import OtherRows
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense
from lgmdsl.sites.combined.weighted import weighted

# It pays from this many rows on, with so many for each latent, and for so few latents: the rows
# that are left are dense.
LEAST, EACH, MOST = 2000, 4, 400
TILE = 4096  # rows at a time


@dataclass(frozen=True, eq=False)
class Sums:
    """The predictor of the rows that are left, (m + 1, m) by latent, and their observations."""

    predictor: Predictor
    y: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class Rotated(Folding):
    """Gaussian rows as their sums. `sums`: of each site block, None where its rows are kept."""

    entry, left = "summed", "the sums of Gaussian rows"
    sums: tuple[Sums | None, ...]

    def observed(self, model: CanonicalModel, k: int, theta: Theta) -> Predictor:
        sums = self.sums[k]
        return model.own_predictor(k, theta) if sums is None else sums.predictor

    @property
    def note(self) -> str:
        return "; ".join(f"{b.name}: {len(b.rows):,} rows, {len(s.y):,} sums" for b, s in self._of)

    @property
    def descriptions(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (b.name, f"{len(b.rows):,} Gaussian rows: fitted as their {len(s.y):,} sums")
            for b, s in self._of
        )

    @property
    def _of(self) -> list[tuple[SiteBlock, Sums]]:
        pairs = zip(self.whole.blocks, self.sums, strict=True)
        return [(block, sums) for block, sums in pairs if sums is not None]

    def unfolded(
        self,
        theta: Theta,
        weight: Rows,
        shift: Rows,
        condition: Callable[[], Conditioned],
        question: type,
        answers: Sequence[Callable[[Any], Any]],
    ) -> tuple[Rows, Rows]:
        return self._sites(weight, shift, lambda block, _: (block.row_weights, block.y))

    def summed(self, theta: Theta, weight: Rows, shift: Rows) -> tuple[Rows, Rows]:
        return self._sites(weight, shift, lambda _, sums: (sums.weight, sums.y))

    def _sites(
        self,
        weight: Rows,
        shift: Rows,
        other: Callable[[SiteBlock, Sums], tuple[Array, Array | None]],
    ) -> tuple[Rows, Rows]:
        """Weights and shifts at the `other` rows, which have these weights and observations: the
        total precision, that of the noise times the sum of the weights, is the same for both."""
        weights, shifts = list(weight), list(shift)
        for k, sums in enumerate(self.sums):
            if sums is not None:
                share, y = other(self.whole.blocks[k], sums)
                assert y is not None, "rows are summed where they are observed"
                weights[k] = float(weight[k].sum() / share.sum()) * share
                shifts[k] = weights[k] * y
        return tuple(weights), tuple(shifts)

    def seen(self, theta: Theta, q: Conditioned, weight: Rows, shift: Rows) -> Conditioned:
        return _Seen(q, weight, shift, self, theta)

    def rows_of(self, theta: Theta, q: Conditioned) -> tuple[Rows, Rows]:
        """Means and variances of the predictors of all rows."""
        pairs = [
            (q.mean[k], q.variance[k]) if sums is None else q.project(self.whole.observed(k, theta))
            for k, sums in enumerate(self.sums)
        ]
        return tuple(m for m, _ in pairs), tuple(v for _, v in pairs)


class _Seen(OtherRows):
    """A posterior of sums at all rows: predictors are projected."""

    def __init__(
        self, inner: Conditioned, weight: Rows, shift: Rows, rows: Rotated, theta: Theta
    ) -> None:
        super().__init__(inner, weight, shift, self._outward, self._inward)
        self.rows, self.theta = rows, theta

    def _about(self, inner: Conditioned, shift: Rows) -> OtherRows:
        return _Seen(inner, self.weight, shift, self.rows, self.theta)

    @cached_property
    def _pairs(self) -> tuple[Rows, Rows]:
        return self.rows.rows_of(self.theta, self.inner)

    @property
    def mean(self) -> Rows:
        return self._pairs[0]

    @property
    def variance(self) -> Rows:
        return self._pairs[1]

    def _outward(self, variance: Rows) -> Rows:
        """Raise NotImplementedError: sums have variances, and errors of them, of their own."""
        raise NotImplementedError("variances of rows are projected")

    def _inward(self, shift: Rows) -> Rows:
        """Shifts of the sums whose slopes of the latents are those of the rows' shifts."""
        out = []
        for k, (b, sums) in enumerate(zip(shift, self.rows.sums, strict=True)):
            if sums is not None:
                columns = self.rows.whole.observed(k, self.theta).columns
                wanted = np.concatenate([columns[n].rmatvec(b) for n in sums.predictor.columns])
                given = np.hstack([op.dense() for op in sums.predictor.columns.values()])
                b = np.asarray(sla.lstsq(given.T, wanted)[0], dtype=np.float64)
            out.append(b)
        return tuple(out)


def fewer_sites(canonical: CanonicalModel) -> CanonicalModel | None:
    """The model with Gaussian rows as their sums, or else with rows that are alike as one; None
    where neither pays."""
    return rotated(canonical) or merged(canonical)


def rotated(canonical: CanonicalModel) -> CanonicalModel | None:
    """The model with Gaussian rows as their sums, in the blocks where that pays; None where it
    pays in none."""
    sums = tuple(_sums(canonical, k) for k in range(len(canonical.blocks)))
    if all(s is None for s in sums):
        return None
    pairs = zip(canonical.blocks, sums, strict=True)
    blocks = tuple(b if s is None else _summed(b, s) for b, s in pairs)
    return replace(canonical, blocks=blocks, rows=Rotated(canonical, rotated, sums))


def _sums(canonical: CanonicalModel, k: int) -> Sums | None:
    """The rows of a block as sums; None where that would not pay, or where it cannot be done."""
    block = canonical.blocks[k]
    form, spec = block.form, block.site.spec
    size = sum(canonical.latent(name).size for name in form.latents)
    plain = (
        Property.GAUSSIAN in spec.properties
        and spec.link == "identity"
        and not (spec.potential or spec.vector or block.whole or block.given)
        and block.y is not None
        and not any(node.dims for node in block.parameters.values())
        and not form.offset.depends
        and not any(term.depends for term in form.terms)
    )
    if not plain or len(block.rows) < max(LEAST, EACH * size) or not 0 < size <= MOST:
        return None
    assert block.y is not None, "it was asked for"
    predictor = canonical.own_predictor(k, canonical.hypers.start({}))
    if any(not op.in_memory for op in predictor.columns.values()):
        return None
    weight = block.row_weights
    left = float(weight.sum()) - size
    if left < 1.0:
        return None
    root, y = np.sqrt(weight), block.y - predictor.offset
    triangle = np.zeros((0, size + 1))
    for start in range(0, len(y), TILE):
        rows = slice(start, start + TILE)
        tile = [_dense(op, rows) for op in predictor.columns.values()]
        part = root[rows, None] * np.column_stack([*tile, y[rows]])
        triangle = sla.qr(np.vstack([triangle, part]), mode="r")[0][: size + 1]
    columns, first = {}, 0
    for name, op in predictor.columns.items():
        last = first + op.shape[1]
        columns[name] = Dense(np.vstack([triangle[:size, first:last], np.zeros((1, last - first))]))
        first = last
    rest = abs(float(triangle[size, size])) / np.sqrt(left)
    return Sums(
        Predictor(columns, np.zeros(size + 1)),
        np.append(triangle[:size, size], rest),
        np.append(np.ones(size), left),
    )


def _dense(operator: Operator, rows: slice) -> Array:
    if isinstance(operator, Dense):
        return operator.array[rows]
    return np.asarray(operator.sparse()[rows].toarray(), dtype=np.float64)


def _summed(block: SiteBlock, sums: Sums) -> SiteBlock:
    rows = block.rows[: len(sums.y)]
    weight = np.zeros(block.shape).reshape(-1)
    weight[rows] = sums.weight
    return replace(
        block,
        site=block.site if block.weight is not None else weighted(block.site),
        rows=rows,
        y=sums.y,
        weight=co.Constant(block.dims, weight.reshape(block.shape)),
    )
