"""Small models with labelled cases and candidates, and their posterior by dense algebra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import lgmdsl as lgm
from lgmdsl.acquisition.pool import Pool
from lgmdsl.api.design.cases import cases_of, response_of
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.dataset import read

HEAD = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
"""
OBSERVE = "let eta[obs] = X @ w + 1.5\nobserve y ~ bernoulli(logit = eta)\n"
MODELS = {
    "gaussian": HEAD + "latent w[feat] ~ normal(sd = 2)\n" + OBSERVE,
    "laplace": HEAD + "latent w[feat] ~ flat\n" + OBSERVE + "potential w ~ laplace(scale = 0.7)\n",
    "mixed": HEAD + "latent w[feat] ~ normal(sd = 3)\nlatent a[feat] ~ normal(sd = 1)\n"
    "let eta[obs] = X @ w + X @ a\nobserve y ~ bernoulli(logit = eta)\n"
    "potential w ~ student_t(df = 4, scale = 0.5)\npotential a ~ sech2(scale = 1)\n"
    "potential w ~ normal(sd = 2)\n",
    "constrained": HEAD + "latent w[feat] ~ normal(sd = 2)\n" + OBSERVE
    + "constrain sum(w, feat) = 0\n",
}  # fmt: skip
GP = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : binary
latent f[obs] ~ gp(at = X, kernel = se(sd = 2, length = 1))
let eta[obs] = f
observe y ~ bernoulli(logit = eta)
"""


@dataclass(frozen=True)
class Small:
    """A model and its data: labelled cases, candidates with their labels, test cases."""

    model: lgm.Model
    data: dict[str, Array]
    candidates: dict[str, Array]
    oracle: dict[str, Array]
    test: dict[str, Array]

    def fit(self) -> Fit:
        return lgm.fit(self.model, self.data, "double-loop")

    def pool(self, fit: Fit) -> Pool:
        return cases_of(fit, response_of(fit.canonical), read(self.candidates)).pool


def small(
    name: str, cases: int = 25, candidates: int = 12, features: int = 4, seed: int = 0
) -> Small:
    """A model of MODELS (or GP) with random data."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=features) * 1.5

    def drawn(size: int) -> tuple[Array, Array]:
        x = rng.normal(size=(size, features))
        return x, (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ weights))).astype(float)

    (x, y), (pool, asked), (far, truth) = drawn(cases), drawn(candidates), drawn(60)
    text = GP if name == "gp" else MODELS[name]
    return Small(
        lgm.loads(text), {"X": x, "y": y}, {"X": pool}, {"y": asked}, {"X": far, "y": truth}
    )
