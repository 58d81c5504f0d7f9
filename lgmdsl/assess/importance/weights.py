"""Importance weights of a Gaussian's own draws, and of a heavier-tailed proposal around it, from
the ratio of the joint density to the Gaussian's (`accuracy/density_ratio`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import special

from lgmdsl.accuracy.weighted import Weighted
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.linear import LinearGaussian, Predictor

# Degrees of freedom of the Student proposal: a finite fourth moment, tails that any Gaussian
# prior times bounded sites lies under.
DF = 5


def moves(linear: LinearGaussian, x: Array) -> list[Array]:
    """B x of draws x, (k, n): (k, P) for each site block."""
    return [displacement(linear, p, x) for p in linear.predictors]


def displacement(linear: LinearGaussian, predictor: Predictor, x: Array) -> Array:
    """(k, P): the change of an affine functional for changes x, (k, n), of z."""
    return predictor.times(x.T, linear.slices).T


def log_normal_over_student(radius: Array, rank: Array | int) -> Array:
    """log N / t_5 of the same mean and covariance in `rank` dimensions, at these squared
    Mahalanobis distances. t_5 = N(0, u^2 Cov), u^2 = 3 / chi-square_5."""
    d, df = np.asarray(rank, dtype=np.float64), float(DF)
    student = (
        special.gammaln(0.5 * (df + d))
        - special.gammaln(0.5 * df)
        - 0.5 * d * np.log((df - 2.0) * np.pi)
    )
    student = student - 0.5 * (df + d) * np.log1p(radius / (df - 2.0))
    return np.asarray(-0.5 * d * np.log(2.0 * np.pi) - 0.5 * radius - student)


@dataclass(frozen=True, eq=False)
class Proposal(Weighted):
    """Draws z = E z + scale x of a density g, of known x and `draws` = scale, (n,), weighted by
    p(y, z) / g. E_g of q / g is 1, which the estimates make use of."""

    name: str = field(kw_only=True)


def best_proposal(
    log_weights: Array,
    stretched_weights: Array,
    radius: Array,
    stretch: Array,
    rank: Array | int,
    first: BoolArray | None = None,
) -> Proposal:
    """Student t_5 with q's moments, or half of it mixed with half of q (Hesterberg 1995, weighted
    average importance sampling and defensive mixtures), whichever has the larger effective size.

    `own` and `far` are log p(y, z) / q at E z + x and at E z + stretch x, (n,) each, `radius` the
    squared distances of the x. The mixture is stratified: draws that are `first` (by default the
    first half) are from the Student.
    """
    near, wide = (log_normal_over_student(r, rank) for r in (radius, stretch**2 * radius))
    student = Proposal(stretch, stretched_weights + wide, wide, name="student-t")
    if first is None:
        first = np.arange(len(log_weights)) < len(log_weights) // 2
    ratio = np.where(first, wide, near)
    over = -np.logaddexp(np.log(0.5), np.log(0.5) - ratio)
    mixture = Proposal(
        np.where(first, stretch, 1.0),
        np.where(first, stretched_weights, log_weights) + over,
        over,
        name="mixture",
    )
    return mixture if mixture.effective > student.effective else student
