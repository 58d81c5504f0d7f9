"""Corrected moments of functionals of z by importance sampling, with q as control variate.

Of y(z), whose mean (0) and variance under q are known, with omega = w / Z and v = q / g at draws of
g, the corrected mean is

    mean(omega y) - beta mean(v y),   E_g[v y] = 0

(Owen, Zhou 2000, Safe and effective importance sampling), beta by regression. Where q is exact
omega = v, beta = 1, and nothing moves, whatever the draws. The same holds of
Z = mean(w) - b (mean(v) - 1). Of a 5 or 95 % point the weighted quantile of the draws under the
posterior less that under q, from the same draws, is added to q's own: it is zero where q is exact,
and what draws scatter by is common to both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from lgmdsl.accuracy.limits import LEVELS
from lgmdsl.accuracy.weighted import Weighted, quantiles
from lgmdsl.arrays import Array, IntArray

# Half the width, in probability, over which a density at a quantile is estimated.
WIDTH = 0.02
ROUNDS = 50  # bisections


@dataclass(frozen=True, eq=False)
class Functional:
    """Something that the model names. `mean` and `sd`, (size,): its moments under q, which is a
    mixture where hyperparameters were integrated; `quantiles`, (2, size): its 5 and 95 % points
    under q, where they are known. `deviations`: (k, n) moves x of z from E z to (k, size) moves of
    it from `mean`, at the parts of a mixture by `of_part`, or `drawn`, (draws, size), where it is
    no function of z. `judged`: whether the verdict depends on it. `reported`: what the fit says of
    it; None where that is q's."""

    name: str
    mean: Array
    sd: Array
    deviations: Callable[[Array], Array]
    judged: bool = True
    of_part: tuple[Callable[[Array], Array], ...] = ()
    drawn: Array | None = None
    quantiles: Array | None = None
    reported: Reported | None = None

    def at(self, part: int, x: Array, where: slice) -> Array:
        """(k, size) moves from `mean` of draws E z + x of a part, whose places are `where`."""
        if self.drawn is not None:
            return self.drawn[where]
        return (self.of_part[part] if self.of_part else self.deviations)(x)


@dataclass(frozen=True, eq=False)
class Reported:
    """(size,) mean and sd and (2, size) 5 and 95 % points."""

    mean: Array
    sd: Array
    quantiles: Array


@dataclass(frozen=True, eq=False)
class Corrected:
    """(size,) each: the corrected mean and sd; what was added to the mean, and its standard error,
    both in corrected sds (0 for what does not vary). `stretch`: corrected over reported sd;
    `sd_error`: standard error of the corrected sd, relative.

    (2, size) each: corrected 5 and 95 % points, what was added to them and its standard error, both
    in corrected sds; NaN where they were not computed."""

    mean: Array
    sd: Array
    shift: Array
    error: Array
    stretch: Array
    sd_error: Array
    quantiles: Array
    quantile_shift: Array
    quantile_error: Array

    @classmethod
    def of_moments(
        cls, mean: Array, sd: Array, shift: Array, error: Array, stretch: Array, sd_error: Array
    ) -> Corrected:
        """Without quantiles."""
        none = np.full((2, len(mean)), np.nan)
        return cls(mean, sd, shift, error, stretch, sd_error, none, none, none)

    @classmethod
    def nothing(cls, value: Array) -> Corrected:
        """Corrected moments of what is fixed: its value, without a change or an error."""
        zero, twice = np.zeros_like(value), np.zeros((2, len(value)))
        return cls(value, zero, zero, zero, zero + 1.0, zero, twice + value, twice, twice)


class Evidence:
    """log Z and the normalised weights `omega`, from the draws of a proposal."""

    def __init__(self, proposal: Weighted) -> None:
        w, self.draws, self.possible = proposal.relative, len(proposal.relative), proposal.possible
        self.v = np.exp(proposal.log_own)
        spread = float(self.v.var())
        b = float(np.mean((w - w.mean()) * self.v)) / spread if spread > 0.0 else 0.0
        level = float(w.mean() - b * (self.v.mean() - 1.0))
        if not level > 0.0:  # too few draws for a regression
            b, level = 0.0, float(w.mean())
        self.slope = b / level if self.possible else 0.0
        self.omega = w / level if self.possible else w
        top = float(proposal.log_weight.max())
        self.log = top + float(np.log(level)) if self.possible else -np.inf

    @cached_property
    def residual(self) -> Array:
        """(n,) what Z is the mean of, relative to Z, without what v explains."""
        return self.omega - self.slope * self.v

    @property
    def error(self) -> float:
        """Standard error of `log`."""
        return float(self.residual.std() / np.sqrt(self.draws))

    @cached_property
    def columns(self) -> Array:
        """(n, 5): what the draws of y and y^2 are summed with."""
        o, v = self.omega, self.v
        return np.column_stack([o, v, o * o, o * v, v * v])


class Sums(NamedTuple):
    """Sums over some draws of one functional: of y, y^2 and y^4 times `Evidence.columns` (of y^4
    the last three), and the range of y; (5, size), (5, size), (3, size), (size,), (size,)."""

    first: Array
    second: Array
    fourth: Array
    least: Array
    most: Array


@np.errstate(all="ignore")  # a report may be infinite
def sums_of(
    functional: Functional,
    x: Array,
    columns: Array,
    part: int = 0,
    where: slice = slice(None),
) -> Sums:
    """Sums over draws E z + x, (k, n), of a part; `columns`: their rows of `Evidence.columns`."""
    y = functional.at(part, x, where)
    y2 = y**2
    powers = columns.T @ y, columns.T @ y2, columns[:, 2:].T @ y2**2
    return Sums(*powers, y.min(axis=0), y.max(axis=0))


class Moments:
    """Sums over the draws of one functional, chunk by chunk."""

    def __init__(self, functional: Functional) -> None:
        self.functional = functional
        self.first = np.zeros((5, functional.mean.size))
        self.second = np.zeros((5, functional.mean.size))
        self.fourth = np.zeros((3, functional.mean.size))
        self.least = np.full(functional.mean.size, np.inf)
        self.most = -self.least

    @np.errstate(all="ignore")
    def add(self, sums: Sums) -> None:
        """The next draws."""
        self.first += sums.first
        self.second += sums.second
        self.fourth += sums.fourth
        self.least = np.minimum(self.least, sums.least)
        self.most = np.maximum(self.most, sums.most)

    @np.errstate(all="ignore")
    def corrected(self, evidence: Evidence) -> Corrected:
        """The estimates, once all draws are in."""
        f, n = self.functional, evidence.draws
        (o, v, *_), (o2, v2, *_) = self.first / n, self.second / n
        beta, error = regressed(self.first / n, self.second[2:] / n, evidence)
        shift, plain = o - beta * v, o / evidence.omega.mean()
        # Not beyond what was drawn: a probability stays one.
        shift = np.where((shift < self.least) | (shift > self.most), plain, shift)
        slope, square_error = regressed(self.second / n, self.fourth / n, evidence)
        variance = o2 - slope * (v2 - f.sd**2) - shift**2
        rough = np.maximum(o2 / evidence.omega.mean() - plain**2, 0.0)
        sd = np.sqrt(np.where(variance > 0.0, variance, rough))
        unit = np.where(sd > 0.0, sd, f.sd)
        unit = np.where(f.sd > 0.0, unit, np.inf)
        sd_error = 0.5 * (square_error + 2.0 * np.abs(shift) * error) / unit**2
        said = f if f.reported is None else f.reported
        vary = (said.sd > 0.0) & (sd > 0.0)
        stretch = np.where(vary, sd / np.where(vary, said.sd, 1.0), 1.0)
        moved = f.mean + shift - said.mean if f.reported is not None else shift
        return Corrected.of_moments(
            f.mean + shift, sd, moved / unit, error / unit, stretch, sd_error
        )


def regressed(first: Array, second: Array, evidence: Evidence) -> tuple[Array, Array]:
    """Coefficient of the control v f of the mean of omega f, and that mean's standard error,
    (size,) each. `first`, (5, size): means of f times `Evidence.columns`; `second`, (3, size):
    means of f^2 times the last three of them."""
    b, (o, v, oo, ov, vv), (oo2, ov2, vv2) = evidence.slope, first, second
    # a = omega f - mean(omega f) residual, whose variance is that of the ratio estimate.
    level = o - o * evidence.residual.mean()
    residual = float(np.mean(evidence.residual**2))
    spread = oo2 - 2.0 * o * (oo - b * ov) + o**2 * residual - level**2
    common = ov2 - o * (ov - b * vv) - level * v
    control = vv2 - v**2
    beta = np.divide(common, control, out=np.zeros_like(control), where=control > 0.0)
    error = np.sqrt(np.maximum(spread - beta * common, 0.0) / evidence.draws)
    return beta, error


def quantile_shifts(y: Array, omega: Array, own: Array) -> tuple[Array, Array, Array]:
    """Quantiles at LEVELS of y (n, k) under the posterior, those under q, and the standard error of
    the difference, (2, k) each. `omega` and `own`, (n,): the weights of both; `own` is zero
    where draws are not of q, and q's quantiles are then NaN."""
    n = len(y)
    around = [x for level in LEVELS for x in (level - WIDTH, level, level + WIDTH)]
    posterior = quantiles(y, omega, around).reshape(2, 3, -1)
    known = bool(own.any())
    q = quantiles(y, own, LEVELS) if known else np.full((2, y.shape[1]), np.nan)
    error = np.empty_like(q)
    for number, level in enumerate(LEVELS):
        below = (y <= posterior[number, 1]) - level
        influence = below * (omega / omega.mean())[:, None]
        if known:
            influence -= ((y <= q[number]) - level) * (own / own.mean())[:, None]
        spacing = (posterior[number, 2] - posterior[number, 0]) / (2.0 * WIDTH)
        error[number] = np.sqrt(np.mean(influence**2, axis=0) / n) * spacing
    return posterior[:, 1], q, error


def chosen_entries(size: int, most: int, worst: Sequence[Array]) -> IntArray:
    """Which entries are looked at: all, or `most` of them evenly spaced and the largest of each of
    `worst`, (size,)."""
    if size <= most:
        return np.arange(size)
    spaced = np.linspace(0, size - 1, most).astype(np.int64)
    return np.unique(np.concatenate([spaced, *(np.argsort(-w)[: most // 20] for w in worst)]))


def mixed_normals(shares: Array, means: Array, sds: Array) -> Array:
    """(2, size) the points at LEVELS of mixtures of normals, (parts, size), by bisection."""
    z = special.ndtri(np.array(LEVELS))[:, None, None]
    ends = means + z * sds  # the parts' points enclose the mixture's
    low, high = ends.min(axis=1), ends.max(axis=1)
    unit = np.where(sds > 0.0, sds, 1.0)
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        below = np.zeros_like(middle)
        for share, mean, sd, scale in zip(shares, means, sds, unit, strict=True):
            away = middle - mean
            below += share * np.where(sd > 0.0, special.ndtr(away / scale), away >= 0.0)
        more = below < np.array(LEVELS)[:, None]
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(0.5 * (low + high))


def flat(corrected: Corrected) -> dict[str, Array]:
    """Arrays of the corrected moments, (size,) each, as a file keeps them."""
    out = {
        n: getattr(corrected, n) for n in ("mean", "sd", "shift", "error", "stretch", "sd_error")
    }
    for name in ("quantiles", "quantile_shift", "quantile_error"):
        out[f"{name}_5"], out[f"{name}_95"] = getattr(corrected, name)
    return out


def unflat(kept: Mapping[str, Array]) -> Corrected:
    """From `flat`; of what earlier versions did not keep, NaN."""
    none = np.full_like(kept["mean"], np.nan)
    pairs = (
        np.array([kept.get(f"{n}_5", none), kept.get(f"{n}_95", none)])
        for n in ("quantiles", "quantile_shift", "quantile_error")
    )
    single = (kept["mean"], kept["sd"], kept["shift"], kept["error"])
    return Corrected(*single, kept.get("stretch", none), kept.get("sd_error", none), *pairs)
