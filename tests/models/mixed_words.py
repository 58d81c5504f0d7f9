"""Documents of mixed topics once more, one at a time, by Newton and Laplace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from lgmdsl.arrays import Array

STEP = 1e-5


@dataclass(frozen=True)
class Documents:
    """Counts of words (N, W), each word with probability softmax(mean + z) @ topics; z ~ N(0,
    covariance) for each document."""

    counts: Array
    topics: Array
    mean: Array
    covariance: Array
    latents: tuple[tuple[str, int], ...]


def of_each(case: Documents) -> tuple[float, Array, Array]:
    """Log evidence, modes and sds, the latter document by document."""
    values, modes, sds = zip(*(_document(case, y) for y in case.counts), strict=True)
    return sum(values), np.concatenate(modes), np.concatenate(sds)


def _document(case: Documents, y: Array) -> tuple[float, Array, Array]:
    prior = stats.multivariate_normal(cov=case.covariance)
    precision = np.linalg.inv(case.covariance)

    def value(z: Array) -> float:
        words = special.softmax(case.mean + z) @ case.topics
        said = stats.multinomial.logpmf(y, int(y.sum()), words / words.sum())
        return float(said + prior.logpdf(z))

    def slope(z: Array) -> Array:
        p = special.softmax(case.mean + z)
        of_topics = case.topics @ (y / (p @ case.topics))
        return np.asarray(p * (of_topics - p @ of_topics) - precision @ z)

    z = np.zeros(len(case.mean))
    for _ in range(200):
        h = -bend(slope, z)
        values, vectors = np.linalg.eigh(h)
        g = slope(z)
        step = vectors @ ((vectors.T @ g) / np.maximum(np.abs(values), 1e-3))
        while value(z + step) < value(z) and np.abs(step).max() > 1e-10:
            step = 0.5 * step
        z = z + step
        if np.abs(g).max() < 1e-9:
            break
    h = -bend(slope, z)
    log_evidence = value(z) + 0.5 * len(z) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(h)[1]
    return float(log_evidence), z, np.sqrt(np.linalg.inv(h).diagonal())


def bend(slope: Callable[[Array], Array], z: Array) -> Array:
    """The derivative of a slope, by central differences of it."""
    ends = [(z + e, z - e) for e in STEP * np.eye(len(z))]
    found = np.array([(slope(a) - slope(b)) / (2 * STEP) for a, b in ends])
    return np.asarray(0.5 * (found + found.T))
