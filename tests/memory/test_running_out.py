"""Memory that runs out after the fit, where results are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs
data y[obs] : count
latent b ~ normal(sd = 1)
let eta[obs] = b
observe y ~ poisson(log_rate = eta)
"""
DATA = {"y": np.array([1, 0, 3])}
ASKED: dict[str, Callable[[lgm.Fit], Any]] = {
    "mean": lambda fit: fit.mean("b"),
    "sd": lambda fit: fit.sd("b"),
    "quantile": lambda fit: fit.quantile("b", [0.5]),
    "density": lambda fit: fit.density("b"),
    "sample": lambda fit: fit.sample(3),
    "predict": lambda fit: fit.predict(DATA).mean("eta"),
    "response": lambda fit: fit.predict(DATA).response("y"),
    "audit": lambda fit: fit.audit(),
    "summary": lambda fit: fit.summary(),
    "dic": lambda fit: fit.dic(),
    "waic": lambda fit: fit.waic(),
    "loo": lambda fit: fit.loo(),
    "sample_predictive": lambda fit: fit.sample_predictive(3),
}


@pytest.mark.parametrize("name", ASKED)
def test_results_say_that_memory_ran_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lgm.fit(lgm.loads(MODEL), DATA, method="laplace", options={"engine": "precision"})
    made = type(fit.posterior.conditioned)

    def none(*_: object, **__: object) -> Any:
        raise MemoryError("Unable to allocate 8.00 GiB")

    for kept in ("_marginals", "marginals", "conditional"):
        fit.__dict__.pop(kept, None)
    for part in ("sample", "draw", "project", "latent_mean", "latent_variance", "mean", "variance"):
        monkeypatch.setattr(made, part, property(none))
    with pytest.raises(lgm.MethodError, match="memory ran out while") as told:
        ASKED[name](fit)
    assert "E505" in str(told.value) and "8.00 GiB" in str(told.value)


def test_predictions_are_shown_in_a_line() -> None:
    fit = lgm.fit(lgm.loads(MODEL), DATA, method="laplace")
    assert len(repr(fit.predict(DATA))) < 100
