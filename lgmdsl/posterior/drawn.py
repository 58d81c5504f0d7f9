"""The posterior as draws: the same questions as `Mixture`, answered from equally weighted draws.

Draws of p(z | y, theta_k) at the points of a mixture, at each in proportion to its weight. Moments,
quantiles, densities, joint draws and predictions all come from the same draws, so they agree.
Hyperparameters have the marginals that they have in a mixture of Gaussians.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray, SingleArray
from lgmdsl.canonical.lowering import derived
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.posterior.extended_gaussian import Extended, Gaussian
from lgmdsl.posterior.frame import Frame
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginal_density import Density, density_of_draws
from lgmdsl.posterior.marginals import FEWEST, REPORT_VALUES, Marginals, Quantity, named_tree
from lgmdsl.posterior.mixture import Mixture, PointDraws
from lgmdsl.posterior.normal_mixtures import rank_of
from lgmdsl.posterior.tails import sd_error

if TYPE_CHECKING:
    from numpy.random import Generator

VALUES_PER_PASS = 1 << 21  # values of a name under draws that are held at once


@dataclass(frozen=True, eq=False)
class JointSample:
    """Equally weighted draws of z: `centre`, (n,), plus `away`, (draws, n), in single precision;
    `point`, (draws,): the hyperparameter point of each, in order. `ess`, `r_hat`: of the Markov
    chains that they are of, `chains` of them; independent draws are as many chains."""

    centre: Array
    away: SingleArray
    point: IntArray
    chains: int
    ess: float
    r_hat: float

    @classmethod
    def of(cls, z: Array, point: IntArray, chains: int, ess: float, r_hat: float) -> JointSample:
        """From draws (draws, n), rounded to what is kept."""
        centre = z.mean(axis=0)
        return cls(centre, (z - centre).astype(np.float32), point, chains, ess, r_hat)

    def __len__(self) -> int:
        return len(self.away)

    @property
    def of_chains(self) -> bool:
        """Whether Markov chains around one mode made them, not weights of draws at all modes."""
        return self.chains > 1

    def z(self, rows: IntArray | slice) -> Array:
        """Some of the draws."""
        return self.centre + self.away[rows]


class Postponed:
    """A Gaussian that is conditioned when it is first asked for anything."""

    def __init__(self, condition: Callable[[], Gaussian]) -> None:
        self._condition = condition

    def __getstate__(self) -> dict[str, object]:
        return {"_condition": self._condition}  # and not what it gave

    @cached_property
    def known(self) -> Gaussian:
        """The Gaussian."""
        return self._condition()

    @property
    def latent_mean(self) -> Array:
        return self.known.latent_mean

    @property
    def latent_variance(self) -> Array:
        return self.known.latent_variance

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        """Mean and variance, or covariance, of any affine functional."""
        return self.known.project(predictor, full)

    def sample(self, rng: Generator, size: int) -> Array:
        """(size, n) draws of the Gaussian."""
        return self.known.sample(rng, size)


def drawn_mixture(
    canonical: CanonicalModel,
    points: Sequence[HyperPoint],
    marginals_at: Callable[[HyperPoint], Marginals],
    hypers: HyperMarginals | None,
    seed: int,
    sample: JointSample,
) -> Drawn:
    """The posterior of draws at the points; `marginals_at` gives names their values there."""
    weights = np.array([p.share for p in points])
    parts = tuple(partial(marginals_at, p) for p in points)
    thetas = tuple(p.theta for p in points)
    return Drawn(canonical, weights, parts, thetas, hypers, seed, sample=sample)


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn(Mixture):
    """`sample`: the draws; `parts`: the Gaussians that were too far off, whose frames say where
    latents are in z."""

    sample: JointSample

    def quantity(self, name: str) -> Quantity:
        dims = self.quantity_dims(name)
        if not self._is_drawn(name):
            return super().quantity(name)
        if self._factored(name):
            return Quantity(dims, *_moments([self._report_draws(name)]))
        return Quantity(dims, *_moments(self._values_in_turn(name)))

    def quantile(self, name: str, levels: Array) -> tuple[tuple[str, ...], Array]:
        dims = self.quantity_dims(name)
        if not self._is_drawn(name):
            return super().quantile(name, levels)
        with np.errstate(all="ignore"):
            if self._factored(name):
                return dims, np.quantile(self._report_draws(name), levels, axis=0)
            tree = named_tree(self.canonical, name)[1]
            size = self._size(dims)
            if size * len(self.sample) <= REPORT_VALUES or not isinstance(tree, Leaf):
                return dims, np.quantile(self._values(name), levels, axis=0)
            out = np.empty((len(levels), size))
            step = max(1, REPORT_VALUES // len(self.sample))
            for start in range(0, size, step):
                rows = np.arange(start, min(start + step, size))
                values = np.empty((len(self.sample), len(rows)))
                for _, part, places, z in self.all_draws():
                    predictor = self.canonical.predictor(tree.form, dims, part.theta, rows)
                    embedded = part.frame.embed(predictor)
                    values[places] = embedded.values(z.T, part.frame.slices).T
                out[:, rows] = np.quantile(values, levels, axis=0)
            return dims, out.reshape(len(levels), *self.canonical.layout.shape(dims))

    def below(self, name: str, values: Array) -> Array:
        """P(X < value), entry by entry of a name: the rank of `values` among the draws."""
        if not self._is_drawn(name):
            return super().below(name, values)
        with np.errstate(all="ignore"):
            factored = self._factored(name)
            return rank_of(values, self._report_draws(name) if factored else self._values(name))

    def density(self, name: str, size: int) -> Density:
        """Points and densities with a last axis of `size`: kernel estimates of the draws."""
        if not self._is_drawn(name) or self._factored(name):
            return super().density(name, size)
        dims = self.quantity_dims(name)
        return Density(dims, *density_of_draws(self._values(name), size), "draws")

    def joint(self, size: int, rng: Generator) -> Iterator[PointDraws]:
        """Draws of the sample in random order, each as often as any other (to one)."""
        count = len(self.sample)
        turns = [rng.permutation(count) for _ in range(-(-size // count))]
        order = np.concatenate([np.zeros(0, dtype=np.int64), *turns])[:size]
        chosen = self.sample.point[order]
        for k in np.unique(chosen) if size else [int(self.sample.point[0])]:
            places = np.flatnonzero(chosen == k)
            yield PointDraws(chosen, self.part(int(k)), places, self.sample.z(order[places]))

    def all_draws(self) -> Iterator[PointDraws]:
        """All of them once, in pieces."""
        step = max(1, VALUES_PER_PASS // max(self.sample.away.shape[1], 1))
        for k in np.unique(self.sample.point):
            places, part = np.flatnonzero(self.sample.point == k), self.part(int(k))
            for start in range(0, len(places), step):
                some = places[start : start + step]
                yield PointDraws(self.sample.point, part, some, self.sample.z(some))

    @property
    def of_draws(self) -> bool:
        return True

    def undefined(self, name: str) -> float:
        if not self._is_drawn(name):
            return super().undefined(name)
        with np.errstate(all="ignore"):
            return float(1.0 - np.isfinite(self._values(name)).mean())

    @property
    def usual_draws(self) -> int:
        """All of them."""
        return len(self.sample)

    def worth(self, draws: int) -> float:
        count = max(min(draws, len(self.sample)), 1)
        ess = min(self.sample.ess, float(len(self.sample)))
        return 1.0 / (1.0 / ess + 1.0 / count - 1.0 / len(self.sample))

    def sd_error(self, name: str) -> float:
        """The relative Monte Carlo error of a report's sd, the largest of all entries."""
        if not self._is_drawn(name):
            return super().sd_error(name)
        values = self._values(name)
        return float(sd_error(values, self.worth(len(values))).max(initial=0.0))

    # ---- pieces ----------------------------------------------------------------------------

    def _is_drawn(self, name: str) -> bool:
        """Whether a name depends on latents."""
        if self.canonical.hypers.block(name) is not None:
            return False
        tree = named_tree(self.canonical, name)[1]
        return any(leaf.form.latents for leaf in derived.leaves(tree))

    def _size(self, dims: tuple[str, ...]) -> int:
        return int(np.prod(self.canonical.layout.shape(dims), dtype=np.int64))

    def _values(self, name: str) -> Array:
        """A name at all draws, or at some, evenly spaced, where it has very many entries."""
        size = self._size(self.quantity_dims(name))
        count = min(len(self.sample), max(FEWEST, REPORT_VALUES // max(size, 1)))
        chosen = np.linspace(0, len(self.sample) - 1, count).astype(np.int64)
        pieces = []
        for k in np.unique(self.sample.point[chosen]):
            rows = chosen[self.sample.point[chosen] == k]
            pieces.append(self.part(int(k)).evaluate(name, self.sample.z(rows)))
        return np.concatenate(pieces)

    def _values_in_turn(self, name: str) -> Iterator[Array]:
        """A name at all draws, in pieces."""
        step = max(1, VALUES_PER_PASS // max(self._size(self.quantity_dims(name)), 1))
        for _, part, _, z in self.all_draws():
            for start in range(0, len(z), step):
                yield part.evaluate(name, z[start : start + step])


def _moments(pieces: Sequence[Array] | Iterator[Array]) -> tuple[Array, Array]:
    """Mean and sd over the first axis of all pieces together (Chan, Golub, LeVeque 1983)."""
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    with np.errstate(all="ignore"):  # an infinite draw has no moments
        for values in pieces:
            more, centre = len(values), values.mean(axis=0)
            within = np.sum((values - centre) ** 2, axis=0)
            gap, whole = centre - mean, count + more
            squares = squares + within + gap**2 * (count * more / whole)
            mean, count = mean + gap * (more / whole), whole
        return np.asarray(mean), np.asarray(np.sqrt(squares / max(count - 1, 1)))


# ---- drawn members -----------------------------------------------------------------------------
# Draws of latents that new data bring in, given draws of the fitted ones.
#
# New latents are independent of y given the fitted ones f, so that under the Gaussian over both,
# which the fitted sites condition, their conditional is the prior's: with C its covariance,
#
#     z_new | z_f ~ N(mu_new + A (z_f - mu_f), C_nn - A C_fn),   A = C_nf C_ff^+.


# Latents of the joint Gaussian whose covariance is formed.
MAX_LATENTS_JOINED = 2000
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
        if (
            _joint_size(frame) > MAX_LATENTS_JOINED
            or len(sample) * sum(frame.sizes.values()) > KEPT
        ):
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
