"""The information about hyperparameters in the linear-Gaussian model that a fit ends in.

At a fit every site is Gaussian in its predictor s = Bz + c, of weight W, so that the working
response y has the covariance V = W^-1 + BKB' about the mean B mu + c. A hyperparameter moves the
mean by m_j and the covariance by V_j. Fisher's information of the mean, and of the covariance the
average of observed and expected information,

    I_jk = m_j'V^-1 m_k + 1/2 t_j'V^-1 t_k,   t_j = V_j V^-1 (y - B mu - c)

(Gilmour, Thompson and Cullis 1995, equation 5) have no trace in them: they cost one solve with the
factor that the evidence has for each hyperparameter. What observed information has between mean and
covariance is 0 in expectation where sites are Gaussian, and left out there: far from the maximum it
leads astray (lme4's InstEval: 12 evaluations with it, 7 without). Under other sites, of which W
follows the mean, both move together, and the average is of t_j = m_j + V_j V^-1 (y - B mu - c)
alone, m_j'V^-1 m_k having a half (a log link over 100,000 pairs: 9 steps in place of 14).
V^-1 (y - B mu - c) is the slope alpha of the sites at their means, and V^-1 = W - WB Cov(z) B'W.

What a hyperparameter moves is read off the model at a value close by. Sites of other parameters
move V by W^-1; their own part of t'V^-1 t is twice the second derivative of the log densities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.reverse import parameters, pull_parameters
from lgmdsl.contract.linear import PriorBlock
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.rows import Rows, slope_of, times
from lgmdsl.contract.site import Site
from lgmdsl.contract.stacked import StackedPredictors, flatten, split
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.memory import budget

STEP = 1e-5  # units of a coordinate to the value close by
RIDGE = 1e-9  # of a precision's diagonal: improper directions, along which nothing moves
# More coordinates are not asked for: each is a model of its own here, and holds ARRAYS of a number
# for each row, together a SHARE of the memory budget at most.
MOST, ARRAYS, SHARE = 50, 6, 0.25


def information(objective: Objective, at: Evaluation, jacobian: bool) -> Array | None:
    """(d, d) minus the curvature of evidence + log prior (with `jacobian`: of their density in the
    coordinates), as far as the working model tells it; None where sites or engine do not say
    enough, and of many coordinates. It is positive semidefinite but for what the priors add."""
    rows = objective.planned.canonical.rows
    told = all(
        isinstance(s, Pointwise) and rows.slopes(k) != "hypers"
        for k, s in enumerate(at.problem.sites)
    )
    size = objective.coordinates.size
    held = 8.0 * ARRAYS * size * at.problem.engine.linear.rows
    if not (told and at.problem.engine.exact and size <= MOST and held <= SHARE * budget()):
        return None
    return _Working(objective, at).information() + _of_priors(objective, at, jacobian)


def _of_priors(objective: Objective, at: Evaluation, jacobian: bool) -> Array:
    """(d, d) minus the second derivatives of the log priors, by central differences."""
    coordinates, pinned = objective.coordinates, objective.pinned.keys()
    space, steps = objective.planned.canonical.hypers, STEP * objective.units(at.x)

    def slope(x: Array) -> Array:
        theta = coordinates.unpack(x)
        out = coordinates.pull(space.log_prior(theta, pinned)[1], x)
        return out + coordinates.log_jacobian(x)[1] if jacobian else out

    moves = np.diag(steps)
    ends = np.array([slope(at.x + d) - slope(at.x - d) for d in moves])
    curvature = -ends / (2.0 * steps[:, None])
    return np.asarray(0.5 * (curvature + curvature.T))


class _Working:
    """The working model at a fit, and what each coordinate moves in it."""

    def __init__(self, objective: Objective, at: Evaluation) -> None:
        self.objective, self.at = objective, at
        self.canonical = objective.planned.canonical
        self.q = q = at.posterior.conditioned
        self.linear = at.problem.engine.linear
        self.stacked = StackedPredictors(self.linear)
        self.alpha = slope_of(q.shift, q.weight, q.mean)
        self.pulled = self.stacked.pulled(self.alpha)  # K^-1 (E z - mu)
        self.blocks = [BlockPrior(b, self.linear.starts[b.name]) for b in self.linear.blocks]
        self.mu = np.concatenate([np.zeros(0), *(b.mean for b in self.blocks)])
        self.away = q.latent_mean - self.mu
        self.steps = STEP * objective.units(at.x)

    def information(self) -> Array:
        """(d, d) average information."""
        size, rows = len(self.steps), self.stacked.rows
        moved, turned = np.zeros((size, rows)), np.zeros((size, rows))
        slopes, own = np.zeros((size, rows)), np.zeros((size, size))
        for j, step in enumerate(self.steps):
            x = self.at.x.copy()
            x[j] += step
            theta = self.objective.coordinates.unpack(x)
            others = {n for n, v in theta.items() if not np.array_equal(v, self.at.theta[n])}
            moved[j], turned[j] = (m / step for m in self._rows(theta, others))
            if others & self._of_sites:
                slopes[j], own[j] = (m / step for m in self._sites(theta, x))
        none = np.zeros_like(slopes)
        if self.at.problem.gaussian:
            found = self._gram(moved, none) + 0.5 * self._gram(turned, slopes)
        else:
            found = 0.5 * (self._gram(moved, none) + self._gram(turned + moved, slopes))
        return np.asarray(found + 0.5 * (own + own.T))

    def _gram(self, rows: Array, slopes: Array) -> Array:
        """t'V^-1 t for t = `rows` - W^-1 `slopes`, (d, P), without slopes'W^-1 slopes."""
        out = np.zeros((len(rows), len(rows)))
        some = np.flatnonzero(rows.any(axis=1) | slopes.any(axis=1))
        if len(some):
            rows, slopes = rows[some], slopes[some]
            weighted = np.array([flatten(self._weighted(r)) for r in rows])
            pulled = np.array([self.stacked.pulled(self._split(r)) for r in weighted - slopes]).T
            cross = rows @ slopes.T
            free = self.q.solve(np.ascontiguousarray(pulled))
            out[np.ix_(some, some)] = rows @ weighted.T - cross - cross.T - pulled.T @ free
        return out

    def _weighted(self, rows: Array) -> Rows:
        parts = zip(self.q.weight, self._split(rows), strict=True)
        return tuple(times(w, s) for w, s in parts)

    def _split(self, rows: Array) -> Rows:
        return split(rows, self.linear.predictors)

    def _rows(self, theta: Theta, others: set[str]) -> tuple[Array, Array]:
        """What the means of the predictors and V alpha, (P,) each, are more at `theta`, where these
        hyperparameters have `others`' values."""
        offset, turned = np.zeros(self.stacked.rows), np.zeros(self.stacked.rows)
        latent, mean = np.zeros(len(self.away)), np.zeros(len(self.away))
        pieces = zip(self.canonical.latents, self.blocks, strict=True)
        for declared, known in pieces:
            used = {
                n for f in declared.factors for c in f.coefficients().values() for n in c.depends
            }
            if used & others and not known.flat:
                block = declared.at(theta)
                mean[known.where] = block.mean - known.block.mean
                latent[known.where] = self._turned(known, block)
        forms = [b.form for b in self.canonical.blocks]
        if any(others & f.depends for f in forms):
            new = tuple(self.canonical.observed(k, theta) for k in range(len(forms)))
            offset += flatten(tuple(p.offset for p in new)) - self.stacked.offset
            if any(others & t.depends for f in forms for t in f.terms):
                stacked = StackedPredictors(replace(self.linear, predictors=new))
                turned += stacked.lifted(self.away) - self.stacked.lifted(self.away)
                offset += stacked.lifted(self.mu) - self.stacked.lifted(self.mu)
                gap = stacked.pulled(self.alpha) - self.pulled
                for known in self.blocks:
                    if not known.flat:
                        latent[known.where] += self._covariance_times(known, gap[known.where])
        if mean.any():
            offset += self.stacked.lifted(mean)
        if latent.any():
            turned += self.stacked.lifted(latent)
        return offset, turned

    def _turned(self, known: BlockPrior, block: PriorBlock) -> Array:
        """What K moves by, times K^-1 (E z - mu)."""
        other = BlockPrior(block, known.where.start)
        pulled, away = self.pulled[known.where], self.away[known.where]
        if known.name not in self._factors:
            column = pulled[:, None]
            return np.asarray(other.times(column) - known.times(column))[:, 0]
        moved = (other.sparse_precision - known.sparse_precision) @ away
        return -self._covariance_times(known, np.asarray(moved))

    def _covariance_times(self, block: BlockPrior, x: Array) -> Array:
        factor = self._factors.get(block.name)
        if factor is None:
            return np.asarray(block.times(x[:, None])[:, 0])
        tied = np.zeros(block.tied.rows.shape[0])
        return np.asarray(factor.solve(np.concatenate([x, tied]))[: block.size])

    @cached_property
    def _factors(self) -> Mapping[str, spla.SuperLU]:
        """Factors of precisions, where these are sparse or there is no covariance, with the
        constraints that structures carry: K is the covariance where they hold."""
        out = {}
        for b in self.blocks:
            shape = b.block.shape
            if not (b.flat or b.diagonal) and (
                Shape.SPARSE in shape or Shape.COVARIANCE not in shape
            ):
                q = b.sparse_precision
                ridge, rows = sp.diags_array(RIDGE * q.diagonal()), b.tied.rows
                joined = sp.block_array([[q + ridge, rows.T], [rows, None]], format="csc")
                out[b.name] = spla.splu(joined, options={"SymmetricMode": not rows.nnz})
        return out

    def _sites(self, theta: Theta, x: Array) -> tuple[Array, Array]:
        """What the sites' slopes at their means are more at `theta`, (P,), and what the slopes of
        their log densities in the coordinates are less, (d,)."""
        new = self.canonical.sites(theta)
        moved = [
            np.zeros_like(s) if b is a else _slope(b, s) - _slope(a, s)
            for a, b, s in zip(self.at.problem.sites, new, self.q.mean, strict=True)
        ]
        return flatten(tuple(moved)), self._slopes - self._parameter_slopes(new, theta, x)

    @cached_property
    def _of_sites(self) -> set[str]:
        """The hyperparameters in parameters of sites."""
        blocks = self.canonical.blocks
        return {n for b in blocks for name in parameters(b) for n in b.parameters[name].depends}

    @cached_property
    def _slopes(self) -> Array:
        return self._parameter_slopes(self.at.problem.sites, self.at.theta, self.at.x)

    def _parameter_slopes(self, sites: Sequence[Site], theta: Theta, x: Array) -> Array:
        """(d,) the slopes of the log densities in the sites' parameters at the means of s."""
        out = Gradient()
        for k, (site, s) in enumerate(zip(sites, self.q.mean, strict=True)):
            if parameters(self.canonical.blocks[k]):
                pull_parameters(self.canonical, k, site.parameter_slopes(s), theta, out)
        return self.objective.coordinates.pull(out, x)


def _slope(site: Site, s: Array) -> Array:
    return cast(Pointwise, site).pointwise(s).slope
