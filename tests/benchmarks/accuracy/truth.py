"""Exact posteriors of small models: adaptive quadrature on scrambled Sobol points.

Points u, whitened latents and logs of learned sds, come from a mixture of
multivariate t (degrees of freedom DEGREES) that a few rounds of weighted EM fit to the posterior,
from the modes found by a search from several places; a share of the points comes from the prior
itself, so that a mode that the search missed is seen. All quantities, the learned sds among them,
come from the same points.

SCRAMBLES independent scramblings give the error of each figure; points are doubled until errors
are below TOLERANCE and the last doubling has moved nothing by more. What never gets there raises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, optimize, special
from scipy.stats import qmc

from lgmdsl.arrays import Array

from .cases import Case

SCRAMBLES, FIRST, LAST = 8, 12, 16  # 2^FIRST to 2^LAST points of each scrambling
TOLERANCE = 0.015  # posterior sds, relative of sds, nats
LEVELS = (0.05, 0.95)
DEGREES, COMPONENTS, ROUNDS, PILOT = 5.0, 5, 7, 6000
PRIOR_SHARE = 0.1
MODERATE = 3.0  # a log sd at which latents may be looked at for all others
SHARED = 8  # 2^SHARED points of latents at each place of the hyperparameters
# Of points by a table: nats below its top to which all cells have points; shares of its mass, of
# all these cells alike, and of second moments.
REACH, PARTS = 14.0, (0.6, 0.2, 0.2)
# A noise this much smaller than at the mode whitens no further: digits of the precision run out.
STEEPEST = 1e4
CHUNK = 1 << 18  # rows x points at a time


class UnsettledError(Exception):
    """Quadrature that does not settle."""


@dataclass(frozen=True, eq=False)
class Points:
    """Those of a scrambling: whitened latents, learned sds, logs of weights on a common scale,
    which leaving a row out may raise from below every number."""

    x: Array
    theta: Array
    log_weight: Array

    @property
    def weight(self) -> Array:
        return np.asarray(np.exp(self.log_weight))


@dataclass(frozen=True, eq=False)
class Truth:
    """Moments and quantiles (levels in front) of the quantities of a case; the largest error of
    any, in the units of TOLERANCE; `share`: effective points in proportion."""

    mean: Array
    sd: Array
    skewness: Array
    quantiles: Array
    log_evidence: float
    error: float
    share: float
    points: tuple[Points, ...] = ()


def exact(
    case: Case, tolerance: float = TOLERANCE, powers: Sequence[int] = range(FIRST, LAST + 1)
) -> Truth:
    """The posterior of a case, by 2 to these `powers` of points. Raises UnsettledError."""
    target = whitened(case)
    return integrated(target, _adapted(target), tolerance, powers)


def integrated(
    target: Target, proposal: _Mixture | OnGrid, tolerance: float, powers: Sequence[int]
) -> Truth:
    """By points of a proposal, as many as errors ask for. Raises UnsettledError."""
    before: Truth | None = None
    worst = math.inf
    for power in powers:
        here = _integrated(target, proposal, power)
        moved = math.inf if before is None else _distance(here, before)
        worst = max(here.error, moved)
        if worst <= tolerance:
            return Truth(
                here.mean, here.sd, here.skewness, here.quantiles,
                here.log_evidence, worst, here.share, here.points,
            )  # fmt: skip
        before = here
    raise UnsettledError(f"error {worst:.3g} after {SCRAMBLES} x 2^{powers[-1]} points")


class Target:
    """The joint density in u = (v, log theta): given theta, x is whitened as if the likelihood were
    the Gaussian exp(h'z - z'Pz / 2) that it is near the mode, so that neither a narrow ridge at
    large sds nor the funnel at small ones is left for the mixture."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.size = case.design.shape[2]
        self.hypers = len(case.hypers)
        self.dims = self.size + self.hypers
        self.precision, self.shift = np.zeros((self.size, self.size)), np.zeros(self.size)
        # Noise scales s make P fall as 1 / s^2; the other hypers are sds of latents.
        self.noise = [k for s in case.sites for k in s.learned.values()]
        self.middle = np.ones(self.hypers)

    def whiten(self, mode: Array) -> None:
        """Take P and h from the likelihood at a mode (in the present coordinates), by differences
        over the posterior's own sds, which smooth over kinks."""
        x, theta = self.split(mode[None])
        z, n = self.case.latents(x, theta)[0], self.size
        sd = self.case.latents(np.ones((1, n)), theta)[0] - self.case.mean
        d = 1e-3 * np.ones(n)
        for _ in range(4):
            step = np.diag(d)
            pairs = [(s * step[i] + t * step[j]) for i in range(n) for j in range(n)
                     for s in (1, -1) for t in (1, -1)]  # fmt: skip
            points = z + np.array([*pairs, *step, *-step])
            values = self.case.log_likelihood(
                (points - self.case.mean) / sd, np.tile(theta, (len(points), 1))
            )
            slope = (values[4 * n * n : 4 * n * n + n] - values[4 * n * n + n :]) / (2 * d)
            v = values[: 4 * n * n].reshape(n, n, 2, 2)
            bend = -(v[..., 0, 0] - v[..., 0, 1] - v[..., 1, 0] + v[..., 1, 1])
            bend = bend / (4 * d[:, None] * d)
            bend = np.where(np.isfinite(bend), bend, 0.0)
            w, q = np.linalg.eigh((bend + bend.T) / 2)
            self.precision = np.asarray((q * np.clip(w, 0.0, None)) @ q.T)
            d = 0.7 * np.sqrt(np.diag(np.linalg.inv(self.precision + np.diag(sd**-2.0))))
        self.shift = np.asarray(np.where(np.isfinite(slope), slope, 0.0) + self.precision @ z)
        self.middle = theta[0]

    def _whole(self, theta: Array) -> tuple[Array, Array]:
        """Precision (points, n, n) and mean (points, n) of x given theta."""
        n = len(theta)
        sd = self.case.latents(np.ones((n, self.size)), theta) - self.case.mean
        factor = np.ones(n)
        for k in self.noise:
            factor = factor * np.minimum(self.middle[k] / theta[:, k], STEEPEST) ** 2
        inner = factor[:, None, None] * sd[:, :, None] * self.precision * sd[:, None, :]
        whole = np.eye(self.size) + inner
        pull = factor[:, None] * sd * (self.shift - self.precision @ self.case.mean)
        return whole, np.asarray(np.linalg.solve(whole, pull[:, :, None])[:, :, 0])

    def split(self, u: Array) -> tuple[Array, Array]:
        """x and theta."""
        theta = self._theta(u)
        whole, mean = self._whole(theta)
        root = np.linalg.cholesky(whole).swapaxes(1, 2)
        v = u[:, : self.size, None]
        return mean + np.linalg.solve(root, v)[:, :, 0], theta

    def _theta(self, u: Array) -> Array:
        return np.exp(np.clip(u[:, self.size :], -25.0, 12.0))

    def join(self, x: Array, log_theta: Array) -> Array:
        """The inverse of `split`."""
        whole, mean = self._whole(np.exp(np.clip(log_theta, -25.0, 12.0)))
        root = np.linalg.cholesky(whole).swapaxes(1, 2)
        return np.column_stack([(root @ (x - mean)[:, :, None])[:, :, 0], log_theta])

    def log_prior(self, u: Array) -> Array:
        """In u, normalised but for flat priors."""
        out = self._log_latents(u)
        for k, h in enumerate(self.case.hypers):
            out = out + h.log_density(self._theta(u)[:, k]) + u[:, self.size + k]
        return np.asarray(out)

    def log_drawn(self, u: Array) -> Array:
        """Of `prior_points`."""
        out = self._log_latents(u)
        for k, h in enumerate(self.case.hypers):
            out = out + h.log_drawn(self._theta(u)[:, k]) + u[:, self.size + k]
        return np.asarray(out)

    def _log_latents(self, u: Array) -> Array:
        """Of the whitened latents given the hyperparameters."""
        x, theta = self.split(u)
        out = -0.5 * (x * x).sum(axis=1) - 0.5 * self.size * math.log(2.0 * math.pi)
        return np.asarray(out - 0.5 * np.linalg.slogdet(self._whole(theta)[0])[1])

    def log_densities(self, log_theta: Array) -> Array:
        """log p(y, log theta) at places (m, hypers), the latents integrated out by points that
        all places share."""
        uniform = qmc.Sobol(self.size + 2, seed=3).random_base2(SHARED)
        out = np.empty(len(log_theta))
        for i, place in enumerate(log_theta):
            u, drawn = self.given(np.tile(place, (len(uniform), 1)), uniform)
            weights = self(u) - drawn
            weights = np.where(np.isfinite(weights), weights, -np.inf)
            out[i] = special.logsumexp(weights) - math.log(len(uniform))
        return out

    def given(self, log_theta: Array, uniform: Array) -> tuple[Array, Array]:
        """Points about the Gaussian that `whiten` gave, some of them of the prior, at logs of
        learned sds, and the log density that their latents have; uniforms (points, size + 2)."""
        uniform = np.clip(uniform, 1e-12, 1.0 - 1e-12)
        chi2 = 2.0 * special.gammaincinv(DEGREES / 2, uniform[:, -2])
        own = special.ndtri(uniform[:, : self.size])
        wide = own * np.sqrt(DEGREES / chi2)[:, None]
        prior = self.join(own, log_theta)
        from_prior = uniform[:, -1:] < PRIOR_SHARE
        u = np.where(from_prior, prior, np.column_stack([wide, log_theta]))
        return u, self.log_given(u)

    def log_given(self, u: Array) -> Array:
        """The log density of latents that `given` makes."""
        alone = _Mixture(np.ones(1), np.zeros((1, self.size)), np.eye(self.size)[None])
        own = alone.component_logs(u[:, : self.size])[0][0] + math.log1p(-PRIOR_SHARE)
        return np.asarray(np.logaddexp(own, self._log_latents(u) + math.log(PRIOR_SHARE)))

    def prior_points(self, uniform: Array) -> Array:
        """Of uniforms (points, dims)."""
        logs = np.empty((len(uniform), self.hypers))
        for k, h in enumerate(self.case.hypers):
            logs[:, k] = np.log(np.maximum(h.quantile(uniform[:, self.size + k]), 1e-25))
        return self.join(special.ndtri(uniform[:, : self.size]), logs)

    def __call__(self, u: Array) -> Array:
        """log p(y, u), (points,)."""
        x, theta = self.split(u)
        step = max(1, CHUNK // max(self.case.rows, 1))
        parts = [
            self.case.log_likelihood(x[i : i + step], theta[i : i + step])
            for i in range(0, len(u), step)
        ]
        return np.asarray(self.log_prior(u) + np.concatenate(parts))


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Of multivariate t, and of the prior with PRIOR_SHARE."""

    weight: Array
    mean: Array
    root: Array

    def component_logs(self, u: Array) -> tuple[Array, Array]:
        """Of each component the log of weight x density, and the squared distance."""
        d = u.shape[1]
        logs, distances = [], []
        constant = special.gammaln((DEGREES + d) / 2) - special.gammaln(DEGREES / 2)
        constant -= d / 2 * math.log(math.pi * DEGREES)
        for w, m, r in zip(self.weight, self.mean, self.root, strict=True):
            square = (np.linalg.solve(r, (u - m).T) ** 2).sum(axis=0)
            log = constant - np.log(np.diag(r)).sum()
            log = log - (DEGREES + d) / 2 * np.log1p(square / DEGREES)
            logs.append(math.log(max(w, 1e-300)) + log)
            distances.append(square)
        return np.array(logs), np.array(distances)

    def log_density(self, target: Target, u: Array) -> Array:
        own = special.logsumexp(self.component_logs(u)[0], axis=0) + math.log1p(-PRIOR_SHARE)
        return np.asarray(np.logaddexp(own, math.log(PRIOR_SHARE) + target.log_drawn(u)))

    def points(self, target: Target, uniform: Array) -> Array:
        """Of uniforms (points, dims + 2)."""
        uniform = np.clip(uniform, 1e-12, 1.0 - 1e-12)
        pick = uniform[:, -1]
        u = target.prior_points(uniform[:, : target.dims])
        edges = PRIOR_SHARE + (1.0 - PRIOR_SHARE) * np.cumsum(self.weight)
        which = np.searchsorted(edges, np.minimum(pick, edges[-1] - 1e-15), side="right")
        chi2 = 2.0 * special.gammaincinv(DEGREES / 2, uniform[:, -2])
        normal = special.ndtri(uniform[:, : target.dims]) * np.sqrt(DEGREES / chi2)[:, None]
        for k in range(len(self.weight)):
            rows = (pick >= PRIOR_SHARE) & (which == k)
            u[rows] = self.mean[k] + normal[rows] @ self.root[k].T
        return u


def whitened(case: Case) -> Target:
    """The joint density, in coordinates about the latents' mode given hyperparameters of 1, then
    given those of the joint mode there, where these are not far out (as under a flat prior)."""
    target, theta = Target(case), np.ones(len(case.hypers))
    for left in (1, 0):
        given = Target(case.pinned(theta))
        u = given.prior_points(np.random.default_rng(5).random((500, given.dims)))
        given.whiten(_climbed(given, [np.zeros(given.dims), u[given(u).argmax()]])[0])
        target.precision, target.shift, target.middle = given.precision, given.shift, theta
        if not left or not len(theta):
            break
        mode = _climbed(target, [np.zeros(target.dims)])
        ends = mode[0][target.size :] if mode else np.zeros(len(theta))
        theta = np.exp(np.clip(ends, -MODERATE, MODERATE))
    return target


@dataclass(frozen=True, eq=False)
class OnGrid:
    """Logs of learned sds by a table of their log density on a grid, with a share for all of its
    cells that matter, and latents given these. `edges`: of the cells along each axis."""

    edges: tuple[Array, ...]
    share: Array  # of the cells

    @classmethod
    def of(cls, axes: Sequence[Array], table: Array) -> OnGrid:
        share = np.exp(table - table.max())
        # Second moments of the sds have more of the upper tail.
        squares = sum((np.exp(2.0 * g) for g in np.meshgrid(*axes, indexing="ij")), 0.0) + share
        # A bound of a prior lies within a cell whose middle may be beyond it.
        matters = ndimage.maximum_filter(table, 3) if table.ndim else table
        parts = (share, matters > table.max() - REACH, squares * share)
        share = sum(w * p / p.sum() for w, p in zip(PARTS, parts, strict=True))
        steps = [0.5 * (a[1] - a[0]) for a in axes]
        edges = [np.append(a - s, a[-1] + s) for a, s in zip(axes, steps, strict=True)]
        return cls(tuple(edges), np.asarray(share))

    @property
    def narrower(self) -> list[Array]:
        """Axes with as many cells as these, on what matters of them alone."""
        out = []
        for k, edges in enumerate(self.edges):
            others = tuple(j for j in range(self.share.ndim) if j != k)
            inside = np.flatnonzero(self.share.sum(axis=others) > 0.0)
            count = len(edges) - 1
            low, high = edges[max(inside[0] - 1, 0)], edges[min(inside[-1] + 2, count)]
            step = (high - low) / count
            out.append(low + step * (np.arange(count) + 0.5))
        return out

    def points(self, target: Target, uniform: Array) -> Array:
        """Of uniforms (points, dims + 2)."""
        where, cells, rows = list[Array](), list[Array](), np.arange(len(uniform))
        for k, edges in enumerate(self.edges):
            rest = self.share.sum(axis=tuple(range(k + 1, target.hypers)))
            own = rest[tuple(cells)] if cells else np.tile(rest, (len(uniform), 1))
            upto = np.cumsum(own, axis=1)
            upto /= upto[:, -1:]
            u = np.clip(uniform[:, target.size + k], 1e-12, 1.0 - 1e-12)
            cell = (upto < u[:, None]).sum(axis=1)
            below = np.where(cell > 0, upto[rows, cell - 1], 0.0)
            part = (u - below) / (upto[rows, cell] - below)
            where.append(edges[cell] + part * (edges[1] - edges[0]))
            cells.append(cell)
        latents = np.column_stack([uniform[:, : target.size], uniform[:, -2:]])
        return target.given(np.column_stack([*where, np.empty((len(uniform), 0))]), latents)[0]

    def log_density(self, target: Target, u: Array) -> Array:
        cells, out = list[Array](), target.log_given(u)
        for edges, place in zip(self.edges, u[:, target.size :].T, strict=True):
            step = edges[1] - edges[0]
            cells.append(np.clip(((place - edges[0]) / step).astype(int), 0, len(edges) - 2))
            out = out - math.log(step)
        with np.errstate(divide="ignore"):
            return np.asarray(out + np.log(self.share[tuple(cells)]))


def _adapted(target: Target) -> _Mixture:
    rng = np.random.default_rng(6)
    d = target.dims
    u = target.prior_points(rng.random((2000, d)))
    modes = _climbed(target, [np.zeros(d), *u[np.argsort(-target(u))[:3]]])
    means, roots = [], []
    for m in modes:
        covariance = _curved(target, m)
        means.append(m)
        roots.append(np.linalg.cholesky(covariance))
    mixture = _Mixture(np.full(len(means), 1.0 / len(means)), np.array(means), np.array(roots))
    for round_ in range(ROUNDS):
        u = mixture.points(target, rng.random((PILOT, d + 2)))
        log_w = target(u) - mixture.log_density(target, u)
        log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
        w = np.exp(log_w - log_w.max())
        # Early rounds temper weights that a few points would carry.
        power = 1.0
        while w.sum() ** 2 / (w**2).sum() < 20.0 * d and power > 0.05:
            power *= 0.8
            w = np.exp(power * (log_w - log_w.max()))
        w /= w.sum()
        mixture = _refitted(mixture, u, w, rng, fresh=round_ == 0)
    return mixture


def _climbed(target: Target, starts: list[Array]) -> list[Array]:
    """Where a search from each start ends, the highest first, near ones once."""
    ends: list[tuple[float, Array]] = []

    def lost(u: Array) -> float:
        return -float(np.maximum(target(u[None])[0], -1e12))

    for start in starts:
        end = optimize.minimize(lost, start, method="BFGS", tol=1e-3)
        new = all(np.abs(end.x - m).max() > 0.1 for _, m in ends)
        if np.isfinite(end.x).all() and new:
            ends.append((float(end.fun), np.asarray(end.x)))
    return [m for _, m in sorted(ends, key=lambda pair: pair[0])]


def _curved(target: Target, mode: Array) -> Array:
    """The inverse of minus second differences, made positive definite."""
    d, h = target.dims, 1e-2
    e = h * np.eye(d)
    points = [mode + s * e[i] + t * e[j] for i in range(d) for j in range(d)
              for s in (1, -1) for t in (1, -1)]  # fmt: skip
    values = target(np.array(points)).reshape(d, d, 2, 2)
    with np.errstate(invalid="ignore"):
        hessian = -(values[..., 0, 0] - values[..., 0, 1] - values[..., 1, 0] + values[..., 1, 1])
    hessian = np.where(np.isfinite(hessian), hessian, 0.0) / (4 * h * h)
    values_, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    return np.asarray((vectors / np.clip(values_, 0.3, 1e10)) @ vectors.T)


def _refitted(
    mixture: _Mixture, u: Array, w: Array, rng: np.random.Generator, fresh: bool
) -> _Mixture:
    """EM steps of a mixture of t on weighted points."""
    d = u.shape[1]
    overall = np.cov(u.T, aweights=w).reshape(d, d) + 1e-12 * np.eye(d)
    if fresh:
        chosen = u[rng.choice(len(u), COMPONENTS, p=w)]
        root = np.linalg.cholesky(overall)
        means = np.concatenate([mixture.mean, chosen])
        roots = np.concatenate([mixture.root, np.tile(root, (COMPONENTS, 1, 1))])
        mixture = _Mixture(np.full(len(means), 1.0 / len(means)), means, roots)
    for _ in range(4):
        logs, square = mixture.component_logs(u)
        share = np.exp(logs - special.logsumexp(logs, axis=0)) * w
        pull = share * (DEGREES + d) / (DEGREES + square)
        weight, means_, roots_ = [], [], []
        for k in range(len(mixture.weight)):
            total = share[k].sum()
            if total < 0.01:
                continue
            m = pull[k] @ u / pull[k].sum()
            away = u - m
            covariance = (pull[k] * away.T) @ away / total
            size = 1.0 / (share[k] ** 2).sum() * total**2  # effective points
            shrink = min(1.0, 2.0 * d / max(size, 1.0))
            covariance = (1 - shrink) * covariance + shrink * overall + 1e-12 * np.eye(d)
            weight.append(total)
            means_.append(m)
            roots_.append(np.linalg.cholesky(covariance))
        mixture = _Mixture(np.array(weight) / np.sum(weight), np.array(means_), np.array(roots_))
    return mixture


def _integrated(target: Target, proposal: _Mixture | OnGrid, power: int) -> Truth:
    logs, values, places = [], [], []
    for k in range(SCRAMBLES):
        uniform = qmc.Sobol(target.dims + 2, seed=100 * power + k).random_base2(power)
        u = proposal.points(target, uniform)
        log_w = target(u) - proposal.log_density(target, u)
        logs.append(np.where(np.isfinite(log_w), log_w, -np.inf))
        places.append(target.split(u))
        values.append(target.case.values(*places[-1]))
    top = max(float(part.max()) for part in logs)
    parts = [weighted_moments(np.exp(log - top), v) for log, v in zip(logs, values, strict=True)]
    weight = np.exp(np.concatenate(logs) - top)
    mean, sd, skewness, quantiles, mass = weighted_moments(weight, np.concatenate(values))
    few = math.sqrt(SCRAMBLES)
    errors = [
        np.std([p[0] for p in parts], axis=0, ddof=1) / sd / few,
        np.std([p[1] for p in parts], axis=0, ddof=1) / sd / few,
        (np.std([p[3] for p in parts], axis=0, ddof=1) / sd / few).ravel(),
        np.array([np.std([p[4] for p in parts], ddof=1) / mass / few]),
    ]
    share = float(weight.sum() ** 2 / (weight**2).sum() / len(weight))
    error = float(np.max(np.concatenate(errors)))
    points = tuple(
        Points(x, theta, log - top) for (x, theta), log in zip(places, logs, strict=True)
    )
    return Truth(mean, sd, skewness, quantiles, top + math.log(mass), error, share, points)


def weighted_moments(weight: Array, values: Array) -> tuple[Array, Array, Array, Array, float]:
    w = weight / weight.sum()
    mean = w @ values
    away = values - mean
    sd = np.sqrt(w @ away**2)
    skewness = (w @ away**3) / np.maximum(sd, 1e-300) ** 3
    quantiles = np.empty((len(LEVELS), values.shape[1]))
    for j in range(values.shape[1]):
        order = np.argsort(values[:, j])
        upto = np.cumsum(w[order]) - 0.5 * w[order]
        quantiles[:, j] = np.interp(LEVELS, upto, values[order, j])
    return mean, sd, skewness, quantiles, float(weight.mean())


def _distance(a: Truth, b: Truth) -> float:
    """The largest difference of two truths, in the units of TOLERANCE."""
    parts = [
        np.abs(a.mean - b.mean) / a.sd,
        np.abs(a.sd / b.sd - 1.0),
        (np.abs(a.quantiles - b.quantiles) / a.sd).ravel(),
        np.array([abs(a.log_evidence - b.log_evidence)]),
    ]
    return float(np.max(np.concatenate(parts)))


def remembered(lines: list[dict[str, str]]) -> Truth:
    """From the lines of an earlier run."""
    own = [r for r in lines if r["kind"] in ("latent", "predictor", "hyper")]

    def column(name: str) -> Array:
        return np.array([float(r[name]) for r in own])

    return Truth(
        column("mean"), column("sd"), column("skewness"),
        np.array([column("low"), column("high")]),
        next(float(r["mean"]) for r in lines if r["kind"] == "evidence"),
        float(own[0]["error"]), 0.0,
    )  # fmt: skip
