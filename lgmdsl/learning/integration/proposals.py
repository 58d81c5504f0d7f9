"""Where the surrogate of a density is evaluated to integrate it: nodes and what each stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray

DF, SCALE = 6.0, 1.15  # of the Student-t
LARGEST = 1e30
FEWEST = 24  # nodes of a part
PIECE = 4096  # points of the sequence that are kept together


@dataclass(frozen=True, eq=False)
class Proposal:
    """u = mean + root (s t): t independent Student-t variables, s the half-axis `stretch` (d, 2) of
    their sides."""

    mean: Array
    root: Array
    stretch: Array

    @classmethod
    def elliptical(cls, mean: Array, covariance: Array) -> Proposal:
        """Proposal with a mean (d,) and a covariance (d, d), of the same spread to both sides."""
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        return cls(mean, root, np.ones((len(mean), 2)))

    def nodes(self, t: Array) -> Array:
        """(m, d) from values (m, d) of the Student-t variables."""
        return np.asarray(self.mean + (t * self._sides(t)) @ self.root.T)

    def log_density(self, u: Array) -> Array:
        """(m,) at u, (m, d)."""
        w: Array = np.asarray((u - self.mean) @ np.linalg.inv(self.root).T, dtype=np.float64)
        lengths = SCALE * self._sides(w)
        constant = special.gammaln(0.5 * (DF + 1.0)) - special.gammaln(0.5 * DF)
        constant = len(self.mean) * (constant - 0.5 * np.log(DF * np.pi))
        # One logarithm of products over the coordinates; factors stop where these would overflow.
        falls = _product(np.minimum(1.0 + (w / lengths) ** 2 / DF, LARGEST))
        out = constant - np.linalg.slogdet(self.root)[1] - 0.5 * (DF + 1.0) * np.log(falls)
        return np.asarray(out - np.log(_product(lengths)))

    def _sides(self, t: Array) -> Array:
        return np.where(t < 0.0, self.stretch[:, 0], self.stretch[:, 1])


@dataclass(frozen=True, eq=False)
class Mixed:
    """A mixture of proposals with `weights` (k,), which sum to 1."""

    parts: tuple[Proposal, ...]
    weights: Array

    def nodes(self, count: int) -> Array:
        """(m, d), about `count`: of each part as many as it has weight, and FEWEST at least, all
        from one sequence."""
        counts = self._counts(count)
        sequence = students(int(counts.sum()), len(self.parts[0].mean))
        own = np.split(sequence, np.cumsum(counts)[:-1])
        return np.concatenate([p.nodes(c) for p, c in zip(self.parts, own, strict=True)])

    def log_measure(self, u: Array, count: int) -> Array:
        """(m,) the log of what each of the `nodes(count)` u stands for (Owen and Zhou 2000, the
        balance heuristic: each as if it were drawn from the mixture)."""
        logs = self._logs(u) + np.log(self._counts(count))[:, None]
        return -_log_total(logs)

    def adapted(self, u: Array, weight: Array, kept: float) -> Mixed:
        """Towards nodes u (m, d) with weights (m,) that sum to 1: the parts' weights, means and
        covariances are those of what they are responsible for (Cappe and others 2008, population
        Monte Carlo). `kept`: the share of the present weights in the new ones."""
        logs = self._logs(u) + np.log(self.weights)[:, None]
        own = weight * np.exp(logs - _log_total(logs))
        mass = own.sum(axis=1)
        parts = []
        for part, mine, total in zip(self.parts, own, mass, strict=True):
            if mine.sum() ** 2 < FEWEST * np.sum(mine**2):
                parts.append(part)
                continue
            mean = mine @ u / total
            gap = u - mean
            spread = np.einsum("m,mi,mj->ij", mine / total, gap, gap)
            floor = 1e-3 * np.diag(np.diag(part.root @ part.root.T))
            parts.append(Proposal.elliptical(mean, spread + floor))
        weights = (1.0 - kept) * mass / mass.sum() + kept * self.weights
        return Mixed(tuple(parts), weights)

    def joined(self, other: Mixed) -> Mixed:
        """Half of each: no node counts for more than twice what it does under either."""
        return Mixed(self.parts + other.parts, 0.5 * np.concatenate([self.weights, other.weights]))

    def _counts(self, count: int) -> IntArray:
        return np.maximum(FEWEST, np.round(count * self.weights)).astype(np.int64)

    def _logs(self, u: Array) -> Array:
        return np.array([p.log_density(u) for p in self.parts])


def _product(factors: Array) -> Array:
    """(m,) the products of (m, d): a few columns are multiplied faster than many short rows."""
    return reduce(np.multiply, factors.T)


def _log_total(logs: Array) -> Array:
    """(m,) log of the sum of exp(logs) (k, m) over its rows, all finite."""
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))


def students(count: int, size: int) -> Array:
    """(count, size) Student-t variables from the first points of the sequence: their quantiles,
    which take longer than all else that is asked of them, are kept by pieces."""
    pieces = [_students(k, size) for k in range(-(-count // PIECE))]
    return np.concatenate([np.zeros((0, size)), *pieces])[:count]


@lru_cache(maxsize=64)
def _students(piece: int, size: int) -> Array:
    t = SCALE * special.stdtrit(DF, kronecker(PIECE, size, piece * PIECE))
    return np.asarray(t, dtype=np.float64)


def kronecker(count: int, size: int, first: int = 0) -> Array:
    """(count, size), from the `first` on, of the additive sequence k alpha mod 1 whose alphas are
    the powers of the generalised golden ratio, g^(size+1) = g + 1: low discrepancy in any
    dimension."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (size + 1))
    alpha = ratio ** -np.arange(1.0, size + 1.0)
    u = (0.5 + np.outer(np.arange(first + 1, first + count + 1), alpha)) % 1.0
    return np.clip(u, 1e-12, 1.0 - 1e-12)
