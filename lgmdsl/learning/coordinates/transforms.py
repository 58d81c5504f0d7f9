"""Maps between a hyper's natural values and coordinates without bounds, one class for each range.

Values are rounded into the open range: at coordinates of 30 a correlation is the last double
before 1, while slopes and Jacobians are those of the coordinate. Exponentials stop at e^340, so
that a line search that goes too far sees a bad value, and no warning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.stable import capped_exp, sigmoids, softplus

_LOG_2 = float(np.log(2.0))
_NONE = np.zeros(())


class Slopes(NamedTuple):
    """dF/dx (size,), and dF/dlower and dF/dupper of the value's shape where bounds are in play."""

    x: Array
    lower: Array = _NONE
    upper: Array = _NONE


@dataclass(frozen=True, eq=False)
class Transform(ABC):
    """Coordinates x (size,) of a value of `shape`; `bounded`: of a value between two ends."""

    bounded: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False  # whether each entry of a value has a coordinate of its own
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @abstractmethod
    def value(self, x: Array) -> Array:
        """The natural value at x."""

    def values(self, x: Array) -> Array:
        """(m, *shape) the natural values at m places, (m, size)."""
        if self.elementwise:
            return replace(self, shape=(len(x), *self.shape)).value(x)
        return np.array([self.value(one) for one in x]).reshape(len(x), *self.shape)

    @abstractmethod
    def coordinates(self, value: Array) -> Array:
        """(size,) the inverse; not finite for a value on the edge of the range."""

    @abstractmethod
    def pull(self, adjoint: Array, x: Array) -> Slopes:
        """dF/dx from dF/dvalue."""

    @abstractmethod
    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        """log |dvalue/dx| and its slopes."""

    def units(self, x: Array) -> Array:
        """(size,) what a step of 1 is in each coordinate: 1 for logarithms and their like."""
        return np.ones(self.size)

    def natural(self, x: Array, logs: Array) -> Array:
        """(m, size) what each coordinate of x (m, size) stands for by itself, but for its origin
        and unit, where `logs` (size,) are the logs of a scale in a unit of a coordinate: exp(x_j)
        of logs, sigma(x_j) of what has two ends, x_j of what has none."""
        if self.bounded:
            return sigmoids(np.maximum(logs, 1.0) * x)[0]
        return np.where(logs > 0.0, capped_exp(x), x)

    def _shaped(self, x: Array) -> Array:
        return np.asarray(x, dtype=np.float64).reshape(self.shape)


class Identity(Transform):
    """The whole real line."""

    elementwise: ClassVar[bool] = True

    def value(self, x: Array) -> Array:
        return self._shaped(x).copy()

    def coordinates(self, value: Array) -> Array:
        return np.asarray(value, dtype=np.float64).reshape(-1).copy()

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        return Slopes(np.asarray(adjoint).reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        return 0.0, Slopes(np.zeros(self.size))


@dataclass(frozen=True, eq=False)
class Above(Transform):
    """value = lower + exp(x)."""

    elementwise: ClassVar[bool] = True
    lower: Array

    def value(self, x: Array) -> Array:
        return np.maximum(
            self.lower + capped_exp(self._shaped(x)), np.nextafter(self.lower, np.inf)
        )

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(np.asarray(value) - self.lower)).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        return Slopes(np.asarray(adjoint * capped_exp(self._shaped(x))).reshape(-1), adjoint)

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        return float(np.sum(x)), Slopes(np.ones(self.size), np.zeros(self.shape))


@dataclass(frozen=True, eq=False)
class Between(Transform):
    """value = lower + (upper - lower) sigma(x)."""

    bounded: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True
    lower: Array
    upper: Array

    def value(self, x: Array) -> Array:
        x = self._shaped(x)
        up, down, _ = sigmoids(x)
        width = self.upper - self.lower
        value = np.where(x < 0.0, self.lower + width * up, self.upper - width * down)
        inner = np.nextafter(self.lower, self.upper), np.nextafter(self.upper, self.lower)
        return np.clip(value, *inner)

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            below, above = np.log(value - self.lower), np.log(self.upper - value)
        return np.asarray(below - above).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        up, down, _ = sigmoids(self._shaped(x))
        steep = (self.upper - self.lower) * up * down
        return Slopes(np.asarray(adjoint * steep).reshape(-1), adjoint * down, adjoint * up)

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        x = self._shaped(x)
        up, down, _ = sigmoids(x)
        width = np.broadcast_to(self.upper - self.lower, self.shape)
        total = float(np.sum(np.log(width) - softplus(x) - softplus(-x)))
        return total, Slopes((down - up).reshape(-1), -1.0 / width, 1.0 / width)


class Correlation(Transform):
    """value = tanh(x)."""

    bounded: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True

    def value(self, x: Array) -> Array:
        last = np.nextafter(1.0, 0.0)
        return np.clip(np.tanh(self._shaped(x)), -last, last)

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.arctanh(value)).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        up, down, _ = sigmoids(2.0 * self._shaped(x))
        return Slopes(np.asarray(adjoint * 4.0 * up * down).reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        x = np.asarray(x, dtype=np.float64)
        total = float(np.sum(2.0 * (_LOG_2 - np.abs(x) - np.log1p(np.exp(-2.0 * np.abs(x))))))
        return total, Slopes(-2.0 * np.tanh(x))


class Simplex(Transform):
    """x_k = log(p_k / p_K), k < K, along the last axis."""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape[:-1], dtype=np.int64)) * (self.shape[-1] - 1)

    def values(self, x: Array) -> Array:
        return replace(self, shape=(len(x), *self.shape)).value(x)

    def _logs(self, x: Array) -> Array:
        ratios = np.asarray(x).reshape(*self.shape[:-1], self.shape[-1] - 1)
        whole = np.concatenate([ratios, np.zeros((*self.shape[:-1], 1))], axis=-1)
        return np.asarray(special.log_softmax(whole, axis=-1))

    def value(self, x: Array) -> Array:
        return np.asarray(np.exp(self._logs(x)))

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.asarray(value, dtype=np.float64))
            return np.asarray(logs[..., :-1] - logs[..., -1:]).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        p = self.value(x)
        slopes = p * (adjoint - (adjoint * p).sum(axis=-1, keepdims=True))
        return Slopes(slopes[..., :-1].reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        logs = self._logs(x)
        slopes = 1.0 - self.shape[-1] * np.exp(logs)
        return float(logs.sum()), Slopes(slopes[..., :-1].reshape(-1))


class Ordered(Transform):
    """The first entry, then the logarithms of the steps, along the last axis."""

    def values(self, x: Array) -> Array:
        return replace(self, shape=(len(x), *self.shape)).value(x)

    def value(self, x: Array) -> Array:
        value = self._shaped(x).copy()
        for k in range(1, self.shape[-1]):
            before = value[..., k - 1]
            step = capped_exp(value[..., k])
            value[..., k] = np.maximum(before + step, np.nextafter(before, np.inf))
        return value

    def coordinates(self, value: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.log(np.diff(value, axis=-1))
        return np.concatenate([np.asarray(value)[..., :1], steps], axis=-1).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        above = np.cumsum(adjoint[..., ::-1], axis=-1)[..., ::-1].copy()
        above[..., 1:] *= capped_exp(self._shaped(x)[..., 1:])
        return Slopes(above.reshape(-1))

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        slopes = np.ones(self.shape)
        slopes[..., 0] = 0.0
        return float(self._shaped(x)[..., 1:].sum()), Slopes(slopes.reshape(-1))


class Covariance(Transform):
    """S = LL', (..., k, k): the lower triangle of L row by row, its diagonal in logarithms.

    The Jacobian is that of the lower triangle of S: 2^k prod_i L_ii^(k - i + 2), i = 1 ... k.
    """

    @property
    def size(self) -> int:
        k = self.shape[-1]
        return int(np.prod(self.shape[:-2], dtype=np.int64)) * k * (k + 1) // 2

    def _factor(self, x: Array) -> Array:
        k = self.shape[-1]
        factor = np.zeros(self.shape)
        rows, columns = np.tril_indices(k)
        factor[..., rows, columns] = np.asarray(x).reshape(*self.shape[:-2], -1)
        i = np.arange(k)
        factor[..., i, i] = capped_exp(factor[..., i, i])
        return factor

    def value(self, x: Array) -> Array:
        factor = self._factor(x)
        return np.asarray(factor @ np.swapaxes(factor, -1, -2))

    def coordinates(self, value: Array) -> Array:
        try:
            factor = np.linalg.cholesky(value)
        except np.linalg.LinAlgError:
            return np.full(self.size, np.nan)
        i = np.arange(self.shape[-1])
        factor[..., i, i] = np.log(factor[..., i, i])
        rows, columns = np.tril_indices(self.shape[-1])
        return np.asarray(factor[..., rows, columns]).reshape(-1)

    def pull(self, adjoint: Array, x: Array) -> Slopes:
        factor = self._factor(x)
        slopes = (adjoint + np.swapaxes(adjoint, -1, -2)) @ factor
        i = np.arange(self.shape[-1])
        slopes[..., i, i] *= factor[..., i, i]
        rows, columns = np.tril_indices(self.shape[-1])
        return Slopes(slopes[..., rows, columns].reshape(-1))

    def units(self, x: Array) -> Array:
        """The sds of S for what is not a logarithm: L's entries are of their size."""
        rows, columns = np.tril_indices(self.shape[-1])
        factor = self._factor(x)
        sds = np.sqrt((factor * factor).sum(axis=-1))[..., rows]
        return np.where(rows == columns, 1.0, sds).reshape(-1)

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        k = self.shape[-1]
        rows, columns = np.tril_indices(k)
        powers = np.where(rows == columns, k - rows + 1.0, 0.0)
        count = self.size // len(powers)
        slopes = np.tile(powers, count)
        return float(slopes @ np.asarray(x)) + count * k * _LOG_2, Slopes(slopes)


class ScaledCovariance(Covariance):
    """The Jacobian is that of the sds and the correlations above the diagonal, by which 2^k prod
    sd^k is the lower triangle's."""

    def log_jacobian(self, x: Array) -> tuple[float, Slopes]:
        total, slopes = super().log_jacobian(x)
        k = self.shape[-1]
        variances = np.diagonal(self.value(x), axis1=-2, axis2=-1)
        adjoint = (-0.5 * k / variances)[..., None] * np.eye(k)
        sds = 0.5 * k * np.log(variances) + _LOG_2
        return total - float(sds.sum()), Slopes(slopes.x + self.pull(adjoint, x).x)
