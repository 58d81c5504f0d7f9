"""The variational Gaussian whose covariance differs from the prior's in few directions.

Titsias 2009 (inducing points as variational parameters) and Hensman et al. 2015 (for sites that are
not Gaussian); the thesis's sparse approximations of the posterior (Khan 2012, section 6.4.5).

The bound is below that of natural-gradient, rises with the number of directions (they are nested)
and is equal to it where that is the rank of the prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.engine import (
    Adjoints,
    Conditioned,
    Confinement,
    Draws,
    Engine,
    Failed,
    MakeEngine,
    Rows,
)
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.stacked import cut, flatten
from lgmdsl.contract.status import Guarantee
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.numerics.cholesky import partial_root
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True)
class Inducing(NaturalAscent):
    """Natural-gradient ascent on the ELBO over q(z) = p(z | u) q(u), `directions` entries in u."""

    directions: int = option(50, "latents of each dense block that q is free in, at least 1")
    memory: int = option(6, "how many past steps Anderson's candidate combines, at least 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="inducing",
        needs=Expected,
        confined=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=100,
        paper="Titsias 2009; Hensman, Matthews and Ghahramani 2015; Khan 2012, section 6.4.5",
        summary="variational Gaussian, free in few directions of each gp, the prior in the others",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over q(z) = p(z | u) q(u), u "
            "`directions` latents of each block, by pivoted Cholesky of its prior covariance",
            support="every site that natural-gradient takes; blocks that are independent, sparse "
            "(rw1, besag), improper or constrained, or have fewer latents, are kept whole",
            advice="below the bound of natural-gradient, and equal to it with as many directions "
            "as the prior has; raise `directions` until the bound no longer rises",
            example="lgm fit gp.lgm data.npz --method inducing --option directions=30",
            see_also=("natural-gradient", "mean-field", "gp", "lower"),
            also_called=(*also("GPflow, GPyTorch", "SVGP SGPR VFE"),),
        ),
    )

    def __post_init__(self) -> None:
        check_least("directions", self.directions, 1)
        check_least("memory", self.memory, 1)

    def confinement(self, linear: LinearGaussian) -> Confinement | None:
        return directions_of(self.directions, linear)


# ---- directions --------------------------------------------------------------------------------
# Gaussians q(z) = p(z | u) q(u), u = P_b z_b a few latents of each block, as a confinement of q.
#
# With K = RR' + D, R (n, k) the first k columns of a pivoted Cholesky factor of K, and x ~ N(0,
# I_k),
#
#     z = mu + R x + e,   e ~ N(0, D) independent of x,   u = P z <-> x one to one
#
# since R = K P'L^-T with LL' = PKP', and D = K - K P'(PKP')^-1 P K = Cov(z | u). q changes the
# distribution of x alone, so that KL(q || p) = KL(q(x) || N(0, I)), and Cov_q[z] = K - R (I - V)
# R'.


# Blocks of such a shape are kept whole: precisions that are sparse, and what has no covariance.
KEPT = Shape.DIAGONAL | Shape.SPARSE | Shape.IMPROPER


@dataclass(frozen=True, eq=False)
class Reduced:
    """One block: K, R (n, k) and the latents that P picks, in the order of the columns of R."""

    block: PriorBlock
    count: int

    @cached_property
    def covariance(self) -> Array:
        """K."""
        first, *others = (f.covariance() for f in self.block.factors)
        for factor in others:
            first = np.asarray(np.kron(first, factor))
        return first

    @cached_property
    def ranks(self) -> IntArray:
        """(n,): an order of the latents that rows in another order do not change, where members
        have coordinates."""
        keys = np.zeros((1, 0))
        for factor in self.block.factors:
            at = factor.coordinates
            own = np.arange(factor.size)[:, None] if at is None else at
            pairs = len(keys), len(own)
            left, right = np.repeat(keys, pairs[1], axis=0), np.tile(own, (pairs[0], 1))
            keys = np.hstack([left, right])
        ranks = np.empty(len(keys), dtype=np.int64)
        ranks[np.lexsort(keys.T[::-1])] = np.arange(len(keys))
        return ranks

    @cached_property
    def _found(self) -> tuple[Array, IntArray]:
        return partial_root(self.covariance, self.count, self.ranks)

    @property
    def root(self) -> Array:
        return self._found[0]

    @property
    def picked(self) -> IntArray:
        return self._found[1]

    @cached_property
    def left(self) -> Array:
        """D = K - RR'; exactly 0 at the latents that were picked."""
        rest = self.covariance - self.root @ self.root.T
        rest[self.picked] = 0.0
        rest[:, self.picked] = 0.0
        return rest

    @cached_property
    def rest(self) -> Array:
        """E with EE' = D: the further columns of the factor."""
        every, _ = partial_root(self.covariance, self.block.size, self.ranks)
        return every[:, self.root.shape[1] :]


@dataclass(frozen=True)
class Directions(Confinement):
    """`count` directions of each of the blocks `names`, the others whole."""

    count: int
    names: tuple[str, ...]

    @property
    def note(self) -> str:
        latents = ", ".join(dict.fromkeys(n.partition(".")[0] for n in self.names))
        wide = "in all others as wide as the prior"
        return f"q is free in {self.count} directions of {latents}, {wide}"

    def engine(self, whole: Engine, make: MakeEngine) -> Engine:
        reduced: Mapping[str, Reduced] = {
            b.name: Reduced(b, self.count) for b in whole.linear.blocks if b.name in self.names
        }
        return DirectionsEngine(whole, make, reduced, self)


def directions_of(count: int, linear: LinearGaussian) -> Directions | None:
    """The directions of a model; None where every block has as many latents at most, or is kept."""
    names = tuple(b.name for b in linear.blocks if b.size > count and _is_dense(b))
    tied = () if linear.constraints is None else tuple(linear.constraints.columns)
    names = tuple(n for n in names if n not in tied)
    return Directions(count, names) if names else None


def _is_dense(block: PriorBlock) -> bool:
    if Shape.COVARIANCE not in block.shape or block.shape & KEPT:
        return False
    return not any(f.constraints().shape[0] for f in block.factors)


# ---- engine ------------------------------------------------------------------------------------
# Conditioning with few directions: the engine of x, and what is left of the prior besides.
#
# z = mu + R x + e (`directions`), so that predictors have B R in the place of B and Var[e] besides:
#
#     log_normaliser(W, b) = that of x - 1/2 tr W B D B'
#
# and q(x) is what an engine of x conditions. Where R and D depend on hyperparameters, derivatives
# are partial ones at fixed q(x); F depends on R through RR' alone, whose derivative in K is that of
# C M^-1 C', C = K P', M = PKP'.


class Part(Protocol):
    """One block of which q has few directions: K = RR' + D, D = EE'."""

    @property
    def block(self) -> PriorBlock: ...
    @property
    def root(self) -> Array: ...
    @property
    def picked(self) -> IntArray: ...
    @property
    def left(self) -> Array: ...
    @property
    def rest(self) -> Array: ...


@dataclass(frozen=True)
class Standard(Structure):
    """x ~ N(0, I_k)."""

    order: int
    name: ClassVar[str] = "directions"

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return Shape.COVARIANCE | Shape.PRECISION

    def covariance(self) -> Array:
        return np.eye(self.order)

    def precision(self) -> Array:
        return np.eye(self.order)

    def log_det_precision(self) -> float:
        return 0.0


class DirectionsEngine(Engine):
    """`inside`: the engine of all Gaussians; `inner`: that of x, and of the blocks kept whole."""

    name = "directions"

    def __init__(
        self, inside: Engine, make: MakeEngine, parts: Mapping[str, Part], confinement: Confinement
    ) -> None:
        super().__init__(inside.linear)
        self.inside, self.make, self.parts, self.confinement = inside, make, parts, confinement
        self.name = inside.name  # type: ignore[misc]  # what a fit records and is rebuilt by
        blocks = tuple(self._inward(b) for b in inside.linear.blocks)
        predictors = tuple(self.inward(p) for p in inside.linear.predictors)
        self.inner = make(LinearGaussian(blocks, predictors, inside.linear.constraints))

    def _inward(self, block: PriorBlock) -> PriorBlock:
        if block.name not in self.parts:
            return block
        k = self.parts[block.name].root.shape[1]
        return PriorBlock(block.name, (Standard(k),), np.zeros(k))

    def inward(self, predictor: Predictor) -> Predictor:
        """The predictor's mean given x."""
        columns: dict[str, Operator] = dict(predictor.columns)
        offset = predictor.offset
        for name, part in self.parts.items():
            if name in columns:
                offset = offset + columns[name].matvec(part.block.mean)
                columns[name] = Dense(columns[name].matvec(part.root))
        return Predictor(columns, offset, predictor.event)

    def outward(self, x: Array) -> Array:
        """R x, and of the blocks kept whole what they are: (n, ...) for (n', ...)."""
        out = np.empty((self.linear.size, *x.shape[1:]))
        for name, where in self.linear.slices.items():
            own = x[self.inner.linear.slices[name]]
            out[where] = self.parts[name].root @ own if name in self.parts else own
        return out

    def pulled(self, z: Array) -> Array:
        """R' z, and of the blocks kept whole what they are: (n', ...) for (n, ...)."""
        out = np.empty((self.inner.linear.size, *z.shape[1:]))
        for name, where in self.inner.linear.slices.items():
            own = z[self.linear.slices[name]]
            out[where] = self.parts[name].root.T @ own if name in self.parts else own
        return out

    @property
    def unconfined(self) -> Engine:
        return self.inside

    @property
    def prior_mean(self) -> Rows:
        return self.inner.prior_mean

    @cached_property
    def left(self) -> Rows:
        """Var[B e] of each site block."""
        out = []
        for p, mean in zip(self.linear.predictors, self.prior_mean, strict=True):
            value = np.zeros((*mean.shape, *mean.shape[1:]))
            for name, part in self.parts.items():
                if name in p.columns:
                    B = p.columns[name].dense()
                    value += _blocks(B, B @ part.left, mean)
            out.append(value)
        return tuple(out)

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        q = self.inner.condition(weight, shift)
        return q if isinstance(q, Failed) else DirectionsConditioned(self, q)

    def strain(self, weight: Rows) -> float:
        return self.inner.strain(weight)

    def remade(self, linear: LinearGaussian) -> Engine:
        return self.confinement.engine(self.inside.remade(linear), self.make)

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        return "it is made of other engines"


class DirectionsConditioned(Conditioned):
    """`q`: that of x and of the blocks kept whole."""

    def __init__(self, engine: DirectionsEngine, q: Conditioned) -> None:
        self.engine, self.q = engine, q
        self.weight, self.shift = q.weight, q.shift
        traces = zip(q.weight, engine.left, strict=True)
        self.lacking = 0.5 * rows.total(tuple(rows.trace(w, v) for w, v in traces))
        self.log_normaliser = q.log_normaliser - self.lacking

    @cached_property
    def unconfined(self) -> Conditioned:
        whole = self.engine.inside.condition(self.weight, self.shift)
        if isinstance(whole, Failed):
            raise NumericalError(Diagnostic("E601", whole.reason))
        return whole

    @property
    def confinement(self) -> Confinement:
        return self.engine.confinement

    @property
    def centred(self) -> float:
        return self.q.centred - self.lacking

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        q = self.q.with_shift(shift)
        return q if isinstance(q, Failed) else DirectionsConditioned(self.engine, q)

    @property
    def mean(self) -> Rows:
        return self.q.mean

    @cached_property
    def variance(self) -> Rows:
        pairs = zip(self.q.variance, self.engine.left, strict=True)
        return tuple(rows.semidefinite(v + d) for v, d in pairs)

    @cached_property
    def latent_mean(self) -> Array:
        out = self.engine.outward(self.q.latent_mean)
        for name, part in self.engine.parts.items():
            out[self.engine.linear.slices[name]] += part.block.mean
        return out

    @cached_property
    def latent_variance(self) -> Array:
        out, own = np.empty(self.engine.linear.size), self.q.latent_variance
        for name, where in self.engine.linear.slices.items():
            part = self.engine.parts.get(name)
            if part is None:
                out[where] = own[self.engine.inner.linear.slices[name]]
            else:
                given = Predictor({name: Dense(part.root)}, np.zeros(part.block.size))
                out[where] = self.q.project(given)[1] + part.left.diagonal()
        return out

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        mean, variance = self.q.project(self.engine.inward(predictor), full)
        for name, part in self.engine.parts.items():
            if name in predictor.columns:
                B = predictor.columns[name].dense()
                half = B @ part.left
                variance = variance + (half @ B.T if full else np.einsum("ij,ij->i", half, B))
        return mean, variance

    def solve(self, rhs: Array) -> Array:
        out = self.engine.outward(self.q.solve(self.engine.pulled(rhs)))
        for name, part in self.engine.parts.items():
            where = self.engine.linear.slices[name]
            out[where] += part.left @ rhs[where]
        return out

    def sample(self, rng: Generator, size: int) -> Array:
        return self.draw(rng, size).z

    def draw(self, rng: Generator, size: int) -> Draws:
        """x, then e: R and E together have full column rank, so distances add."""
        drawn = self.q.draw(rng, size)
        z, radius, rank = self.engine.outward(drawn.z.T), drawn.radius, drawn.rank
        for name, part in self.engine.parts.items():
            noise = rng.standard_normal((part.rest.shape[1], size))
            z[self.engine.linear.slices[name]] += part.block.mean[:, None] + part.rest @ noise
            radius = radius + (noise**2).sum(axis=0)
            rank += part.rest.shape[1]
        return Draws(z.T, radius, rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """Adjoints of the model, from those of x, whose mean is that of z along a tilt, and from
        what is left of the prior.
        With O = dF/d(BR) and G = B'WB of a reduced block, dF/dD = -G/2, dF/dR = B'O + GR; then
        dF/dK = -G/2 + (Y P + P'Y')/2 - P'ZP/2, Y = dF/dR L^-1, Z = L^-T R' Y (symmetric)."""
        own = self.q.adjoints(tilt)
        predictors = self.engine.linear.predictors
        alpha = cut(flatten(own.offset), predictors)
        operator: list[dict[str, object]] = [dict(x) for x in own.operator]
        mean, covariance = dict(own.mean), dict(own.covariance)
        precision = {n: x for n, x in own.precision.items() if n not in self.engine.parts}
        for name, part in self.engine.parts.items():
            n, R, D = part.block.size, part.root, part.left
            slope, pull, G = np.zeros_like(R), np.zeros(n), np.zeros((n, n))
            for k, p in enumerate(predictors):
                if name not in p.columns:
                    continue
                B = p.columns[name].dense()
                WB = rows.times_rows(self.weight[k], B)
                O = np.asarray(own.operator[k][name])
                operator[k][name] = O @ R.T + np.outer(alpha[k], part.block.mean) - WB @ D
                slope += B.T @ O
                pull += B.T @ alpha[k]
                G += B.T @ WB
            slope += G @ R
            mean[name] = pull
            covariance[name] = _through_root(slope, G, R, part.picked)
        factors = {n: x for n, x in own.factors.items() if n not in self.engine.parts}
        return replace(
            own, operator=tuple(operator), mean=mean, covariance=covariance, precision=precision,
            factors=factors,
        )  # fmt: skip


def _through_root(slope: Array, G: Array, R: Array, picked: IntArray) -> Array:
    lower = R[picked]
    Y = sla.solve_triangular(lower, slope.T, lower=True, trans=1).T  # slope L^-1
    Z = sla.solve_triangular(lower, R.T @ Y, lower=True, trans=1)
    out = -0.5 * G
    out[:, picked] += 0.5 * Y
    out[picked] += 0.5 * Y.T
    out[np.ix_(picked, picked)] -= 0.25 * (Z + Z.T)
    return np.asarray(out)


def _blocks(B: Array, other: Array, mean: Array) -> Array:
    """Diagonal blocks of B other' for site rows: (N,), or (N, K, K)."""
    if mean.ndim == 1:
        return np.asarray(np.einsum("ij,ij->i", B, other))
    shape = (*mean.shape, B.shape[1])
    return np.asarray(np.einsum("nir,njr->nij", B.reshape(shape), other.reshape(shape)))
