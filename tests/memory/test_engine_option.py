"""`options={"engine": NAME}`: what it takes, what it refuses, where it is recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.engines.choose import Terms, names
from lgmdsl.errors import MethodError

TEXT = """lgm 1
index obs
index group
data y[obs] : count
data who[obs] : group
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
observe y ~ poisson(log_rate = b + u[who])
"""
GP = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
latent f[obs] ~ gp(at = x, kernel = se(sd = 1, length = 1))
observe y ~ normal(mean = f, sd = 1)
"""


def data() -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {"y": rng.poisson(2, 80), "who": np.repeat(np.arange(20), 4)}


def engine_fit(engine: str, method: str = "auto") -> lgm.Fit:
    model, fixed = lgm.loads(TEXT), {"s": 0.5}
    return lgm.fit(model, data(), method, fixed=fixed, options={"engine": engine})


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ["covariance", "precision", "sparse"])
def test_exact_engines_agree_and_are_recorded(engine: str, tmp_path: Path) -> None:
    fit, usual = engine_fit(engine), engine_fit("auto")
    assert fit.engine == engine and usual.engine == "precision"
    assert fit.log_evidence == pytest.approx(usual.log_evidence, rel=1e-9)
    np.testing.assert_allclose(fit.mean("u"), usual.mean("u"), atol=1e-6)
    fit.save(tmp_path / "m.nc")
    again = lgm.load_fit(tmp_path / "m.nc")
    assert again.engine == engine and again.memory_budget == fit.memory_budget
    np.testing.assert_array_equal(again.sample(5, seed=1)["u"], fit.sample(5, seed=1)["u"])


def test_an_estimating_engine_may_be_asked_for() -> None:
    fit = engine_fit("iterative", "laplace")
    assert fit.engine == "iterative"
    assert fit.log_evidence == pytest.approx(engine_fit("auto", "laplace").log_evidence, abs=1.0)


def test_one_that_cannot_take_the_model_says_why_and_which_can() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(MethodError) as caught:
        given = {"x": rng.normal(size=30), "y": rng.normal(size=30)}
        lgm.fit(lgm.loads(GP), given, options={"engine": "sparse"})
    (said,) = caught.value.diagnostics
    assert said.code == "E501" and "block `f` (gp) has no sparse precision" in said.message
    assert "engines that can: covariance" in said.help


def test_an_unknown_engine_is_a_wrong_word() -> None:
    with pytest.raises(MethodError, match="unknown engine `spars`") as caught:
        engine_fit("spars")
    assert caught.value.codes == ("E103",) and "`sparse`" in caught.value.diagnostics[0].help


def test_the_budget_and_not_what_is_free_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(names()) >= {"covariance", "precision", "batched", "wide", "sparse", "iterative"}
    monkeypatch.setenv("LGM_MEMORY", "3GB")
    assert Terms.of().budget == 3e9 and engine_fit("auto").memory_budget == 3_000_000_000


def test_the_engine_that_conditioned_is_the_one_recorded(tmp_path: Path) -> None:
    """Where a wide prior would cost digits, a stronger engine takes the place of the chosen one."""
    text = """lgm 1
index obs
data y[obs] : real
latent b ~ normal(sd = 1e9)
latent u[obs] ~ normal(sd = 1)
observe y ~ normal(mean = b + u, sd = 1)
"""
    fit = lgm.fit(lgm.loads(text), {"y": 250.0 + np.arange(5.0)})
    assert fit.engine == "precision"
    fit.save(tmp_path / "wide.nc")
    draws, again = (f.sample(50, seed=1) for f in (fit, lgm.load_fit(tmp_path / "wide.nc")))
    assert draws["b"].values.tobytes() == again["b"].values.tobytes()
