"""Leave-one-out on real data at pinned hyperparameters, against fits without the responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm

SEEDS = """lgm 1
index plate
data r[plate] : count
data n[plate] : count
data x1[plate] : real
data x2[plate] : real
latent a0 ~ normal(sd = 30)
latent a1 ~ normal(sd = 30)
latent a2 ~ normal(sd = 30)
latent a12 ~ normal(sd = 30)
latent b[plate] ~ normal(sd = 0.3)
let eta[plate] = a0 + a1 * x1 + a2 * x2 + a12 * x1 * x2 + b
observe r ~ binomial(n = n, logit = eta)
"""
TOKYO = """lgm 1
index day
data y[day] : count
data n[day] : count
latent b0 ~ normal(sd = 10)
latent f[day] ~ rw2(sd = 0.5, cyclic = true)
let eta[day] = b0 + f
observe y ~ binomial(n = n, logit = eta)
"""
EPIL = """lgm 1
index i
index subj
data y[i] : count
data Trt[i] : real
data Base[i] : real
data V4[i] : real
data Ind[i] : subj
latent b0 ~ normal(sd = 30)
latent bb ~ normal(sd = 30)
latent bt ~ normal(sd = 30)
latent bv ~ normal(sd = 30)
latent e[i] ~ normal(sd = 0.36)
latent u[subj] ~ normal(sd = 0.5)
let eta[i] = b0 + bb * log(Base / 4) + bt * Trt + bv * V4 + e + u[Ind]
observe y ~ poisson(log_rate = eta)
"""


def data(shared: Path, name: str, text: str) -> dict[str, Any]:
    given = np.load(shared / "data" / f"{name}.npz")
    return {k: given[k] for k in given.files if f"data {k}[" in text}


def test_seeds(shared: Path) -> None:
    fit = lgm.fit(lgm.loads(SEEDS), data(shared, "seeds", SEEDS), method="natural-gradient")
    found, again = fit.loo(), fit.loo(exact="all")
    np.testing.assert_allclose(found.log_density[0], again.log_density[0], atol=0.02)
    # A plate's own effect is all that tells its overdispersion: about half of 21 plates.
    assert 8 < fit.dic().p_d < 14 and found.flagged == 0


def test_tokyo(shared: Path) -> None:
    fit = lgm.fit(lgm.loads(TOKYO), data(shared, "tokyo", TOKYO), method="laplace")
    loo, waic, dic = fit.loo(), fit.waic(), fit.dic()
    assert abs(loo.elpd - waic.elpd) < 0.05 and abs(dic.dic - loo.looic) < 0.5
    pit = fit.pit().histogram(5)
    assert float(np.abs(pit - 1.0).max()) < 0.2


def test_epil_by_patient(shared: Path) -> None:
    given = data(shared, "epil", EPIL)
    given = {k: v[given["Ind"] <= 16] for k, v in given.items()}
    fit = lgm.fit(lgm.loads(EPIL), given, method="ep")
    found, again = fit.loo(groups="subj"), fit.loo(groups="Ind", exact="all")
    error = np.hypot(found.errors[0], again.errors[0])
    assert np.all(np.abs(found.log_density[0] - again.log_density[0]) < 0.02 + 5 * error)
    assert 0.0 < found.error < 0.02 and len(found.log_density[0]) == 16
    # What a patient's other counts tell of one is lost when all of them are left out.
    assert found.elpd < fit.loo().elpd - 1.0
