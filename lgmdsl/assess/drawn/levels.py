"""Log densities and distribution functions of responses at the exact draws of a posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.accuracy.limits import ENTRIES
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.predictive import log_densities, repeated
from lgmdsl.contract.site import Site


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Equally weighted draws of z at hyperparameter points, worth `ess` independent ones.

    `components`: those at the points; `point`, (S,): which one a draw is of; `z` gives some draws,
    (k, n).
    """

    components: tuple[Component, ...]
    point: IntArray
    z: Callable[[IntArray], Array]
    ess: float

    def __len__(self) -> int:
        return len(self.point)

    def each(
        self, block: int, rows: IntArray, of: Callable[[Site, Array], Array]
    ) -> Iterator[tuple[IntArray, Array]]:
        """`of(sites, predictors)` (k, N) at all draws, for some rows of one datum, in pieces: their
        positions among `rows`, and (S, piece)."""
        event = self.components[0].mean[block].shape[1:]
        step = max(1, ENTRIES // (len(self) * int(np.prod(event, dtype=np.int64))))
        for start in range(0, len(rows), step):
            some = np.arange(start, min(start + step, len(rows)))
            out = np.empty((len(self), len(some)))
            for k in np.unique(self.point):
                c, places = self.components[k], np.flatnonzero(self.point == k)
                s = c.rows(block, rows[some]).values(self.z(places).T, c.slices)
                s = s.T.reshape(len(places), len(some), *event)
                out[places] = of(c.sites[block].take(rows[some]), s)
            yield some, out

    def levels(self, block: int, rows: IntArray) -> Iterator[tuple[IntArray, Array]]:
        """log p(y_i | z, theta) at all draws."""
        return self.each(block, rows, _log_density)

    def joint_level(self, rows: Sequence[IntArray], weighted: bool = False) -> Array:
        """(S,) the sum of the log densities of some rows of each datum, or of these times their
        weights."""
        total = np.zeros(len(self))
        for block, some in enumerate(rows):
            times = self.components[0].row_weights[block][some]
            for places, level in self.levels(block, some):
                total += level @ times[places] if weighted else level.sum(axis=1)
        return total

    def error(self, influence: Array) -> float:
        """The Monte Carlo standard error of what each draw moves by so much, (S,), times 1 / S."""
        return float(influence.std() / np.sqrt(self.ess))


def _log_density(site: Site, s: Array) -> Array:
    return log_densities(repeated(site, len(s)), s)


def below(site: Site, s: Array) -> Array:
    """P(Y < y) at k draws, (k, N); of a censored response, below what is known of it."""
    return _distribution(site, s)[0]


def up_to(site: Site, s: Array) -> Array:
    """P(Y <= y); of a censored response, up to the end of what is known of it."""
    lower, upper = _distribution(site, s)
    return np.maximum(lower, upper)


def _distribution(site: Site, s: Array) -> tuple[Array, Array]:
    many = repeated(site, len(s))
    lower, upper = many.known_between(s.reshape(-1, *s.shape[2:]))
    return tuple(np.clip(x, 0.0, 1.0).reshape(s.shape[:2]) for x in (lower, upper))  # type: ignore[return-value]
