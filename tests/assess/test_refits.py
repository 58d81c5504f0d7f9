"""Fits without a group, on the engine of all rows, against fits of the data without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.assess import groups as leaving
from lgmdsl.assess import joint

TEXT = """lgm 1
index obs
index who
data y[obs] : count?
data x[obs] : real
data of[obs] : who
hyper s : positive ~ exponential(rate = 1)
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 2)
latent u[who] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + b * x + u[of])
"""
FIXED = {"s": 0.7}


def data() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    of, x = np.repeat(np.arange(5), 6), rng.normal(size=30)
    y = rng.poisson(np.exp(0.4 + 0.5 * x + 0.7 * rng.normal(size=5)[of]))
    return {"y": y, "x": x, "of": of}


@pytest.mark.few(3)
@pytest.mark.parametrize("engine", ["precision", "covariance", "sparse", "nested"])
@pytest.mark.parametrize("method", ["laplace", "ep", "natural-gradient"])
def test_a_refit_is_the_fit_of_the_other_rows(method: str, engine: str) -> None:
    """log p(y_G | y_-G) by the joint density under a fit to missing responses in the group."""
    whole, model = data(), lgm.loads(TEXT)
    options = {"engine": engine, "merge": "off", "correction": "off"}
    fit = lgm.fit(model, whole, method, fixed=FIXED, options=options)
    found = fit.loo(groups="who", exact="all")
    assert found.refitted[0].all()
    rest = {k: v[whole["of"] != 2] for k, v in whole.items()}
    rest["of"] = np.array([0, 1, 2, 3, 4])[rest["of"]]
    other = lgm.fit(model, {**whole, "y": np.where(whole["of"] == 2, np.nan, whole["y"])}, method,
                    fixed=FIXED, options=options, tol=1e-10)  # fmt: skip
    draws = other.sample(40_000, seed=1)
    a, b, u = (np.asarray(draws[n]) for n in ("a", "b", "u"))
    rows = whole["of"] == 2
    eta = a[:, None] + np.outer(b, whole["x"][rows]) + u[:, 2:3]
    level = (whole["y"][rows] * eta - np.exp(eta)).sum(axis=1)
    level -= sum(float(np.log(np.arange(1, k + 1)).sum()) for k in whole["y"][rows])
    top = level.max()
    weight = np.exp(level - top)
    error = weight.std() / weight.mean() / np.sqrt(len(weight))
    wanted = top + np.log(weight.mean())
    assert found.log_density[0][2] == pytest.approx(wanted, abs=5.0 * error + 5e-3)


def test_engines_agree_to_all_digits() -> None:
    model, found = lgm.loads(TEXT), []
    for engine in ("precision", "covariance", "sparse", "nested"):
        options = {"engine": engine, "correction": "off"}
        fit = lgm.fit(model, data(), "natural-gradient", fixed=FIXED, options=options)
        found.append(fit.loo(groups="who", exact="all").log_density[0])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-7)


def test_no_cavity_is_made_of_what_is_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lgm.fit(lgm.loads(TEXT), data(), "laplace", fixed=FIXED, options={"correction": "off"})
    made: list[bool] = []
    inner = leaving._left_out

    def counted(*given: Any) -> Any:
        made.append(given[-1] is not None)
        return inner(*given)

    monkeypatch.setattr(leaving, "_left_out", counted)
    fit.loo(groups="who", exact="all")
    assert made == [True] * 5


def test_predictors_in_parts_are_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lgm.fit(lgm.loads(TEXT), data(), "laplace", fixed=FIXED, options={"correction": "off"})
    found = fit.loo(groups="who").log_density[0]
    monkeypatch.setattr(joint, "AT_ONCE", 50)
    monkeypatch.setattr(joint, "KEPT", 0)
    np.testing.assert_allclose(fit.loo(groups="who").log_density[0], found, rtol=1e-13)
