"""Hyperparameter spaces of small models, with hypers in the priors of others."""

from __future__ import annotations

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.simulate.synthetic_covariates import complete
from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.hypers import HyperSpace, hyper_space
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.dataset import Dataset, read

HEAD = "lgm 1\nindex a\n"
REST = "latent u[a] ~ normal(sd = 1)\ndata y[a] : real\nobserve y ~ normal(mean = u, sd = 1)\n"

# every type, bounds and scales that are earlier hypers, and values in between
FULL = """
index item = {"x", "y", "z"}
index factor = 2
data width[item] : positive
hyper tau : positive ~ half_normal(sd = 1)
hyper v : positive ~ inv_gamma(shape = 2, scale = tau)
hyper s : positive = sqrt(v)
hyper t[factor] : positive ~ exponential(rate = 1 / s)
hyper L[item, factor] : real ~ normal(mean = s, sd = t * width)
hyper S[factor, factor] : covariance ~ lkj_cov(eta = 1 + tau, u = s, alpha = 0.1)
hyper T[factor, factor] : covariance ~ inv_wishart(df = 2 + s, scale = S)
hyper w[factor] : positive ~ uniform(lower = s, upper = 3 + s * t)
hyper m : unit ~ uniform(lower = -1, upper = 0.3 + 0.5 * m0)
hyper c[item] : ordered ~ normal(mean = tau, sd = width)
hyper p[factor, item] : simplex ~ dirichlet(alpha = 1 + t)
hyper df : positive ~ pc_df(u = 10 + s, alpha = 0.3)
hyper r : correlation ~ pc_cor1(u = 0.5, alpha = 0.7 + 0.2 * m)
hyper r0[factor] : correlation ~ pc_cor0(u = 0.5, alpha = 0.1)
hyper g : real ~ flat
""".replace("hyper m :", "hyper m0 : unit ~ beta(a = 2, b = tau)\nhyper m :")


def space(text: str, **data: object) -> HyperSpace:
    """The space of a model whose hyper statements these are."""
    checked = lgm.loads(HEAD + text + REST).checked
    given = read(data) if data else Dataset("no data", {})
    return hyper_space(
        Lowering(complete(checked, given, {"a": 3}, np.random.default_rng(0)).grounded)
    )


def full() -> HyperSpace:
    return space(FULL, width=np.array([0.6, 1.1, 1.7]))


def differences(f: object, x: Array, step: float = 1e-6) -> Array:
    """Central differences of a function of a vector, one row for each entry."""
    assert callable(f)
    rows = [(np.asarray(f(x + h)) - f(x - h)) / (2 * step) for h in step * np.eye(len(x))]
    return np.array(rows)
