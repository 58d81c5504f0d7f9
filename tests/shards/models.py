"""Models of rows in groups, data for them, and folders of shards."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lgmdsl as lgm
from lgmdsl.api.fit.fitting import _planned
from lgmdsl.api.sharding import sharded
from lgmdsl.inference.settings import FitSettings
from lgmdsl.shards.model import ShardedModel
from lgmdsl.shards.split import split

HEAD = """lgm 1
index obs
index group
index item
index k = {{"level", "slope"}}
data y[obs] : {type}
data x[obs] : real
data n[obs] : count
data who[obs] : group
data what[obs] : item
hyper s : positive ~ gamma(shape = 2, rate = 2)
{hypers}
latent a ~ {a}
latent b ~ normal(sd = 2)
latent u[group{more}] ~ {prior}
{latents}
let eta[obs] = {eta}
observe y ~ {family}
"""
PLAIN = "a + b * x + u[who]"
POISSON = "poisson(log_rate = eta)"
CASES: dict[str, dict[str, str]] = {
    "poisson": {},
    "flat": {"a": "flat", "family": "poisson(log_rate = eta, exposure = 1 + n)"},
    "binary": {"type": "binary", "family": "bernoulli(logit = eta)"},
    "trials": {"family": "binomial(n = n, logit = eta)"},
    "gaussian": {
        "type": "real",
        "family": "normal(mean = eta, sd = t)",
        "hypers": "hyper t : positive ~ gamma(shape = 2, rate = 2)",
    },
    "negbinomial": {
        "family": "negbinomial(log_mean = eta, size = t)",
        "hypers": "hyper t : positive ~ gamma(shape = 2, rate = 0.5)",
    },
    "means": {
        "prior": "normal(mean = t, sd = s)",
        "hypers": "hyper t : real ~ normal(sd = 1)",
        "a": "normal(mean = t, sd = 2)",
    },
    "vectors": {
        "more": ", k",
        "prior": "iid * dense(cov = V)",
        "hypers": "hyper V[k, k] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)",
        "eta": 'a + b * x + u[who, "level"] + x * u[who, "slope"]',
    },
    "two": {
        "eta": PLAIN + " + v[who] * x",
        "hypers": "hyper t : positive ~ gamma(shape = 2, rate = 2)",
        "latents": "latent v[group] ~ normal(sd = t * s)",
    },
    "crossed": {
        "eta": PLAIN + " + v[what]",
        "hypers": "hyper t : positive ~ gamma(shape = 2, rate = 2)",
        "latents": "latent v[item] ~ normal(sd = t)",
    },
    "walk": {
        "eta": PLAIN + " + v[what]",
        "hypers": "hyper t : positive ~ gamma(shape = 2, rate = 2)",
        "latents": "latent v[item] ~ rw1(sd = t)",
    },
}
FIXED = {"s": 0.6, "t": 0.8}


def text(case: str) -> str:
    """The model of a case."""
    plain = {
        "type": "count",
        "hypers": "",
        "a": "normal(sd = 5)",
        "more": "",
        "prior": "normal(sd = s)",
        "latents": "",
        "eta": PLAIN,
        "family": POISSON,
    }
    whole = HEAD.format(**{**plain, **CASES[case]})
    names = {"n": "n", "what": "what", "k": ", k]"}
    for name in ("what", "n"):
        used = whole.split("latent a")[1]
        token = {"what": "[what]", "n": " n"}[name]
        if token not in used.replace("normal", "").replace("negbinomial", ""):
            whole = "\n".join(
                line for line in whole.splitlines() if not line.startswith(f"data {name}[")
            )
    assert names
    if "[item]" not in whole.split("latent a")[1]:
        whole = whole.replace("index item\n", "")
    if ", k" not in whole.split("latent a")[1]:
        whole = whole.replace('index k = {"level", "slope"}\n', "")
    if "prior" in CASES[case] and " s)" not in whole.split("latent a")[1]:
        whole = whole.replace("hyper s : positive ~ gamma(shape = 2, rate = 2)\n", "")
    return whole + "\n"


def rows(case: str, count: int = 400, groups: int = 25, seed: int = 0) -> dict[str, Any]:
    """Data for a case, rows in no order; labels of groups are texts."""
    rng = np.random.default_rng(seed)
    who, what = rng.integers(0, groups, count), rng.integers(0, 6, count)
    x, n = rng.normal(size=count), rng.integers(1, 6, count)
    s = 0.3 + 0.4 * x + 0.6 * rng.normal(size=groups)[who] + 0.2 * what - 0.5
    kind = CASES[case].get("type", "count")
    if kind == "real":
        y = s + 0.7 * rng.normal(size=count)
    elif kind == "binary":
        y = (rng.random(count) < 1.0 / (1.0 + np.exp(-s))).astype(float)
    elif case == "trials":
        y = rng.binomial(n, 1.0 / (1.0 + np.exp(-s)))
    else:
        y = rng.poisson(np.exp(s))
    labels = np.array([f"g{i}" for i in range(groups)])[who]
    return {"y": y, "x": x, "n": n, "who": labels, "what": what}


def table(place: Path, columns: dict[str, Any]) -> Path:
    """A .parquet file."""
    pq.write_table(pa.table(columns), place)
    return place


def folder(place: Path, columns: dict[str, Any], shards: int = 3) -> Path:
    """A folder of shards."""
    split(table(place.with_suffix(".parquet"), columns), "who", place, shards)
    return place


def compiled(model: lgm.Model, shards: Path, **options: Any) -> tuple[ShardedModel, Any]:
    """The model of shards in this process, with a plan for Laplace."""
    settings = FitSettings("laplace", "map", {}, None, options)
    made = sharded(model, str(shards), None, settings, partial(_planned, settings))
    return made, _planned(settings, made)
