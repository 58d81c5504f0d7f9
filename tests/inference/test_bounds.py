"""Fits through bounds: what the evidence promises, which sites are served, and the order of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import lgmdsl as lgm
from lgmdsl.api.explain.methods import MethodTable, ModelMethods, methods
from lgmdsl.bounds.catalogue import bound
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import LgmError
from lgmdsl.inference.routes import Route, combined, error_notes
from lgmdsl.sites.catalogue import site

APPROXIMATE, LOWER, NUMERICAL, EXACT = (
    Guarantee.APPROXIMATE,
    Guarantee.LOWER,
    Guarantee.NUMERICAL,
    Guarantee.EXACT,
)
LOGISTIC = """lgm 1
index obs
data y[obs] : binary
data x[obs] : real
latent a ~ normal(sd = 3)
let eta[obs] = a * x
observe y ~ bernoulli(logit = eta)
"""
DATA: dict[str, Any] = {"y": [1, 1, 0, 1, 1, 1], "x": [0.5, 1.0, -1.5, 2.0, 0.1, 3.0]}
NAMES = ["jaakkola", "bohning", "piecewise-linear-6", "piecewise-quadratic-20", "quadrature"]


@pytest.mark.parametrize(
    ("claim", "routes", "wanted"),
    [
        (EXACT, [EXACT, EXACT], EXACT),
        (EXACT, [], EXACT),
        (EXACT, [EXACT, NUMERICAL], NUMERICAL),
        (EXACT, [LOWER], LOWER),
        (EXACT, [APPROXIMATE, LOWER], APPROXIMATE),
        (LOWER, [EXACT], LOWER),
        (LOWER, [NUMERICAL, EXACT], LOWER),
        (LOWER, [LOWER, NUMERICAL], LOWER),
        (LOWER, [APPROXIMATE], APPROXIMATE),
        (NUMERICAL, [LOWER], LOWER),
        (APPROXIMATE, [EXACT], APPROXIMATE),
        (APPROXIMATE, [LOWER], APPROXIMATE),
    ],
)
def test_what_an_evidence_promises(
    claim: Guarantee, routes: list[Guarantee], wanted: Guarantee
) -> None:
    cls = site("bernoulli.logit")
    assert combined(claim, [Route(cls, None, g) for g in routes]) is wanted


def test_errors_are_told() -> None:
    cls = site("bernoulli.logit")
    through = [bound(n, Expected) for n in ("quadrature", "jaakkola", "piecewise-linear-3")]
    told = error_notes([Route(cls, b, b.spec.guarantee) for b in [*through, through[0]]])
    assert len(told) == 3
    assert "1e-09" in told[0] and told[1].endswith("lower bound") and "0.2231" in told[2]
    assert error_notes([Route(cls, None, EXACT)]) == ()


@pytest.mark.parametrize("name", NAMES)
def test_bound_below_quadrature_below_the_truth(name: str) -> None:
    y, x = np.array(DATA["y"]), np.array(DATA["x"])

    def joint(a: float) -> float:
        return float(stats.norm.pdf(a, 0, 3) * np.prod(special.expit((2 * y - 1) * a * x)))

    truth = np.log(integrate.quad(joint, -40, 40, epsabs=1e-14, points=[0, 5])[0])
    model = lgm.loads(LOGISTIC)
    best = lgm.fit(model, DATA, "natural-gradient")
    fit = lgm.fit(model, DATA, "natural-gradient", bound=name)
    assert best.converged and fit.converged
    assert fit.guarantee is best.guarantee is LOWER
    assert fit.log_evidence <= best.log_evidence + 1e-8 <= truth + 1e-8
    gap = bound(name, Expected).spec.error if name != "quadrature" else 1e-7
    assert best.log_evidence - fit.log_evidence <= len(y) * gap + 1e-8
    assert name in fit.provenance["routes"]


def test_laplace_is_approximate_and_gaussian_models_exact() -> None:
    assert lgm.fit(lgm.loads(LOGISTIC), DATA, "laplace").guarantee is APPROXIMATE
    gaussian = LOGISTIC.replace("binary", "real").replace(
        "bernoulli(logit = eta)", "normal(mean = eta, sd = 1)"
    )
    for method in ("laplace", "natural-gradient"):
        fit = lgm.fit(lgm.loads(gaussian), DATA, method)
        assert fit.guarantee is EXACT
        assert fit.provenance["routes"] == "all sites answer by themselves"


def test_the_guarantee_survives_a_file(tmp_path: Path) -> None:
    fit = lgm.fit(lgm.loads(LOGISTIC), DATA, "natural-gradient", bound="jaakkola")
    fit.save(tmp_path / "a.nc")
    again = lgm.load_fit(tmp_path / "a.nc")
    assert again.guarantee is LOWER and "jaakkola" in again.provenance["routes"]


def test_a_bound_serves_the_sites_it_applies_to() -> None:
    """Counts beside classes: the counts keep their own route."""
    text = LOGISTIC + "data k[obs] : count\nobserve k ~ poisson(log_rate = eta)\n"
    data = {**DATA, "k": [1, 2, 0, 5, 1, 9]}
    fit = lgm.fit(lgm.loads(text), data, "natural-gradient", bound="jaakkola")
    assert fit.converged and fit.guarantee is LOWER
    assert fit.provenance["routes"] == "bernoulli.logit through jaakkola, lower bound"
    free = lgm.fit(lgm.loads(text), data, "natural-gradient")
    assert fit.log_evidence < free.log_evidence


@pytest.mark.parametrize(
    ("code", "method", "name", "text"),
    [
        ("E103", "auto", "jakkola", LOGISTIC),
        ("E103", "natural-gradient", "piecewise-linear-2", LOGISTIC),
        ("E504", "laplace", "jaakkola", LOGISTIC),
        ("E504", "natural-gradient", "jaakkola", LOGISTIC.replace("logit", "probit")),
    ],
)
def test_refusals(code: str, method: str, name: str, text: str) -> None:
    with pytest.raises(LgmError) as raised:
        lgm.fit(lgm.loads(text), DATA, method, bound=name)
    assert raised.value.codes == (code,)


def test_methods_name_the_bounds() -> None:
    found, table = methods(lgm.loads(LOGISTIC)), methods()
    assert isinstance(found, ModelMethods) and isinstance(table, MethodTable)
    assert found["natural-gradient"].bounds == (
        "quadrature",
        "jaakkola",
        "bohning",
        "piecewise-linear-R",
        "piecewise-quadratic-R",
    )
    assert "--bound: quadrature, jaakkola" in " ".join(str(found).split())
    told = json.loads(json.dumps(table.as_json()))["bounds"]
    jaakkola = next(b for b in told if b["bound"] == "jaakkola")
    assert jaakkola["guarantee"] == "lower" and jaakkola["error"] is None
    assert "piecewise-quadratic-R (R from 3 to 40)" in str(table)
