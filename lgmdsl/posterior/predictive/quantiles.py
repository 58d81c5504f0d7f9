"""Quantiles of the predictive distribution of y: where P(Y <= y), averaged over its predictors and
the hyperparameters of its sites, reaches a level.

    F(y) = sum_k w_k int N(s; m_k, v_k) P(Y <= y | s, theta_k) ds

Gaussian sites with an identity link have a mixture of normals. Of others the integral over s is a
trapezoid rule, which converges exponentially for smooth functions; its step follows the width of
the step that P(Y <= y | s) is in s. Draws of s take the place of nodes where the posterior is made
of draws.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.predictive import repeated
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.site import Property, Site
from lgmdsl.numerics.expectations.normal_product import root_of, rule_for
from lgmdsl.posterior.drawn_response import Draws, predictors_of_draws
from lgmdsl.posterior.normal_mixtures import mixed_moments, mixed_quantile
from lgmdsl.posterior.site_draws import parameter_rows

CHUNK = 1 << 19  # predictor entries that are held at once
# Reach of the nodes in sds, and their steps h. Where P(Y <= y | s) rises over w sds, its product
# with the normal has a spectrum of exp(-k^2 w^2 / (2 + 2 w^2)), and the rule's error is what that
# is at k = 2 pi / h: 1e-6 for h = 1.2 w / sqrt(1 + w^2).
REACH, WIDEST, NARROWEST, PER_WIDTH = 6.0, 0.8, 0.03, 1.2
LIKELY = 3.0  # sds of s within which widths matter
# Parts of a mixture share nodes unless one is narrower than this share of the whole.
ALIKE = 0.3
# Draws of predictors that are held, entries of all rows together; never fewer draws than FEWEST.
DRAWS, FEWEST = 20_000_000, 400
ROUNDS = 200
SUPPORT = {"positive": (0.0, math.inf), "nonnegative": (0.0, math.inf), "unit": (0.0, 1.0)}

Predictors = Sequence[tuple[Mapping[str, Array], Array, Array]]


@dataclass(frozen=True, eq=False)
class Given:
    """y given its predictors at nodes: `site` has the rows once for each node, nodes first; `s` is
    (nodes, rows), or (nodes, rows, K) of K predictors; `weight` (nodes, rows)."""

    site: Site
    s: Array
    weight: Array

    def below(self, y: Array) -> Array:
        """The weighted sum of P(Y <= y | s) over the nodes, (rows,)."""
        at: dict[str, Any] = {"y": np.tile(y, len(self.s))}
        inside = dataclasses.replace(self.site, **at).cdf(self.s.reshape(-1, *self.s.shape[2:]))
        return np.asarray(np.sum(self.weight * inside.reshape(self.weight.shape), axis=0))

    def endless(self) -> Array:
        """The weighted sum of P(Y = inf | s)."""
        share = self.site.endless(self.s.reshape(-1, *self.s.shape[2:]))
        return np.asarray(np.sum(self.weight * share.reshape(self.weight.shape), axis=0))

    def moments(self) -> tuple[Array, Array]:
        """The weighted sums of E[y | s] and E[y^2 | s]."""
        flat = self.s.reshape(-1, *self.s.shape[2:])
        mean = self.site.conditional_mean(flat).reshape(self.weight.shape)
        variance = self.site.conditional_variance(flat).reshape(self.weight.shape)
        return (self.weight * mean).sum(axis=0), (self.weight * (variance + mean**2)).sum(axis=0)


def response_quantiles(
    block: SiteBlock, predictors: Predictors, weights: Array, levels: Array
) -> Array:
    """(Q, N) quantiles of y for s ~ N(mean, variance) at hyperparameters theta, a mixture with
    `weights` of these `predictors` (theta, mean, variance): whole numbers of discrete families.
    The families have a distribution function.
    """
    thetas = [t for t, _, _ in predictors]
    means = np.array([m for _, m, _ in predictors])
    if block.family.spec.vector:
        return _of_several(block, predictors, weights, levels)
    sds = np.sqrt(np.array([v for _, _, v in predictors]))
    sites = [block.bind_family(t) for t in thetas]
    spec = block.family.spec
    if Property.GAUSSIAN in spec.properties and spec.link == "identity":
        with np.errstate(all="ignore"):
            noise = [s.conditional_variance(m) for s, m in zip(sites, means, strict=True)]
            return mixed_quantile(weights, means, np.sqrt(sds**2 + np.array(noise)), levels)
    free = any(parameter_rows(block, t, all_rows=True).shape[1] for t in thetas[:1])

    def given(rows: IntArray) -> tuple[Given, ...]:
        m, sd = means[:, rows], sds[:, rows]
        whole = mixed_moments(weights, m, sd)[1]
        if free or bool((sd.min(axis=0) < ALIKE * whole).any()):
            return tuple(
                _at_nodes(sites[k].take(rows), weights[k : k + 1], m[k : k + 1], sd[k : k + 1])
                for k in range(len(weights))
            )
        return (_at_nodes(sites[0].take(rows), weights, m, sd),)

    parts = len(weights) if free else 1
    step = max(1, int(CHUNK * WIDEST / (2.0 * REACH * parts)))
    return _in_turn(block.family, given, means.shape[1], step, levels)


def _of_several(block: SiteBlock, predictors: Predictors, weights: Array, levels: Array) -> Array:
    """`response_quantiles` of sites with several predictors: nodes of a product rule for each part
    of the mixture."""
    sites = [block.bind_family(t) for t, _, _ in predictors]
    widest = max(float(np.einsum("nkk->nk", v).max(initial=0.0)) for _, _, v in predictors)
    dimension = predictors[0][1].shape[1]
    t, share, _ = rule_for(math.sqrt(widest), dimension)

    def given(rows: IntArray) -> tuple[Given, ...]:
        parts = []
        for site, (_, m, v), weight in zip(sites, predictors, weights, strict=True):
            root = root_of(v[rows])
            s = m[rows] + np.einsum("nij,pj->pni", root, t)
            whole = np.repeat(weight * share[:, None], len(rows), axis=1)
            parts.append(Given(repeated(site.take(rows), len(t)), s, whole))
        return tuple(parts)

    step = max(1, 3 * CHUNK // (t.size * len(weights)))
    return _in_turn(block.family, given, len(predictors[0][1]), step, levels)


def quantiles_of_draws(
    canonical: CanonicalModel, block: SiteBlock, draws: Draws, levels: Array
) -> Array:
    """(Q, N) quantiles of y, an average over the draws of its predictor, or over fewer of them,
    evenly spaced, where there are very many rows."""
    rows = math.prod(block.data_shape)
    total = sum(len(piece.z) for piece in draws())
    every = max(1, -(-total // max(FEWEST, DRAWS // max(rows, 1))))
    kept, begin = [], 0
    for theta, s in predictors_of_draws(canonical, block, draws):
        some = s[-begin % every :: every]
        begin += len(s)
        if len(some):
            kept.append((block.bind_family(theta), some))
    count = sum(len(s) for _, s in kept)

    def given(at: IntArray) -> tuple[Given, ...]:
        weight = np.full((1, len(at)), 1.0 / count)
        return tuple(
            Given(repeated(site.take(at), len(s)), s[:, at], np.repeat(weight, len(s), axis=0))
            for site, s in kept
        )

    return _in_turn(block.family, given, rows, max(1, CHUNK // count), levels)


def _at_nodes(site: Site, weights: Array, means: Array, sds: Array) -> Given:
    """The site at nodes of a mixture of normals (M, rows), which share its parameters."""
    centre, spread = mixed_moments(weights / weights.sum(), means, sds)
    coarse = _nodes(site, weights, means, sds, centre, spread, WIDEST)
    x = WIDEST * (np.arange(len(coarse.s)) - len(coarse.s) // 2)
    with np.errstate(all="ignore"):
        flat = coarse.s.reshape(-1)
        inner = coarse.site.conditional_mean(flat).reshape(coarse.s.shape)
        noise = coarse.site.conditional_variance(flat).reshape(coarse.s.shape)
        # P(Y <= y | s) rises where E[y | s] passes y, over this part of an sd of s.
        per_width = np.abs(np.gradient(inner, x, axis=0)) / np.sqrt(noise)
    likely = per_width[np.abs(x) <= LIKELY]
    known = likely[np.isfinite(likely)]
    step = PER_WIDTH / math.hypot(1.0, float(known.max(initial=0.0)))
    if step >= WIDEST:
        return coarse
    return _nodes(site, weights, means, sds, centre, spread, max(step, NARROWEST))


def _nodes(
    site: Site, weights: Array, means: Array, sds: Array, centre: Array, spread: Array, step: float
) -> Given:
    reach = math.ceil(REACH / step)
    x = step * np.arange(-reach, reach + 1)[:, None]
    s = centre + spread * x
    density = np.zeros_like(s)
    with np.errstate(all="ignore"):
        for w, m, sd in zip(weights, means, sds, strict=True):
            part = np.exp(-0.5 * ((s - m) / sd) ** 2) / sd
            density += w * part
    density = np.where(spread > 0.0, density, np.exp(-0.5 * x**2))
    weight = density * (weights.sum() / density.sum(axis=0))
    return Given(repeated(site, len(s)), s, weight)


def _in_turn(
    family: type[Site],
    given: Callable[[IntArray], tuple[Given, ...]],
    rows: int,
    step: int,
    levels: Array,
) -> Array:
    """Quantiles of some rows at a time."""
    out = np.empty((len(levels), rows))
    with np.errstate(all="ignore"):
        for start in range(0, rows, step):
            at = np.arange(start, min(start + step, rows))
            parts = given(at)
            for k, row in enumerate(_solved(family, parts, levels)):
                out[k, at] = row
    return out


def _solved(family: type[Site], parts: tuple[Given, ...], levels: Array) -> Iterator[Array]:
    moments = [p.moments() for p in parts]
    mean = np.sum([m for m, _ in moments], axis=0)
    sd = np.sqrt(np.maximum(np.sum([m for _, m in moments], axis=0) - mean**2, 0.0))
    known = np.isfinite(mean) & np.isfinite(sd)
    mean, sd = np.where(known, mean, 0.0), np.where(known & (sd > 0.0), sd, 1.0)

    def below(y: Array) -> Array:
        return np.asarray(np.sum([p.below(y) for p in parts], axis=0))

    lasting = np.sum([p.endless() for p in parts], axis=0)
    for level in levels:
        guess = mean + float(special.ndtri(level)) * sd
        if family.spec.discrete:
            yield _first_whole(below, float(level), guess, sd)
        else:
            ends = SUPPORT.get(family.spec.observed[0], (-math.inf, math.inf))
            reached = lasting <= 1.0 - level
            # Half of those that end, where no y reaches the level: a root that is not used.
            within = np.where(reached, level, 0.5 * (1.0 - lasting))
            root = np.where(reached, _root(below, within, guess, sd, ends), np.inf)
            if "nonnegative" in family.spec.observed:  # a mass of its own at 0
                root = np.where(below(np.zeros_like(root)) >= level, 0.0, root)
            yield root


def _first_whole(below: Callable[[Array], Array], level: float, guess: Array, sd: Array) -> Array:
    """The first whole number from 0 at which P(Y <= y) reaches the level, by bisection."""
    low = np.maximum(np.floor(guess - sd) - 1.0, -1.0)
    low = np.where((low >= 0.0) & (below(low) < level), low, -1.0)
    high, width = np.maximum(np.ceil(guess + sd), 0.0), np.ceil(sd) + 1.0
    for _ in range(ROUNDS):
        short = below(high) < level
        if not short.any():
            break
        low = np.where(short, high, low)
        high, width = np.where(short, high + width, high), 2.0 * width
    for _ in range(ROUNDS):
        if (high - low <= 1.0).all():
            break
        middle = np.floor(0.5 * (low + high))
        reached = below(middle) >= level
        high, low = np.where(reached, middle, high), np.where(reached, low, middle)
    return _known(below, high)


def _root(
    below: Callable[[Array], Array],
    level: Array,
    guess: Array,
    sd: Array,
    ends: tuple[float, float],
) -> Array:
    """y with P(Y <= y) = level: a secant in a bracket (the Illinois rule), with a bisection at
    every third step."""
    low, high = np.clip(guess - sd, *ends), np.clip(guess + sd, *ends)
    at_low, at_high, width = below(low) - level, below(high) - level, sd
    for _ in range(ROUNDS):
        over, under = (at_low > 0.0) & (low > ends[0]), (at_high < 0.0) & (high < ends[1])
        if not (over | under).any():
            break
        high, at_high = np.where(over, low, high), np.where(over, at_low, at_high)
        low, at_low = np.where(under, high, low), np.where(under, at_high, at_low)
        width = 2.0 * width
        low = np.where(over, np.clip(low - width, *ends), low)
        high = np.where(under, np.clip(high + width, *ends), high)
        fresh_low, fresh_high = below(low) - level, below(high) - level
        at_low, at_high = np.where(over, fresh_low, at_low), np.where(under, fresh_high, at_high)
    for k in range(ROUNDS):
        x = low - at_low * (high - low) / (at_high - at_low)
        middle = 0.5 * (low + high)
        x = middle if k % 3 == 2 else np.where((x > low) & (x < high), x, middle)
        value = below(x) - level
        above = value >= 0.0
        at_low, at_high = (
            np.where(above, 0.5 * at_low, value),
            np.where(above, value, 0.5 * at_high),
        )
        high, low = np.where(above, x, high), np.where(above, low, x)
        near = np.abs(value) <= 1e-10
        low, high = np.where(near, x, low), np.where(near, x, high)
        if not (high - low > 1e-9 * (np.abs(x) + sd)).any():
            break
    return _known(below, 0.5 * (low + high))


def _known(below: Callable[[Array], Array], y: Array) -> Array:
    """NaN where the distribution function is none."""
    return np.where(np.isfinite(below(y)), y, np.nan)
