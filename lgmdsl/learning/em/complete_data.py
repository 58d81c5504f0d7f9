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

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import entries
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.site import Property
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.pair_sums import (
    Entered,
    Grid,
    PairGrid,
    PairTable,
    Table,
    cross_pairs_of,
    pairs_of,
)
from lgmdsl.operators.explicit import Sparse

DENSE = 300  # hypers: below, a dense H
ROUNDING = 1e-12  # of H's largest eigenvalue: directions that neither data nor priors tell


@dataclass(frozen=True, eq=False)
class Part:
    """Pairs of one site block, of its weights or, for vector sites, of their `entry`."""

    block: int
    entry: tuple[int, int] | None
    pairs: PairGrid | PairTable

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
    parts: tuple[Part, ...]
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
            Part(*at, p.numbered(a, b))
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
) -> Iterator[tuple[tuple[int, int] | None, Grid | Table]]:
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
