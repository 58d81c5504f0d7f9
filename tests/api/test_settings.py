"""Settings of fits that are wrong are told in words, and what a way cannot use is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import LgmError, nearest, suggestion

NORMAL = """lgm 1
index obs
data y[obs] : real
hyper v : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 3)
let eta[obs] = a
observe y ~ normal(mean = eta, sd = v)
"""
PROBIT = """lgm 1
index obs
data y[obs] : binary
hyper s : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = s)
let eta[obs] = a
observe y ~ bernoulli(probit = eta)
"""
Y = np.array([1.2, 0.1, 2.0, -0.4, 0.9])
B = {"y": (Y > 0.5).astype(float)}


def refused(**settings: Any) -> lgm.errors.Diagnostic:
    with pytest.raises(LgmError) as caught:
        lgm.fit(lgm.loads(NORMAL), {"y": Y}, **settings)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize("wrong", ["text", ["a"], {1: 2}, 3])
@pytest.mark.parametrize("setting", ["options", "fixed"])
def test_values_by_name_are_asked_for(setting: str, wrong: object) -> None:
    found = refused(**{setting: wrong})
    assert found.code == "E108" and setting in found.message and f"{setting}={{" in found.help


def test_none_is_the_default() -> None:
    model = lgm.loads(NORMAL)
    plain = lgm.fit(model, {"y": Y}, hyper="map")
    none = lgm.fit(model, {"y": Y}, hyper="map", options=None, fixed=None)
    assert none.log_evidence == plain.log_evidence
    compared = lgm.compare(model, {"y": Y}, ["laplace"], "map", options={"laplace": None})  # type: ignore[dict-item]
    assert compared.fits["laplace"].converged
    with pytest.raises(LgmError, match="values by name"):
        lgm.compare(model, {"y": Y}, options="laplace")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hyper", "option", "wanted"),
    [
        ("vb", "integration", "integrate"),
        ("map", "integration", "integrate"),
        ("vb", "acceleration", "em"),
        ("integrate", "batch", "em"),
        ("auto", "batch", "em"),
    ],
)
def test_options_of_another_way_are_refused(hyper: str, option: str, wanted: str) -> None:
    value = {"integration": "grid", "acceleration": "squarem", "batch": 2}[option]
    found = refused(hyper=hyper, options={option: value})
    assert (
        found.code == "E104" and f"`{option}` is an option of `hyper = {wanted}`" in found.message
    )
    assert ("which auto chose" in found.message) == (hyper == "auto")


def test_options_of_their_own_way_are_taken() -> None:
    model = lgm.loads(NORMAL)
    assert lgm.fit(model, {"y": Y}, options={"integration": "ccd"}).learning.design == "ccd"
    found = lgm.compare(model, {"y": Y}, ["laplace"], options={"laplace": {"integration": "ccd"}})
    assert found.fits["laplace"].learning.design == "ccd"


def test_case_is_no_reason_not_to_suggest() -> None:
    assert refused(hyper="VB").help == "did you mean `vb`?"
    assert refused(method="LAPLACE").help.startswith("did you mean `laplace`? methods: auto")
    assert nearest("Laplace", ["laplace", "Laplace"]) == "Laplace"
    assert suggestion("q", ["alpha"], "there are: alpha") == "there are: alpha"
    assert suggestion("q", ["alpha"], then="There are: alpha") == "There are: alpha"


def test_one_step_promises_no_number() -> None:
    fit = lgm.fit(lgm.loads(PROBIT), B, method="px-vb", hyper="vb", max_steps=1)
    (told,) = (w for w in fit.warnings if w.code == "W601")
    assert "inf" not in told.render() and "unknown number of nats" in told.details[0]
    assert "max_steps=2" in told.help
    assert "--max-steps 2" in told.on_command_line().help


@pytest.mark.parametrize("method", ["px-vb", "natural-gradient"])
@pytest.mark.parametrize("text", [NORMAL, PROBIT])
def test_the_trace_is_one_climb_of_the_bound(text: str, method: str) -> None:
    fit = lgm.fit(lgm.loads(text), {"y": Y} if text is NORMAL else B, method=method, hyper="vb")
    objective = np.array([e.objective for e in fit.trace])
    assert (np.diff(objective) > -1e-9).all() and np.ptp(objective) > 1e-4
    assert objective[-1] == pytest.approx(fit.log_evidence, abs=1e-12)
    assert (np.diff([e.seconds for e in fit.trace]) >= 0.0).all()
    assert (np.diff([e.step for e in fit.trace]) >= 0).all() and fit.trace[-1].step == fit.steps
    assert fit.trace[-1].seconds <= fit.seconds
    renewed = sum(e.stage == "factors" for e in fit.trace)
    assert renewed == len(fit.learning.steps) - 1
