"""The models once more, without the package: densities from SciPy, dense algebra, a plain Newton.

log Z = log t(z^) + log N(z^; 0, K) + n/2 log 2 pi - 1/2 log|H|, H the negative Hessian at the mode.
Intrinsic priors by eigenvalues of their dense precisions.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from lgmdsl.arrays import Array

from .dense import Case, Choices, Relevance
from .mixed_words import Documents

Data = dict[str, Any]
MODELS = Path(__file__).resolve().parents[2] / "models"
SCORES = ["poor", "fair", "good", "excellent"]
CUTS = (-1.5, 0.2, 2.0)  # those that models/update_expected.py pins


def one_hot(who: Any, labels: Any) -> Array:
    same = np.asarray(who)[:, None] == np.asarray(labels)[None, :]
    return np.asarray(same, dtype=float)


def diagonal(*sds: tuple[int, float]) -> Array:
    return np.diag(np.concatenate([np.full(n, sd * sd) for n, sd in sds]))


def ones(n: int) -> Array:
    return np.ones((n, 1))


def logistic(d: Data) -> Case:
    x, y = d["X"], d["y"]
    sign = 2.0 * y - 1
    return Case(
        np.hstack([ones(len(y)), x]),
        diagonal((1, 10), (x.shape[1], 2.5)),
        lambda s: stats.logistic.logcdf(sign * s),
        (("b0", 1), ("w", x.shape[1])),
    )


def gp_classification(d: Data) -> Case:
    x, y = d["x"], d["y"]
    k = 4 * np.exp(-0.5 * cdist(x / 0.8, x / 0.8, "sqeuclidean"))
    sign = 2.0 * y - 1
    return Case(
        np.hstack([ones(len(y)), np.eye(len(y))]),
        block_diag(np.eye(1), k),
        lambda s: stats.norm.logcdf(sign * s),
        (("b0", 1), ("f", len(y))),
    )


def poisson_glmm(d: Data) -> Case:
    subjects = np.unique(d["who"])
    design = np.hstack([ones(len(d["y"])), d["X"], one_hot(d["who"], subjects)])
    return Case(
        design, diagonal((1, 10), (2, 2.5), (len(subjects), 0.6)),
        lambda s: stats.poisson.logpmf(d["y"], d["time"] * np.exp(s)),
        (("b0", 1), ("b", 2), ("u", len(subjects))),
    )  # fmt: skip


def random_slopes(d: Data) -> Case:
    subjects = np.unique(d["who"])
    who, age = one_hot(d["who"], subjects), d["age"][:, None]
    pairs = np.stack([who, age * who], axis=2).reshape(len(age), -1)
    s = np.array([[4.0, 0.6], [0.6, 0.25]])
    return Case(
        np.hstack([ones(len(age)), age, pairs]),
        block_diag(400.0 * np.eye(2), np.kron(np.eye(len(subjects)), s)),
        lambda m: stats.norm.logpdf(d["y"], m, 0.7),
        (("b", 2), ("d", 2 * len(subjects))),
    )


def linear_regression(d: Data) -> Case:
    x = d["X"]
    return Case(
        np.hstack([ones(len(x)), x]),
        diagonal((1, 5), (x.shape[1], 0.5)),
        lambda m: stats.norm.logpdf(d["y"], m, 0.55),
        (("b0", 1), ("w", x.shape[1])),
    )


def relevance_vectors(d: Data) -> Relevance:
    size = d["bump"].shape[1]
    design, weighed = np.hstack([ones(size), d["bump"]]), np.arange(1 + size) > 0
    precisions = 0.005, 0.005
    return Relevance(design, d["y"], weighed, *precisions, 0.01, 0.01, (("level", 1), ("w", size)))


def discrete_choice(d: Data) -> Choices:
    people, alternatives = np.unique(d["who"]), ["bus", "car", "train"]
    own = one_hot(d["who"], list(people))
    constants = np.broadcast_to(np.eye(3), (len(own), 3, 3))
    tastes = np.einsum("np,nkj->nkpj", own, d["X"]).reshape(len(own), 3, -1)
    between = np.kron(np.eye(len(people)), np.array([[3.0, 0.8], [0.8, 1.5]]))
    return Choices(
        np.concatenate([constants, d["X"], tastes], axis=2),
        block_diag(np.diag([0.0, 9, 9]), 25 * np.eye(2), between),
        np.array([alternatives.index(y) for y in d["y"]]), d["avail"],
        (("asc", 3), ("b", 2), ("d", 2 * len(people))),
    )  # fmt: skip


def correlated_topics(d: Data) -> Documents:
    truth = runpy.run_path(str(MODELS / "correlated_topics" / "make_data.py"))["TRUTH"]
    return Documents(d["n"], truth["beta"], truth["mu"], truth["S"], (("z", 4 * len(d["n"])),))


def robust_regression(d: Data) -> Case:
    return Case(
        np.column_stack([np.ones_like(d["x"]), d["x"]]),
        diagonal((2, 5)),
        lambda m: stats.t.logpdf((d["y"] - m) / 0.3, 3) - np.log(0.3),
        (("a", 1), ("b", 1)),
    )


def stochastic_volatility(d: Data) -> Case:
    k = 0.64 * np.exp(-np.abs(d["day"][:, None] - d["day"]) / 20)
    n = len(d["r"])
    return Case(
        np.hstack([ones(n), np.eye(n)]),
        block_diag(9 * np.eye(1), k),
        lambda v: stats.norm.logpdf(d["r"], 0, np.exp(0.5 * v)),
        (("mu", 1), ("h", n)),
    )


def negbinomial_counts(d: Data) -> Case:
    treatments, blocks = ["control", "low", "high"], np.unique(d["where"])
    design = np.hstack(
        [ones(len(d["y"])), one_hot(d["what"], treatments), one_hot(d["where"], blocks)]
    )
    return Case(
        design, diagonal((1, 5), (3, 2), (len(blocks), 0.5)),
        lambda s: stats.nbinom.logpmf(d["y"], 4, 4 / (4 + np.exp(s))),
        (("b0", 1), ("e", 3), ("u", len(blocks))), np.log(d["area"]),
        np.array([[0.0, 1, 1, 1, *([0.0] * len(blocks))]]),
    )  # fmt: skip


def gamma_responses(d: Data) -> Case:
    which = one_hot(d["which"], ["A", "B"])
    return Case(
        np.hstack([which, d["x"][:, None] * which]),
        diagonal((2, 5), (2, 2)),
        lambda s: stats.gamma.logpdf(d["y"], 12, scale=np.exp(s) / 12),
        (("a", 2), ("b", 2)),
    )


def lifetimes(d: Data) -> Case:
    batch = one_hot(d["batch"], sorted(set(d["batch"])))
    y, failed = d["hours"], d["failed"] > 0
    law = stats.weibull_min

    def log_density(s: Array) -> Array:
        scale = np.exp(s)
        seen = law.logpdf(y, 1.6, scale=scale)
        return np.asarray(np.where(failed, seen, law.logsf(y, 1.6, scale=scale)))

    design = np.hstack([np.ones((len(y), 1)), d["load"][:, None], batch])
    return Case(
        design, diagonal((1, 10), (1, 1), (15, 0.3)), log_density,
        (("level", 1), ("strain", 1), ("make", 15)),
    )  # fmt: skip


def ordinal_ratings(d: Data) -> Case:
    judge = one_hot(d["judge"], sorted(set(d["judge"])))
    there = d["rating"] != ""
    code = np.array([SCORES.index(r) for r in d["rating"][there]])
    edges = np.array([-np.inf, *CUTS, np.inf])

    def log_density(s: Array) -> Array:
        law = stats.logistic
        mass = law.cdf(edges[code + 1] - s[there]) - law.cdf(edges[code] - s[there])
        out = np.zeros(len(s))
        out[there] = np.log(mass)
        return out

    return Case(
        np.hstack([d["price"][:, None], judge]),
        diagonal((1, 3), (24, 0.8)),
        log_density,
        (("worth", 1), ("leave", 24)),
    )


def gp_sum(d: Data) -> Case:
    r = cdist(d["when"], d["when"])
    trend = np.exp(-0.5 * (r / 3) ** 2)
    cycle = 0.49 * np.exp(-2 * np.sin(np.pi * r) ** 2) * np.exp(-0.5 * (r / 4) ** 2)
    n = len(d["y"])
    return Case(np.eye(n), trend + cycle, lambda m: stats.norm.logpdf(d["y"], m, 0.2), (("f", n),))


def dose_response(d: Data) -> Case:
    return Case(
        np.column_stack([np.ones_like(d["dose"]), d["dose"]]),
        diagonal((1, 5), (1, 20)),
        lambda s: stats.binom.logpmf(d["y"], d["n"], 1 / (1 + np.exp(-s))),
        (("a", 1), ("b", 1)),
    )


def scaled(precision: Array, sd: float) -> tuple[Array, Array]:
    """sd^2 Q^+, scaled so that its variances have geometric mean sd^2, and Q's null space."""
    values, vectors = np.linalg.eigh(precision)
    seen = values > 1e-9 * values[-1]
    k = vectors[:, seen] / values[seen] @ vectors[:, seen].T
    return sd**2 * k / np.exp(np.log(k.diagonal()).mean()), vectors[:, ~seen]


def laplacian(adjacency: Array) -> Array:
    return np.asarray(np.diag(adjacency.sum(axis=1)) - adjacency)


def wet_days(d: Data) -> Case:
    n = len(d["n"])
    second = np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1) - 2 * np.eye(n)
    return Case(
        np.hstack([ones(n), np.eye(n)]),
        block_diag(25 * np.eye(1), scaled(second.T @ second, 0.7)[0]),
        lambda s: stats.binom.logpmf(d["rain"], d["n"], 1 / (1 + np.exp(-s))),
        (("b0", 1), ("f", n)),
    )


def disease_map(d: Data) -> Case:
    n = len(d["y"])
    one, other = (one_hot(ends, d["region"]) for ends in d["edges"].T)
    adjacency = one.T @ other + other.T @ one
    parts = [
        scaled(laplacian(adjacency[part, part]), 1.0)[0] for part in (slice(0, 30), slice(30, 32))
    ]
    v = 0.16 * (0.25 * np.eye(n) + 0.75 * block_diag(*parts, np.eye(1)))
    return Case(
        np.hstack([ones(n), d["x"][:, None] / 10, np.eye(n)]),
        block_diag(25 * np.eye(1), np.eye(1), v),
        lambda s: stats.poisson.logpmf(d["y"], d["E"] * np.exp(s)),
        (("b0", 1), ("b", 1), ("v", n)),
    )  # fmt: skip


def monthly_counts(d: Data) -> Case:
    n = len(d["y"])
    year = np.sum([np.eye(n - 11, n, k) for k in range(12)], axis=0)
    season, pattern = scaled(year.T @ year, 0.03)
    step = np.diff(np.eye(n), axis=0)
    seen = ~np.isnan(d["y"])
    design = np.hstack([ones(n), d["law"][:, None], np.eye(n), np.eye(n)])
    return Case(
        design[seen], block_diag(np.diag([100.0, 1.0]), scaled(step.T @ step, 0.15)[0], season),
        lambda m: stats.norm.logpdf(d["y"][seen], m, 0.06),
        (("b0", 1), ("effect", 1), ("level", n), ("season", n)),
        free=np.vstack([np.zeros((n + 2, pattern.shape[1])), pattern]),
    )  # fmt: skip


def space_time(d: Data) -> Case:
    space = scaled(laplacian(d["adj"].astype(float)), 0.5)[0]
    year = np.arange(8)
    cell = 8 * np.searchsorted(d["region"], d["where"]) + d["when"] - 2011
    return Case(
        np.hstack([ones(len(cell)), one_hot(cell, np.arange(96))]),
        block_diag(25 * np.eye(1), np.kron(space, 0.8 ** np.abs(year[:, None] - year))),
        lambda s: stats.poisson.logpmf(d["y"], d["E"] * np.exp(s)),
        (("b0", 1), ("st", 96)),
    )


CASES: dict[str, Callable[[Data], Case | Relevance | Choices | Documents]] = {
    "logistic_regression": logistic,
    "gp_classification": gp_classification,
    "poisson_glmm": poisson_glmm,
    "random_slopes": random_slopes,
    "linear_regression": linear_regression,
    "relevance_vectors": relevance_vectors,
    "robust_regression": robust_regression,
    "stochastic_volatility": stochastic_volatility,
    "negbinomial_counts": negbinomial_counts,
    "gamma_responses": gamma_responses,
    "lifetimes": lifetimes,
    "discrete_choice": discrete_choice,
    "correlated_topics": correlated_topics,
    "ordinal_ratings": ordinal_ratings,
    "gp_sum": gp_sum,
    "dose_response": dose_response,
    "wet_days": wet_days,
    "disease_map": disease_map,
    "monthly_counts": monthly_counts,
    "space_time": space_time,
}
