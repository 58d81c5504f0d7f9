"""Marginals of all model and candidate sites, updated while cases join (section 3).

With d = A^-1 b, rho = b'd, w = BJ d and kappa = 1 + rho / gamma, a site of width gamma and shift
beta on s = b'u + c changes

    Var[s_J] by -w^2 / (rho + gamma),   E[s_J] by w (beta - mu / gamma) / kappa,
    u* by d (beta - mu / gamma) / kappa,   log|A| by log kappa,

and A'^-1 b' = A^-1 b' - d (d'b') / (rho + gamma): later solves need the block's first factor and
the d of those that joined since. An inclusion costs one solve and one product with the rows.

Variances that are estimates may become negative in these updates. Such candidates are left out
until the next block (`candidates`); those of model sites are recomputed from one solve each
(`repair`).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from lgmdsl.acquisition.candidates import Candidates, Move
from lgmdsl.acquisition.pool import Pool
from lgmdsl.acquisition.rows import row, times
from lgmdsl.acquisition.scores import probability
from lgmdsl.acquisition.width import include
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import SuperGaussian


class PoolMarginals:
    """The state within a block of inclusions, from the posterior at its start.

    `mean`, `variance`, `weight`, `shift`: of the model's sites by block, the cases that joined at
    the end of the response's. `latent_mean`: u*. `log_det`: log|A| less its value at the start.
    `candidates`: those that can be chosen, where they are followed.
    """

    def __init__(
        self,
        pool: Pool,
        q: Conditioned,
        linear: LinearGaussian,
        candidates: Candidates | None = None,
    ) -> None:
        self.pool, self.linear, self.conditioned = pool, linear, q
        self.mean, self.variance = list(q.mean), list(q.variance)
        self.weight, self.shift = list(q.weight), list(q.shift)
        self.latent_mean, self.log_det = q.latent_mean.copy(), 0.0
        self.candidates = candidates
        self.spread: list[Array] = []  # d of each case that joined
        self.joined: list[Array] = []  # their b
        self.shrink: list[float] = []  # 1 / (rho + gamma)

    def solve(self, rhs: Array) -> Array:
        """A^-1 rhs, (n,), with all that joined."""
        out = self.conditioned.solve(rhs)
        for d, shrink in zip(self.spread, self.shrink, strict=True):
            out = out - d * (shrink * float(d @ rhs))
        return out

    def marginal(self, number: int) -> tuple[Array, float, float]:
        """d = A^-1 b, and mean and variance of a candidate's predictor by that solve."""
        b = row(self.pool.candidates, number, self.linear)
        d = self.solve(b)
        mean = float(b @ self.latent_mean) + float(self.pool.candidates.offset[number])
        return d, mean, max(float(b @ d), 0.0)

    def join(self, number: int, label: float | None) -> float:
        """Include a candidate with its label; the probability that it had of being 1.

        Without a label the site's weight is its expectation over labels, and the mean stays: its
        own expectation over a label that Q itself predicts is where it is.
        """
        d, mean, variance = self.marginal(number)
        m, v = np.array([mean]), np.array([variance])
        p = float(probability(self.pool.make, m, v)[0])
        weights, pulls, betas = [], [], []
        for y in (0.0, 1.0) if label is None else (label,):
            site = cast(SuperGaussian, self.pool.make(np.array([y])))
            inclusion = include(site, m, v)
            weights.append(float(inclusion.weight[0]))
            betas.append(float(site.beta[0]))
            pulls.append((betas[-1] - mean * weights[-1]) / float(inclusion.kappa[0]))
        share = [1.0 - p, p] if label is None else [1.0]
        weight = float(np.dot(share, weights))
        kappa = 1.0 + variance * weight
        self._move(Move(number, d, 0.0 if label is None else pulls[0], weight / kappa))
        self.log_det += float(np.log(kappa))
        if label is not None:
            self._append(number, weight, betas[0], mean + variance * pulls[0], variance / kappa)
        return p

    def repair(self) -> int:
        """Solve for the variances of model sites that are negative; how many there were."""
        repaired = 0
        for k, variance in enumerate(self.variance):
            for j in np.flatnonzero(variance < 0.0):
                b = self._model_row(k, int(j))
                variance[j] = max(float(b @ self.solve(b)), 0.0)
                repaired += 1
        return repaired

    def rows(self) -> tuple[Rows, Rows, Rows, Rows]:
        """mean, variance, weight and shift of the model's sites by block."""
        return tuple(self.mean), tuple(self.variance), tuple(self.weight), tuple(self.shift)

    def _move(self, move: Move) -> None:
        """The rank-one updates: s moves by pull w, its variance by -shrink w^2."""
        d, pull, shrink = move.d, move.pull, move.shrink
        for k, predictor in enumerate(self.linear.predictors):
            w = times(predictor, d, self.linear)
            if k == self.pool.response:
                w = np.r_[w, [b @ d for b in self.joined]]
            self.mean[k] = self.mean[k] + pull * w
            self.variance[k] = self.variance[k] - shrink * w * w
        if self.candidates is not None:
            self.candidates.join(move)
        self.latent_mean = self.latent_mean + pull * d
        self.spread.append(d)
        self.shrink.append(shrink)

    def _append(self, number: int, *of_site: float) -> None:
        k = self.pool.response
        parts = (self.weight, self.shift, self.mean, self.variance)
        for part, value in zip(parts, of_site, strict=True):
            part[k] = np.r_[part[k], value]
        self.joined.append(row(self.pool.candidates, number, self.linear))

    def _model_row(self, k: int, j: int) -> Array:
        predictor = self.linear.predictors[k]
        if j < predictor.rows:
            return row(predictor, j, self.linear)
        return self.joined[j - predictor.rows]
