"""Generalised linear models with one random intercept for each group, integrated without MCMC and
without a Gaussian approximation: the intercepts by adaptive Gauss-Hermite quadrature, the
coefficients and the logarithm of the intercepts' variance by importance sampling from a
multivariate t at the mode, on a Sobol sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import chi2, norm, qmc

from lgmdsl.arrays import Array, IntArray

DEGREES = 6.0  # of the proposal


@dataclass(frozen=True)
class Problem:
    """`reduce(beta)` gives what the groups' likelihoods depend on besides their intercepts u;
    `group(that, u)` their logarithms and first two derivatives in u, (points, groups);
    `prior(beta, variance)` the log density of both, with constants of the likelihood."""

    coefficients: int
    group: Callable[[Array, Array], tuple[Array, Array, Array]]
    reduce: Callable[[Array], Array]
    prior: Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Exact:
    """Posterior moments of (coefficients, log variance, sd) and of the intercepts; log evidence;
    the importance sample's effective size."""

    mean: Array
    sd: Array
    group_mean: Array
    group_sd: Array
    log_evidence: float
    size: float


def integrate(problem: Problem, start: Array, points: int = 2**14, nodes: int = 21) -> Exact:
    """`start`: coefficients and log variance."""

    def target(x: Array) -> tuple[Array, Array, Array]:
        """log p(y, x), and the intercepts' moments, for x (points, coefficients + 1)."""
        beta, variance = x[:, :-1], np.exp(x[:, -1:])
        about = problem.reduce(beta)
        u = np.zeros_like(about)
        for _ in range(40):  # Newton, damped where a step is long
            _, d1, d2 = problem.group(about, u)
            step = (d1 - u / variance) / (1.0 / variance - d2)
            u = u + step / np.maximum(1.0, np.abs(step))
        _, _, d2 = problem.group(about, u)
        spread = 1.0 / np.sqrt(1.0 / variance - d2)
        t, w = np.polynomial.hermite_e.hermegauss(nodes)
        logs = np.empty((nodes, *u.shape))
        for k in range(nodes):
            z = u + spread * t[k]
            logs[k] = problem.group(about, z)[0] - 0.5 * z**2 / variance
            logs[k] += np.log(w[k]) + 0.5 * t[k] ** 2
        top = logs.max(axis=0)
        weights = np.exp(logs - top)
        total = weights.sum(axis=0)
        values = top + np.log(total) + np.log(spread) - 0.5 * np.log(2 * np.pi * variance)
        first = np.einsum("kpg,k->pg", weights, t) / total
        second = np.einsum("kpg,k->pg", weights, t**2) / total
        m = u + spread * first
        whole = values.sum(axis=1) + problem.prior(beta, variance[:, 0]) + x[:, -1]
        return whole, m, m**2 + spread**2 * (second - first**2)

    size = problem.coefficients + 1

    def negative(x: Array) -> float:
        return -float(target(x[None])[0][0])

    mode = np.asarray(minimize(negative, start, method="BFGS").x)
    step = 1e-3 * np.eye(size)
    hessian = (
        np.array(
            [
                [
                    float(
                        target((mode + a + b)[None])[0][0]
                        - target((mode + a - b)[None])[0][0]
                        - target((mode - a + b)[None])[0][0]
                        + target((mode - a - b)[None])[0][0]
                    )
                    for b in step
                ]
                for a in step
            ]
        )
        / 4e-6
    )
    root = np.linalg.cholesky(np.linalg.inv(-hessian))
    u01 = qmc.Sobol(size + 1, seed=7).random(points)
    scale = np.sqrt(DEGREES / chi2.ppf(u01[:, -1:], DEGREES))
    e = norm.ppf(u01[:, :-1]) * scale
    x = mode + e @ root.T
    log_q = gammaln((DEGREES + size) / 2) - gammaln(DEGREES / 2)
    log_q = log_q - size / 2 * np.log(np.pi * DEGREES) - np.log(root.diagonal()).sum()
    log_q = log_q - (DEGREES + size) / 2 * np.log1p((e**2).sum(axis=1) / DEGREES)
    parts = [target(block) for block in np.array_split(x, max(points // 1024, 1))]
    logs = np.concatenate([p[0] for p in parts]) - log_q
    weight = np.exp(logs - logs.max())
    evidence = float(logs.max() + np.log(weight.mean()))
    weight /= weight.sum()
    quantities = np.column_stack([x, np.exp(0.5 * x[:, -1])])
    mean = weight @ quantities
    group_mean = weight @ np.concatenate([p[1] for p in parts])
    group_square = weight @ np.concatenate([p[2] for p in parts])
    return Exact(
        mean,
        np.sqrt(weight @ (quantities - mean) ** 2),
        group_mean,
        np.sqrt(group_square - group_mean**2),
        evidence,
        float(1.0 / (weight**2).sum()),
    )


def inv_gamma_log(variance: Array, shape: float, scale: float) -> Array:
    return np.asarray(
        shape * np.log(scale) - gammaln(shape) - (shape + 1.0) * np.log(variance) - scale / variance
    )


def normal_log(beta: Array, sd: float) -> Array:
    """The first coefficient has density 1."""
    rest = beta[:, 1:]
    return np.asarray(-0.5 * (rest**2 / sd**2 + np.log(2 * np.pi * sd**2)).sum(axis=1))


def poisson(X: Array, y: Array, who: IntArray, sd: float, shape: float, scale: float) -> Problem:
    """Counts, grouped by `who`; normal(sd) slopes, a flat intercept, an inv_gamma variance."""
    groups = int(who.max()) + 1
    indicator = np.eye(groups)[who]
    total = y @ indicator
    constant = float(-gammaln(y + 1.0).sum())

    def reduce(beta: Array) -> Array:
        return np.asarray(np.log(np.exp(beta @ X.T) @ indicator))

    def group(about: Array, u: Array) -> tuple[Array, Array, Array]:
        rate = np.exp(about + u)
        return total * u - rate, total - rate, -rate

    def prior(beta: Array, variance: Array) -> Array:
        free = normal_log(beta, sd) + inv_gamma_log(variance, shape, scale)
        return np.asarray(free + constant + (beta @ X.T) @ y)

    return Problem(X.shape[1], group, reduce, prior)


def binomial(X: Array, r: Array, n: Array, sd: float, shape: float, scale: float) -> Problem:
    """One binomial answer in each group."""
    constant = float((gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum())

    def reduce(beta: Array) -> Array:
        return np.asarray(beta @ X.T)

    def group(about: Array, u: Array) -> tuple[Array, Array, Array]:
        eta = about + u
        p = 1.0 / (1.0 + np.exp(-eta))
        return r * eta - n * np.logaddexp(0.0, eta), r - n * p, -n * p * (1.0 - p)

    def prior(beta: Array, variance: Array) -> Array:
        return np.asarray(normal_log(beta, sd) + inv_gamma_log(variance, shape, scale) + constant)

    return Problem(X.shape[1], group, reduce, prior)
