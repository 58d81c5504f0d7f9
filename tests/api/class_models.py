"""Models of classes, ordered or not, and data for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import lgmdsl as lgm

HEAD = """lgm 1
index obs
index class = {"low", "mid", "high", "top"}
index cut = head(class)
data x[obs] : real
data y[obs] : class?
"""
ORDINAL = (
    HEAD
    + """hyper c[cut] : ordered ~ normal(sd = 3)
latent b ~ normal(sd = 2)
let eta[obs] = b * x
observe y ~ ordinal(HERE)
"""
)
STICK = (
    HEAD
    + """latent a[cut] ~ normal(sd = 2)
latent b[cut] ~ normal(sd = 1)
let eta[obs, cut] = a + b * x
observe y ~ categorical(stick = eta)
"""
)
SOFTMAX = (
    STICK.replace("stick", "softmax")
    .replace("cut] ~", "class] ~")
    .replace("obs, cut", "obs, class")
)
PINNED = {"c": [-0.8, 0.3, 1.6]}

MODELS = {
    "cumulative logit": (ORDINAL.replace("HERE", "logit = eta, cuts = c"), PINNED),
    "cumulative probit": (ORDINAL.replace("HERE", "probit = eta, cuts = c"), PINNED),
    "continuation": (
        ORDINAL.replace("HERE", 'logit = eta, cuts = c, model = "continuation"'),
        PINNED,
    ),
    "adjacent": (ORDINAL.replace("HERE", 'logit = eta, cuts = c, model = "adjacent"'), PINNED),
    "stereotype": (
        ORDINAL.replace("HERE", 'logit = eta, cuts = c, model = "stereotype", scores = t').replace(
            "latent b", "hyper t[class] : ordered ~ normal(sd = 3)\nlatent b"
        ),
        {**PINNED, "t": [-1.0, 0.1, 0.4, 2.0]},
    ),
    "adjacent probit": (
        ORDINAL.replace("HERE", 'probit = eta, cuts = c, model = "adjacent"'),
        PINNED,
    ),
    "probit": (SOFTMAX.replace("softmax", "probit"), {}),
    "stick": (STICK, {}),
    "softmax": (SOFTMAX, {}),
    "softmax, the last class 0": (STICK.replace("stick", "softmax"), {}),
}

LABELS = ["low", "mid", "high", "top"]


def data(rows: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=rows)
    y = np.array(LABELS)[np.searchsorted(PINNED["c"], 1.2 * x + rng.logistic(size=rows))]
    y[4::9] = ""
    return {"x": x, "y": y}


def fitted(name: str, given: dict[str, Any], method: str = "", **more: Any) -> lgm.Fit:
    text, fixed = MODELS[name]
    method = method or ("natural-gradient" if name == "probit" or "softmax" in name else "ep")
    return lgm.fit(lgm.loads(text), given, method=method, fixed=fixed, **more)
