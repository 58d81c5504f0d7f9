"""Weighted draws: what they say of evidences, means, quantiles and their own errors.

Whoever makes them says where draws come from: about a Gaussian at several scales (`weighed`), from
all modes (`assess/modes`), of the latents that groups share (`assess/grouped`), of a posterior and
of a heavier-tailed density around it (`assess/importance`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lgmdsl.accuracy.errors import Errors, errors_against, moments_of
from lgmdsl.accuracy.limits import BENT, LEVELS, NORMAL, PASSED
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor

# Of a standard normal's sds, those of the parts of a defensive mixture (Hesterberg 1995), so that
# tails that are longer are seen.
SCALES = (1.0, 1.75, 3.0)
BRIDGES = 200  # rounds of an evidence from draws of two densities


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws, (S, ...), of a density g, with the log, `log_weight` (S,), of an unnormalised density
    p over g. They are `parts` independent sets of equal size, one after the other; of one part
    every draw is independent. `log_own`, (S,): log q / g of a Gaussian q whose moments are known.
    """

    draws: Array
    log_weight: Array
    log_own: Array = field(default_factory=lambda: np.zeros(0))
    parts: int = 1

    @property
    def possible(self) -> bool:
        """Whether a draw has a density."""
        return bool(np.isfinite(self.log_weight.max(initial=-np.inf)))

    @cached_property
    def relative(self) -> Array:
        """(S,) the weights, of which the largest is 1."""
        top = self.log_weight.max(initial=-np.inf)
        return np.exp(self.log_weight - top) if self.possible else np.zeros(len(self.log_weight))

    @cached_property
    def weights(self) -> Array:
        """(S,) that sum to 1."""
        return np.asarray(self.relative / self.relative.sum())

    @cached_property
    def own(self) -> Array:
        """(S,) the weights of q, which sum to 1."""
        own = np.exp(self.log_own - self.log_own.max())
        return np.asarray(own / own.sum())

    @cached_property
    def effective(self) -> float:
        """Kish's (sum w)^2 / sum w^2; 0 where no draw has a density."""
        w = self.relative
        return float(w.sum() ** 2 / (w @ w)) if self.possible else 0.0

    @property
    def log_evidence(self) -> float:
        """The log of p's integral; -inf where no draw has a density."""
        if not self.possible:
            return -math.inf
        return float(self.log_weight.max()) + math.log(float(self.relative.mean()))

    @property
    def masses(self) -> Array:
        """(parts,) the mean weight of each part; of one part, of each draw."""
        w = self.relative
        return w if self.parts == 1 else w.reshape(self.parts, -1).mean(axis=1)

    @property
    def error(self) -> float:
        """The standard error of `log_evidence`, by how the parts differ."""
        return relative_error(self.masses)

    def part(self, k: int) -> Weighted:
        """The draws of one part."""
        size = len(self.log_weight) // self.parts
        where = slice(k * size, (k + 1) * size)
        own = self.log_own[where]
        return replace(
            self, draws=self.draws[where], log_weight=self.log_weight[where], log_own=own, parts=1
        )

    def scatter(self) -> float:
        """The squared standard error of the draws' means, of their squares or of shares below their
        5 and 95 % points, whichever is largest, over their variance: of each the average over the
        columns."""
        if self.parts == 1:
            return 0.0
        w, x = self.weights, self.draws
        centred = x - w @ x
        order = np.argsort(x, axis=0)
        ranks = np.empty_like(x)
        np.put_along_axis(ranks, order, np.cumsum(w[order], axis=0), axis=0)
        tails = [(ranks <= level).astype(np.float64) for level in LEVELS]
        return max(map(self._scatter, (centred, centred**2, np.concatenate(tails, axis=1))))

    def _scatter(self, f: Array) -> float:
        """Squared standard errors of the means of f (S, k) over its variances, on average."""
        w = self.weights
        away = f - w @ f
        variance = w @ away**2
        masses = w.reshape(self.parts, -1).sum(axis=1)
        sums = (w[:, None] * away).reshape(self.parts, -1, f.shape[1]).sum(axis=1)
        squared = (sums / masses[:, None]).var(axis=0, ddof=1) / self.parts
        varies = variance > 0.0
        return float((squared[varies] / variance[varies]).mean()) if varies.any() else 0.0

    def positions(self, count: int, rng: np.random.Generator) -> IntArray:
        """(count,) positions of draws, ascending, each as often as its weight says to less than one
        (Kitagawa 1996, systematic resampling)."""
        heights = (np.arange(count) + rng.random()) / count
        return np.minimum(np.searchsorted(np.cumsum(self.weights), heights), len(self.weights) - 1)


@dataclass(frozen=True, eq=False)
class WeightedPosterior:
    """A posterior by weighted draws x, (S, r), of `of`: the latents z = `centre` + `root` x, where
    q has x ~ N(0, I). Quantiles of all functionals are taken from the draws, or where `closely`
    says so of as many, those farthest from a Gaussian's, and by skewness of the others. `common`:
    the share that q's own quantiles have of the draws' errors. `share`, (k,): the mass of each
    mode."""

    of: Weighted
    linear: LinearGaussian
    centre: Array
    root: Array
    closely: int | None = None
    common: float = 1.0
    share: Array = field(default_factory=lambda: np.ones(1))

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        return self.of.log_evidence

    @property
    def ess(self) -> float:
        """How many independent draws give means with the same error."""
        return self.of.effective

    @property
    def width(self) -> int:
        """Numbers that a functional is made of: its values in all draws, where all are sorted."""
        return len(self.of.weights) if self.closely is None else self.root.shape[1]

    def resampled(self, count: int, rng: np.random.Generator) -> Array:
        """Equally weighted draws of z, (count, n), in random order."""
        x = self.of.draws[rng.permutation(self.of.positions(count, rng))]
        return np.asarray(self.centre + x @ self.root.T)

    def errors(self, q: Conditioned, functional: Predictor | None = None) -> Errors:
        """Errors of a Gaussian q: of every latent, or of the rows of a functional."""
        return errors_against(moments_of(q, functional), *self.moments(functional))

    def moments(self, functional: Predictor | None) -> tuple[Array, Array, Array, Array]:
        """Mean, sd, 5 and 95 % point, (m,) each, of the latents or of the rows of a functional. The
        draws give the difference of quantiles from q's, which are known."""
        centre, columns = self.centre, self.root
        if functional is not None:
            where = self.linear.slices
            centre, columns = functional.values(centre, where), functional.times(columns, where)
        w, own, x = self.of.weights, self.of.own, self.of.draws.T
        mean, sd, skew = np.empty(len(centre)), np.empty(len(centre)), np.empty(len(centre))
        step = max(1, PASSED // len(w))
        for start in range(0, len(centre), step):
            here = slice(start, start + step)
            f = columns[here] @ x
            mean[here] = f @ w
            f -= mean[here, None]
            powers = f * f
            sd[here] = np.sqrt(powers @ w)
            powers *= f  # numpy's f**3 takes twenty times as long as the product
            skew[here] = powers @ w
        unit = np.where(sd > 0.0, sd, 1.0)
        skew /= unit**3
        bent = BENT * np.clip(skew, -1.0, 1.0)
        low, high = mean + (bent - NORMAL) * sd, mean + (bent + NORMAL) * sd
        spread = np.sqrt(np.sum(columns**2, axis=1))
        off = np.abs(skew) + np.abs(sd - spread) / unit + np.abs(mean) / unit
        for k in np.argsort(-off, kind="stable")[: self.closely]:
            f = columns[k] @ x
            order = np.argsort(f)
            there, ours = (ordered_quantiles(f[order], u[order], LEVELS) for u in (w, own))
            known = np.array([-NORMAL, NORMAL]) * spread[k]
            low[k], high[k] = there - self.common * (ours - known)
        return centre + mean, sd, centre + low, centre + high


def relative_error(masses: Array) -> float:
    """The standard error of the log of the mean of independent values."""
    if len(masses) == 1:
        return 0.0
    return float(masses.std(ddof=1) / masses.mean() / math.sqrt(len(masses)))


def ordered_quantiles(values: Array, weights: Array, levels: Sequence[float]) -> Array:
    """(levels,) of ascending values (S,), whose weights need not sum to 1: the smallest up to which
    there is a share of at least `level`, halfway to the next."""
    mass = np.cumsum(weights)
    return np.asarray(np.interp(np.asarray(levels) * mass[-1], mass - 0.5 * weights, values))


def quantiles(values: Array, weights: Array, levels: Sequence[float]) -> Array:
    """(levels, k) of the columns of values (S, k), whose rows have these weights."""
    out = np.empty((len(levels), values.shape[1]))
    for k, order in enumerate(np.argsort(values, axis=0).T):
        out[:, k] = ordered_quantiles(values[order, k], weights[order], levels)
    return out


def log_scale_mixture(
    squares: Array, dimension: int, scales: Sequence[float], shares: Sequence[float]
) -> Array:
    """log sum_k share_k N(x; 0, scale_k^2 I) at squared distances |x|^2, (S,), less the constant
    -dimension/2 log 2 pi."""
    parts = [
        math.log(share) - dimension * math.log(scale) - 0.5 * squares / scale**2
        for scale, share in zip(scales, shares, strict=True)
    ]
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def bridged(of_q: Array, of_p: Array, effective: float) -> tuple[float, float]:
    """log Z and its standard error from log w = log p(y, z) / q(z) at draws of q and at `effective`
    independent ones of the posterior p; (-inf, inf) where either has none that is finite.

    Meng, Wong (1996), Simulating ratios of normalizing constants via a simple identity: Z = E_q[w /
    (a w + b Z)] / E_p[1 / (a w + b Z)], a and b the shares of the draws of p and of q. It asks of q
    and p no more than that they overlap."""
    of_p = of_p[np.isfinite(of_p)]
    if not len(of_p) or not np.isfinite(of_q).any():
        return -np.inf, np.inf
    centre = float(np.median(of_p))
    q, p = np.exp(np.clip(of_q - centre, -700.0, 300.0)), np.exp(np.clip(of_p - centre, -300, 300))
    a = effective / (effective + len(q))
    b, z = 1.0 - a, 1.0
    for _ in range(BRIDGES):
        before = z
        z = float(np.mean(q / (a * q + b * z)) / np.mean(1.0 / (a * p + b * z)))
        if abs(z - before) <= 1e-10 * z:
            break
    upper, lower = q / (a * q + b * z), 1.0 / (a * p + b * z)
    noise = upper.var() / (len(q) * upper.mean() ** 2) + lower.var() / (
        effective * lower.mean() ** 2
    )
    return centre + float(np.log(z)), float(np.sqrt(noise))
