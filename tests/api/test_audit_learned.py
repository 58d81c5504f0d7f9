"""Audits of fits that learned hyperparameters: what is trusted is the posterior given theirs."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper v : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
let eta[obs] = a + b * x
observe y ~ {family}
"""
NORMAL, STUDENT = "normal(mean = eta, sd = v)", "student_t(mean = eta, scale = v, df = 8)"
X = np.linspace(-1.0, 1.0, 30)
Y = 0.5 + X + 0.3 * np.sin(40.0 * X)


@pytest.mark.parametrize(
    ("hyper", "point"),
    [("map", "mode"), ("integrate", "mode"), ("vb", "expected precisions")],
)
def test_exact_is_said_of_a_point_alone(hyper: str, point: str) -> None:
    fit = lgm.fit(lgm.loads(MODEL.format(family=NORMAL)), {"x": X, "y": Y}, hyper=hyper)
    audit = fit.audit(n=300)
    said = f"trust, given the hyperparameters' {point}: the fit is exact"
    assert audit.verdict.startswith(said) and said in " ".join(str(audit).split())
    assert f"v = {float(fit.theta['v']):.4g}" in audit.proposal


def test_what_is_not_exact_says_the_point_too() -> None:
    model = lgm.loads(MODEL.format(family=STUDENT))
    fit = lgm.fit(model, {"x": X, "y": Y}, method="laplace", hyper="map")
    said = fit.audit(n=2000).verdict
    assert said.startswith("trust, given the hyperparameters' mode: no corrected mean is 0.25 sd")


def test_pinned_is_simply_exact() -> None:
    model = lgm.loads(MODEL.format(family=NORMAL))
    fit = lgm.fit(model, {"x": X, "y": Y}, hyper="vb", fixed={"v": 0.3})
    assert fit.audit(n=300).verdict.startswith("trust: the fit is exact")
