"""The M-step of covariances: latents `... * dense(cov = S)` whose S is a hyperparameter.

    Q(S) = -n/2 (log|S| + tr(S^-1 T)) + log p(S),   T = E_q[Z'Z] / n

over n vectors, Z those of all (whitened along the other factors). Engines give the slope of the
evidence in S, which is that of Q's first part at q: G = n/2 (S^-1 T S^-1 - S^-1), so that

    T = S + 2/n S G S

whatever the engine (Khan 2012, algorithms 4 and 5). A flat prior's step is T, an inverse Wishart's
an average, a graphical lasso's a sparse precision; under other priors Q is maximised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.expressions.coefficient import HyperValue, Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.hyper_uses import uses
from lgmdsl.learning.coordinates.sparse_precision import SparsePrecision
from lgmdsl.learning.coordinates.transforms import Covariance as CovarianceForm
from lgmdsl.learning.coordinates.transforms import Transform
from lgmdsl.learning.coordinates.vector import Coordinates, transform
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.metric import Metric
from lgmdsl.numerics.optimisation.graphical_lasso import graphical_lasso
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, MOST_PAIRS, Evaluated, Iterate
from lgmdsl.priors.covariance import definite
from lgmdsl.priors.prior import VALUE, Prior

LARGEST = 24  # variables of a covariance whose curvature is written out
STEPS, GAIN = 200, 1e-12  # of the search where the prior leaves no closed form


@dataclass(frozen=True, eq=False)
class Covariance:
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


def covariances(canonical: CanonicalModel, coordinates: Coordinates) -> tuple[Covariance, ...]:
    """The free covariances that stand in latents alone, each as `dense(cov = ...)`."""
    counts: dict[str, list[float]] = {}
    for latent in canonical.latents:
        for at, factor in enumerate(latent.factors):
            node = factor.arguments.get(factor.declared.covariance)
            if isinstance(node, HyperValue):
                counts.setdefault(node.name, []).append(_others(latent, at))
    everywhere = uses(canonical)
    return tuple(
        Covariance(b, sum(counts[b.name]))
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
