"""One model in two choices of origin and unit: z = place + z', s = origin + unit s', unit a number
for each site block, or one for each predictor of a vector site. With W' = unit^2 W (unit W unit)
and b' = unit (b - W origin),

    log_normaliser(W, b) = log_normaliser'(W', b') + b'origin - origin'W origin / 2

and `centred`, which is free of both, is the same. `seen` gives a posterior of the second model as
one of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import (
    Adjoints,
    Conditioned,
    Draws,
    Errors,
    Failed,
    Rows,
)
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.engines.shared.conditioned import Lazy
from lgmdsl.engines.shared.wrapped import WrappedConditioned
from lgmdsl.numerics.sparse.base import entries_of, filled

if TYPE_CHECKING:
    from numpy.random import Generator

Unit = float | Array


@dataclass(frozen=True, eq=False)
class Rescaling:
    """`origin`: of each site block, shaped like its predictors; `unit`; `place`: (n,) of all
    latents."""

    linear: LinearGaussian
    origin: Rows
    unit: tuple[Unit, ...]
    place: Array

    def inverse(self) -> Rescaling:
        """The rescaling in the opposite direction: s' = -origin / unit + s / unit."""
        pairs = zip(self.origin, self.unit, strict=True)
        origin = tuple(-o / u for o, u in pairs)
        return Rescaling(self.linear, origin, tuple(1.0 / u for u in self.unit), -self.place)

    def weight(self, weight: Rows) -> Rows:
        """W of W'."""
        return tuple(_twice(1.0 / u, w) for w, u in zip(weight, self.unit, strict=True))

    def shift(self, shift: Rows, weight: Rows) -> Rows:
        """b of b', W being that of the first model."""
        parts = zip(shift, weight, self.origin, self.unit, strict=True)
        return tuple(b / u + rows.times(w, o) for b, w, o, u in parts)

    def inner_shift(self, shift: Rows, weight: Rows) -> Rows:
        """b' of b, W being that of the first model."""
        parts = zip(shift, weight, self.origin, self.unit, strict=True)
        return tuple(u * (b - rows.times(w, o)) for b, w, o, u in parts)

    def adjoints(self, inner: Adjoints) -> Adjoints:
        """Adjoints of the first model from the second's: only B and c are measured differently."""
        pairs = zip(inner.offset, self.unit, strict=True)
        offset = tuple(o / np.resize(u, o.shape) for o, u in pairs)
        parts = zip(inner.operator, offset, self.unit, strict=True)
        operator = tuple(self._operators(columns, alpha, u) for columns, alpha, u in parts)
        return Adjoints(
            offset, operator, inner.mean, inner.covariance, inner.precision, inner.factors
        )

    def _operators(
        self, inner: Mapping[str, object], alpha: Array, unit: Unit
    ) -> Mapping[str, object]:
        where = self.linear.slices

        def maker(name: str) -> Callable[[], object]:
            return lambda: _operator(inner[name], alpha.reshape(-1), self.place[where[name]], unit)

        return Lazy({name: maker(name) for name in inner})

    def seen(self, inner: Conditioned) -> RescaledConditioned:
        """A posterior of the second model as one of the first."""
        return RescaledConditioned(self, inner)


def _twice(unit: Unit, x: Array) -> Array:
    """unit^2 x, or unit x unit of blocks."""
    if isinstance(unit, np.ndarray):
        return np.asarray(unit[:, None] * x * unit)
    return unit * (unit * x)


def _operator(inner: Any, alpha: Array, place: Array, unit: Unit) -> object:
    """dF/dB = dF'/dB' / unit + alpha place', on the pattern of the former where it is sparse."""
    each = np.resize(unit, len(alpha))
    if isinstance(inner, np.ndarray):
        return inner / each[:, None] + np.outer(alpha, place)
    pattern = sp.csr_array(inner)
    line, column = entries_of(pattern)
    return filled(pattern, pattern.data / each[line] + alpha[line] * place[column])


class RescaledConditioned(WrappedConditioned):
    """Answers of the first model from those of the second, `inner`."""

    def __init__(self, rescaling: Rescaling, inner: Conditioned) -> None:
        self.rescaling, self.inner = rescaling, inner
        self.weight = rescaling.weight(inner.weight)
        self.shift = rescaling.shift(inner.shift, self.weight)

    @property
    def unconfined(self) -> Conditioned:
        inner = self.inner.unconfined
        return self if inner is self.inner else self.rescaling.seen(inner)

    @cached_property
    def log_normaliser(self) -> float:  # type: ignore[override]
        """`centred` + b'm - m'Wm / 2."""
        parts = zip(self.weight, self.shift, self.mean, strict=True)
        return self.centred + rows.total(
            tuple(rows.inner(b, m) - 0.5 * rows.quadratic(w, m) for w, b, m in parts)
        )

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        shifted = self.inner.with_shift(self.rescaling.inner_shift(shift, self.weight))
        return shifted if isinstance(shifted, Failed) else self.rescaling.seen(shifted)

    @cached_property
    def mean(self) -> Rows:
        parts = zip(self.inner.mean, self.rescaling.origin, self.rescaling.unit, strict=True)
        return tuple(o + u * m for m, o, u in parts)

    @cached_property
    def variance(self) -> Rows:
        parts = zip(self.inner.variance, self.rescaling.unit, strict=True)
        return tuple(_twice(u, v) for v, u in parts)

    @cached_property
    def latent_mean(self) -> Array:
        return self.rescaling.place + self.inner.latent_mean

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        mean, variance = self.inner.project(predictor, full)
        return mean + predictor.times(self.rescaling.place, self.rescaling.linear.slices), variance

    def sample(self, rng: Generator, size: int) -> Array:
        return self.rescaling.place + self.inner.sample(rng, size)

    def draw(self, rng: Generator, size: int) -> Draws:
        drawn = self.inner.draw(rng, size)
        return Draws(self.rescaling.place + drawn.z, drawn.radius, drawn.rank)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        if tilt is not None:
            tilt = tuple(u * t for t, u in zip(tilt, self.rescaling.unit, strict=True))
        return self.rescaling.adjoints(self.inner.adjoints(tilt))

    @property
    def errors(self) -> Errors | None:
        errors = self.inner.errors
        if errors is None:
            return None
        parts = zip(errors.variance, self.rescaling.unit, strict=True)
        return Errors(errors.log_normaliser, tuple(_twice(u, v) for v, u in parts))
