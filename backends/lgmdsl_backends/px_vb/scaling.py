"""The expansion of automatic relevance determination: weights and their precisions move together.

Weights w with a flat prior and scale mixtures as potentials (each N(w_i | 0, 1 / alpha_i), alpha_i
with a factor of its own): under q, c w takes the place of w,

    F(c) = sum of the sites' bounds at (c m, c^2 v) + M log c,   M weights,

with every alpha at its best for each c (`Augmented.weights`). The c of Qi and Jaakkola 2007
(section 3.2, w = w^ / c and alpha = c^2 alpha^) moves alpha along a given line instead, so that
this maximum over one number is at least theirs. Its slope at c = 1 vanishes where plain variational
Bayes is stationary. Latents other than the weights (an intercept) stay where they are.

`separate` are the paper's other two, r by (19) and s: what the factor before last would have wanted
of the weights' scale, and of the precisions'. With everything else held each of them only lowers
the bound of a factor that is at its best; what they are is extrapolation, and they are kept where
the bound with alpha at its best rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import AugmentedAnswer
from lgmdsl.contract.structure import Shape
from lgmdsl_backends.px_vb.bound import Gaussian, Point, answers_at, best, mixture

STEPS, CLOSE = 8, 1e-9  # of Newton's iteration in log c
SEEN = 1e-10  # a rise smaller than this share of the bound is rounding of the moments
BEND = 1e-4  # the difference in log c that gives the second derivative
LONGEST = 1.0  # step in log c
# Precisions that no factor may be multiplied by more than this, or less than its inverse.
FARTHEST = 10.0


@dataclass(frozen=True, eq=False)
class Weights:
    """Which latents are weights: their `blocks`, how many entries (`count`), and which site blocks
    (`potentials`) are the mixtures on them."""

    blocks: tuple[str, ...]
    count: int
    potentials: tuple[bool, ...]

    @classmethod
    def of(cls, problem: Problem) -> Weights | None:
        """The flat latents under potentials that are scale mixtures; None where there are none, or
        where constraints tie the latents."""
        linear = problem.engine.linear
        if linear.constraints is not None:
            return None
        flat = {b.name: b.size for b in linear.blocks if _flat(linear, b.name)}
        potentials = tuple(
            mixture(s) and not p.offset.any() and set(p.columns) <= flat.keys()
            for s, p in zip(problem.sites, linear.predictors, strict=True)
        )
        touched = {
            n
            for p, is_ in zip(linear.predictors, potentials, strict=True)
            if is_
            for n in p.columns
        }
        blocks = tuple(n for n in flat if n in touched)
        return cls(blocks, sum(flat[n] for n in blocks), potentials) if blocks else None


def _flat(linear: LinearGaussian, name: str) -> bool:
    block = next(b for b in linear.blocks if b.name == name)
    return (
        len(block.factors) == 1
        and block.factors[0].nullity == block.size
        and (Shape.IMPROPER in block.factors[0].shape)
    )


@dataclass(frozen=True, eq=False)
class ScaledMoments:
    """Means and variances of all predictors as functions of c: c mean + rest, and
    c^2 variance + 2 c cross + rest_variance."""

    mean: Rows
    rest: Rows
    variance: Rows
    cross: Rows
    rest_variance: Rows

    def at(self, c: float) -> tuple[Rows, Rows]:
        mean = tuple(c * m + r for m, r in zip(self.mean, self.rest, strict=True))
        parts = zip(self.variance, self.cross, self.rest_variance, strict=True)
        return mean, tuple(c * c * a + 2.0 * c * b + d for a, b, d in parts)

    def slopes(self, c: float) -> tuple[Rows, Rows]:
        """Derivatives in c."""
        return self.mean, tuple(
            2.0 * (c * a + b) for a, b in zip(self.variance, self.cross, strict=True)
        )


def moments(problem: Problem, weights: Weights, q: Gaussian) -> ScaledMoments:
    """Moments of all predictors as functions of c, by q. Other than the weights only the smaller
    group of latents is solved for."""
    linear = problem.engine.linear
    names = tuple(b.name for b in linear.blocks)
    rest = tuple(n for n in names if n not in weights.blocks)
    zero = tuple(np.zeros_like(m) for m in q.mean)
    if not rest:
        offsets = tuple(p.offset for p in linear.predictors)
        mean = tuple(m - o for m, o in zip(q.mean, offsets, strict=True))
        return ScaledMoments(mean, offsets, q.variance, zero, zero)
    where = linear.slices
    z = q.conditioned().latent_mean
    own_mean = tuple(
        sum((p.columns[n].matvec(z[where[n]]) for n in p.columns if n in weights.blocks), 0.0 * m)
        for p, m in zip(linear.predictors, q.mean, strict=True)
    )
    other_mean = tuple(m - o for m, o in zip(q.mean, own_mean, strict=True))
    few = rest if linear.size - weights.count <= weights.count else weights.blocks
    variance, covariance = _of_few(problem, few, q)
    # of s = s_few + s_many: cov(s, s_few) = var(s_few) + cross
    cross = tuple(c - v for c, v in zip(covariance, variance, strict=True))
    many = tuple(v - f - 2.0 * x for v, f, x in zip(q.variance, variance, cross, strict=True))
    variance_weights, other = (many, variance) if few is rest else (variance, many)
    return ScaledMoments(own_mean, other_mean, variance_weights, cross, other)


def _of_few(problem: Problem, few: tuple[str, ...], q: Gaussian) -> tuple[Rows, Rows]:
    """Var(s_few) and cov(s, s_few), s_few being the predictors' part in some latent blocks."""
    linear = problem.engine.linear
    where = linear.slices
    places = np.concatenate([np.arange(where[n].start, where[n].stop) for n in few])
    units = np.zeros((linear.size, len(places)))
    units[places, np.arange(len(places))] = 1.0
    columns = q.family.solve(units)  # Cov(z, z_few)
    variances, covariances = [], []
    for p in linear.predictors:
        part = np.zeros((p.rows, len(places)))
        whole = np.zeros((p.rows, len(places)))
        for name, operator in p.columns.items():
            whole += operator.matvec(columns[where[name]])
            if name in few:
                part += operator.matvec(units[where[name]])
        variances.append(np.einsum("ij,jk,ik->i", part, columns[places], part))
        covariances.append(np.einsum("ij,ij->i", whole, part))
    return tuple(variances), tuple(covariances)


def scaled(auxiliaries: str, problem: Problem, before: Point | None, point: Point) -> Point | None:
    """The point with the auxiliaries of the scaled weights, its bound no lower; None where nothing
    is to be had. `before`: the point that it followed."""
    weights = Weights.of(problem)
    if weights is None:
        return None
    if auxiliaries == "joint":
        return joint(problem, weights, point)
    return None if before is None else separate(problem, weights, before, point)


def joint(problem: Problem, weights: Weights, point: Point) -> Point | None:
    """The point with its auxiliaries at their best for the weights scaled by the best c; None where
    that is 1, or no better."""
    known = moments(problem, weights, point.q)

    def value(c: float) -> tuple[float, float, tuple[AugmentedAnswer, ...]]:
        mean, variance = known.at(c)
        answers = answers_at(problem, mean, variance)
        d_mean, d_variance = known.slopes(c)
        total, slope = weights.count * math.log(c), float(weights.count)
        for a, m, v, dm, dv in zip(answers, mean, variance, d_mean, d_variance, strict=True):
            total += float((a.correction - 0.5 * a.precision * (m * m + v) + a.shift * m).sum())
            slope += c * float(((a.shift - a.precision * m) * dm - 0.5 * a.precision * dv).sum())
        return total, slope, answers

    first = value(1.0)
    c, reached = _newton(lambda x: value(math.exp(x))[:2], first[:2])
    if c is None or not reached - first[0] > SEEN * max(1.0, abs(point.bound)):
        return None
    return Point(point.q, value(c)[2], point.bound + reached - first[0])


def _newton(
    value: Callable[[float], tuple[float, float]], first: tuple[float, float]
) -> tuple[float | None, float]:
    """The maximum over x = log c from x = 0, each step halved until it rises: c, and the value."""
    x, (height, slope) = 0.0, first
    for _ in range(STEPS):
        bend = (value(x + BEND)[1] - slope) / BEND
        step = -slope / bend if bend < 0.0 else math.copysign(LONGEST, slope)
        step = min(max(step, -LONGEST), LONGEST)
        if not math.isfinite(step) or abs(step) < CLOSE:
            break
        while abs(step) >= CLOSE:
            then = value(x + step)
            if then[0] > height:
                x, (height, slope) = x + step, then
                break
            step *= 0.5
        else:
            break
    return (math.exp(x), height) if x else (None, height)


def separate(problem: Problem, weights: Weights, before: Point, point: Point) -> Point | None:
    """The point with the weights scaled by r and the precisions by s, those that the point before
    it would have wanted; None where the bound would fall, or nothing moves."""
    r = _r(problem, weights, before.q, point.answers)
    if r is None:
        return None
    known = moments(problem, weights, point.q)
    mean, variance = known.at(r)
    answers = answers_at(problem, mean, variance)
    rise = _bound(answers, mean, variance) - _bound(point.answers, point.q.mean, point.q.variance)
    rise += weights.count * math.log(r)
    if not rise > 0.0:
        return None
    s = _s(weights, before.answers, answers)
    scaled = tuple(
        replace(a, precision=s * a.precision) if is_ else a
        for a, is_ in zip(answers, weights.potentials, strict=True)
    )
    return Point(point.q, scaled, point.bound + rise)


def _bound(answers: tuple[AugmentedAnswer, ...], mean: Rows, variance: Rows) -> float:
    parts = zip(answers, mean, variance, strict=True)
    return sum(
        float((a.correction - 0.5 * a.precision * (m * m + v) + a.shift * m).sum())
        for a, m, v in parts
    )


def _r(
    problem: Problem, weights: Weights, q: Gaussian, answers: tuple[AugmentedAnswer, ...]
) -> float | None:
    """(19): the best r for q at the auxiliaries of `answers`."""
    known = moments(problem, weights, q)
    size = tilt = 0.0
    for a, m, rest, variance, cross in zip(
        answers, known.mean, known.rest, known.variance, known.cross, strict=True
    ):
        size += float((a.precision * (m * m + variance)).sum())
        tilt += float((a.shift * m - a.precision * (m * rest + cross)).sum())
    r = best(weights.count, tilt, size)
    return r if r is not None and 1.0 / FARTHEST < r < FARTHEST else None


def _s(
    weights: Weights, before: tuple[AugmentedAnswer, ...], now: tuple[AugmentedAnswer, ...]
) -> float:
    """The factor by which the precisions before would have come nearest to those now."""
    ratios = [
        b.precision / a.precision
        for b, a, is_ in zip(before, now, weights.potentials, strict=True)
        if is_
    ]
    flat: Array = np.concatenate(ratios)
    s = len(flat) / float(flat.sum())
    return min(max(s, 1.0 / FARTHEST), FARTHEST)
