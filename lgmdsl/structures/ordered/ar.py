"""ar(pacf), toeplitz(pacf): a stationary process by its partial autocorrelations in (-1, 1).

Durbin and Levinson's recursion (Monahan 1984): the regression of z_t on the m points before it is
phi^(m), and its variance v_m = sd^2 prod_{k <= m} (1 - pacf_k^2), m up to the order p. The first
p points have m = t, so Q = T'V^-1 T holds exactly, T unit lower triangular with rows -phi^(m).
Partial autocorrelations are 0 beyond the last: with one for each point but one the covariance is
any Toeplitz matrix, and an autoregression otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.structure import Extension, Members, Shape, Structure
from lgmdsl.structures.ordered.extensions import autoregression, extended, stepped, whole_steps
from lgmdsl.structures.shared.by_member import by_member
from lgmdsl.structures.shared.content import band, banded, inner
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import declared

SPAN = 2000  # steps that members given fewer than p fitted ones may be apart


@dataclass(frozen=True, eq=False)
class Ar(Structure):
    """sd is the stationary marginal; `pacf` is (p,), or a number: p = 1."""

    points: int
    sd: Array
    pacf: Array
    signature = declared("structure", "ar")
    members: ClassVar[Members] = Members.ORDERED

    @property
    def size(self) -> int:
        return self.points

    @property
    def shape(self) -> Shape:
        return Shape.PRECISION | Shape.SPARSE

    def variance(self) -> Array:
        return np.full(self.points, float(self.sd) ** 2)

    @property
    def reach(self) -> int:
        """The order p, or n - 1 where that is smaller."""
        return min(len(self._lags), self.points - 1)

    @property
    def _lags(self) -> Array:
        """(p,) `pacf`."""
        return np.atleast_1d(self.pacf)

    @cached_property
    def regressions(self) -> list[Array]:
        """phi^(m), (m,), lag 1 first, for m = 0 to `reach`."""
        out = [np.zeros(0)]
        for r in self._lags[: self.reach]:
            last = out[-1]
            out.append(np.append(last - r * last[::-1], r))
        return out

    @cached_property
    def innovations(self) -> Array:
        """(reach + 1,) v_m / sd^2."""
        r = self._lags[: self.reach]
        return np.concatenate([[1.0], np.cumprod((1.0 - r) * (1.0 + r))])

    def _before(self) -> IntArray:
        """(n,) m of each point."""
        return np.minimum(np.arange(self.points), self.reach)

    def _rows(self) -> Array:
        """(reach + 1, n) T_{t, t - k}, 0 before the start."""
        t = np.zeros((self.reach + 1, self.points))
        t[0] = 1.0
        for m, phi in enumerate(self.regressions):
            t[1 : m + 1, self._before() == m] = -phi[:, None]
        return t

    @cached_property
    def _precision(self) -> SparseMatrix:
        t, n, p = self._rows(), self.points, self.reach
        weighed = t / (self.innovations[self._before()] * float(self.sd) ** 2)
        bands = np.zeros((p + 1, n))  # entries (i + d, i), i + d < n
        for d in range(p + 1):
            for k in range(p + 1 - d):
                # point t ties t - k to t - k - d: entry i = t - k - d
                bands[d, : n - k - d] += (weighed[k] * t[k + d])[k + d :]
        pattern = _pattern(n, p)
        data = bands[pattern.offset, pattern.start]
        return sp.csr_array((data, pattern.indices, pattern.indptr), shape=(n, n))

    def extension(self, places: Array, new: Array) -> Extension:
        """The regression on the p members before, or after, of variance
        sd^2 innovations_p. Where fewer
        than p are fitted, those up to the p-th are members of the same autoregression."""
        p, n = len(self._lags), self.points
        if n < p:
            whole_steps(self.name, places, new)
            return extended(self.name, places, new, self._among_few)
        longer = replace(self, points=n + 1)
        variance = float(self.sd) ** 2 * float(longer.innovations[-1])
        onward = autoregression(longer.regressions[-1], variance, n)
        return stepped(self.name, places, new, onward)

    def _among_few(self, fitted: Array, new: Array) -> Extension:
        """New members given fewer than p, among all from the first one to the last."""
        both = np.concatenate([fitted, new])
        first, last = both.min(initial=np.inf), both.max(initial=-np.inf)
        if last - first >= SPAN:
            raise Refused(
                "E302",
                f"fewer members of {{axis}} were fitted than `pacf` has lags, "
                f"and new ones are {last - first:g} steps away",
                "pacf",
                label=f"up to {SPAN} steps can be taken from so few",
                help="fit a process of lower order",
            )
        whole = replace(self, points=int(last - first) + 1).precision().toarray()
        covariance = np.linalg.inv(whole)
        old, asked = (np.round(x - first).astype(np.int64) for x in (fitted, new))
        weights = np.linalg.solve(covariance[np.ix_(old, old)], covariance[np.ix_(old, asked)]).T
        remainder = covariance[np.ix_(asked, asked)] - weights @ covariance[np.ix_(old, asked)]
        return Extension(sp.csr_array(weights), 0.5 * (remainder + remainder.T))

    def precision(self) -> SparseMatrix:
        """Computed once; not to be written to."""
        return self._precision

    def log_det_precision(self) -> float:
        return float(
            -2.0 * self.points * np.log(self.sd) - np.log(self.innovations)[self._before()].sum()
        )

    def pullback_precision(self, adjoint: Matrix) -> dict[str, Array]:
        """With S the adjoint's symmetric part: dF = 2 <V^-1 T S, dT> + <diag(TST'), dV^-1>."""
        n, p, m = self.points, self.reach, self._before()
        s = [band(adjoint, d) for d in range(p + 1)]
        t = self._rows()
        ts = np.zeros((p + 1, n))  # (TS)_{t, t - j}
        for j in range(p + 1):
            for k in range(p + 1):
                far = max(j, k)
                start = np.arange(far, n) - far  # the earlier one of t - j and t - k
                ts[j, far:] += t[k, far:] * s[abs(j - k)][start]
        weight = 1.0 / (self.innovations[m] * float(self.sd) ** 2)
        by_phi = np.zeros((p + 1, p))  # dF/dphi^(m)_k
        for k in range(1, p + 1):
            by_phi[:, k - 1] = np.bincount(m, -2.0 * weight * ts[k], minlength=p + 1)
        by_log_left = np.bincount(m, -weight * (t * ts).sum(axis=0), minlength=p + 1)
        pacf = np.zeros(len(self._lags))
        for order in range(p, 0, -1):
            slope, last, r = by_phi[order], self.regressions[order - 1], self._lags[order - 1]
            inside = slope[: order - 1]
            pacf[order - 1] = slope[order - 1] - inside @ last[::-1]
            by_phi[order - 1, : order - 1] += inside - r * inside[::-1]
            # log innovations_m falls by 2 r / (1 - r^2) for every m >= order
            fall = 2.0 * r / ((1.0 - r) * (1.0 + r))
            pacf[order - 1] -= fall * by_log_left[order:].sum()
        sd = np.asarray(-2.0 * inner(adjoint, self._precision) / self.sd)
        return {"sd": sd, "pacf": pacf.reshape(self.pacf.shape)}


@dataclass(frozen=True, eq=False)
class Toeplitz(Ar):
    """An autoregression of as many lags as are given."""

    signature = declared("structure", "toeplitz")


@dataclass(frozen=True, eq=False)
class Band:
    """Where a banded matrix's csr entries come from: `offset` below the diagonal, from `start`."""

    indptr: AnyArray
    indices: AnyArray
    offset: IntArray
    start: IntArray


@lru_cache(maxsize=8)
def _pattern(size: int, reach: int) -> Band:
    lags = range(-reach, reach + 1)
    whole = banded([np.ones(size - abs(d)) for d in lags], lags, (size, size))
    rows = np.repeat(np.arange(size), np.diff(whole.indptr))
    columns = whole.indices.astype(np.int64)
    return Band(whole.indptr, whole.indices, np.abs(rows - columns), np.minimum(rows, columns))


def ar(size: int, sd: object, pacf: object) -> Structure:
    """`pacf` (p,), `sd` a number or (n,). Raises Refused (E303) unless each lies within (-1, 1)."""
    return _made(Ar, size, sd, pacf)


def toeplitz(size: int, sd: object, pacf: object) -> Structure:
    """`pacf` (p,) or one number, that at lag 1; `sd` a number or (n,). Raises Refused (E303) unless
    `pacf` lies within (-1, 1)."""
    return _made(Toeplitz, size, sd, pacf)


def _made(part: type[Ar], size: int, sd: object, pacf: object) -> Structure:
    values = np.asarray(pacf, dtype=np.float64)
    if not (np.abs(values) < 1.0).all():
        raise Refused(
            "E303",
            f"`pacf` of `{part.name}` holds {values.flat[np.argmax(np.abs(values))]:g}",
            "pacf",
            label="wanted -1 < pacf < 1",
            help="declare it as a hyper of type correlation, one for each lag",
        )
    return by_member(sd, lambda one: part(size, one, values))
