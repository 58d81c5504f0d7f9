"""`options={"engine": NAME}`: what it takes, what it refuses, where it is recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.engines.choose import Terms, names
from lgmdsl.errors import MethodError
from tests.memory.processes import told

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


SAME = """
import hashlib, json, sys
import numpy as np, lgmdsl as lgm
rng = np.random.default_rng(0)
n, text = 400, TEXT
given = {"y": rng.poisson(2, n), "who": rng.integers(0, 30, n)}
fit = lgm.fit(lgm.loads(text), given, seed=3)
values = np.concatenate([
    [fit.log_evidence], np.ravel(fit.mean("u")), np.ravel(fit.sd("u")),
    np.ravel(fit.mean("s")), np.ravel(fit.sample(4, seed=1)["u"]),
])
print(json.dumps([v.hex() for v in values]))
""".replace("TEXT", repr(TEXT))


def values(threads: str, hashes: str) -> list[float]:
    import json

    said = told(SAME, OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads, PYTHONHASHSEED=hashes)
    return [float.fromhex(v) for v in json.loads(said)]


def test_the_same_bits_in_every_process_and_last_digits_with_other_threads() -> None:
    one = values("1", "0")
    assert values("1", "77") == one
    two = np.array(values("2", "0"))
    scale = np.maximum(np.abs(one), 1e-3 * np.abs(one).max())
    assert (np.abs(two - one) / scale).max() < 1e-10
