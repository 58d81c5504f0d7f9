"""Ten models with learned hyperparameters, all under proper priors, and the sizes of their data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

LINE = {"x": np.linspace(0.0, 1.0, 15)[:, None]}


@dataclass(frozen=True)
class Case:
    """A model, the data that are the same in all runs, and the sizes of the rest."""

    text: str
    sizes: dict[str, int]
    data: dict[str, Any] | None = None
    fixed: dict[str, object] = field(default_factory=dict)


def _groups(groups: int, each: int) -> dict[str, Any]:
    return {"who": np.repeat(np.arange(groups), each)}


CASES: dict[str, Case] = {
    "poisson_glmm": Case(
        """lgm 1
index obs
index group
data y[obs] : count
data who[obs] : group
data x[obs] : real
hyper s : positive ~ half_normal(sd = 1)
latent b0 ~ normal(mean = 0.5, sd = 1)
latent b ~ normal(sd = 0.5)
latent u[group] ~ normal(sd = s)
let eta[obs] = b0 + b * x + u[who]
observe y ~ poisson(log_rate = eta)
""",
        {"obs": 48, "group": 12},
        _groups(12, 4),
    ),
    "binary_glmm": Case(
        """lgm 1
index obs
index group
data y[obs] : binary
data who[obs] : group
hyper s : positive ~ half_normal(sd = 1)
latent b0 ~ normal(sd = 1.5)
latent u[group] ~ normal(sd = s)
let eta[obs] = b0 + u[who]
observe y ~ bernoulli(logit = eta)
""",
        {"obs": 60, "group": 12},
        _groups(12, 5),
    ),
    "negbinomial": Case(
        """lgm 1
index obs
data y[obs] : count
data x[obs] : real
hyper size : positive ~ gamma(shape = 3, rate = 1)
latent b0 ~ normal(mean = 1, sd = 1)
latent b ~ normal(sd = 1)
let eta[obs] = b0 + b * x
observe y ~ negbinomial(log_mean = eta, size = size)
""",
        {"obs": 40},
    ),
    "smooth": Case(
        """lgm 1
index t
data y[t] : count
hyper s : positive ~ half_normal(sd = 1)
latent b0 ~ normal(mean = 0.5, sd = 1)
latent f[t] ~ rw1(sd = s)
let eta[t] = b0 + f
observe y ~ poisson(log_rate = eta)
""",
        {"t": 20},
    ),
    "map": Case(
        """lgm 1
index region
data y[region] : count
data edges[region, region] : graph
hyper s : positive ~ half_normal(sd = 1)
hyper mix : unit ~ beta(a = 2, b = 2)
latent b0 ~ normal(mean = 0.5, sd = 1)
latent v[region] ~ bym2(graph = edges, sd = s, mix = mix)
let eta[region] = b0 + v
observe y ~ poisson(log_rate = eta)
""",
        {"region": 16},
    ),
    "ar1": Case(
        """lgm 1
index t
data y[t] : real
hyper s : positive ~ half_normal(sd = 1)
hyper rho : unit ~ beta(a = 4, b = 2)
hyper noise : positive ~ half_normal(sd = 0.5)
latent b0 ~ normal(sd = 1)
latent f[t] ~ ar1(sd = s, rho = rho)
let eta[t] = b0 + f
observe y ~ normal(mean = eta, sd = noise)
""",
        {"t": 40},
    ),
    "survival": Case(
        """lgm 1
index obs
index lot
data hours[obs] : positive
data batch[obs] : lot
data load[obs] : real
hyper shape : positive ~ gamma(shape = 6, rate = 4)
hyper s : positive ~ half_normal(sd = 0.5)
latent level ~ normal(sd = 1)
latent strain ~ normal(sd = 1)
latent make[lot] ~ normal(sd = s)
let eta[obs] = level + strain * load + make[batch]
observe hours ~ weibull(log_scale = eta, shape = shape)
""",
        {"obs": 40, "lot": 8},
        {"batch": np.repeat(np.arange(8), 5)},
    ),
    "ordinal": Case(
        """lgm 1
index obs
index score = {"poor", "fair", "good"}
index cut = head(score)
data rating[obs] : score
data x[obs] : real
hyper c[cut] : ordered ~ normal(sd = 1.5)
latent b ~ normal(sd = 1)
let eta[obs] = b * x
observe rating ~ ordinal(logit = eta, cuts = c)
""",
        {"obs": 40},
    ),
    "gp": Case(
        """lgm 1
index obs
index dim
data x[obs, dim] : real
data y[obs] : count
hyper s : positive ~ half_normal(sd = 1)
hyper ell : positive ~ gamma(shape = 4, rate = 10)
latent b0 ~ normal(mean = 0.5, sd = 1)
latent f[obs] ~ gp(at = x, kernel = se(sd = s, length = ell))
let eta[obs] = b0 + f
observe y ~ poisson(log_rate = eta)
""",
        {"obs": 15, "dim": 1},
        LINE,
    ),
    "student_t": Case(
        """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper noise : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 2)
let eta[obs] = a + b * x
observe y ~ student_t(mean = eta, scale = noise, df = 3)
""",
        {"obs": 20},
    ),
}
