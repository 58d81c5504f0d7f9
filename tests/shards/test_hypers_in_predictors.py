"""Hyperparameters in the predictors of rows in shards, against all rows in memory, differences and
closed forms."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.compile import compile_model
from lgmdsl.dataset import read
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.learning.objective.gradient import evidence_gradient
from lgmdsl.sites import catalogue as sites
from lgmdsl.streams import prepare
from tests.shards.models import WHAT, S, T, check_same, compiled, folder, posterior, rows, text
from tests.shards.test_predictions import agree
from tests.shards.test_same_bits import digest

STEP = 1e-4
L = "hyper l[{}] : positive ~ gamma(shape = 2, rate = 2)"
MAP = f"{WHAT}\ndata edges[item, item] : graph"
CASES: dict[str, dict[str, str]] = {
    "scaled": {
        "declared": S,
        "latents": "u[group] ~ normal(sd = 1)",
        "eta": "a + b * x + s * u[who]",
    },
    "slopes": {
        "latents": "u[group] ~ normal(sd = 1)\nlatent v[group] ~ normal(sd = 1)",
        "eta": "a + b * x + s * u[who] + t * x * v[who]",
    },
    "bym2": {
        "declared": f"{MAP}\n{S}\n{T}\nhyper mix : unit ~ beta(a = 1, b = 1)",
        "latents": "u[group] ~ normal(sd = s)\n"
        "latent v[item] ~ bym2(graph = edges, sd = t, mix = mix)",
        "eta": "a + b * x + u[who] + v[what]",
    },
    "besag and iid": {
        "declared": f"{MAP}\n{S}\n{T}\nhyper r : positive ~ gamma(shape = 2, rate = 2)",
        "latents": "u[group] ~ normal(sd = s)\nlatent v[item] ~ besag(graph = edges, sd = t)\n"
        "latent w[item] ~ normal(sd = r)",
        "eta": "a + b * x + u[who] + v[what] + w[what]",
    },
    "loadings": {
        "declared": f"{WHAT}\n{S}\n{L.format('item')}",
        "latents": "u[group] ~ normal(sd = s)\nlatent v[item] ~ normal(sd = 1)",
        "eta": "a + b * x + l[what] * u[who] + v[what]",
    },
    "loadings alone": {
        "declared": f"{WHAT}\n{S}\n{L.format('item')}",
        "latents": "u[group] ~ normal(sd = s)",
        "eta": "a + b * x + l[what] * u[who]",
    },
    "factors": {
        "declared": f'{WHAT}\nindex k = {{"one", "two"}}\n{L.format("item, k")}',
        "latents": "u[group, k] ~ normal(sd = 1)",
        "eta": "a + b * x + sum(l[what, k] * u[who, k], k)",
    },
    "decay": {"latents": "u[group] ~ normal(sd = s)", "eta": "a + b * x + exp(-t * x) * u[who]"},
    "sums": {
        "latents": "u[group] ~ normal(sd = 1)",
        "eta": "a + b * x + (s + t * x) * u[who] + x * u[who]",
    },
    "shared": {"latents": "u[group] ~ normal(sd = s)", "eta": "t * a + b * x / t + u[who]"},
    "offset": {
        "declared": f"{S}\nhyper t : real ~ normal(sd = 1)",
        "latents": "u[group] ~ normal(sd = s)",
        "eta": "a + (b + t) * x + t + exp(t * x) / 9 + u[who]",
    },
    "residuals": {
        "type": "real",
        "latents": "u[group] ~ normal(sd = 1)",
        "eta": "a + b * x + s * t * u[who]",
        "family": "logistic(mean = eta, scale = t)",
    },
    "means": {
        "type": "real",
        "latents": "u[group] ~ normal(mean = t, sd = s)",
        "eta": "a + b * x + sqrt(t) * u[who]",
        "family": "normal(mean = eta, sd = t)",
    },
    "dispersion": {
        "latents": "u[group] ~ normal(sd = 1)",
        "eta": "a + b * x + s * u[who] + log(t) * x",
        "family": "negbinomial(log_mean = eta, size = t)",
    },
}
GRAPH = {"edges": np.array([[0, 1], [1, 2], [2, 3], [3, 4]])}


def text_of(case: str) -> str:
    return text("poisson", **{"declared": f"{S}\n{T}", **CASES[case]})


def made(case: str, place: Path) -> tuple[lgm.Model, list[Any]]:
    """The model of a case, and a folder of shards with the data next to it."""
    data = rows("gaussian" if CASES[case].get("type") == "real" else "poisson")
    more = [GRAPH] if "edges" in CASES[case].get("declared", "") else []
    return lgm.loads(text_of(case)), [folder(place / "shards", data), *more]


def in_memory(model: lgm.Model, data: list[Any]) -> Plan:
    source = [data[0].with_suffix(".parquet"), *data[1:]]
    return plan(compile_model(model.checked, read(source), sites.find_site), "laplace")


def theta_of(planned: Plan) -> dict[str, Any]:
    """Away from where searches begin, so that no two multipliers are alike."""
    rng = np.random.default_rng(4)
    start = planned.canonical.hypers.start({})
    kind = {b.name: b.type for b in planned.canonical.hypers.blocks}
    return {
        n: np.asarray(v) * np.exp(0.3 * rng.normal(size=np.shape(v))) + 0.3 * (kind[n] == "real")
        for n, v in start.items()
    }


@pytest.mark.few(5)
@pytest.mark.parametrize("case", CASES)
def test_evidence_moments_and_gradient_are_those_of_all_rows(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the rows of a shard are compiled in several batches."""
    monkeypatch.setattr(prepare, "BATCH", 37)
    model, data = made(case, tmp_path)
    _, planned = compiled(model, data)
    kept = in_memory(model, data)
    theta = theta_of(planned)
    one, other = posterior(planned, theta), posterior(kept, theta)
    check_same(planned, one, kept, other, theta, evidence=1e-10)


@pytest.mark.few(4)
@pytest.mark.parametrize("case", ["bym2", "loadings", "decay", "offset", "dispersion"])
def test_the_gradient_is_that_of_differences(case: str, tmp_path: Path) -> None:
    model, data = made(case, tmp_path)
    _, planned = compiled(model, data)
    theta = theta_of(planned)
    slopes = evidence_gradient(planned, posterior(planned, theta), theta, {})
    for name, slope in slopes.items():
        direction = np.linspace(1.0, 0.4, np.size(theta[name])).reshape(np.shape(theta[name]))
        ends = [
            posterior(planned, {**theta, name: theta[name] + sign * STEP * direction}).log_evidence
            for sign in (1.0, -1.0)
        ]
        difference = (ends[0] - ends[1]) / (2.0 * STEP)
        assert float(np.sum(slope * direction)) == pytest.approx(difference, rel=2e-6, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_at_its_end(value: float, tmp_path: Path) -> None:
    """A multiplier of 0: nothing is divided by it."""
    model, data = made("bym2", tmp_path)
    fixed = {"s": 0.5, "t": 0.7, "mix": value}
    one = lgm.fit(model, data, fixed=fixed)
    other = lgm.fit(model, [data[0].with_suffix(".parquet"), GRAPH], "laplace", fixed=fixed)
    assert one.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
    np.testing.assert_allclose(one.mean("v"), other.mean("v"), atol=1e-8)
    np.testing.assert_allclose(one.sd("v"), other.sd("v"), rtol=1e-8)


def test_a_loading_of_0_has_a_slope(tmp_path: Path) -> None:
    case = text_of("loadings").replace(L.format("item"), "hyper l[item] : real ~ normal(sd = 1)")
    model, data = lgm.loads(case), made("loadings", tmp_path)[1]
    _, planned = compiled(model, data)
    kept, theta = in_memory(model, data), {"s": np.array(0.6), "l": np.array([0, 1, -1, 0.5, 0.0])}
    slopes = [evidence_gradient(p, posterior(p, theta), theta, {}) for p in (planned, kept)]
    np.testing.assert_allclose(slopes[0]["l"], slopes[1]["l"], rtol=1e-8, atol=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "fixed", "hyper"),
    [
        ("bym2", {"s": 0.5}, "map"),
        ("besag and iid", {"s": 0.5, "t": 0.4}, "map"),
        ("scaled", {}, "integrate"),
        ("loadings", {"s": 0.6}, "map"),
        ("offset", {"s": 0.6}, "map"),
    ],
)
def test_fits_that_learn_end_where_those_of_all_rows_do(
    case: str, fixed: dict[str, float], hyper: str, tmp_path: Path
) -> None:
    """Groups' latents and predictions at the rows of the shards included."""
    model, data = made(case, tmp_path)
    kept: dict[str, Any] = {"merge": "off", "rows": "kept", "correction": "off"}
    one = lgm.fit(model, data, hyper=hyper, fixed=fixed, tol=1e-9)
    whole = [data[0].with_suffix(".parquet"), *data[1:]]
    other = lgm.fit(model, whole, "laplace", hyper, fixed, options=kept, tol=1e-9)
    assert one.converged and other.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)
    for name in (set(other.points[0].theta) - set(fixed)) | {"a", "b"}:
        np.testing.assert_allclose(one.mean(name), other.mean(name), rtol=1e-5, atol=1e-6)
    written = pd.concat([pd.read_parquet(p) for p in one.groups(data, tmp_path / "groups")])
    written = written.set_index("who")
    assert len(written) == 15
    at = other.mean("u").sel(group=written.index.values)
    np.testing.assert_allclose(written["u.mean"], at, rtol=1e-5, atol=1e-6)
    at = other.sd("u").sel(group=written.index.values)
    np.testing.assert_allclose(written["u.sd"], at, rtol=1e-5)
    agree(one.predict_shards(data[0], tmp_path / "out", fitted=data), data[0], other, 1e-5)


@pytest.mark.thorough
def test_workers_change_no_bit(tmp_path: Path) -> None:
    """This process, and two threads that start with nothing."""
    model, data = made("slopes", tmp_path)
    digests = []
    with ThreadPoolExecutor(2) as executor:
        for name, jobs in (("here", None), ("there", executor)):
            fit = lgm.fit(model, data[0], hyper="map", fixed={"t": 0.5}, tol=1e-3, jobs=jobs)
            assert fit.converged
            digests.append(digest(fit, data[0], tmp_path / name, jobs))
    assert digests[0] == digests[1]


def test_rows_and_cells_that_a_shard_lacks(tmp_path: Path) -> None:
    """An item in one shard alone, shards without an observed row, and rows of one item."""
    data = rows("gaussian")
    first = data["who"] == data["who"][0]
    data["what"] = np.where(first, data["what"], 3)
    y = np.where(np.isin(data["who"], ["g0", "g7"]) | first, data["y"], np.nan)
    case = text("gaussian", **CASES["loadings"], type="real?").replace("declared", "")
    model = lgm.loads(case.replace("sd = t", "sd = 1"))
    place = folder(tmp_path / "few", {**data, "y": y}, 7)
    fixed = {"s": 0.5, "l": np.array([0.5, 0.8, 1.0, 1.2, 2.0])[: len(set(data["what"]))]}
    one = lgm.fit(model, place, fixed=fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed=fixed)
    assert one.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
    np.testing.assert_allclose(one.mean("v"), other.mean("v"), atol=1e-8)


def test_a_coefficient_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    model, data = made("decay", tmp_path)
    with pytest.raises(lgm.DataError, match="predictor of `y` is not finite") as caught:
        lgm.fit(model, data[0], fixed={"s": 0.5, "t": 1e5})
    assert caught.value.codes == ("E303",) and caught.value.diagnostics[0].help
