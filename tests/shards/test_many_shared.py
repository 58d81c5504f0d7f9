"""Many shared latents, of which each group touches some: pairs of them are sites."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main
from lgmdsl.compile import compile_model
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.dataset import read
from lgmdsl.inference.plan import plan
from lgmdsl.shards import gathered, refusals
from lgmdsl.shards.shared_layout import SharedLayout, pairs_of
from lgmdsl.sites import catalogue as sites
from tests.shards.models import (
    CASES,
    check_same,
    compiled,
    folder,
    passes_of,
    posterior,
    rows,
    spread,
    text,
)

SIDE = 14
CROSSED = CASES["crossed"]["declared"]
MODELS: dict[str, dict[str, str]] = {
    "walk": {"latents": "u[group] ~ normal(sd = s)\nlatent v[item] ~ rw1(sd = t)"},
    "chain": {
        "declared": f'{CROSSED}\nindex k = {{"level", "slope"}}\n'
        "hyper V[k, k] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)",
        "latents": "u[group, k] ~ iid * dense(cov = V)\nlatent v[item] ~ ar1(sd = t, rho = 0.8)\n"
        "latent w[item] ~ normal(mean = s - 0.5, sd = s)",
        "eta": 'a + b * x + u[who, "level"] + x * u[who, "slope"] + v[what] + x * w[what]',
    },
    "map": {
        "declared": f"{CROSSED}\ndata edges[item, item] : graph",
        "latents": "u[group] ~ normal(mean = s, sd = s)\n"
        "latent v[item] ~ besag(graph = edges, sd = t)",
    },
    "mixed map": {  # hypers in the predictor: two blocks of regions, and a group's unit effect
        "declared": f"{CROSSED}\ndata edges[item, item] : graph\n"
        "hyper mix : unit ~ beta(a = 1, b = 1)",
        "latents": "u[group] ~ normal(sd = 1)\n"
        "latent v[item] ~ bym2(graph = edges, sd = t, mix = mix)",
        "eta": "a + b * x + s * u[who] + v[what]",
    },
}


def model_of(case: str) -> lgm.Model:
    return lgm.loads(text("crossed", **MODELS[case]))


def data_of(items: int, most: int = 3, groups: int = 60) -> dict[str, Any]:
    """Rows of groups at up to `most` of the items each; all items are named."""
    data, rng = rows("poisson", 6 * groups, groups, seed=2), np.random.default_rng(1)
    home, who = rng.integers(0, items, groups), np.array([int(w[1:]) for w in data["who"]])
    data["what"] = (home[who] + 7 * rng.integers(0, most, len(who))) % items
    named = np.arange(items)
    extra = {n: np.resize(v, items) for n, v in data.items()}
    extra |= {"what": named, "who": np.array([f"of {i}" for i in named // 2])}
    return {n: np.concatenate([np.asarray(v), extra[n]]) for n, v in data.items()}


def edges(side: int = SIDE) -> np.ndarray[Any, Any]:
    k = np.arange(side * side).reshape(side, side)
    pairs = [(k[:, :-1], k[:, 1:]), (k[:-1], k[1:])]
    return np.concatenate([np.c_[a.ravel(), b.ravel()] for a, b in pairs])


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("many") / "shards", data_of(SIDE * SIDE))


@pytest.mark.thorough
@pytest.mark.parametrize("case", MODELS)
def test_evidence_moments_and_gradient_are_those_of_all_rows(case: str, shards: Path) -> None:
    model, more = model_of(case), [{"edges": edges()}] if case.endswith("map") else []
    canonical, planned = compiled(model, [shards, *more])
    layout = spread(canonical).layout
    assert layout.codes is not None and layout.numbers < 0.1 * canonical.size**2
    source = [shards.with_suffix(".parquet"), *more]
    kept = plan(compile_model(model.checked, read(source), sites.find_site), "laplace")
    theta = canonical.hypers.start({})
    one, other = posterior(planned, theta), posterior(kept, theta)
    check_same(planned, one, kept, other, theta)


def test_what_is_sent_grows_with_the_pairs(tmp_path: Path) -> None:
    """Four times as many items, each with as many rows: four times the numbers, not 16."""
    sent = []
    for side in (10, 20):
        place = folder(tmp_path / str(side), data_of(side * side, groups=side * side // 2))
        canonical, planned = compiled(model_of("walk"), place)
        passes = passes_of(canonical)
        before, asked = passes.received, passes.asked
        problem = planned.at(canonical.hypers.start({}))
        problem.pointwise(problem.engine.prior_mean)
        assert passes.asked == asked + 1
        sent.append(passes.received - before)
    assert 3.0 < sent[1] / sent[0] < 5.0


@pytest.mark.thorough
def test_a_fit_its_file_its_groups_and_its_predictions(shards: Path, tmp_path: Path) -> None:
    """With a graph next to the folder, by two threads."""
    model, graph = model_of("map"), tmp_path / "edges.csv"
    pd.DataFrame(edges(), columns=["from", "to"]).to_csv(graph, index=False)
    given = [shards, {"edges": graph}]
    fixed = {"s": 0.5, "t": 0.4}
    with ThreadPoolExecutor(2) as executor:
        one = lgm.fit(model, given, fixed=fixed, tol=1e-9, jobs=executor)
    same = lgm.fit(model, given, fixed=fixed, tol=1e-9)
    assert one == same and "pairs that a group touches" in one.provenance["shards"]
    source = [shards.with_suffix(".parquet"), {"edges": graph}]
    kept = {"merge": "off", "rows": "kept", "correction": "off"}
    other = lgm.fit(model, source, "laplace", "fixed", fixed, options=kept, tol=1e-9)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)
    one.save(tmp_path / "fit.nc")
    one = lgm.load_fit(tmp_path / "fit.nc")
    np.testing.assert_allclose(one.sd("v"), other.sd("v"), rtol=1e-6)
    np.testing.assert_allclose(one.quantile("v", [0.1]), other.quantile("v", [0.1]), atol=1e-6)
    parts = one.groups(given, tmp_path / "groups")
    groups = pd.concat([pd.read_parquet(p) for p in parts]).set_index("who")
    order = {"group": groups.index.values}
    np.testing.assert_allclose(groups["u.mean"], other.mean("u").sel(order), atol=1e-6)
    np.testing.assert_allclose(groups["u.sd"], other.sd("u").sel(order), rtol=1e-6)
    arguments = ["predict", tmp_path / "fit.nc", shards, "--data", f"edges={graph}"]
    assert main([str(a) for a in [*arguments, "-o", tmp_path / "out"]]) == 0
    for k, path in enumerate(sorted((tmp_path / "out").iterdir())):
        got = pd.read_parquet(path)
        wanted = other.predict(pd.read_parquet(shards / f"shard-{k:05d}.parquet")).frame()
        for name in ("eta_mean", "eta_sd", "y_sd", "y_q95"):
            np.testing.assert_allclose(got[name], wanted[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("alone", [True, False])
def test_groups_that_touch_most_of_them(alone: bool, tmp_path: Path) -> None:
    """One group at most items, or many whose pairs are most: all pairs are sent, in the words of
    the fit, and the answer is the same."""
    data = data_of(40, most=3 if alone else 12, groups=30 if alone else 120)
    if alone:
        data["who"] = np.where(np.arange(len(data["who"])) < 60, "g0", data["who"])
        data["what"][:60] = np.arange(60) % 40
    place = folder(tmp_path / "shards", data)
    theta = {"s": 0.5, "t": 0.4}
    one = lgm.fit(model_of("walk"), place, fixed=theta, tol=1e-10)
    assert "all 1,764 pairs are sent" in one.provenance["shards"]
    passes = passes_of(compiled(model_of("walk"), place)[0])
    assert any(c is not None for c in passes.codes)
    assert all(c is not None for c in passes.codes) != alone
    other = lgm.fit(
        model_of("walk"), place.with_suffix(".parquet"), "laplace", fixed=theta, tol=1e-10
    )
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
    np.testing.assert_allclose(one.sd("v"), other.sd("v"), rtol=1e-7)
    written = one.groups(place, tmp_path / "groups")
    groups = pd.concat([pd.read_parquet(p) for p in written]).set_index("who")
    order = {"group": groups.index.values}
    np.testing.assert_allclose(groups["u.sd"], other.sd("u").sel(order), rtol=1e-7)


def test_all_pairs_that_memory_does_not_hold(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "pairs_of", lambda *_: None)
    monkeypatch.setattr(refusals, "PAIRS", 1e-9)
    with pytest.raises(lgm.MethodError, match="198 latents that all groups share are too many"):
        lgm.fit(model_of("walk"), shards)


def test_sites_of_pairs_are_the_matrix() -> None:
    """B'WB, B'b and the entries of a covariance, of random ones."""
    rng = np.random.default_rng(0)
    sizes, p = (("a", 3), ("b", 37)), 40
    codes = pairs_of([np.array([5 * p + 9, 1 * p + 30]), np.array([5 * p + 9, 38 * p + 39])], p)
    assert codes is not None and len(codes) == p + 3
    layout = SharedLayout(sizes, codes)
    linear = LinearGaussian((), (layout.predictor(),))
    columns = linear.predictors[0].columns
    b = np.hstack([columns[n].dense() for n, _ in sizes])
    values = rng.normal(size=len(codes))
    weights, k = layout.weights(values), len(codes)
    whole = sum(b[2 * n : 2 * n + 2].T @ weights[n] @ b[2 * n : 2 * n + 2] for n in range(k))
    low, high = np.divmod(codes, p)
    wanted = np.zeros((p, p))
    wanted[low, high] = wanted[high, low] = values
    np.testing.assert_allclose(whole, wanted, atol=1e-15)
    slope, beta = rng.normal(size=p), rng.normal(size=p)
    np.testing.assert_allclose(b.T @ layout.placed(slope).reshape(-1), slope)
    np.testing.assert_allclose(b @ beta, layout.lifted(beta).reshape(-1))
    np.testing.assert_allclose(layout.shared(layout.lifted(beta)), beta)
    covariance = rng.normal(size=(p, p))
    covariance = covariance @ covariance.T
    blocks = (b @ covariance @ b.T).reshape(k, 2, k, 2)[np.arange(k), :, np.arange(k)]
    np.testing.assert_allclose(layout.entries(blocks), covariance[low, high])
    assert pairs_of([np.arange(0, p * p, 2)], p) is None and pairs_of([codes, None], p) is None
