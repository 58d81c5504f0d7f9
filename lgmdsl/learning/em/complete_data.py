"""The complete-data objective of the hypers that enter the predictors linearly.

    Q(h) = E_q sum_r (b_r s_r - w_r s_r^2 / 2) + log p(h),   s_r = ... + sum_e value_e h_e u_e

is quadratic in h, and its gradient at the h that q was fitted at is that of the evidence (Khan
2012, algorithms 1 and 2: there for loadings and offsets of each item in turn). What is left to
find is

    H_ef = sum_r w_r value_e value_f E_q[u_e u_f] - d2 log p(h)

so that h + H^-1 gradient is the M-step. For sites of vectors, -s'Ws/2 + b's with blocks W,

    H_ef = sum_r sum_ab W_r,ab value_e value_f E_q[u_e u_f] - d2 log p(h)

over the entries e of predictor a and f of predictor b. The multinomial Böhning bound's W is one
matrix for all sites, and the step its exact one; for other bounds and quadrature W is minus twice
the slope in the covariance, E_q of minus the Hessian, and the step is Newton's on E_q log t.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import entries
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.site import Property
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.operators.explicit import Sparse

DENSE = 300  # hypers: below, a dense H
ROUNDING = 1e-12  # of H's largest eigenvalue: directions that neither data nor priors tell


@dataclass(frozen=True, eq=False)
class BlockPairs:
    """Pairs of one site block, of its weights or, for vector sites, of their `entry`."""

    block: int
    entry: tuple[int, int] | None
    pairs: PairGrid | RowPairs

    def add(self, total: Array, weights: Sequence[Array], moments: Array) -> None:
        """Add the sum over its rows to `total`."""
        weight = weights[self.block]
        self.pairs.add(total, weight if self.entry is None else weight[:, *self.entry], moments)


@dataclass(frozen=True, eq=False)
class CompleteData:
    """`x`: positions of the hypers in the coordinates; pairs of latents (first <= second, n: 1)
    whose moments are needed; entries of H, row and column, upper triangle."""

    canonical: CanonicalModel
    coordinates: Coordinates
    names: tuple[str, ...]
    x: IntArray
    parts: tuple[BlockPairs, ...]
    first: IntArray
    second: IntArray
    rows: IntArray
    columns: IntArray

    @classmethod
    def of(
        cls, canonical: CanonicalModel, coordinates: Coordinates, names: Sequence[str], theta: Theta
    ) -> CompleteData:
        """For the hypers `names`, which are of `linear_hypers`."""
        slices = [coordinates.slices[n] for n in names]
        x = np.concatenate([np.arange(s.start, s.stop) for s in slices])
        starts = np.cumsum([0, *(s.stop - s.start for s in slices)])
        count, size = len(x), sum(b.size for b in canonical.latents) + 1
        found, origin = [], []
        for k, block in enumerate(canonical.blocks):
            e = entries(canonical, block, names, theta)
            column = np.where(e.columns < 0, size - 1, e.columns)
            entered = Entered(e.rows, column, starts[e.hyper] + e.places, e.values)
            for entry, pairs in _by_entry(entered, block.predictors):
                found.append(pairs)
                origin.append((k, entry))
        latents = [(p.pairs.latents[0] * size + p.pairs.latents[1]).reshape(-1) for p in found]
        hypers = [(p.pairs.hypers[0] * count + p.pairs.hypers[1]).reshape(-1) for p in found]
        moments, moment = np.unique(np.concatenate(latents), return_inverse=True)
        places, place = np.unique(np.concatenate(hypers), return_inverse=True)
        by_latents = np.split(moment, np.cumsum([len(a) for a in latents])[:-1])
        by_hypers = np.split(place, np.cumsum([len(a) for a in hypers])[:-1])
        parts = tuple(
            BlockPairs(*at, p.numbered(a, b))
            for at, p, a, b in zip(origin, found, by_latents, by_hypers, strict=True)
        )
        return cls(
            canonical,
            coordinates,
            tuple(names),
            x,
            parts,
            *np.divmod(moments, size),
            *np.divmod(places, count),
        )

    def step(self, posterior: GaussianPosterior, theta: Theta, gradient: Array) -> Array | None:
        """(d,) H^-1 gradient, `gradient` being that of evidence and log prior in the hypers; None
        where H is singular."""
        return solved(self.with_prior(self.curvature(posterior), theta), gradient)

    def curvature(self, posterior: GaussianPosterior) -> sp.csr_array:
        """H without the prior's part. What is negative of weights, as of sites that are not
        log-concave, is 0."""
        where = {b.name: self.canonical.layout.latent(b.name) for b in self.canonical.latents}
        moments = second_moments(posterior.conditioned, where, self.first, self.second)
        total = np.zeros(len(self.rows))
        weights = [
            _positive(weight, Property.LOG_CONCAVE in block.site.spec.properties)
            for block, weight in zip(self.canonical.blocks, posterior.weight, strict=True)
        ]
        for part in self.parts:
            part.add(total, weights, moments)
        size = len(self.x)
        upper = sp.coo_array((total, (self.rows, self.columns)), shape=(size, size)).tocsr()
        return sp.csr_array(upper + sp.tril(upper.T, k=-1))

    def with_prior(self, curvature: sp.csr_array | Array, theta: Theta) -> sp.csr_array:
        """H of a curvature."""
        return sp.csr_array(sp.csr_array(curvature) + sp.diags_array(self._prior(theta)))

    def _prior(self, theta: Theta) -> Array:
        """Minus the second derivatives of log priors where they are constant; 0 for others."""
        out = []
        for name in self.names:
            block = self.canonical.hypers.block(name)
            assert block is not None and block.prior is not None
            prior = block.prior.at(theta)
            value = np.zeros(()) if prior.bend is None else prior.bend
            out.append(np.broadcast_to(value, block.sizes).reshape(-1))
        return np.concatenate(out)


def _by_entry(
    entered: Entered, predictors: int
) -> Iterator[tuple[tuple[int, int] | None, PersonItemGrid | RowMoments]]:
    """The pairs of each entry of the weights, upper triangle; of scalars where there is none."""
    if not predictors:
        yield None, pairs_of(entered)
        return
    row, predictor = np.divmod(entered.row, predictors)
    sites = replace(entered, row=row)
    own = [sites.taken(predictor == a) for a in range(predictors)]
    for a, b in zip(*np.triu_indices(predictors), strict=True):
        if a == b:
            yield (int(a), int(b)), pairs_of(own[a])
        elif len(own[a].row) and len(own[b].row):
            yield (int(a), int(b)), cross_pairs_of(own[a], own[b])


def _positive(weight: Array, concave: bool) -> Array:
    """The positive part of numbers or of symmetric matrices."""
    if weight.ndim == 1:
        return np.asarray(np.maximum(weight, 0.0))
    if concave:
        return weight
    values, vectors = np.linalg.eigh(weight)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2))


def second_moments(
    q: Conditioned, where: Mapping[str, slice], first: IntArray, second: IntArray
) -> Array:
    """E[z_j z_k] for pairs j <= k of latents, n standing for the constant 1; `where`: each block.

    Cov(z_j, z_k) = (Var(z_j + z_k) - Var z_j - Var z_k) / 2, for engines give variances.
    """
    mean = np.append(q.latent_mean, 1.0)
    variance = np.append(q.latent_variance, 0.0)
    out: Array = mean[first] * mean[second]
    same = first == second
    out[same] += variance[first[same]]
    other = np.flatnonzero(~same & (second < len(mean) - 1))
    if len(other):
        a, b = first[other], second[other]
        both = q.project(_sums(where, len(mean) - 1, a, b))[1]
        out[other] += 0.5 * (both - variance[a] - variance[b])
    return out


def _sums(where: Mapping[str, slice], size: int, first: IntArray, second: IntArray) -> Predictor:
    """z_j + z_k for every pair."""
    line = np.arange(len(first))
    both = np.r_[line, line], np.r_[first, second]
    whole = sp.csc_array((np.ones(2 * len(line)), both), shape=(len(line), size))
    columns = {n: Sparse(sp.csr_array(whole[:, at])) for n, at in where.items()}
    return Predictor(columns, np.zeros(len(line)))


def solved(matrix: sp.csr_array, right: Array) -> Array | None:
    """matrix^-1 right for a positive definite matrix, the least such for a small one that is
    positive semi-definite; None for any other."""
    if matrix.shape[0] <= DENSE:
        return _dense_solved(matrix.toarray(), right)
    try:
        solution = np.asarray(spla.splu(matrix.tocsc()).solve(right))
    except RuntimeError:
        return None
    return solution if np.isfinite(solution).all() and right @ solution > 0.0 else None


def _dense_solved(matrix: Array, right: Array) -> Array | None:
    try:
        return np.asarray(sla.cho_solve(sla.cho_factor(matrix), right))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
    except ValueError:  # not finite
        return None
    least = ROUNDING * values[-1]
    if values[0] < -least or least <= 0.0:
        return None
    positive = values > least
    return np.asarray(vectors[:, positive] @ ((right @ vectors[:, positive]) / values[positive]))


# ---- pair sums ---------------------------------------------------------------------------------
# Sums over rows of weight times the moments of pairs of latents, for each pair of hypers.
#
#     total[place of (e, f)] += sum_r w_r value_e value_f E[u_e u_f]
#
# over pairs e, f of a row; for sites of vectors, whose weights are matrices, over e of predictor a
# and f of predictor b of a site, with w_r the entry (a, b), a <= b. `PairGrid` where rows are a
# table, as of persons and items: the latents depend on the person alone and the hypers on the item,
# and the sum is a product of two matrices, the table of weights sparse where few cells are rows.
# `RowPairs` for anything else.


FILLED = 0.2  # the least share of a table's cells that are rows where it is held as a dense one
SAVED = 2.0  # rows a person and item: below, a table is as long as its rows


@dataclass(frozen=True, eq=False)
class Entered:
    """What stands in the predictors of rows, (E,) each: row, latent, hyper, and its factor."""

    row: IntArray
    column: IntArray
    hyper: IntArray
    value: Array

    def taken(self, which: BoolArray | IntArray) -> Entered:
        """Some of the entries."""
        return Entered(self.row[which], self.column[which], self.hyper[which], self.value[which])

    @property
    def ordered(self) -> Entered:
        """By row, and by hyper within."""
        return self.taken(np.lexsort((self.hyper, self.row)))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of entries before their moments and places have numbers: latents (first <= second) and
    hypers (first <= second), each (2, ...)."""

    latents: tuple[IntArray, IntArray]
    hypers: tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class RowPairs:
    """For each pair its row, the product of its two values, the positions of its moment and of its
    place, (Q,) each."""

    row: IntArray
    value: Array
    moment: IntArray
    place: IntArray

    def add(self, total: Array, weight: Array, moments: Array) -> None:
        """Add to `total`, (places,), for weights (N,) and all moments."""
        if not len(self.row):
            return
        shares = weight[self.row] * self.value * moments[self.moment]
        total += np.bincount(self.place, shares, len(total))


@dataclass(frozen=True, eq=False)
class PairGrid:
    """`person`, `item`: (N,) where each row stands in the table (persons, items); `moment`
    (persons, Q) and `place` (items, Q) of the pairs. A table that is not `FILLED` is sparse."""

    person: IntArray
    item: IntArray
    moment: IntArray
    place: IntArray

    def add(self, total: Array, weight: Array, moments: Array) -> None:
        """Add to `total`, (places,), for weights (N,) and all moments."""
        persons, items = len(self.moment), len(self.place)
        if len(self.person) >= FILLED * persons * items:
            cell = self.person * items + self.item
            table = np.bincount(cell, weight, persons * items).reshape(persons, items)
            shares = np.asarray(table.T @ moments[self.moment])
        else:
            by_item = sp.csr_array((weight, (self.item, self.person)), shape=(items, persons))
            shares = np.asarray(by_item @ moments[self.moment])
        total += np.bincount(self.place.reshape(-1), shares.reshape(-1), len(total))


@dataclass(frozen=True, eq=False)
class PersonItemGrid:
    """A table of rows: `person`, `item` (N,); the pairs' latents (persons, Q) and hypers (items,
    Q)."""

    person: IntArray
    item: IntArray
    pairs: Pairs

    def numbered(self, moment: IntArray, place: IntArray) -> PairGrid:
        """With the positions of the pairs' moments and places, flat."""
        like = self.pairs.latents[0].shape, self.pairs.hypers[0].shape
        places = place.reshape(like[1])
        return PairGrid(self.person, self.item, moment.reshape(like[0]), places)


@dataclass(frozen=True, eq=False)
class RowMoments:
    """Pairs of every row by themselves."""

    row: IntArray
    value: Array
    pairs: Pairs

    def numbered(self, moment: IntArray, place: IntArray) -> RowPairs:
        """With the positions of the pairs' moments and places."""
        return RowPairs(self.row, self.value, moment, place)


def pairs_of(entered: Entered) -> PersonItemGrid | RowMoments:
    """All pairs of entries that share a row: H's upper triangle, the latents' in order."""
    ordered = entered.ordered
    return _grid(ordered, ordered, True) or _table(ordered, ordered, True)


def cross_pairs_of(left: Entered, right: Entered) -> PersonItemGrid | RowMoments:
    """All pairs of an entry of one predictor and one of another at the same row, as `pairs_of`: a
    pair of entries of one hyper counts on both sides of the diagonal, and so twice."""
    left, right = left.ordered, right.ordered
    return _grid(left, right, False) or _table(left, right, False)


def _grid(left: Entered, right: Entered, same: bool) -> PersonItemGrid | None:
    rows = int(left.row[-1]) + 1 if len(left.row) else 0
    one, other = _regular(left, rows), _regular(right, rows)
    if one is None or other is None:
        return None
    columns, hypers = (np.hstack(pair) for pair in zip(one, other, strict=True))
    if not same and (one[1][:, :, None] == other[1][:, None, :]).any():
        return None
    persons, items = _alike(columns), _alike(hypers)
    if persons is None or items is None:
        return None
    (known, person), (known_items, item) = persons, items
    sizes = len(known), len(known_items)
    if rows < min(SAVED * sum(sizes), FILLED * sizes[0] * sizes[1]):
        return None
    width, second = one[0].shape[1], other[0].shape[1]
    a, b = np.triu_indices(width) if same else np.indices((width, second)).reshape(2, -1)
    b = b + width  # the second half of the columns
    columns, hypers = columns[known], hypers[known_items]
    return PersonItemGrid(
        person,
        item,
        Pairs(_in_order(columns[:, a], columns[:, b]), _in_order(hypers[:, a], hypers[:, b])),
    )


def _regular(entered: Entered, rows: int) -> tuple[IntArray, IntArray] | None:
    """Columns and hypers, (rows, width) each, where every row has as many and values are 1."""
    width = len(entered.row) // max(rows, 1)
    if not rows or rows * width != len(entered.row) or (entered.value != 1.0).any():
        return None
    if (entered.row != np.repeat(np.arange(rows), width)).any():
        return None
    columns, hypers = entered.column.reshape(rows, width), entered.hyper.reshape(rows, width)
    return None if (np.diff(hypers, axis=1) <= 0).any() else (columns, hypers)


def _alike(keys: IntArray) -> tuple[IntArray, IntArray] | None:
    """The first row of each different one, and which of those each row is; by a random linear code
    of the rows, None in the unlikely case that two share one."""
    codes = np.random.default_rng(0).integers(1, 1 << 62, keys.shape[1], dtype=np.int64) | 1
    with np.errstate(over="ignore"):
        code = (keys * codes).sum(axis=1)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    if (keys != keys[first][which]).any():
        return None
    return first, which


def _table(left: Entered, right: Entered, same: bool) -> RowMoments:
    """With entries of one hyper and another in both orders of the latents."""
    rows = int(max(left.row.max(initial=-1), right.row.max(initial=-1))) + 1
    count = np.bincount(right.row, minlength=rows)
    within = count[left.row]  # partners of every entry
    a = np.repeat(np.arange(len(left.row)), within)
    b = np.arange(len(a)) - np.repeat(np.cumsum(within) - within, within)
    b = b + np.repeat((np.cumsum(count) - count)[left.row], within)
    if same:
        kept = left.hyper[a] <= right.hyper[b]
    else:  # once for each side of the diagonal
        twice = np.flatnonzero(left.hyper[a] == right.hyper[b])
        kept = np.r_[np.arange(len(a)), twice]
    a, b = a[kept], b[kept]
    pairs = Pairs(
        _in_order(left.column[a], right.column[b]), _in_order(left.hyper[a], right.hyper[b])
    )
    return RowMoments(left.row[a], left.value[a] * right.value[b], pairs)


def _in_order(a: IntArray, b: IntArray) -> tuple[IntArray, IntArray]:
    return np.minimum(a, b), np.maximum(a, b)
