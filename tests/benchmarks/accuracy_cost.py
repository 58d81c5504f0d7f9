"""What the estimate of a fit's errors costs, in per cent of the fit.

python -m tests.benchmarks.accuracy_cost [NAME ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit import completed
from lgmdsl.api.fit.errors.estimated import estimated

Case = tuple[str, dict[str, Any], dict[str, Any]]
HEAD = "lgm 1\nindex obs\n"


def glmm() -> Case:
    """20,000 rows of 2,000 persons, Poisson, an integrated sd."""
    rng = np.random.default_rng(0)
    who, x = np.repeat(np.arange(2000), 10), rng.standard_normal(20000)
    eta = 0.3 + 0.4 * x + 0.8 * rng.standard_normal(2000)[who]
    text = (
        HEAD + "index g\ndata y[obs] : count\ndata x[obs] : real\ndata who[obs] : g\n"
        "hyper s : positive ~ half_normal(sd = 2)\nlatent a ~ normal(sd = 5)\n"
        "latent b ~ normal(sd = 5)\nlatent u[g] ~ normal(sd = s)\n"
        "let eta[obs] = a + b * x + u[who]\nobserve y ~ poisson(log_rate = eta)\n"
    )
    return text, {"y": rng.poisson(np.exp(eta)), "x": x, "who": who}, {}


def gp() -> Case:
    """1,500 binary answers along a Gaussian process, hyperparameters fixed."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 10.0, 1500))
    y = rng.random(1500) < 1.0 / (1.0 + np.exp(-2.0 * np.sin(x)))
    text = (
        HEAD + "data y[obs] : binary\ndata x[obs] : real\n"
        "latent f[obs] ~ gp(at = x, kernel = se(sd = 2, length = 1))\n"
        "observe y ~ bernoulli(logit = f)\n"
    )
    return text, {"y": y.astype(float), "x": x}, {}


def rw2() -> Case:
    """10,000 counts along a random walk of second order."""
    rng = np.random.default_rng(2)
    t = np.arange(10000)
    text = (
        "lgm 1\nindex t\ndata y[t] : count\nlatent f[t] ~ rw2(sd = 1)\nlatent a ~ normal(sd = 5)\n"
        "let eta[t] = a + f\nobserve y ~ poisson(log_rate = eta)\n"
    )
    return text, {"y": rng.poisson(np.exp(1.0 + np.sin(t / 500.0))), "t": t}, {}


def bym2() -> Case:
    """2,000 regions on a grid, counts, two integrated hyperparameters."""
    rng = np.random.default_rng(3)
    rows, columns = 40, 50
    number = np.arange(rows * columns).reshape(rows, columns)
    pairs = np.concatenate(
        [
            np.stack([number[1:].ravel(), number[:-1].ravel()], axis=1),
            np.stack([number[:, 1:].ravel(), number[:, :-1].ravel()], axis=1),
        ]
    )
    text = (
        "lgm 1\nindex region\ndata y[region] : count\ndata pairs[region, region] : graph\n"
        "hyper s : positive ~ half_normal(sd = 1)\n"
        "hyper mix : unit ~ uniform(lower = 0, upper = 1)\n"
        "latent a ~ normal(sd = 5)\nlatent u[region] ~ bym2(graph = pairs, sd = s, mix = mix)\n"
        "let eta[region] = a + u\nobserve y ~ poisson(log_rate = eta)\n"
    )
    y = rng.poisson(np.exp(0.5 + 0.5 * rng.standard_normal(2000)))
    return text, {"y": y, "pairs": pairs, "region": np.arange(2000)}, {}


def latents() -> Case:
    """100,000 persons with a count each, hyperparameters fixed."""
    rng = np.random.default_rng(4)
    text = (
        HEAD + "data y[obs] : count\nlatent a ~ normal(sd = 5)\nlatent u[obs] ~ normal(sd = 0.7)\n"
        "let eta[obs] = a + u\nobserve y ~ poisson(log_rate = eta)\n"
    )
    return text, {"y": rng.poisson(np.exp(1.0 + 0.7 * rng.standard_normal(100000)))}, {}


CASES: dict[str, Callable[[], Case]] = {
    "glmm": glmm, "gp": gp, "rw2": rw2, "bym2": bym2, "latents": latents,
}  # fmt: skip


def main(names: list[str]) -> None:
    """One line a case: CPU seconds of the fit without the estimate, of the estimate, its share."""
    plain, spent = estimated, [0.0]

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        out = plain(*arguments)
        spent[0] += time.process_time() - began
        return out

    setattr(completed, "estimated", timed)  # noqa: B010
    for name in names or list(CASES):
        text, data, settings = CASES[name]()
        model = lgm.loads(text)
        spent[0], began = 0.0, time.process_time()
        fit = lgm.fit(model, data, **settings)
        rest = time.process_time() - began - spent[0]
        print(
            f"{name:8s} {fit.engine:10s} fit {rest:7.2f} s, estimate {spent[0]:6.2f} s "
            f"({spent[0] / rest:.0%}), {fit.status}, {fit.accuracy}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
