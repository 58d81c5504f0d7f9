"""Small models that the tests of data share."""

from __future__ import annotations

from functools import cache
from typing import Any

from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.dataset import read
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.load import loads

GLMM = """lgm 1
index obs
index subject
index feat

data y[obs]       : count
data X[obs, feat] : real
data who[obs]     : subject
data time[obs]    : positive

latent b0         ~ normal(sd = 10)
latent b[feat]    ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = 1)

let eta[obs] = b0 + X @ b + u[who]

observe y ~ poisson(log_rate = eta, exposure = time)
"""

ROWS = """lgm 1
index obs
index subject
data y[obs] : count
data x[obs] : real?
data who[obs] : subject
data flag[obs] : binary
latent u[subject] ~ normal(sd = 1)
let eta[obs] = u[who] + 0.1 * flag
observe y ~ poisson(log_rate = eta)
observe x ~ normal(mean = eta, sd = 1)
"""


@cache
def model(text: str) -> CheckedModel:
    return loads(text, "m.lgm").checked


def bind(
    text: str, source: Any, mapping: dict[str, str] | None = None, **how: Any
) -> GroundedModel:
    return ground(model(text), read(source, mapping), **how)


def one(kind: str, dims: str = "obs", extra: str = "") -> str:
    """A model with a datum `y` of a type, observed where a family takes it."""
    family = {
        "binary": "bernoulli(logit = eta)",
        "count": "poisson(log_rate = eta)",
        "positive": "gamma(log_mean = eta, shape = 1)",
        "unit": "beta(logit_mean = eta, concentration = 2)",
    }.get(kind.rstrip("?"), "normal(mean = eta, sd = 1)")
    names = "".join(f"index {d}\n" for d in dict.fromkeys(dims.split(", ")))
    return (
        f"lgm 1\n{names}{extra}data y[{dims}] : {kind}\nlatent b ~ normal(sd = 1)\n"
        f"let eta[{dims}] = b\nobserve y ~ {family}\n"
    )
