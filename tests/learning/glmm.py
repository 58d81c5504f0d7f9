"""A Poisson model of counts in groups, and others as small, for tests of learning."""

from __future__ import annotations

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray

GLMM = """lgm 1
index obs
index g
data y[obs] : count
data who[obs] : g
data x[obs] : real
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
latent b0 ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent u[g] ~ normal(sd = s)
let eta[obs] = b0 + b * x + u[who]
observe y ~ poisson(log_rate = eta)
report v = s^2
report rate[obs] = exp(eta)
"""

# Two precisions with gamma priors, one of which also scales a slope's prior.
CROSSED = """lgm 1
index obs
index row
index column
data y[obs] : binary
data r[obs] : row
data c[obs] : column
hyper v : positive ~ inv_gamma(shape = 2, scale = 1)
hyper w : positive ~ inv_gamma(shape = 2, scale = 1)
latent b0 ~ normal(sd = 2)
latent a[row] ~ normal(sd = sqrt(v))
latent d[column] ~ normal(sd = sqrt(w))
let eta[obs] = b0 + a[r] + d[c]
observe y ~ bernoulli(logit = eta)
report ratio = v / w
"""

# y | m ~ N(m, sd) with conjugate pieces: everything about s can be had by quadrature.
NORMAL = """lgm 1
index obs
data y[obs] : real
hyper s : positive ~ half_normal(sd = 2)
hyper t : positive ~ gamma(shape = 3, rate = 2)
hyper shift : real ~ normal(sd = 1)
latent m ~ normal(mean = shift, sd = s)
observe y ~ normal(mean = m, sd = t)
"""


def counts(groups: int = 25, each: int = 6, seed: int = 0) -> dict[str, AnyArray]:
    """Data of GLMM with s = 0.6."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(groups), each)
    x = rng.standard_normal(len(who))
    u = 0.6 * rng.standard_normal(groups)
    return {"y": rng.poisson(np.exp(0.5 + 0.3 * x + u[who])), "who": who, "x": x}


def crossed(seed: int = 1) -> dict[str, AnyArray]:
    """Data of CROSSED, 12 rows by 8 columns."""
    rng = np.random.default_rng(seed)
    r, c = (k.reshape(-1) for k in np.meshgrid(np.arange(12), np.arange(8)))
    eta = 0.3 + rng.standard_normal(12)[r] + 0.7 * rng.standard_normal(8)[c]
    return {"y": (rng.random(96) < 1 / (1 + np.exp(-eta))).astype(int), "r": r, "c": c}


def measured(seed: int = 2, size: int = 12) -> dict[str, AnyArray]:
    """Data of NORMAL."""
    return {"y": 0.8 + 1.2 * np.random.default_rng(seed).standard_normal(size)}


def load(text: str) -> lgm.Model:
    return lgm.loads(text)
