"""The groups' latents u next to shared ones whose marginal is given, q(beta) = N(m, V).

    q(u, beta) = N(beta; m, V) q(u | beta),   q(u | beta) proportional to p(u) exp(-1/2 s'Ws + b's)

with s, (G, K), all latents of the places. Given beta, u has the mean a + J (beta - m) and the
covariance D^-1, D = Q + Z'WZ and J = -D^-1 Z'WX, so that at a place

    E s = (z'a, x'm),   Cov s = blocks of D^-1 + J V J', J V, V
    log_normaliser(W, b) = E over q(beta) of log int p(u) exp(-1/2 s'Ws + b's) du

which is the largest E_q[log p(u) - 1/2 s'Ws + b's - log q(u | beta)]: what `Confinement` asks, so
that back ends on it find the best q(u | beta) at this q(beta). Its slopes in m and V are those of
the integrand's expectation: slope (b - W E s) along the path of u, curvature -(X'WX - C'D^-1 C).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Engine, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.engines.shared.wrapped import WrappedConditioned
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse
from lgmdsl.shards.eliminate import Eliminated, Groups
from lgmdsl.shards.split_places import SplitPlaces

if TYPE_CHECKING:
    from numpy.random import Generator

ELSEWHERE = "a shard's groups answer this joined with the shared latents (shards.joint)"


class AtShared(Engine):
    """Engine for the groups' latents of a shard at q(beta) = N(m, V), m (p,) and V laid out as
    `Eliminated.information`. One block of G vector sites of K predictors; the predictors of the
    shared latents have m as their mean."""

    name = "at-shared"

    def __init__(self, groups: Groups, mean: Array, covariance: Array) -> None:
        split = groups.split
        self.groups, self.covariance = groups, covariance
        self.shared = split.shared(mean)
        super().__init__(LinearGaussian(groups.engine.linear.blocks, (self._predictor(split),)))

    def _predictor(self, split: SplitPlaces) -> Predictor:
        """The groups' latents at their entries of each place; the others are numbers."""
        count, size = split.count, len(split.own) + len(split.others)
        columns: dict[str, Operator] = {}
        for name, operator in split.inner.columns.items():
            known = operator.sparse()
            counts = np.zeros((count, size), dtype=np.int64)
            counts[:, split.own] = np.diff(known.indptr).reshape(count, len(split.own))
            starts = np.concatenate([[0], np.cumsum(counts.reshape(-1))])
            shape = (count * size, known.shape[1])
            columns[name] = Sparse(sp.csr_array((known.data, known.indices, starts), shape=shape))
        offset = np.zeros((count, size))
        offset[:, split.others] = self.shared
        return Predictor(columns, offset.reshape(-1), size)

    @cached_property
    def prior_mean(self) -> Rows:
        return (self.whole(self.groups.engine.prior_mean[0]),)

    @property
    def shared_variance(self) -> Array:
        """(G, K, K) Cov s where the groups' latents are known."""
        split, (mean,) = self.groups.split, self.prior_mean
        others = split.others
        out = np.zeros((*mean.shape, mean.shape[1]))
        out[:, others[:, None], others] = split.at_places(self.covariance)
        return out

    def whole(self, own: Array) -> Array:
        """(G, K): latents of the places, (G, r) of the groups' among them."""
        split = self.groups.split
        out = np.empty((split.count, len(split.own) + len(split.others)))
        out[:, split.own], out[:, split.others] = own, self.shared
        return out

    def own_shift(self, weight: Array, shift: Array) -> Array:
        """(G, r): of sites of the groups' latents alone, at beta = m."""
        own, others = self.groups.split.own, self.groups.split.others
        cross = weight[:, own[:, None], others]
        out = shift[:, own] - np.einsum("grj,gj->gr", cross, self.shared)
        return np.ascontiguousarray(out)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        own = self.groups.split.own
        inner = np.ascontiguousarray(weight[0][:, own[:, None], own])
        q = self.groups.engine.condition((inner,), (self.own_shift(weight[0], shift[0]),))
        if isinstance(q, Failed):
            return q
        none = np.zeros(weight[0].shape[:2])
        answer = PointwiseAnswer(none[:, 0], none, -weight[0], none)
        path = Eliminated(self.groups, none, answer, weight[0], q)
        return AtSharedConditioned(self, shift, q, Along(path, self.covariance))

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        return "it is of groups that lie in shards"


@dataclass(frozen=True, eq=False)
class Along:
    """How u moves with beta at some weights, whatever the shifts."""

    path: Eliminated
    covariance: Array

    @cached_property
    def variance(self) -> Array:
        """(G, K, K) Cov s."""
        return self.path.variance(self.covariance)


class AtSharedConditioned(WrappedConditioned):
    """`inner`: q(u | beta = m)."""

    def __init__(self, engine: AtShared, shift: Rows, q: Conditioned, along: Along) -> None:
        self.engine, self.inner, self.along = engine, q, along
        self.weight, self.shift = (along.path.weight,), shift

    @property
    def centred(self) -> float:
        # -1/2 tr V (X'WX - C'D^-1 C) by places: WX times Cov(u, beta) is -C'D^-1 C V.
        others = self.engine.groups.split.others
        weight, variance = self.weight[0][:, :, others], self.along.variance[:, :, others]
        return self.inner.centred - 0.5 * float(np.sum(weight * variance))

    @cached_property
    def log_normaliser(self) -> float:  # type: ignore[override]
        (w,), (b,), (m,) = self.weight, self.shift, self.mean
        return self.centred - float(np.sum(0.5 * rows.quadratic(w, m) - rows.inner(b, m)))

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        moved = self.inner.with_shift((self.engine.own_shift(self.weight[0], shift[0]),))
        if isinstance(moved, Failed):
            return moved
        return AtSharedConditioned(self.engine, shift, moved, self.along)

    @cached_property
    def mean(self) -> Rows:
        return (self.engine.whole(self.inner.mean[0]),)

    @property
    def variance(self) -> Rows:
        return (self.along.variance,)

    @property
    def latent_mean(self) -> Array:
        return self.inner.latent_mean

    @property
    def latent_variance(self) -> Array:
        return self.inner.latent_variance + self.along.path.spread(self.engine.covariance)

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        raise NotImplementedError(ELSEWHERE)

    def sample(self, rng: Generator, size: int) -> Array:
        raise NotImplementedError(ELSEWHERE)

    def draw(self, rng: Generator, size: int) -> Draws:
        raise NotImplementedError(ELSEWHERE)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        raise NotImplementedError(ELSEWHERE)
