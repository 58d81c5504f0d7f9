"""The M-steps in closed form of hypers that do not enter the predictors linearly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.expressions.coefficient import HyperValue, Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import leaf, leaf_places, uses
from lgmdsl.contract.site import Property
from lgmdsl.learning.coordinates.restricted import ClosedSimplex, SparsePrecision
from lgmdsl.learning.coordinates.transforms import Above, Transform
from lgmdsl.learning.coordinates.transforms import Covariance as CovarianceForm
from lgmdsl.learning.coordinates.vector import Coordinates, transform
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.metric import Metric
from lgmdsl.numerics.optimisation.graphical_lasso import graphical_lasso
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, MOST_PAIRS, Evaluated, Iterate
from lgmdsl.priors.covariance import definite
from lgmdsl.priors.prior import VALUE, Prior


class ClosedStep(Protocol):
    """The M-step of one hyper."""

    @property
    def name(self) -> str: ...

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """Coordinates of the hyper at the maximum of the complete-data objective, at the q of `now`
        and the other hypers of `theta`, or `stretch` times as far; None where it has none."""

    def curvature(self, now: Evaluation) -> Array | Metric | None:
        """Minus the second derivatives of that objective in the coordinates, (k,) a diagonal or
        (k, k), or products with their inverse, about at its maximum; None where nobody knows."""


def closed_steps(
    canonical: CanonicalModel, coordinates: Coordinates, theta: Theta
) -> tuple[ClosedStep, ...]:
    """M-steps in closed form that the model has, in the order in which they are made."""
    return (
        *noises(canonical, coordinates, theta),
        *covariances(canonical, coordinates),
        *probabilities(canonical, coordinates),
    )


# ---- noise -------------------------------------------------------------------------------------
# The M-step of noise sds: Gaussian observations whose sd is a hyperparameter as it stands.
#
# sigma^2 = S / (n - sigma p'(sigma)),   S = sum E_q (y - s)^2 over the n sites that share sigma,
#
# p' being the slope of the log prior: the root of the slope of -n log sigma - S / (2 sigma^2) + log
# p (Khan 2012, algorithm 2, where the prior is flat).


ROUNDS = 60  # of the fixed point, which contracts like the prior's weight beside n sites


@dataclass(frozen=True, eq=False)
class NoiseStep:
    """One site block `block` of normal observations: `places` (N,) of each site in the hyper."""

    block: int
    name: str
    places: IntArray

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """The logs that maximise the complete-data objective at the other hypers of `theta` and the
        q of `now`, `stretch` times as far; None where the sd is on the edge, or there is no root.
        """
        sites = canonical.blocks[self.block]
        assert sites.y is not None
        rows = None if sites.complete else sites.rows
        predictor = canonical.predictor(sites.form, sites.dims, theta, rows)
        mean, variance = now.posterior.conditioned.project(predictor)
        last = np.asarray(theta[self.name], dtype=np.float64)
        squares = np.bincount(self.places, (sites.y - mean) ** 2 + variance, last.size)
        count = np.bincount(self.places, minlength=last.size)
        block = canonical.hypers.block(self.name)
        assert block is not None and block.prior is not None
        prior, sd = block.prior.at(theta), last.reshape(-1)
        for _ in range(ROUNDS):
            slope = prior.gradient(sd.reshape(last.shape))[VALUE].reshape(-1)
            with np.errstate(all="ignore"):
                following = np.sqrt(squares / (count - sd * slope))
            if not (np.isfinite(following) & (following > 0.0)).all():
                return None
            moved, sd = np.abs(following / sd - 1.0).max(initial=0.0), following
            if moved < 1e-13:
                break
        begin = np.log(last.reshape(-1))
        return np.asarray(begin + stretch * (np.log(sd) - begin))

    def curvature(self, now: Evaluation) -> Array:
        """(k,) 2n, in the logs: of n log sigma + S / (2 sigma^2) at its least."""
        size = np.size(now.theta[self.name])
        return np.asarray(np.maximum(2.0 * np.bincount(self.places, minlength=size), 1.0))


def noises(
    canonical: CanonicalModel, coordinates: Coordinates, theta: Theta
) -> tuple[NoiseStep, ...]:
    """The noise sds that are positive hypers of their own, free, and stand nowhere else."""
    everywhere = uses(canonical)
    out = []
    for k, block in enumerate(canonical.blocks):
        spec = block.site.spec
        node = block.parameters.get(spec.gaussian_scale)
        observed = Property.GAUSSIAN in spec.properties and "y" in spec.places
        observed = observed and block.weight is None  # S and n are sums of rows here
        if not observed or node is None:
            continue
        hyper = leaf(node)
        if (
            hyper is None
            or hyper.name not in coordinates.slices
            or everywhere.count(hyper.name) != 1
        ):
            continue
        free = next(b for b in coordinates.blocks if b.name == hyper.name)
        form = transform(free, theta)
        if not isinstance(form, Above) or np.any(form.lower != 0.0):
            continue
        places = leaf_places(node, block.dims, block.sizes, free.sizes)
        out.append(NoiseStep(k, hyper.name, places[block.rows]))
    return tuple(out)


# ---- simplices ---------------------------------------------------------------------------------
# The M-step of probabilities: topics over words, a simplex hyper in the argument of one family.
#
# Where the likelihood of a datum is a mixture sum_k pi_k p_kw, or a bound keeps that form, the
# expected counts are the probability times the slope of the evidence in it, whatever the bound:
#
#     c_kw = p_kw dF/dp_kw,   p_kw <- (c_kw + alpha_kw - 1) / sum over w
#
# (Dempster, Laird and Rubin 1977; alpha from a Dirichlet prior, 1 where it is flat.)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The simplex `block`, along its last index, in the coordinates of `form` at `place`."""

    block: HyperBlock
    form: Transform
    place: slice

    @property
    def name(self) -> str:
        return self.block.name

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """The coordinates of the maximum of the complete-data objective at the q of `now`,
        `stretch` times as far; None where no count is left."""
        p, counts = np.asarray(now.theta[self.name]), self._counts(now, theta)
        whole = counts.sum(axis=-1, keepdims=True)
        if not (np.isfinite(whole) & (whole > 0.0)).all():
            return None
        begin, end = self.form.coordinates(p), self.form.coordinates(counts / whole)
        return np.asarray(begin + stretch * (end - begin))

    def curvature(self, now: Evaluation) -> Array | None:
        """(k,) 4n for a unit of length on the sphere: 2 sum c_k log|r_k| of n counts, |r| = 1."""
        if not isinstance(self.form, ClosedSimplex):
            return None
        whole = self._counts(now, now.theta).sum(axis=-1, keepdims=True)
        lengths = self.form.lengths(now.x[self.place])
        return np.asarray(np.maximum(4.0 * whole * lengths**2, 1.0)).reshape(-1)

    def _counts(self, now: Evaluation, theta: Theta) -> Array:
        """Expected counts of words, with what the prior adds."""
        p = np.asarray(now.theta[self.name], dtype=np.float64)
        counts = np.maximum(p * now.slopes[self.name], 0.0)
        assert self.block.prior is not None
        prior = self.block.prior.at(theta)
        if prior.weights is not None:
            counts = np.maximum(counts + np.broadcast_to(prior.weights, p.shape) - 1.0, 0.0)
        return np.asarray(counts)


def probabilities(canonical: CanonicalModel, coordinates: Coordinates) -> tuple[Probabilities, ...]:
    """The free simplices with a Dirichlet or flat prior that are what words are drawn with, and
    stand nowhere else."""
    everywhere, theta = uses(canonical), canonical.hypers.start(coordinates.pinned)
    simplices = []
    for site in canonical.blocks:
        node = site.parameters.get(site.family.spec.mixture)
        if not isinstance(node, HyperValue):
            continue
        for block in coordinates.blocks:
            known = block.name == node.name and everywhere.count(block.name) == 1
            prior = block.prior.at(theta) if known and block.prior else None
            if prior is not None and (prior.constant or prior.weights is not None):
                form = coordinates.transform(block, theta)
                simplices.append(Probabilities(block, form, coordinates.slices[block.name]))
    return tuple(simplices)


# ---- covariances -------------------------------------------------------------------------------
# The M-step of covariances: latents `... * dense(cov = S)` whose S is a hyperparameter.
#
#     Q(S) = -n/2 (log|S| + tr(S^-1 T)) + log p(S),   T = E_q[Z'Z] / n
#
# over n vectors, Z those of all (whitened along the other factors). Engines give the slope of the
# evidence in S, which is that of Q's first part at q: G = n/2 (S^-1 T S^-1 - S^-1), so that
#
#     T = S + 2/n S G S
#
# whatever the engine (Khan 2012, algorithms 4 and 5). A flat prior's step is T, an inverse
# Wishart's an average, a graphical lasso's a sparse precision; under other priors Q is maximised.


LARGEST = 24  # variables of a covariance whose curvature is written out
STEPS, GAIN = 200, 1e-12  # of the search where the prior leaves no closed form


@dataclass(frozen=True, eq=False)
class CovarianceStep:
    """The covariance `block` of `count` vectors."""

    block: HyperBlock
    count: float

    @property
    def name(self) -> str:
        return self.block.name

    def scatter(self, slopes: Mapping[str, Array], theta: Theta, stretch: float = 1.0) -> Array:
        """T, (k, k), from the slopes of the evidence at theta; `stretch` times as far from S."""
        now = np.asarray(theta[self.name])
        return now + (2.0 * stretch / self.count) * now @ slopes[self.name] @ now

    def step(
        self, canonical: CanonicalModel, now: Evaluation, theta: Theta, stretch: float = 1.0
    ) -> Array | None:
        """The coordinates of the maximum of Q at the q of `now`; None where T is not positive
        definite, which rounding and evidences that are no bounds can do. `stretch`: of T."""
        t = self.scatter(now.slopes, now.theta, stretch)
        if not definite(t):
            return None
        assert self.block.prior is not None
        prior, form = self.block.prior.at(theta), transform(self.block, theta)
        if prior.penalty is not None:
            assert isinstance(form, SparsePrecision)
            start = form.precision(form.coordinates(np.asarray(now.theta[self.name])))
            found = graphical_lasso(t, float(prior.penalty) / self.count, start)
            return None if found is None else form.packed(found.precision)
        return _maximum(t, self.count, prior, form)

    def curvature(self, now: Evaluation) -> Array | Metric | None:
        """(m, m) n/2 <E_a + E_a', E_b + E_b'>, E_a = L^-1 dL/dx_a, in log-Cholesky coordinates at
        T = S, or products with its inverse for large matrices; None in other coordinates."""
        form, k = transform(self.block, now.theta), self.block.sizes[-1]
        if not isinstance(form, CovarianceForm):
            return None
        factor: Array = np.linalg.cholesky(np.asarray(now.theta[self.name], dtype=np.float64))
        if k > LARGEST:
            return fisher(factor, self.count)
        rows, columns = np.tril_indices(k)
        tangents = np.zeros((len(rows), k, k))
        scale = np.where(rows == columns, factor[rows, columns], 1.0)
        tangents[np.arange(len(rows)), rows, columns] = scale
        e = np.linalg.solve(factor, tangents)
        both = (e + np.swapaxes(e, 1, 2)).reshape(len(rows), -1)
        return np.asarray(0.5 * self.count * both @ both.T)


def fisher(factor: Array, count: float) -> Metric:
    """M = n/2 J'DJ of `Covariance.curvature` for L, (k, k), without its k^4 / 4 entries.

    J takes dx to the lower triangle of E = L^-1 dL, column by column, and D is 2 below its diagonal
    and 4 on it. The inverse of J' is the lower triangle of L'E, a product of (k, k), that of J dx =
    the triangle of LE.
    """
    rows, columns = np.tril_indices(len(factor))
    scale = np.where(rows == columns, factor[rows, columns], 1.0)
    weight = 0.5 * count * np.where(rows == columns, 4.0, 2.0)

    def lower(x: Array) -> Array:
        out = np.zeros_like(factor)
        out[rows, columns] = x
        return out

    def solve(g: Array) -> Array:
        e = (factor.T @ lower(g / scale))[rows, columns] / weight
        return np.asarray((factor @ lower(e))[rows, columns] / scale)

    return Metric(solve)


def covariances(canonical: CanonicalModel, coordinates: Coordinates) -> tuple[CovarianceStep, ...]:
    """The free covariances that stand in latents alone, each as `dense(cov = ...)`."""
    counts: dict[str, list[float]] = {}
    for latent in canonical.latents:
        for at, factor in enumerate(latent.factors):
            node = factor.arguments.get(factor.declared.covariance)
            if isinstance(node, HyperValue):
                counts.setdefault(node.name, []).append(_others(latent, at))
    everywhere = uses(canonical)
    return tuple(
        CovarianceStep(b, sum(counts[b.name]))
        for b in coordinates.blocks
        if b.name in counts
        and len(b.sizes) == 2
        and everywhere.count(b.name) == len(counts[b.name])
    )


def _others(latent: LatentBlock, at: int) -> float:
    """The number of vectors along one factor of a product."""
    return float(np.prod([f.size for k, f in enumerate(latent.factors) if k != at]))


def _maximum(t: Array, count: float, prior: Prior, form: Transform) -> Array | None:
    if prior.constant:
        return form.coordinates(t)
    if prior.scatter is not None:
        free = float(prior.scatter.df) + len(t) + 1.0
        return form.coordinates((count * t + prior.scatter.scale) / (count + free))

    start = form.coordinates(t)
    unit = form.units(start)

    def minus(part: Array) -> Evaluated[None] | None:
        x = unit * part
        s = form.value(x)
        if not definite(s):
            return None
        inverse = np.linalg.inv(s)
        inside = inverse @ t
        value = -0.5 * count * (np.linalg.slogdet(s)[1] + np.trace(inside))
        slope = 0.5 * count * (inside @ inverse - inverse) + prior.gradient(s)[VALUE]
        return Evaluated(-float(value) - prior.log_density(s), -unit * form.pull(slope, x).x, None)

    first, search = minus(start / unit), LBFGS(memory=min(max(20, len(start)), MOST_PAIRS))
    if first is None:
        return None
    iterate: Iterate[None] = search.start(start / unit, first)
    for _ in range(STEPS):
        if -0.5 * float(iterate.at.gradient @ search.direction(iterate)) <= GAIN * count:
            break
        following = search.step(iterate, minus)
        if following is None:
            break
        iterate = following
    return np.asarray(unit * iterate.x)
