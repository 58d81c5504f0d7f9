"""Posteriors of the example models by dense algebra, independent of the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from lgmdsl.arrays import Array, BoolArray

from .mixed_words import Documents, of_each

STEP = 2e-3


@dataclass(frozen=True)
class Case:
    """z ~ N(0, prior) restricted to the null space of `constraint`; eta = design z + offset.

    Along the orthonormal columns of `free` z has density 1 instead.
    """

    design: Array
    prior: Array
    log_density: Callable[[Array], Any]
    latents: tuple[tuple[str, int], ...]
    offset: Array | float = 0.0
    constraint: Array | None = None
    free: Array | None = None


@dataclass(frozen=True)
class Answer:
    log_evidence: float
    mean: Array
    sd: Array


@dataclass(frozen=True)
class Relevance:
    """y = design z + noise; latents of `weighed` have precisions ~ gamma(a, b), the others are
    flat, the noise's precision ~ gamma(c, d)."""

    design: Array
    y: Array
    weighed: BoolArray
    a: float
    b: float
    c: float
    d: float
    latents: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Choices:
    """One of K alternatives, `chosen` (N,), of those that are `available` (N, K): probabilities
    proportional to exp(design z), design (N, K, n), z ~ N(0, prior)."""

    design: Array
    prior: Array
    chosen: Array
    available: Array
    latents: tuple[tuple[str, int], ...]


def computed(case: Case | Relevance | Choices | Documents) -> Answer:
    """The answer that a model's method should give."""
    if isinstance(case, Documents):
        return Answer(*of_each(case))
    if isinstance(case, Choices):
        return dense_choices(case)
    return dense_laplace(case) if isinstance(case, Case) else dense_mean_field(case)


def dense_choices(case: Choices) -> Answer:
    """Newton in z = Ru, u ~ N(0, I), with the softmax's slope and curvature."""
    values, vectors = np.linalg.eigh(case.prior)
    kept = values > 1e-13 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    b, one = case.design @ root, np.eye(case.design.shape[1])[case.chosen.astype(int)]
    u = np.zeros(b.shape[2])
    for _ in range(50):
        p = special.softmax(np.where(case.available > 0, b @ u, -np.inf), axis=1)
        mean = np.einsum("nk,nki->ni", p, b)
        h = np.eye(len(u)) + np.einsum("nk,nki,nkj->ij", p, b, b, optimize=True) - mean.T @ mean
        step = np.linalg.solve(h, np.einsum("nk,nki->i", one - p, b) - u)
        u = u + step
        if np.abs(step).max() < 1e-11:
            break
    value = float(np.log((p * one).sum(axis=1)).sum() - 0.5 * u @ u)
    covariance = root @ np.linalg.solve(h, root.T)
    log_evidence = value - 0.5 * float(np.linalg.slogdet(h)[1])
    return Answer(log_evidence, root @ u, np.sqrt(np.maximum(covariance.diagonal(), 0.0)))


def dense_mean_field(case: Relevance) -> Answer:
    """q(z) q(precisions) q(noise) by their updates (Bishop and Tipping 2000), and E[log joint] +
    entropies, term by term."""
    x, y, weighed, n = case.design, case.y, case.weighed, len(case.y)
    alpha, shape, rate = np.where(weighed, 1.0, 0.0), case.c + n / 2, 1.0
    for _ in range(6000):
        v = np.linalg.inv(np.diag(alpha) + shape / rate * x.T @ x)
        mean = shape / rate * v @ x.T @ y
        below = case.b + 0.5 * (mean**2 + np.diag(v))
        alpha = np.where(weighed, (case.a + 0.5) / below, 0.0)
        rate = case.d + 0.5 * (((y - x @ mean) ** 2).sum() + np.trace(x @ v @ x.T))
    below, k = below[weighed], case.a + 0.5
    precisions, noise = stats.gamma(k, scale=1 / below), stats.gamma(shape, scale=1 / rate)
    logs, log_noise = special.digamma(k) - np.log(below), special.digamma(shape) - np.log(rate)
    joint = 0.5 * n * (log_noise - np.log(2 * np.pi)) - noise.mean() * (rate - case.d)
    joint += (0.5 * (logs - np.log(2 * np.pi)) - precisions.mean() * (below - case.b)).sum()
    for a, b, log, value in (
        (case.a, case.b, logs, precisions.mean()),
        (case.c, case.d, log_noise, noise.mean()),
    ):
        joint += np.sum(a * np.log(b) - special.gammaln(a) + (a - 1) * log - b * value)
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * math.e * v)[1]
    entropy += precisions.entropy().sum() + noise.entropy()
    return Answer(float(joint + entropy), mean, np.sqrt(np.diag(v)))


def dense_laplace(case: Case) -> Answer:
    """Newton in whitened coordinates z = Ru, u ~ N(0, I); derivatives by central differences.

    A constraint Cz = 0 leaves the prior N(0, K - KC'(CKC')^-1CK), normalised on its subspace, with
    the density of Cz = 0 left out: given the constraint, z is just that Gaussian.
    """
    prior = case.prior
    if case.constraint is not None:
        c = case.constraint
        prior = prior - prior @ c.T @ np.linalg.solve(c @ prior @ c.T, c @ prior)
    values, vectors = np.linalg.eigh(prior)
    kept = values > 1e-13 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    known = np.ones(root.shape[1])
    if case.free is not None:
        root = np.hstack([root, case.free])
        known = np.concatenate([known, np.zeros(case.free.shape[1])])
    b = case.design @ root
    u = np.zeros(b.shape[1])

    def eta(u: Array) -> Array:
        return np.asarray(b @ u + case.offset)

    def objective(u: Array) -> float:
        return float(case.log_density(eta(u)).sum() - 0.5 * known @ u**2)

    for _ in range(100):
        slope, curvature = derivatives(case.log_density, eta(u))
        # Where the density is not log-concave, the positive part of the curvature is left out.
        h = np.diag(known) + b.T @ (np.maximum(curvature, 0.0)[:, None] * b)
        step = np.linalg.solve(h, b.T @ slope - known * u)
        t = 1.0
        while objective(u + t * step) < objective(u) and t > 1e-8:
            t /= 2
        u = u + t * step
        if np.abs(step).max() < 1e-9:
            break
    slope, curvature = derivatives(case.log_density, eta(u))
    h = np.diag(known) + b.T @ (curvature[:, None] * b)
    sign, log_det = np.linalg.slogdet(h)
    assert sign > 0
    covariance = root @ np.linalg.solve(h, root.T)
    variance = np.maximum(covariance.diagonal(), 0.0)
    free = 0.5 * np.log(2 * np.pi) * float(np.sum(known == 0))
    return Answer(objective(u) - 0.5 * float(log_det) + free, root @ u, np.sqrt(variance))


def derivatives(f: Callable[[Array], Any], s: Array) -> tuple[Array, Array]:
    """f' and -f'' by central differences of fourth order, elementwise."""
    a, b, c, d, e = (f(s + k * STEP) for k in (-2, -1, 0, 1, 2))
    h = STEP
    return (a - 8 * b + 8 * d - e) / (12 * h), (a - 16 * b + 30 * c - 16 * d + e) / (12 * h * h)
