"""Weights under automatic relevance determination, with data drawn once."""

from __future__ import annotations

from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray
from lgmdsl.contract.problem import Problem
from tests.compiled import problem_for

RNG = np.random.default_rng(11)
N, M = 30, 6
X = RNG.standard_normal((N, M))
DATA: dict[str, AnyArray] = {"X": X, "y": X @ [2.0, 0, 0, -1.0, 0, 0] + 0.5 * RNG.normal(size=N)}

HEAD = "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : real\n"
WEIGHTS = "latent w[feat] ~ flat\npotential w ~ student_t(scale = 0.5, df = 1)\n"
KNOWN = f"{HEAD}{WEIGHTS}observe y ~ normal(mean = X @ w, sd = 0.5)\n"
LEARNED = HEAD + "hyper tau : positive ~ gamma(shape = 1, rate = 0.5)\n" + WEIGHTS
LEARNED += "observe y ~ normal(mean = X @ w, sd = 1 / sqrt(tau))\n"
INTERCEPT = KNOWN.replace("latent w", "latent b0 ~ flat\nlatent w").replace("X @ w", "b0 + X @ w")
BINARY = KNOWN.replace("data y[obs] : real", "data y[obs] : binary").replace(
    "normal(mean = X @ w, sd = 0.5)", "bernoulli(probit = X @ w)"
)
ROBUST = HEAD + "latent w[feat] ~ normal(sd = 2)\nhyper s : positive ~ half_normal(sd = 1)\n"
ROBUST += "observe y ~ student_t(mean = X @ w, scale = s, df = 3)\n"
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"expand": False},
    "each": {},
    **{way: {"auxiliaries": way} for way in ("joint", "separate")},
}


def fitted(text: str, data: dict[str, AnyArray] = DATA, **more: Any) -> Fit:
    return lgm.fit(lgm.loads(text), data, **{"method": "px-vb", **more})


def problem_of(text: str, data: dict[str, AnyArray] = DATA) -> Problem:
    return problem_for("px-vb", text, data)
