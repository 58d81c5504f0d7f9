"""The installed package: known to the language, and right."""

import numpy as np
from lgm_rayleigh import Rayleigh

import lgmdsl as lgm
from lgmdsl.testing.site_checks import check_site

MODEL = """lgm 1
index gust
index station
data speed[gust] : positive
data where[gust] : station
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b0         ~ normal(sd = 3)
latent u[station] ~ normal(sd = s)
let eta[gust] = b0 + u[where]
observe speed ~ rayleigh(log_scale = eta)
"""


def test_it_keeps_its_promises() -> None:
    check_site(Rayleigh(np.array([0.4, 1.0, 1.6])))


def test_it_fits() -> None:
    rng = np.random.default_rng(0)
    where = np.repeat(np.arange(8), 20)
    truth = rng.normal(0.0, 0.4, 8)
    speed = rng.rayleigh(np.exp(1.0 + truth[where]))
    fit = lgm.fit(lgm.loads(MODEL), {"speed": speed, "where": where})
    assert fit.converged
    away = (fit.mean("u") + fit.mean("b0") - 1.0 - truth) / fit.sd("u")
    assert float(np.abs(away).max()) < 3.0
