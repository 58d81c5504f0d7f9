"""Models of rows in groups, data for them, and folders of shards."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.compiled import planned_by
from lgmdsl.api.sharding import sharded
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.dataset import read
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.objective.gradient import evidence_gradient
from lgmdsl.shards.model import Sharded, shards_of
from lgmdsl.shards.passes import Passes
from lgmdsl.shards.split import split
from lgmdsl.sites import catalogue as sites

HEAD = """lgm 1
index obs
index group
data y[obs] : {type}
data x[obs] : real
data who[obs] : group
{declared}
latent a ~ {a}
latent b ~ normal(sd = 2)
latent {latents}
let eta[obs] = {eta}
observe y ~ {family}
"""
S = "hyper s : positive ~ gamma(shape = 2, rate = 2)"
T = "hyper t : positive ~ gamma(shape = 2, rate = 2)"
WHAT = "index item\ndata what[obs] : item"
PLAIN = {
    "type": "count",
    "declared": S,
    "a": "normal(sd = 5)",
    "latents": "u[group] ~ normal(sd = s)",
    "eta": "a + b * x + u[who]",
    "family": "poisson(log_rate = eta)",
}
CASES: dict[str, dict[str, str]] = {
    "poisson": {},
    "exposure": {
        "a": "flat",
        "declared": f"data n[obs] : count\n{S}",
        "family": "poisson(log_rate = eta, exposure = 1 + n)",
    },
    "binary": {"type": "binary", "family": "bernoulli(logit = eta)"},
    "trials": {
        "declared": f"data n[obs] : count\n{S}",
        "family": "binomial(n = n, logit = eta)",
    },
    "gaussian": {
        "type": "real",
        "declared": f"{S}\n{T}",
        "family": "normal(mean = eta, sd = t)",
    },
    "residuals": {  # which the compiler makes a potential on eta - y
        "type": "real",
        "declared": f"{S}\n{T}",
        "family": "logistic(mean = eta, scale = t)",
    },
    "negbinomial": {"declared": f"{S}\n{T}", "family": "negbinomial(log_mean = eta, size = t)"},
    "means": {
        "declared": f"{S}\nhyper t : real ~ normal(sd = 1)",
        "a": "normal(mean = t, sd = 2)",
        "latents": "u[group] ~ normal(mean = t, sd = s)",
    },
    "vectors": {
        "declared": 'index k = {"level", "slope"}\n'
        "hyper V[k, k] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)",
        "latents": "u[group, k] ~ iid * dense(cov = V)",
        "eta": 'a + b * x + u[who, "level"] + x * u[who, "slope"]',
    },
    "two": {
        "declared": f"{S}\n{T}",
        "latents": "u[group] ~ normal(sd = s)\nlatent v[group] ~ normal(sd = t * s)",
        "eta": "a + b * x + u[who] + v[who] * x",
    },
    "crossed": {
        "declared": f"{WHAT}\n{S}\n{T}",
        "latents": "u[group] ~ normal(sd = s)\nlatent v[item] ~ normal(sd = t)",
        "eta": "a + b * x + u[who] + v[what]",
    },
    "walk": {
        "declared": f"{WHAT}\n{S}\n{T}",
        "latents": "u[group] ~ normal(sd = s)\nlatent v[item] ~ rw1(sd = t)",
        "eta": "a + b * x + u[who] + v[what]",
    },
}


def text(case: str, **changed: str) -> str:
    """The model of a case, with some parts of it changed."""
    return HEAD.format(**{**PLAIN, **CASES[case], **changed})


def rows(case: str, count: int = 240, groups: int = 15, seed: int = 0) -> dict[str, Any]:
    """Data for a case, rows in no order; labels of groups are texts."""
    rng = np.random.default_rng(seed)
    who, what = rng.integers(0, groups, count), rng.integers(0, 5, count)
    x, n = rng.normal(size=count), rng.integers(1, 6, count)
    s = 0.3 + 0.4 * x + 0.6 * rng.normal(size=groups)[who] + 0.2 * what - 0.5
    kind = CASES[case].get("type", "count")
    y: Any = rng.poisson(np.exp(s))
    if kind == "real":
        y = s + 0.7 * rng.normal(size=count)
    elif kind == "binary":
        y = (rng.random(count) < 1.0 / (1.0 + np.exp(-s))).astype(float)
    elif case == "trials":
        y = rng.binomial(n, 1.0 / (1.0 + np.exp(-s)))
    labels = np.array([f"g{i}" for i in range(groups)])[who]
    return {"y": y, "x": x, "n": n, "who": labels, "what": what}


def table(place: Path, columns: Any, **options: Any) -> Path:
    """A .parquet file."""
    made = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(made, place, **options)
    return place


def folder(place: Path, columns: Any, shards: int = 3) -> Path:
    """A folder of shards; the table of which it was made is next to it."""
    split(table(place.with_suffix(".parquet"), columns), "who", place, shards)
    return place


def compiled(
    model: lgm.Model, shards: Any, method: str = "laplace", **options: Any
) -> tuple[CanonicalModel, Plan]:
    """The model of shards in this process, with a plan."""
    settings = FitSettings(method, "map", {}, None, options)
    made = sharded(model, shards, None, settings, partial(planned_by, settings))
    return made, planned_by(settings, made)


def spread(canonical: CanonicalModel) -> Sharded:
    """How the rows of a model lie in shards."""
    rows = shards_of(canonical)
    assert rows is not None
    return rows


def passes_of(canonical: CanonicalModel) -> Passes:
    """Questions to the shards of a model."""
    passes = spread(canonical).passes
    assert passes is not None
    return passes


def whole(model: lgm.Model, place: Path, method: str = "laplace") -> Plan:
    """The plan of the model with all rows in memory."""
    canonical = compile_model(model.checked, read(place), sites.find_site)
    return plan(canonical, method)


def posterior(planned: Plan, theta: Any) -> GaussianPosterior:
    """That at theta, to all digits."""
    found = run(planned.backend, planned.at(theta), Tolerances(1e-12, 1e-9)).posterior
    assert found is not None
    return found


def check_same(
    planned: Plan,
    one: GaussianPosterior,
    kept: Plan,
    other: GaussianPosterior,
    theta: Theta,
    evidence: float = 1e-9,
    means: float = 1e-9,
    variances: float = 1e-9,
    slopes: float = 1e-7,
) -> None:
    """Evidence, moments of the shared latents and gradient by shards are those of all rows in
    memory, to these tolerances: absolute of the evidence and of means, relative of variances, both
    of slopes."""
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=evidence)
    starts = planned.canonical.layout.starts, kept.canonical.layout.starts
    blocks = [b for b in kept.canonical.latents if b.name in starts[0]]
    where = np.concatenate([np.arange(b.size) + starts[1][b.name] for b in blocks])
    q, wanted = one.conditioned, other.conditioned
    np.testing.assert_allclose(q.latent_mean, wanted.latent_mean[where], atol=means)
    np.testing.assert_allclose(q.latent_variance, wanted.latent_variance[where], rtol=variances)
    found = [evidence_gradient(p, q, theta, {}) for p, q in ((planned, one), (kept, other))]
    assert found[0].keys() == found[1].keys()
    for name, slope in found[0].items():
        np.testing.assert_allclose(slope, found[1][name], rtol=slopes, atol=slopes)
