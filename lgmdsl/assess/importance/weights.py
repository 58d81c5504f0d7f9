"""Importance weights of a Gaussian's own draws, and of a heavier-tailed proposal around it.

q(z) = p(z) exp(-1/2 s'Ws + b's - log_normaliser), so that the ratio of the joint density to q needs
no prior density and holds for flat, constrained and singular priors as for any other:

    log p(y, z) / q(z) = log_normaliser + sum l(s) + 1/2 s'Ws - b's

Around q's mean, s = m + d, with alpha = b - Wm, it is a constant + sum [l - alpha'd + 1/2 d'Wd],
which keeps digits where predictors are far from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.importance.pareto import effective_size
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.site import Site

# Degrees of freedom of the Student proposal: a finite fourth moment, tails that any Gaussian
# prior times bounded sites lies under.
DF = 5


class DensityRatio:
    """log p(y, z) / q(z) at z = E z + x, from B x."""

    def __init__(self, sites: Sequence[Site], conditioned: Conditioned) -> None:
        self.sites, self.weight, self.mean = sites, conditioned.weight, conditioned.mean
        self.alpha = rows.slope_of(conditioned.shift, self.weight, self.mean)
        self.constant = conditioned.centred
        self._repeated: dict[tuple[int, int], Site] = {}

    def __call__(self, moves: Sequence[Array]) -> Array:
        """(k,) for B x of k draws: (k, P) for each site block. -inf where a site has no density
        (or none in floating point)."""
        return np.asarray(self.constant + sum(t.sum(axis=1) for t in self.terms(moves)))

    def terms(self, moves: Sequence[Array]) -> list[Array]:
        """The sites' own contributions, l(m + d) - alpha'd + 1/2 d'Wd: (k, N) for each block."""
        return [self.term(number, flat) for number, flat in enumerate(moves)]

    @np.errstate(all="ignore")
    def term(self, number: int, flat: Array) -> Array:
        """Those of one block, (k, N), at moves (k, P) of its predictors."""
        mean, (draws, sites) = self.mean[number], (len(flat), len(self.mean[number]))
        d = flat.reshape(draws * sites, *mean.shape[1:])
        site = self.repeated(number, sites, draws)
        level = site.log_density(np.tile(mean, (draws, *[1] * (mean.ndim - 1))) + d)
        w = np.tile(self.weight[number], (draws, *[1] * (self.weight[number].ndim - 1)))
        a = np.tile(self.alpha[number], (draws, *[1] * (mean.ndim - 1)))
        term = level - rows.inner(a, d) + 0.5 * rows.quadratic(w, d)
        return np.where(np.isnan(term), -np.inf, term).reshape(draws, sites)

    def part(self, chosen: Sequence[IntArray]) -> DensityRatio:
        """That of some sites of each block, by positions, without the constant."""
        out = copy(self)
        pairs = list(zip(self.sites, chosen, strict=True))
        out.sites = [site.take(rows) for site, rows in pairs]
        out.mean, out.weight, out.alpha = (
            tuple(a[rows] for a, rows in zip(values, chosen, strict=True))
            for values in (self.mean, self.weight, self.alpha)
        )
        out.constant, out._repeated = 0.0, {}
        return out

    def repeated(self, number: int, sites: int, draws: int) -> Site:
        """The sites of a block, once for each draw."""
        if (number, draws) not in self._repeated:
            every = np.tile(np.arange(sites), draws)
            self._repeated[number, draws] = self.sites[number].take(every)
        return self._repeated[number, draws]


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
class Proposal:
    """Draws z = E z + scale x of a density g: `log_weight` is log p(y, z) / g, `log_own` log q / g,
    (n,) each. E_g of q / g is 1, which the estimates make use of."""

    name: str
    scale: Array
    log_weight: Array
    log_own: Array

    @property
    def effective(self) -> float:
        """The effective sample size of its weights."""
        return effective_size(self.log_weight)


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
    student = Proposal("student-t", stretch, stretched_weights + wide, wide)
    if first is None:
        first = np.arange(len(log_weights)) < len(log_weights) // 2
    ratio = np.where(first, wide, near)
    over = -np.logaddexp(np.log(0.5), np.log(0.5) - ratio)
    mixture = Proposal(
        "mixture",
        np.where(first, stretch, 1.0),
        np.where(first, stretched_weights, log_weights) + over,
        over,
    )
    return mixture if mixture.effective > student.effective else student
