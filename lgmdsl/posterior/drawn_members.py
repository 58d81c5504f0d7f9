"""Draws of latents that new data bring in, given draws of the fitted ones.

New latents are independent of y given the fitted ones f, so that under the Gaussian over both,
which the fitted sites condition, their conditional is the prior's: with C its covariance,

    z_new | z_f ~ N(mu_new + A (z_f - mu_f), C_nn - A C_fn),   A = C_nf C_ff^+.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.posterior.drawn import Drawn, JointSample, Postponed, drawn_mixture
from lgmdsl.posterior.extended_gaussian import Extended, Gaussian
from lgmdsl.posterior.frame import Frame
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import Marginals

if TYPE_CHECKING:
    from numpy.random import Generator

# Latents of the joint Gaussian whose covariance is formed.
MOST = 2000
# Values of all draws that are kept.
KEPT = 80_000_000
# Eigenvalues of a correlation matrix below this, relative to the largest, count as zero.
ZERO = 1e-12


class Solving(Protocol):
    """A Gaussian that multiplies with its covariance."""

    @property
    def latent_mean(self) -> Array: ...
    def solve(self, rhs: Array) -> Array: ...


def with_members(
    canonical: CanonicalModel,
    points: Sequence[HyperPoint],
    frame_at: Callable[[HyperPoint], Frame],
    hypers: HyperMarginals | None,
    seed: int,
    sample: JointSample,
) -> Drawn | None:
    """The posterior of draws over the latents of new data too, for frames `frame_at` the points;
    None where there are too many latents to form their covariance, or to keep draws of."""
    frames, pieces = dict[int, Frame](), list[Array]()  # frames by the number of their point
    for k in np.unique(sample.point):
        frame = frame_at(points[k])
        rows = np.flatnonzero(sample.point == k)
        if _joint_size(frame) > MOST or len(sample) * sum(frame.sizes.values()) > KEPT:
            return None
        pieces.append(completed(frame, sample.z(rows), np.random.default_rng([seed, 5, int(k)])))
        later = Postponed(partial(_gaussian, frame_at, points[k]))
        frames[int(k)] = replace(frame, conditioned=later)
    at = _Completed(canonical, tuple(points), frames, frame_at, seed)
    whole = JointSample.of(
        np.concatenate(pieces), sample.point, sample.chains, sample.ess, sample.r_hat
    )
    return drawn_mixture(canonical, points, at, hypers, seed, whole)


@dataclass(frozen=True, eq=False)
class _Completed:
    """The marginals at the points, of the `frames` that draws were made in where there are any."""

    canonical: CanonicalModel
    points: tuple[HyperPoint, ...]
    frames: Mapping[int, Frame]
    frame_at: Callable[[HyperPoint], Frame]
    seed: int

    def __call__(self, point: HyperPoint) -> Marginals:
        number = next((k for k, p in enumerate(self.points) if p is point), -1)
        frame = self.frames.get(number) or self.frame_at(point)
        return Marginals(self.canonical, point.theta, frame, self.seed)


def _gaussian(frame_at: Callable[[HyperPoint], Frame], point: HyperPoint) -> Gaussian:
    return frame_at(point).conditioned


def _joint_size(frame: Frame) -> int:
    """Latents whose joint covariance `completed` needs: none where the fit's are all there are."""
    size = len(_base(frame).latent_mean)
    return 0 if size == len(frame.fitted) else size


def completed(frame: Frame, z: Array, rng: Generator) -> Array:
    """Draws of all latents of a frame, (k, n), given draws of the fitted ones, (k, n_f)."""
    base = _base(frame)
    size = len(base.latent_mean)
    out = np.empty((len(z), size))
    out[:, frame.fitted] = z
    if size > len(frame.fitted):
        new = np.setdiff1d(np.arange(size), frame.fitted)
        mean, covariance = base.latent_mean, cast(Solving, base).solve(np.eye(size))
        slope, root = _conditional(covariance, frame.fitted, new)
        noise = rng.standard_normal((len(z), root.shape[1])) @ root.T
        out[:, new] = mean[new] + (z - mean[frame.fitted]) @ slope.T + noise
    whole = frame.conditioned
    return whole.extended(out, rng) if isinstance(whole, Extended) else out


def _base(frame: Frame) -> Gaussian:
    whole = frame.conditioned
    return whole.base if isinstance(whole, Extended) else whole


def _conditional(covariance: Array, known: IntArray, new: IntArray) -> tuple[Array, Array]:
    """A, and a root of C_nn - A C_fn."""
    covariance = 0.5 * (covariance + covariance.T)
    sd = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    unit = np.where(sd > 0.0, sd, 1.0)
    correlation = covariance / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(correlation[np.ix_(known, known)])
    kept = values > ZERO * max(float(values.max(initial=0.0)), 1e-300)
    half = correlation[np.ix_(new, known)] @ (vectors[:, kept] / np.sqrt(values[kept]))
    slope = half @ (vectors[:, kept] / np.sqrt(values[kept])).T
    left = correlation[np.ix_(new, new)] - half @ half.T
    spread, axes = np.linalg.eigh(0.5 * (left + left.T))
    root = axes * np.sqrt(np.maximum(spread, 0.0))
    return slope * unit[new][:, None] / unit[known], root * unit[new][:, None]
