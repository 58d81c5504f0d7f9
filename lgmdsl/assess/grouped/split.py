"""A Gaussian split into its border and, given the border, independent groups.

    z = E_q z + L xi + R x,   xi ~ N(0, I) over the border, x ~ N(0, I) over the groups,

L the root of the border's covariance and the regression of the groups on it, R the roots of the
groups' conditional covariances. All of it from products with Cov_q, never from a precision: flat,
constrained and singular priors are no special case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.estimator import NotEstimated
from lgmdsl.assess.grouped.groups import Groups
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors, cut

SINGULAR = 1e-13  # an eigenvalue of a correlation matrix that counts as zero
AGREE = 1e-5  # relative: variances put together, against those that the engine gives


class NoGroups(NotEstimated):
    """A posterior cannot be taken group by group: why, in words."""


@dataclass(frozen=True, eq=False)
class Split:
    """`mean` (n,); `shared` (n, p'): L; `own` (n, D): the row of R of each latent of a group. Of
    each site block: `shared_rows` (P, p') and `own_rows` (P, D), BL and BR."""

    groups: Groups
    mean: Array
    shared: Array
    own: Array
    shared_rows: list[Array]
    own_rows: list[Array]

    @property
    def rank(self) -> int:
        """p'."""
        return int(self.shared.shape[1])

    def z(self, xi: Array, x: Array) -> Array:
        """(m, n) latents of xi (m, p') and x (m, G, D)."""
        out = self.mean + xi @ self.shared.T
        for row in self.groups.members.T:
            there = row >= 0
            out[:, row[there]] += np.einsum("mgd,gd->mg", x[:, there], self.own[row[there]])
        return out


def split(linear: LinearGaussian, q: Conditioned, groups: Groups) -> Split:
    """Raises NoGroups where q does not split so."""
    n, border, width = linear.size, groups.border, groups.width
    picked = np.zeros((n, len(border)))
    picked[border, np.arange(len(border))] = 1.0
    probes = np.zeros((n, width))
    for place, row in enumerate(groups.members.T):
        probes[row[row >= 0], place] = 1.0
    solved = q.solve(np.concatenate([picked, probes], axis=1))
    across, sums = solved[:, : len(border)], solved[:, len(border) :]
    values, vectors, unit = _spectrum(across[border])
    # Cov(z, b) Cov(b)^+ root: the columns of L.
    shared = (across / unit) @ (vectors / np.sqrt(values))
    # Of all groups in one product each: what the border shares is taken off again.
    conditional = sums - shared @ (shared.T @ probes)
    own = np.zeros((n, width))
    whole = np.zeros((groups.count, width, width))
    for place, row in enumerate(groups.members.T):
        there = row >= 0
        whole[there, place] = conditional[row[there]]
        other = groups.members[there] >= 0
        whole[there, place] = np.where(other, whole[there, place], 0.0)
    root = _roots(whole)
    for place, row in enumerate(groups.members.T):
        there = row >= 0
        own[row[there]] = root[there, place]
    variance = (shared**2).sum(axis=1) + (own**2).sum(axis=1)
    known = q.latent_variance
    if not np.allclose(variance, known, rtol=AGREE, atol=1e-12 * float(known.max(initial=0.0))):
        raise NoGroups("rounding hides the groups' own variances")
    stacked = StackedPredictors(linear)
    rows = [cut(stacked.times(m), linear.predictors) for m in (shared, own)]
    return Split(groups, q.latent_mean, shared, own, *rows)


def _spectrum(covariance: Array) -> tuple[Array, Array, Array]:
    """Positive eigenvalues of a correlation matrix with their vectors, and the sds."""
    sd = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    unit = np.where(sd > 0.0, sd, 1.0)
    correlation = 0.5 * (covariance + covariance.T) / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(correlation)
    kept = values > SINGULAR * max(len(values), 1)
    return values[kept], vectors[:, kept], unit


def _roots(covariance: Array) -> Array:
    """(G, D, D) symmetric roots."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.transpose(0, 2, 1)))
    root = np.sqrt(np.maximum(values, 0.0))
    return np.asarray(vectors * root[:, None, :])
