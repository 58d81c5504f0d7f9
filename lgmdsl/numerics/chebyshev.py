"""Functions of one variable by Chebyshev series on panels, each made when it is first asked for.

A panel is halved until the last coefficients of all functions are as small as their errors, or
`DEPTH` times; `resolved` says where that was enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import Array, BoolArray

DEGREE = 23
DEPTH = 6
KEPT = 1 << 16  # places whose values are kept until others are asked for
_NODES = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
# values at the nodes -> coefficients
_TRANSFORM = np.cos(np.arange(DEGREE + 1)[:, None] * np.arccos(_NODES)) * 2.0 / (DEGREE + 1)
_TRANSFORM[0] *= 0.5


@dataclass(eq=False)
class Panels:
    """q smooth functions from their values at a few points. `functions` gives them and the errors
    that they may have, x (M,) -> (q, M) each."""

    functions: Callable[[Array], tuple[Array, Array]]
    width: float = 1.0
    known: set[int] = field(default_factory=set)
    left: Array = field(default_factory=lambda: np.zeros(0))
    size: Array = field(default_factory=lambda: np.zeros(0))
    series: Array = field(default_factory=lambda: np.zeros((0, DEGREE + 1, 0)))
    resolved: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    latest: tuple[Array, Array] | None = None

    def __call__(self, x: Array, first: int | None = None) -> Array:
        """(q, M), or the `first` of the functions alone. Where no panel resolves the functions they
        are computed as they are. What is asked for again at once is not computed again: it is not
        to be changed."""
        latest = self.latest
        if latest is not None and latest[0].shape == x.shape and (latest[0] == x).all():
            wanted = self.series.shape[2] if first is None else first
            if len(latest[1]) >= wanted:
                return latest[1][:wanted]
        out = self._at(x, first)
        if len(x) <= KEPT:
            out.setflags(write=False)
            self.latest = x.copy(), out
        return out

    def _at(self, x: Array, first: int | None) -> Array:
        missing = sorted(set(np.unique(np.floor(x / self.width)).astype(int).tolist()) - self.known)
        if missing:
            self._make(np.array(missing))
        segment = np.searchsorted(self.left, x, side="right") - 1
        order = np.argsort(segment, kind="stable")
        placed = segment[order]
        series = self.series[:, :, :first]
        out = np.empty((series.shape[2], len(x)))
        starts = np.flatnonzero(np.diff(placed, prepend=-1))
        for start, end in zip(starts, (*starts[1:], len(x)), strict=True):
            rows, one = order[start:end], placed[start]
            t = 2.0 * (x[rows] - self.left[one]) / self.size[one] - 1.0
            out[:, rows] = (np.polynomial.chebyshev.chebvander(t, DEGREE) @ series[one]).T
        rough = ~self.resolved[segment]
        if rough.any():
            out[:, rough] = self.functions(x[rough])[0][:first]
        return out

    def _make(self, missing: Array) -> None:
        left, size = missing * self.width, np.full(len(missing), self.width)
        parts = [(self.left, self.size, self.series, self.resolved)] if len(self.left) else []
        for depth in range(DEPTH + 1):
            x = left[:, None] + 0.5 * size[:, None] * (1.0 + _NODES)
            values, errors = (f.reshape(-1, *x.shape) for f in self.functions(x.ravel()))
            series = np.einsum("kn,qpn->pkq", _TRANSFORM, values)
            tail = np.abs(series[:, -3:, :]).max(axis=1)
            good = (tail <= errors.max(axis=2).T).all(axis=1)
            keep = good | (depth == DEPTH)
            parts.append((left[keep], size[keep], series[keep], good[keep]))
            if keep.all():
                break
            half = 0.5 * size[~keep]
            left = np.concatenate([left[~keep], left[~keep] + half])
            size = np.concatenate([half, half])
        joined = [np.concatenate([p[i] for p in parts]) for i in range(4)]
        order = np.argsort(joined[0])
        self.left, self.size, self.series, self.resolved = (j[order] for j in joined)
        self.known |= set(missing.tolist())
