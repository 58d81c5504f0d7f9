"""Messages of fitting, kept: golden/NAME.txt. `pytest --update-golden` writes them anew.

Errors of the language have their own folder (tests/language/golden), as have those of data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

GOLDEN = Path(__file__).parent / "golden"
HEAD = "lgm 1\nindex obs\nindex g\ndata x[obs] : real\ndata y[obs] : {type}\ndata who[obs] : g\n"


def model(body: str, type_: str = "real") -> str:
    return HEAD.format(type=type_) + body


ONE = "latent b ~ normal(sd = 1)\nlet eta[obs] = x * b\n"
X = np.linspace(-1.0, 1.0, 6)
DATA: dict[str, Any] = {"x": X, "y": np.arange(6.0), "who": ["a", "b"] * 3}
SEPARATED = {**DATA, "y": (X > 0).astype(int)}

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "e402_separated": (
        model("latent b ~ flat\nlet eta[obs] = x * b\nobserve y ~ bernoulli(logit = eta)\n",
              "binary"), SEPARATED, {},
    ),
    "e402_undetermined": (
        model("latent b0 ~ flat\nlatent u[g] ~ flat\nlet eta[obs] = b0 + u[who] + 0 * x\n"
              "observe y ~ poisson(log_rate = eta)\n", "count"), DATA, {},
    ),
    "e501_family": (
        model(ONE + "observe y ~ weibull(log_scale = eta, shape = 2)\n", "positive"),
        {**DATA, "y": np.arange(1.0, 7.0)}, {},
    ),
    "e501_operator": (
        model("latent f[obs] ~ normal(sd = 1)\nlet eta[obs] = cumsum(f, obs) + 0 * x\n"
              "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {},
    ),
    "e501_censoring": (
        model("data hit[obs] : binary\n" + ONE +
              "observe y ~ gamma(log_mean = eta, shape = 2, event = hit)\n", "positive"),
        {**DATA, "y": np.arange(1.0, 7.0), "hit": np.ones(6)}, {},
    ),
    "e501_hyper": (model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {"hyper": "map"}),
    "e103_hyper": (model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {"hyper": "mop"}),
    "e103_method": (
        model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {"method": "laplas"},
    ),
    "e103_fixed": (
        model("hyper s : positive = 1\n" + ONE.replace("sd = 1", "sd = s") +
              "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {"fixed": {"S": 1.0}},
    ),
    "e104_option": (
        model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA,
        {"options": {"damping": 0.5}},
    ),
    "e502_kink": (
        model(ONE + "observe y ~ normal(mean = eta, sd = 1)\npotential b ~ laplace(scale = 1)\n"),
        DATA, {"method": "laplace"},
    ),
    "e503_no_value": (
        model("hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)\nhyper t[g] : positive ~ "
              "exponential(rate = 1)\nlatent u[g] ~ normal(sd = s)\nlatent v[g] ~ normal(sd = t)\n"
              "let eta[obs] = u[who] + v[who] + 0 * x\nobserve y ~ normal(mean = eta, sd = 1)\n"),
        DATA, {},
    ),
    "e504_bound": (
        model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {"bound": "jaakkola"},
    ),
    "e504_method": (
        model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA,
        {"bound": "quadrature", "method": "laplace"},
    ),
    "e103_bound": (
        model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n"), DATA,
        {"bound": "piecewise-linear-50"},
    ),
    "e303_trials": (
        model("data n[obs] : count\n" + ONE + "observe y ~ binomial(n = n, logit = eta)\n",
              "count"), {**DATA, "n": np.full(6, 3)}, {},
    ),
    "e303_fixed": (
        model("hyper s : positive = 1\n" + ONE.replace("sd = 1", "sd = s") +
              "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {"fixed": {"s": -2.0}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_message(name: str, request: pytest.FixtureRequest) -> None:
    text, data, options = CASES[name]
    with pytest.raises(lgm.LgmError) as caught:
        lgm.fit(lgm.loads(text, "m.lgm"), data, **options)
    check(name, str(caught.value), request)
    assert caught.value.codes[0].lower() == name.partition("_")[0]


def test_warning_of_an_early_stop(request: pytest.FixtureRequest) -> None:
    text = model(ONE + "observe y ~ poisson(log_rate = eta)\n", "count")
    fit = lgm.fit(lgm.loads(text, "m.lgm"), {**DATA, "y": np.arange(6) * 1000}, max_steps=1)
    shown = "\n".join(w.render() for w in fit.warnings if w.code == "W601")
    digits = shown.partition("last change")[0] + shown.partition("sd\n")[2]
    check("w601_limit", digits, request)


def test_warning_of_a_local_optimum(request: pytest.FixtureRequest) -> None:
    text = model(ONE + "observe y ~ student_t(mean = eta, scale = 1, df = 4)\n")
    fit = lgm.fit(lgm.loads(text, "m.lgm"), DATA)
    assert fit.converged
    check("w602_local", "\n".join(w.render() for w in fit.warnings if w.code == "W602"), request)


def check(name: str, found: str, request: pytest.FixtureRequest) -> None:
    kept = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden", default=False):
        GOLDEN.mkdir(exist_ok=True)
        kept.write_text(found + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == found + "\n"


@pytest.mark.parametrize(
    "wrong", [{"tol": "x"}, {"tol": -1.0}, {"tol": np.nan}, {"max_steps": -1}, {"seed": -1}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    text = model(ONE + "observe y ~ normal(mean = eta, sd = 1)\n")
    with pytest.raises(lgm.MethodError, match=r"`(tol|seed|max_steps)` must be") as caught:
        lgm.fit(lgm.loads(text), DATA, **wrong)
    assert caught.value.codes == ("E108",)


def test_warning_of_an_undefined_report(request: pytest.FixtureRequest) -> None:
    text = model(ONE + "observe y ~ normal(mean = eta, sd = 1)\nreport r = log(b)\n")
    fit = lgm.fit(lgm.loads(text, "m.lgm"), {**DATA, "y": X})
    check("w603_undefined", "\n".join(w.render() for w in fit.warnings), request)
