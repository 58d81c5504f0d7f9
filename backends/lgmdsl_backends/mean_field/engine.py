"""Conditioning with independent blocks: the mean of all of them together, one factor for each.

    centred = sum_k centred_k,   log_normaliser = centred + b'm - 1/2 m'Wm

since -KL(q_k || p_k) = centred_k + 1/2 tr W Var[s_k], and the traces are those of E_q[-1/2 s'Ws].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Engine, Failed, Leftover, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import split
from lgmdsl.errors import Diagnostic, NumericalError

if TYPE_CHECKING:
    from numpy.random import Generator

    from lgmdsl.contract.engine import Confinement


class BlockEngine(Engine):
    """`parts`: the engine of each block, at all rows; `inside`: the engine of all Gaussians."""

    name = "blocks"

    def __init__(
        self,
        inside: Engine,
        parts: Sequence[Engine],
        groups: Sequence[Sequence[str]],
        confinement: Confinement,
    ) -> None:
        super().__init__(inside.linear)
        self.inside, self.parts, self.groups, self.confinement = (
            inside,
            tuple(parts),
            groups,
            confinement,
        )
        self.name = inside.name  # type: ignore[misc]  # what a fit records and is rebuilt by
        slices = inside.linear.slices
        self.places: tuple[IntArray, ...] = tuple(
            np.concatenate(
                [
                    np.arange(slices[b.name].start, slices[b.name].stop, dtype=np.int64)
                    for b in part.linear.blocks
                ]
            )
            for part in self.parts
        )

    @property
    def unconfined(self) -> Engine:
        return self.inside

    @property
    def prior_mean(self) -> Rows:
        return self.inside.prior_mean

    def condition(self, weight: Rows, shift: Rows) -> Conditioned | Failed:
        together = self.inside.condition(weight, shift)
        if isinstance(together, Failed):
            return together
        own = []
        for k, part in enumerate(self.parts):
            q = part.condition(weight, self.left(k, together))
            if isinstance(q, Failed):
                return q
            own.append(q)
        return BlockConditioned(self, together, own)

    def approach(
        self, weight: Rows, shift: Rows, begin: Leftover | None, share: float
    ) -> Conditioned | Failed:
        """Means are wanted, which those of all Gaussians are."""
        return self.inside.approach(weight, shift, begin, share)

    def left(self, k: int, together: Conditioned) -> Rows:
        """The shift of block k, b - W (m - m_k)."""
        alpha = rows.slope_of(together.shift, together.weight, together.mean)
        own = self.seen(k, together.latent_mean[self.places[k]])
        return rows.shift_of(alpha, together.weight, own)

    def seen(self, k: int, z: Array) -> Rows:
        """B_k z_k."""
        linear = self.parts[k].linear
        flat = np.concatenate(
            [np.zeros(0), *(p.times(z, linear.slices) for p in linear.predictors)]
        )
        return split(flat, linear.predictors)

    @cached_property
    def offset(self) -> Rows:
        """c, what no block adds."""
        predictors = self.linear.predictors
        return split(np.concatenate([np.zeros(0), *(p.offset for p in predictors)]), predictors)

    def strain(self, weight: Rows) -> float:
        return max(self.inside.strain(weight), sum(p.strain(weight) for p in self.parts))

    def remade(self, linear: LinearGaussian) -> Engine:
        parts = [
            part.remade(linear.alone(group))
            for part, group in zip(self.parts, self.groups, strict=True)
        ]
        return BlockEngine(self.inside.remade(linear), parts, self.groups, self.confinement)

    @classmethod
    def refuses(cls, linear: LinearGaussian) -> str:
        return "it is made of other engines"


class BlockConditioned(Conditioned):
    """`together`: p(z) exp(-1/2 s'Ws + b's), whose mean is q's; `parts`: q_k."""

    def __init__(
        self, engine: BlockEngine, together: Conditioned, parts: Sequence[Conditioned]
    ) -> None:
        self.engine, self.together, self.parts = engine, together, tuple(parts)
        self.weight, self.shift = together.weight, together.shift
        pairs = zip(self.weight, self.shift, together.mean, strict=True)
        self.log_normaliser = self.centred + rows.total(
            tuple(rows.inner(b, m) - 0.5 * rows.quadratic(w, m) for w, b, m in pairs)
        )

    @property
    def unconfined(self) -> Conditioned:
        return self.together

    @property
    def confinement(self) -> Confinement:
        return self.engine.confinement

    @property
    def centred(self) -> float:
        return sum(q.centred for q in self.parts)

    @property
    def lost(self) -> float:
        return max(super().lost, sum(q.lost for q in self.parts))

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        together = self.together.with_shift(shift)
        if isinstance(together, Failed):
            return together
        own = []
        for k, part in enumerate(self.parts):
            q = part.with_shift(self.engine.left(k, together))
            if isinstance(q, Failed):
                return q
            own.append(q)
        return BlockConditioned(self.engine, together, own)

    @property
    def mean(self) -> Rows:
        return self.together.mean

    @cached_property
    def variance(self) -> Rows:
        first, *others = (q.variance for q in self.parts)
        return tuple(
            np.asarray(sum((v[k] for v in others), start=first[k])) for k in range(len(first))
        )

    @property
    def latent_mean(self) -> Array:
        return self.together.latent_mean

    @cached_property
    def latent_variance(self) -> Array:
        return self._joined([q.latent_variance for q in self.parts])

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        size = predictor.rows
        variance = np.zeros((size, size) if full else size)
        for k, q in enumerate(self.parts):
            own = {n: op for n, op in predictor.columns.items() if n in self.engine.groups[k]}
            if own:
                variance += q.project(Predictor(own, np.zeros(size), predictor.event), full)[1]
        return predictor.values(self.latent_mean, self.engine.linear.slices), variance

    def solve(self, rhs: Array) -> Array:
        return self._joined(
            [q.solve(rhs[p]) for q, p in zip(self.parts, self.engine.places, strict=True)]
        )

    def squared_length(self, slope: Array) -> float:
        """g'Cov_q[z] g by the covariance of all blocks together: it is how far means have to go."""
        return self.together.squared_length(slope)

    def sample(self, rng: Generator, size: int) -> Array:
        return self._joined([q.sample(rng, size).T for q in self.parts]).T

    def draw(self, rng: Generator, size: int) -> Draws:
        drawn = [q.draw(rng, size) for q in self.parts]
        z = self._joined([d.z.T for d in drawn]).T
        return Draws(z, np.sum([d.radius for d in drawn], axis=0), sum(d.rank for d in drawn))

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """Adjoints of the blocks, whose B and priors are the model's: all are partial at fixed q.

        E[s] is the derivative of log_normaliser in b, so that a tilt t adds their derivative along
        t: they are quadratic in b, whose central difference, however far, is that."""
        if tilt is not None:
            return self._tilted(tilt)
        own = [q.adjoints() for q in self.parts]
        count = len(self.engine.linear.predictors)
        return Adjoints(
            tuple(a.reshape(-1) for a in rows.slope_of(self.shift, self.weight, self.mean)),
            tuple({n: x for a in own for n, x in a.operator[j].items()} for j in range(count)),
            {n: x for a in own for n, x in a.mean.items()},
            {n: x for a in own for n, x in a.covariance.items()},
            {n: x for a in own for n, x in a.precision.items()},
            {n: x for a in own for n, x in a.factors.items()},
        )

    def _tilted(self, tilt: Rows) -> Adjoints:
        ends = []
        for sign in (1.0, -1.0):
            pairs = zip(self.shift, tilt, strict=True)
            q = self.with_shift(tuple(b + sign * t for b, t in pairs))
            if isinstance(q, Failed):
                raise NumericalError(Diagnostic("E601", q.reason))
            ends.append(q.adjoints())
        own, (after, before) = self.adjoints(), ends

        def of(parts: Callable[[Adjoints], Mapping[str, Any]]) -> dict[str, Any]:
            there = zip(parts(after).values(), parts(before).values(), strict=True)
            pairs = zip(parts(own).items(), there, strict=True)
            return {name: _moved(x, y, z) for (name, x), (y, z) in pairs}

        count = range(len(own.operator))
        offsets = zip(own.offset, after.offset, before.offset, strict=True)
        return Adjoints(
            tuple(x + 0.5 * (y - z) for x, y, z in offsets),
            tuple(of(lambda a, k=k: a.operator[k]) for k in count),  # type: ignore[misc]
            of(lambda a: a.mean),
            of(lambda a: a.covariance),
            of(lambda a: a.precision),
            of(lambda a: a.factors),
        )

    def _joined(self, parts: Sequence[Array]) -> Array:
        """What is known of each block's latents, in the order of all."""
        out = np.empty((self.engine.linear.size, *parts[0].shape[1:]))
        for places, part in zip(self.engine.places, parts, strict=True):
            out[places] = part
        return out


def _moved(x: Any, y: Any, z: Any) -> Any:
    """x + (y - z) / 2, of matrices on one pattern or of those of several factors."""
    if x is None:
        return None
    if isinstance(x, list | tuple):
        return [_moved(*parts) for parts in zip(x, y, z, strict=True)]
    if isinstance(x, np.ndarray):
        return x + 0.5 * (y - z)
    return type(x)((x.data + 0.5 * (y.data - z.data), x.indices, x.indptr), shape=x.shape)
