"""The normal approximation of the hyperparameters' posterior at a mode, in coordinates x.

x ~ N(x^, (-H)^-1);   a hyperparameter made of one coordinate has transformed quantiles, any
other a marginal by the delta method: normal, or where its range has an end (the variances of a
covariance, the entries of a simplex) with a normal log or logit; what moves along a direction that
is not identified has none
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.learning.coordinates.hyper_marginals import Ends, HyperMarginals, Stored
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.kernel_density import Range

# Central differences of theta(x) over this many sds of x.
SHARE = 1e-3
# Of a value, what it moves by along a unit of a direction by rounding alone.
STILL = 1e-5
INSIDE = 3.0  # logs or logits from the edge of a range
# Densities are told over this many sds of x to both sides: all but 1e-5 of each tail.
NORMAL_REACH = 4.265


@dataclass(frozen=True, eq=False, repr=False)
class Asymptotic(HyperMarginals):
    """`theta`: the hyperparameters at the mode; `frame` holds the mode in x and the curvature."""

    coordinates: Coordinates
    theta: Theta
    frame: Standardised

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """The value at the mode."""
        return np.asarray(of(self.theta), dtype=np.float64)

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """The root of the diagonal of J cov(x) J', of the function's shape; NaN for what moves
        along a direction that is not identified."""
        slopes, mean = self._slopes(of, self.frame.axes.T), self.mean(of)
        sd = np.sqrt(sum((s**2 for s in slopes), np.zeros_like(mean)))
        if self.frame.unknown is not None:
            for slope in self._slopes(of, self.frame.unknown.T):
                sd = np.where(np.abs(slope) > STILL * np.maximum(1.0, np.abs(mean)), np.nan, sd)
            for j in np.flatnonzero(np.linalg.norm(self.frame.unknown, axis=1) > 1.0 - 1e-9):
                sd = np.where(self._moves(of, int(j)), np.nan, sd)
        return np.asarray(sd)

    def _moves(self, of: Callable[[Theta], Array], j: int) -> BoolArray:
        """Whether the value moves with a coordinate at the edge of its range, where its slope may
        be rounding alone: seen from well inside."""
        x = self.frame.mode[j]
        with np.errstate(all="ignore"):
            steps = [s * max(INSIDE, abs(x)) * np.eye(self.frame.size)[j] for s in (-1.0, 1.0)]
            ends = [self._at(of, step) for step in steps]
        return np.asarray((ends[0] != self.mean(of)) | (ends[1] != self.mean(of)))

    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        """(Q, ...): where the value moves with one coordinate alone, its value at the coordinate's
        quantiles, else normal ones, on the line that its range maps to."""
        z = special.ndtri(levels)
        out = np.moveaxis(self._by_delta(of, z, ends)[0], -1, 0)
        for unit, sign, moves in self._alone(of):
            at = np.array([self._at(of, sign * level * unit) for level in z])
            out = np.where(moves, at, out)
        return out

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) points and the density there, of the marginals that `quantile` has; NaN where
        the value is fixed. The range is that of the coordinates' maps."""
        nodes = np.linspace(-NORMAL_REACH, NORMAL_REACH, size)
        normal = np.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
        with np.errstate(all="ignore"):
            x, slope = self._by_delta(of, nodes, ends)
            p = np.where(slope > 0.0, normal / slope, np.nan)
            for unit, sign, moves in self._alone(of):
                at = [self._at(of, sign * t * unit) for t in nodes]
                steps = [self._slopes(of, sign * unit[None], t * unit)[0] for t in sign * nodes]
                x = np.where(moves[..., None], np.stack(at, axis=-1), x)
                p = np.where(moves[..., None], normal / np.stack(steps, axis=-1), p)
        return x, p

    def _by_delta(
        self, of: Callable[[Theta], Array], z: Array, ends: Ends | None
    ) -> tuple[Array, Array]:
        """(..., Z) values at normal scores z by the delta method, and their slopes in z."""
        mean, sd = self.mean(of), self.sd(of)
        lower, upper = (
            (np.full(mean.shape, side * np.inf) for side in (-1.0, 1.0))
            if ends is None
            else (np.broadcast_to(end, mean.shape) for end in ends)
        )
        x, slope = np.empty((2, *mean.shape, len(z)))
        with np.errstate(all="ignore"):
            for index in np.ndindex(*mean.shape):
                within = Range(float(lower[index]), float(upper[index]))
                centre = within.line(mean[index])
                spread = sd[index] / within.slope(centre)
                w = centre + z * spread
                x[index], slope[index] = within.value(w), within.slope(w) * spread
        return x, slope

    def alone(self, size: int, rng: np.random.Generator) -> tuple[Theta, ...]:
        """From the normal approximation in x, where the curvature determines all of it."""
        if self.frame.unknown is not None or self.frame.flat.any():
            return ()
        steps = rng.standard_normal((size, self.frame.size)) @ self.frame.axes.T
        return tuple(self.coordinates.unpack(self.frame.mode + step) for step in steps)

    def record(self) -> Stored:
        """The mode and the curvature, and what is pinned."""
        return Stored(pinned(self.coordinates), self.frame.record())

    def _alone(self, of: Callable[[Theta], Array]) -> list[tuple[Array, float, BoolArray]]:
        """One sd of a coordinate, a sign, and the entries that move with it alone, that way."""
        spread = np.linalg.norm(self.frame.axes, axis=1)
        moving = np.flatnonzero(spread)
        units = np.zeros((len(moving), len(spread)))
        units[np.arange(len(moving)), moving] = spread[moving]
        slopes = self._slopes(of, units)
        alone = np.sum([s != 0.0 for s in slopes], axis=0) == 1
        return [
            (unit, sign, np.asarray(alone & (sign * slope > 0.0)))
            for unit, slope in zip(units, slopes, strict=True)
            for sign in (1.0, -1.0)  # a falling function has its quantiles in the other order
            if (alone & (sign * slope > 0.0)).any()
        ]

    def _slopes(
        self, of: Callable[[Theta], Array], steps: Array, about: Array | float = 0.0
    ) -> list[Array]:
        """Derivatives along each row of `steps`, (k, d), by central differences at mode + about;
        NaN where the values overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return [
                (self._at(of, about + SHARE * s) - self._at(of, about - SHARE * s)) / (2.0 * SHARE)
                for s in steps
            ]

    def _at(self, of: Callable[[Theta], Array], step: Array) -> Array:
        return np.asarray(of(self.coordinates.unpack(self.frame.mode + step)), dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Chosen(HyperMarginals):
    """Normal approximation of a few coordinates of very many: `frame` has axes (d, k), in whose
    span their joint covariance is. What moves with others has sd NaN."""

    coordinates: Coordinates
    theta: Theta
    frame: Standardised

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """The value at the mode."""
        return self._inner.mean(of)

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """By the delta method; NaN for what moves with a coordinate that was not chosen."""
        return np.asarray(self._inner.sd(of) + self._open(of))

    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        """(Q, ...) as `Asymptotic`, or NaN."""
        return np.asarray(self._inner.quantile(of, levels, ends) + self._open(of))

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) as `Asymptotic`, or the value and NaN."""
        x, p = self._inner.density(of, size, ends)
        open_ = self._open(of)[..., None]
        return np.where(np.isnan(open_), self.mean(of)[..., None], x), np.asarray(p + open_)

    def record(self) -> Stored:
        """The mode and the axes, and what is pinned."""
        return self._inner.record()

    @property
    def _inner(self) -> Asymptotic:
        return Asymptotic(self.coordinates, self.theta, self.frame)

    def _open(self, of: Callable[[Theta], Array]) -> Array:
        """0, and NaN for what moves with others."""
        others = np.where(self.frame.axes.any(axis=1), 0.0, SHARE)
        moved = np.asarray(of(self.coordinates.unpack(self.frame.mode + others)), dtype=np.float64)
        still = np.asarray(of(self.coordinates.unpack(self.frame.mode)), dtype=np.float64)
        return np.where(moved == still, 0.0, np.nan)


@dataclass(frozen=True, eq=False, repr=False)
class ModeOnly(HyperMarginals):
    """Values at a mode whose curvature is not known: what was learned has sd NaN."""

    coordinates: Coordinates
    theta: Theta

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """The value at the mode."""
        return np.asarray(of(self.theta), dtype=np.float64)

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """NaN where the value was learned, 0 where it is fixed."""
        x = self.coordinates.pack(self.theta)
        moved = np.asarray(of(self.coordinates.unpack(x + SHARE)), dtype=np.float64)
        return np.where(moved == self.mean(of), 0.0, np.nan)

    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        """(Q, ...) the value where it is fixed, NaN where it was learned."""
        return self.mean(of) + np.zeros((len(levels), *(1 for _ in self.mean(of).shape))) * self.sd(
            of
        )

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) the value and NaN: its density is not known."""
        x = np.repeat(self.mean(of)[..., None], size, axis=-1)
        return x, np.full(x.shape, np.nan)

    def record(self) -> Stored:
        """What is pinned: the mode is the fit's."""
        return Stored(pinned(self.coordinates))


def pinned(coordinates: Coordinates) -> dict[str, str | int]:
    """The names of what is pinned, and which coordinates covariances have, as attributes of a
    file."""
    names = json.dumps(sorted(coordinates.pinned))
    return {"pinned": names, "apart": int(coordinates.apart)}
