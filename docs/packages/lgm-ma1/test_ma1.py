"""The installed package: known to the language, and right."""

import numpy as np
from lgm_ma1 import MovingAverage

import lgmdsl as lgm
from lgmdsl.testing.structure_checks import check_structure

MODEL = """lgm 1
index t
data y[t] : real
hyper s     : positive    ~ pc_sd(u = 3, alpha = 0.05)
hyper theta : correlation ~ pc_cor0(u = 0.9, alpha = 0.1)
latent f[t] ~ ma1(sd = s, theta = theta)
observe y ~ normal(mean = f, sd = 0.3)
"""


def test_it_keeps_its_promises() -> None:
    arguments = {"sd": np.array(1.3), "theta": np.array(0.6)}
    check_structure(lambda a: MovingAverage(7, a["sd"], a["theta"]), arguments)


def test_it_fits() -> None:
    e = np.random.default_rng(1).normal(size=301)
    f = (e[1:] + 0.7 * e[:-1]) / np.sqrt(1.49)
    y = f + np.random.default_rng(2).normal(0.0, 0.3, 300)
    fit = lgm.fit(lgm.loads(MODEL), {"y": y, "t": np.arange(300)})
    assert fit.converged
    low, high = fit.quantile("theta", [0.01, 0.99]).values
    assert low < 0.7 < high and abs(float(fit.mean("s")) - 1.0) < 0.2
