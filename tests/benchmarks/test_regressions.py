"""Regressions without random effects next to MASS, survival and mgcv: maximum likelihood on data
that ship with them.

    OMP_NUM_THREADS=1 python -m pytest tests/benchmarks/test_regressions.py --benchmark-only -s
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from tests.benchmarks.r_peers import run_r

ETA = "let eta[obs] = b0 + b1 * x1 + b2 * x2 + b3 * x3"
TWO = "let eta[obs] = b0 + b1 * x1 + b2 * x2"
ORDERED = "let eta[obs] = b1 * x1 + b2 * x2 + b3 * x3"
ALL, DISPERSED = "b0 b1 b2 b3", "hyper d : positive ~ flat\n"


def lines(y: str, names: str, predictor: str, observation: str, more: str = "") -> str:
    """A model of hypers alone."""
    data = "".join(
        f"data {k}[obs] : {kind}\n"
        for k, kind in (("x1", "real"), ("x2", "real"), ("x3", "real"), ("w", "nonnegative"),
                        ("event", "binary"))
        if k in f"{predictor} {observation}".replace(",", " ").replace(")", " ").split()
    )  # fmt: skip
    hypers = "".join(f"hyper {b} : real ~ flat\n" for b in names.split() if b[0] in "bc")
    start = f"lgm 1\nindex obs\n{more}{data}data y[obs] : {y}\n{hypers}"
    return f"{start}{predictor}\nobserve y ~ {observation}\n"


def ordered(link: str) -> str:
    classes = (
        'index class = {"0", "1", "2"}\nindex cut = head(class)\nhyper t[cut] : ordered ~ flat\n'
    )
    observation = f"ordinal({link} = eta, cuts = t, weight = w)"
    return lines("class", "b1 b2 b3", ORDERED, observation, classes)


# The name there: the model here, and the estimates in the order of that side.
CASES: dict[str, tuple[str, str]] = {
    "polr logit": (ordered("logit"), "b1 b2 b3 t[0] t[1]"),
    "polr probit": (ordered("probit"), "b1 b2 b3 t[0] t[1]"),
    "ocat": (ordered("logit"), "b1 b2 b3"),
    "survreg exponential": (
        lines("positive", ALL, "let eta[obs] = -(b0 + b1 * x1 + b2 * x2 + b3 * x3)",
              "exponential(log_rate = eta, event = event)"), ALL,
    ),
    "survreg weibull": (
        lines("positive", ALL, ETA, "weibull(log_scale = eta, shape = d, event = event)",
              DISPERSED), ALL,
    ),
    "survreg lognormal": (
        lines("positive", ALL, ETA, "lognormal(mean = eta, sd = d, event = event)", DISPERSED), ALL,
    ),
    "survreg loglogistic": (
        lines("positive", ALL, ETA, "loglogistic(log_scale = eta, shape = d, event = event)",
              DISPERSED), ALL,
    ),
    "poisson": (lines("count", ALL, ETA, "poisson(log_rate = eta)"), ALL),
    "glm.nb": (
        lines("count", ALL, ETA, "negbinomial(log_mean = eta, size = d)", DISPERSED), f"{ALL} d"
    ),
    "nb": (lines("count", ALL, ETA, "negbinomial(log_mean = eta, size = d)", DISPERSED), ALL),
    "ziplss": (
        lines("count", f"{ALL} c0 c1", f"{ETA}\nlet pi[obs] = c0 + c1 * x1",
              "poisson(log_rate = eta, hurdle_logit = pi)"), ALL,
    ),
    "betar": (
        lines("unit", ALL, ETA, "beta(logit_mean = eta, concentration = d)", DISPERSED), ALL
    ),
    "scat": (
        lines("real", "b0 b1 b2", TWO, "student_t(mean = eta, scale = d, df = k)",
              f"{DISPERSED}hyper k : positive ~ flat\n"), "b0 b1 b2",
    ),
    "gaulss": (
        lines("real", "b0 b1 b2 c0 c1", f"{TWO}\nlet zeta[obs] = c0 + c1 * x1",
              "normal(mean = eta, log_sd = zeta)"), "b0 b1 b2 c0 c1",
    ),
    "gammals": (
        lines("positive", "b0 b1 c0 c1",
              "let eta[obs] = b0 + b1 * x1\nlet zeta[obs] = c0 + c1 * x2",
              "gamma(log_mean = eta, log_shape = zeta)"), "b0 b1",
    ),
    "gevlss": (
        lines("real", "b0 b1 b2", TWO, "gev(location = eta, scale = d, shape = r)",
              f"{DISPERSED}hyper r : real ~ flat\n"), "b0 b1 b2 d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_maximum_likelihood_without_random_effects(
    name: str, benchmark: Any, tmp_path: Path
) -> None:
    (peer,) = run_r(tmp_path, "regressions.R", name)
    table = np.genfromtxt(tmp_path / "d.csv", delimiter=",", names=True)
    text, names = CASES[name]
    data = {k: np.array(table[k]) for k in table.dtype.names if f"data {k}[obs]" in text}
    if "index class" in text:
        data["y"] = data["y"].astype(int)
    start = time.process_time()
    fit = lgm.fit(lgm.loads(text), data, method="laplace", hyper="map")
    seconds = time.process_time() - start
    ours = []
    for k in names.split():
        base, _, entry = k.partition("[")
        ours.append(float(np.asarray(fit.mean(base)).ravel()[int(entry[0]) if entry else 0]))
    away = np.abs((np.array(ours) - peer["b"]) / np.array(peer["se"])).max()
    gap = fit.log_evidence - peer["loglik"]
    print(
        f"| {name} | {fit.status} | {fit.log_evidence:.6f} | {gap:+.0e} | {away:.0e} | "
        f"{seconds:.2f} | {peer['cpu']:.2f} | {peer['peer']}"
    )
    assert gap > -1e-4
    assert away < 1e-3 or gap > 1e-9
    benchmark.pedantic(lambda: None, rounds=1)
