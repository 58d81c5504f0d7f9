"""Messages of fitting, kept: golden/NAME.txt. `pytest --update-golden` writes them anew.

Errors of the language have their own folder (tests/language/golden), as have those of data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.structures import catalogue as structures

GOLDEN = Path(__file__).parent / "golden"
HEAD = "lgm 1\nindex obs\nindex g\ndata x[obs] : real\ndata y[obs] : {type}\ndata who[obs] : g\n"


def model(body: str, type_: str = "real") -> str:
    return HEAD.format(type=type_) + body


ONE = "latent b ~ normal(sd = 1)\nlet eta[obs] = x * b\n"
X = np.linspace(-1.0, 1.0, 6)
DATA: dict[str, Any] = {"x": X, "y": np.arange(6.0), "who": ["a", "b"] * 3, "g": ["a", "b"]}
SEPARATED = {**DATA, "y": (X > 0).astype(int)}

STARTED = model(
    "hyper s : positive ~ half_normal(sd = 1)\nhyper r : positive ~ uniform(lower = 0, upper = 3)\n"
    "hyper double : positive = 2 * s\nlatent b ~ normal(sd = r)\nlet eta[obs] = x * b\n"
    "observe y ~ normal(mean = eta, sd = double)\n"
)

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "e402_separated": (
        model("latent b ~ flat\nlet eta[obs] = x * b\nobserve y ~ bernoulli(logit = eta)\n",
              "binary"), SEPARATED, {},
    ),
    "e402_undetermined": (
        model("latent b0 ~ flat\nlatent u[g] ~ flat\nlet eta[obs] = b0 + u[who] + 0 * x\n"
              "observe y ~ poisson(log_rate = eta)\n", "count"), DATA, {},
    ),
    "e402_level": (
        model("latent b0 ~ flat\nlatent u[g] ~ rw1(sd = 1, sum_to_zero = false)\n"
              "let eta[obs] = b0 + u[who] + 0 * x\nobserve y ~ poisson(log_rate = eta)\n", "count"),
        DATA, {},
    ),
    "e403_prior": (
        model("latent u[g] ~ rw1(sd = 1)\nlet eta[obs] = u[who] + 0 * x\n"
              "observe y ~ poisson(log_rate = eta)\nconstrain sum(u, g) = 1\n", "count"), DATA, {},
    ),
    "e403_one_another": (
        model("latent u[g] ~ rw1(sd = 1, sum_to_zero = false)\nlet eta[obs] = u[who] + 0 * x\n"
              "observe y ~ poisson(log_rate = eta)\nconstrain sum(u, g) = 1\n"
              "constrain sum(2 * u, g) = 3\n", "count"), DATA, {},
    ),
    "e501_argument": (
        model("index cut = head(g)\nhyper c[cut] : ordered ~ normal(sd = 3)\n"
              "hyper t[g] : ordered ~ normal(sd = 3)\n" + ONE +
              "observe y ~ ordinal(logit = eta, cuts = c, scores = t)\n", "g"),
        {**DATA, "y": ["a", "b"] * 3}, {},
    ),
    "e501_operator": (
        model("index k = 2\nindex j = 2\nhyper h[j, k] : positive = 1\n"
              "latent f[obs, k] ~ normal(sd = 1)\n"
              "let q[obs, k] = conv2(f, h, boundary = \"zero\")\nlet eta[obs] = sum(q, k) + 0 * x\n"
              "observe y ~ normal(mean = eta, sd = 1)\n"), DATA, {},
    ),
    "e104_event_and_lower": (
        model("data hit[obs] : binary\n" + ONE +
              "observe y ~ normal(mean = eta, sd = 2, event = hit, lower = x)\n"),
        {**DATA, "hit": np.ones(6)}, {},
    ),
    "e303_interval": (
        model("data hi[obs] : real?\n" + ONE + "observe y ~ normal(mean = eta, sd = 2, "
              "lower = 1, upper = hi)\n"),
        {**DATA, "y": np.arange(1.0, 7.0), "hi": np.array([2, 2.5, np.nan, 3, 9, np.nan])}, {},
    ),
    "e303_interval_upside_down": (
        model("data hi[obs] : real?\n" + ONE + "observe y ~ normal(mean = eta, sd = 2, "
              "lower = 3, upper = hi)\n"),
        {**DATA, "y": np.arange(1.0, 7.0), "hi": np.array([4, 2.5, np.nan, 5, 9, np.nan])}, {},
    ),
    "e304_interval_without_y": (
        model("data hi[obs] : real?\n" + ONE
              + "observe y ~ normal(mean = eta, sd = 2, upper = hi)\n"),
        {"x": X, "who": ["a", "b"] * 3, "hi": np.array([9.0, np.nan, 9, 9, 9, 9])}, {},
    ),
    "e501_hyper": (
        model("hyper r : correlation ~ uniform(lower = -1, upper = 1)\n" + ONE +
              "latent f[obs] ~ ar1(sd = 1, rho = r)\nobserve y ~ normal(mean = eta + f, sd = 1)\n"),
        DATA, {"hyper": "vb"},
    ),
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
        DATA, {"hyper": "fixed"},
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
    "e103_start": (STARTED, DATA, {"start": {"sigma": 1.0}}),
    "e104_start": (STARTED, DATA, {"start": {"s": 1.0}, "fixed": {"s": 2.0}}),
    "e104_start_value": (STARTED, DATA, {"start": {"double": 1.0}}),
    "e104_start_fixed": (STARTED, DATA, {"start": {"s": 1.0}, "hyper": "fixed"}),
    "e104_learning_steps": (STARTED, DATA, {"options": {"learning_steps": 0}}),
    "e301_start": (STARTED, DATA, {"start": {"s": [1.0, 2.0]}}),
    "e303_start": (STARTED, DATA, {"start": {"s": -1.0}}),
    "e303_start_prior": (STARTED, DATA, {"start": {"r": 4.0}}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_message(name: str, request: pytest.FixtureRequest) -> None:
    text, data, options = CASES[name]
    with pytest.raises(lgm.LgmError) as caught:
        lgm.fit(lgm.loads(text, "m.lgm"), data, **options)
    check(name, str(caught.value), request)
    assert caught.value.codes[0].lower() == name.partition("_")[0]


def test_a_structure_without_a_builder(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for name in ("rw2", "ar1"):
        monkeypatch.delitem(structures.STRUCTURES, name)
    text = model(
        "latent u[g] ~ rw2(sd = 1)\nlatent v[g] ~ ar1(sd = 1, rho = 0.5)\n"
        "let eta[obs] = u[who] + v[who] + 0 * x\nobserve y ~ normal(mean = eta, sd = 1)\n"
    )
    with pytest.raises(lgm.MethodError) as caught:
        lgm.fit(lgm.loads(text, "m.lgm"), DATA)
    check("e501_structure", str(caught.value), request)


STRUCTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "e104_circle": ("rw1(sd = 1, cyclic = true, at = t)", {"t": np.arange(5.0)}),
    "e205_two_points": ("rw2(sd = 1)", {}),
    "e205_period": ("seasonal(sd = 1, period = 12)", {}),
    "e303_period": ("seasonal(sd = 1, period = 1)", {}),
    "e303_positions": ("rw2(sd = 1, at = t * r)", {"t": np.array([1.0, 2.0, 1.0, 4.0, 2.0])}),
    "e303_rho": ("ar1(sd = 1, rho = 2 * r)", {}),
    "e303_pacf": ("ar(sd = 1, pacf = 2 * rs)", {}),
    "e303_rate": ("ou(sd = 1, rate = r - 1, at = t)", {"t": np.arange(5.0)}),
    "e303_alpha": ("car(sd = 1, graph = adj, alpha = 1)", {}),
    "e303_asymmetric": ("gmrf(precision = Q)", {"Q": np.eye(5) + np.eye(5, k=1)}),
    "e303_indefinite": ("gmrf(precision = Q)", {"Q": np.diag([1.0, 2.0, -0.5, 1.0, 1.0])}),
    "e303_mass": (
        "spde(mass = Q, stiffness = Q, sd = 1, range = 2)", {"Q": np.diag([1.0, 1, 0, 1, 0])},
    ),
    "e401_no_edges": ("besag(graph = adj, sd = 1)", {"adj": np.zeros((5, 5))}),
}  # fmt: skip
LINE = np.eye(5, k=1) + np.eye(5, k=-1)


def over_places(prior: str, given: dict[str, Any], size: int = 5) -> tuple[str, dict[str, Any]]:
    """A model with one structure over `place`, its labels k0, k1 ..."""
    extra = "".join(
        f"data {name}[{over}] : {type_}\n"
        for name, over, type_ in (
            ("t", "place", "real"), ("Q", "place, place", "real"), ("adj", "place, place", "graph")
        )
        if f"= {name}" in prior
    )  # fmt: skip
    hyper = "hyper r : correlation = 0.6\n" if any(e in prior for e in ("* r)", "= r ")) else ""
    hyper += "index lag = 2\nhyper rs[lag] : correlation = 0.6\n" if "rs)" in prior else ""
    text = (
        f"lgm 1\nindex place\ndata y[place] : real\n{extra}{hyper}"
        f"latent u[place] ~ {prior}\nobserve y ~ normal(mean = u, sd = 1)\n"
    )
    labels = [f"k{k}" for k in range(size)]
    return text, {"place": labels, "y": np.arange(float(size)), "adj": LINE, **given}


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_a_structure_refuses(name: str, request: pytest.FixtureRequest) -> None:
    prior, given = STRUCTURES[name]
    text, data = over_places(prior, given, 2 if name == "e205_two_points" else 5)
    with pytest.raises(lgm.LgmError) as caught:
        lgm.fit(lgm.loads(text, "m.lgm"), data)
    check(name, str(caught.value), request)
    code = caught.value.codes[0]
    assert code.lower() == name.partition("_")[0]
    assert isinstance(caught.value, lgm.DataError if code.startswith("E3") else lgm.ModelError)


BESAG, BYM2 = "besag(graph = adj, sd = 1)", "bym2(graph = adj, sd = 1, mix = 0.5)"
ISLANDS = {
    "w401_components": (BESAG, [(0, 1), (1, 2), (3, 4)]),
    "w401_alone": (BESAG, [(0, 1), (1, 2)]),
    "w401_both": (BYM2, [(0, 1), (2, 3)]),
}


@pytest.mark.parametrize("name", ISLANDS)
def test_warning_of_islands(name: str, request: pytest.FixtureRequest) -> None:
    prior, edges = ISLANDS[name]
    adjacency = np.zeros((5, 5))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1
    text, data = over_places(prior, {"adj": adjacency})
    fit = lgm.fit(lgm.loads(text, "m.lgm"), data)
    check(name, "\n".join(w.render() for w in fit.warnings), request)
    assert [w.code for w in fit.warnings] == ["W401"]


def test_connected_graphs_and_car_are_not_warned_of() -> None:
    for prior, joined in (
        ("besag(graph = adj, sd = 1)", LINE),
        (
            "car(graph = adj, sd = 1, alpha = 0.5)",
            np.diag([1, 0, 0, 0], 1) + np.diag([1, 0, 0, 0], -1),
        ),
    ):
        text, data = over_places(prior, {"adj": joined})
        assert lgm.fit(lgm.loads(text), data).warnings == ()


def test_warning_of_an_early_stop(request: pytest.FixtureRequest) -> None:
    text = model(ONE + "observe y ~ poisson(log_rate = eta)\n", "count")
    fit = lgm.fit(lgm.loads(text, "m.lgm"), {**DATA, "y": np.arange(6) * 1000}, max_steps=1)
    shown = "\n".join(w.render() for w in fit.warnings if w.code == "W601")
    digits = shown.partition("last change")[0] + shown.partition("sd\n")[2]
    check("w601_limit", digits, request)


TWO_GROUPS = (
    "lgm 1\nindex obs\ndata y[obs] : real\nlatent m ~ normal(sd = 5)\nlet eta[obs] = m\n"
    "observe y ~ student_t(mean = eta, scale = 0.1, df = 2)\n"
)


def test_warning_of_a_local_optimum(request: pytest.FixtureRequest) -> None:
    data = {"y": [-3.0, -2.9, -2.8, 4.0, 4.1, 4.2]}
    fit = lgm.fit(lgm.loads(TWO_GROUPS, "m.lgm"), data, "natural-gradient")
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
