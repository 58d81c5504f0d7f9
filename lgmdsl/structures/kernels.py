"""Covariance kernels as a tree with array arguments, closed under + and *.

Inputs are (n, d). K_ij for two different observations is `smooth`, whatever their inputs; the
diagonal is `diagonal`: so `white` is the identity on one array of inputs (equal rows are different
observations) and zero between two arrays. Slopes are keyed by path: `sd`, or `0.sd`, `1.0.length`
with the positions of the terms of sums and products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Members, Shape, Structure
from lgmdsl.numerics.cholesky import symmetrise
from lgmdsl.vocabulary.lookup import declared
from lgmdsl.vocabulary.signature import Part

_TILE = 192

Slopes = dict[str, Array]


class Kernel(Part, ABC):
    """k(x, x'); `cross` and `matrix` evaluate it, `pullback` returns dF/dargument from dF/dK.

    A third party's class is called as `cls(**arguments)` (float64 arrays, texts and bools) and
    gives the `signature` by which the language knows it:

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import Array, Kernel, Parameter, Signature
    >>> @lgm.register
    ... @dataclass(frozen=True, eq=False)
    ... class Cosine(Kernel):  # sd^2 cos(frequency (x - x')), of one input
    ...     sd: Array
    ...     frequency: Array
    ...     signature: ClassVar[Signature] = Signature(
    ...         "cosine", "kernel",
    ...         (Parameter("sd", "positive", over="none"),
    ...          Parameter("frequency", "positive", over="none")),
    ...         carries_scale=("sd",), summary="sd^2 cos(frequency r)")
    ...     def smooth(self, x1, x2):
    ...         return self.sd**2 * np.cos(self.frequency * (x1 - x2.T))
    ...     def diagonal(self, x):
    ...         return np.full(len(x), float(self.sd) ** 2)
    ...     def smooth_slopes(self, x1, x2, adjoint):
    ...         gap = x1 - x2.T
    ...         turn = -gap * np.sin(self.frequency * gap) * self.sd**2
    ...         return {"sd": np.asarray(2 / self.sd * np.sum(adjoint * self.smooth(x1, x2))),
    ...                 "frequency": np.asarray(np.sum(adjoint * turn))}
    ...     def diagonal_slopes(self, x, adjoint):
    ...         return {"sd": np.asarray(2 * self.sd * adjoint.sum()), "frequency": np.zeros(())}
    >>> m = lgm.Model()
    >>> t = m.index("t")
    >>> x, y = m.data("x", t, "real"), m.data("y", t, "real")
    >>> w = m.hyper("w", "positive", lgm.half_normal(sd=3))
    >>> waves = lgm.cosine(sd=1, frequency=w) * lgm.se(length=9) + lgm.white(sd=0.1)
    >>> f = m.latent("f", t, lgm.gp(at=x, kernel=waves))
    >>> m.observe(y, lgm.normal(mean=f, sd=0.1))
    >>> at = np.linspace(0, 6, 25)
    >>> fit = lgm.fit(m, {"x": at, "y": np.cos(2 * at)}, hyper="map")
    >>> print(fit.status, round(float(fit.mean("w")), 1))
    converged 2.0
    """

    @abstractmethod
    def smooth(self, x1: Array, x2: Array) -> Array:
        """(n1, n2) covariances of different observations; a fresh array."""

    @abstractmethod
    def diagonal(self, x: Array) -> Array:
        """(n,) variances."""

    @abstractmethod
    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        """sum_ij adjoint_ij dk(x1_i, x2_j)/dargument."""

    @abstractmethod
    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        """sum_i adjoint_i dk_ii/dargument."""

    def cross(self, x1: Array, x2: Array) -> Array:
        """(n1, n2); the same array twice means the same observations."""
        return self.matrix(x1) if x1 is x2 else self.smooth(x1, x2)

    def matrix(self, x: Array) -> Array:
        """(n, n) covariance of the observations at x, by row tiles of the upper triangle."""
        n = len(x)
        out = np.empty((n, n))
        for start in range(0, n, _TILE):
            out[start : start + _TILE, start:] = self.smooth(x[start : start + _TILE], x[start:])
        out.reshape(-1)[:: n + 1] = self.diagonal(x)
        return symmetrise(out)

    def pullback(self, x: Array, adjoint: Array) -> Slopes:
        """dF/dargument from dF/dK, (n, n) not necessarily symmetric; tiles of _TILE x n."""
        total = self.diagonal_slopes(x, adjoint.diagonal())
        for start in range(0, len(x), _TILE):
            rows = slice(start, min(start + _TILE, len(x)))
            part = adjoint[rows, start:] + adjoint[start:, rows].T
            width = rows.stop - start
            part[:, :width] = np.triu(part[:, :width], 1)
            for key, slope in self.smooth_slopes(x[rows], x[start:], part).items():
                total[key] = total[key] + slope
        return total

    def __add__(self, other: Kernel) -> Kernel:
        return Sum((self, other))

    def __mul__(self, other: Kernel) -> Kernel:
        return Product((self, other))


@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """k_0 + k_1 + ..."""

    terms: tuple[Kernel, ...]
    name: ClassVar[str] = "+"

    def smooth(self, x1: Array, x2: Array) -> Array:
        out = self.terms[0].smooth(x1, x2)
        for term in self.terms[1:]:
            out += term.smooth(x1, x2)
        return out

    def diagonal(self, x: Array) -> Array:
        return np.asarray(np.sum([t.diagonal(x) for t in self.terms], axis=0))

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        return _keyed([t.smooth_slopes(x1, x2, adjoint) for t in self.terms])

    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        return _keyed([t.diagonal_slopes(x, adjoint) for t in self.terms])


@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """k_0 * k_1 * ..., elementwise."""

    terms: tuple[Kernel, ...]
    name: ClassVar[str] = "*"

    def smooth(self, x1: Array, x2: Array) -> Array:
        out = self.terms[0].smooth(x1, x2)
        for term in self.terms[1:]:
            out *= term.smooth(x1, x2)
        return out

    def diagonal(self, x: Array) -> Array:
        return np.asarray(np.prod([t.diagonal(x) for t in self.terms], axis=0))

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        weights = _others([t.smooth(x1, x2) for t in self.terms], adjoint)
        pairs = zip(self.terms, weights, strict=True)
        return _keyed([t.smooth_slopes(x1, x2, w) for t, w in pairs])

    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        weights = _others([t.diagonal(x) for t in self.terms], adjoint)
        pairs = zip(self.terms, weights, strict=True)
        return _keyed([t.diagonal_slopes(x, w) for t, w in pairs])


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """sum_d sd_d^2 x_d x'_d; sd a scalar or (d,)."""

    sd: Array
    signature = declared("kernel", "linear")

    def smooth(self, x1: Array, x2: Array) -> Array:
        return np.asarray((x1 * self.sd**2) @ x2.T)

    def diagonal(self, x: Array) -> Array:
        return np.asarray((x * x * self.sd**2).sum(axis=1))

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        return {"sd": self._slope((x1 * (adjoint @ x2)).sum(axis=0))}

    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        return {"sd": self._slope(adjoint @ (x * x))}

    def _slope(self, by_input: Array) -> Array:
        return 2.0 * self.sd * (by_input.sum() if self.sd.ndim == 0 else by_input)


@dataclass(frozen=True, eq=False)
class White(Kernel):
    """sd^2 for one observation with itself, 0 between different ones."""

    sd: Array
    signature = declared("kernel", "white")

    def smooth(self, x1: Array, x2: Array) -> Array:
        return np.zeros((len(x1), len(x2)))

    def diagonal(self, x: Array) -> Array:
        return np.full(len(x), float(self.sd) ** 2)

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        return {"sd": np.zeros_like(self.sd)}

    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        return {"sd": np.asarray(2.0 * self.sd * adjoint.sum())}


def _keyed(parts: list[Slopes]) -> Slopes:
    return {f"{i}.{key}": value for i, part in enumerate(parts) for key, value in part.items()}


def _others(values: list[Array], adjoint: Array) -> list[Array]:
    """adjoint times the product of all the other values, for each position (no division)."""
    out = []
    for i in range(len(values)):
        weight = adjoint.copy()
        for j, value in enumerate(values):
            if j != i:
                weight *= value
        out.append(weight)
    return out


# ---- gp ----------------------------------------------------------------------------------------
# gp(at, kernel): a Gaussian process at given inputs.


@dataclass(frozen=True, eq=False)
class Gp(Structure):
    """K_ij = k(at_i, at_j), (n, n), possibly singular; `at` is (n, d).

    Slopes are keyed `kernel.` + the path in the kernel's tree: `kernel.sd`, `kernel.1.length`.
    """

    at: Array
    kernel: Kernel
    signature = declared("structure", "gp")
    members: ClassVar[Members] = Members.JOINED

    @property
    def size(self) -> int:
        return len(self.at)

    @property
    def shape(self) -> Shape:
        return Shape.COVARIANCE

    @property
    def coordinates(self) -> Array:
        return self.at

    def variance(self) -> Array:
        return self.kernel.diagonal(self.at)

    @cached_property
    def _matrix(self) -> Array:
        return self.kernel.matrix(self.at)

    def covariance(self) -> Array:
        """Computed once; not to be written to."""
        return self._matrix

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        slopes = self.kernel.pullback(self.at, adjoint)
        return {f"kernel.{path}": slope for path, slope in slopes.items()}


def gp(size: int, at: object, kernel: Kernel) -> Gp:
    """`gp(at, kernel)` at `size` inputs, one number or one row each."""
    inputs = np.asarray(at, dtype=np.float64)
    return Gp(np.ascontiguousarray(inputs.reshape(size, -1)), kernel)
