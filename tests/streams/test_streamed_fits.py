"""Fits whose rows are read by batches against fits that keep them, and bits of one against another
source."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lgmdsl as lgm
from lgmdsl.streams import prepare as preparing
from lgmdsl.streams import rows as rows_of_streams

STREAMED, KEPT = {"rows": "streamed"}, {"rows": "kept", "merge": "off"}
HEAD = """lgm 1
index obs
index group
index item
data y[obs] : {type}
data x[obs] : real
data who[obs] : group
data what[obs] : item
data n[obs] : positive
{hypers}
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent a ~ {flat}
latent b ~ {flat}
latent u[group] ~ normal(sd = s)
{latents}
let eta[obs] = {eta}
observe y ~ {family}
"""
PLAIN = "a + b * x + u[who]"
CASES = {
    "poisson": ("count", "poisson(log_rate = eta, exposure = n)", PLAIN, "", ""),
    "weighted": ("count", "poisson(log_rate = eta, weight = n)", PLAIN, "", ""),
    "binary": ("binary", "bernoulli(logit = eta)", PLAIN, "", ""),
    "gaussian": (
        "real",
        "normal(mean = eta, sd = t)",
        PLAIN,
        "hyper t : positive ~ pc_sd(u = 1, alpha = 0.05)",
        "",
    ),
    "negbinomial": (
        "count",
        "negbinomial(log_mean = eta, size = k)",
        PLAIN,
        "hyper k : positive ~ gamma(shape = 2, rate = 0.1)",
        "",
    ),
    "slopes": (
        "count",
        "poisson(log_rate = eta)",
        PLAIN + " + v[who] * x",
        "hyper r : positive ~ pc_sd(u = 1, alpha = 0.05)",
        "latent v[group] ~ normal(sd = r)",
    ),
    "crossed": (
        "count",
        "poisson(log_rate = eta)",
        PLAIN + " + v[what]",
        "hyper r : positive ~ pc_sd(u = 1, alpha = 0.05)",
        "latent v[item] ~ normal(sd = r)",
    ),
    "walk": (
        "binary",
        "bernoulli(probit = eta)",
        PLAIN + " + v[what] - 0.3 * x",
        "hyper r : positive ~ pc_sd(u = 1, alpha = 0.05)",
        "latent v[item] ~ rw1(sd = r)",
    ),
}


def model(case: str, flat: str = "flat") -> lgm.Model:
    kind, family, eta, hypers, latents = CASES[case]
    text = HEAD.format(type=kind, family=family, eta=eta, hypers=hypers, latents=latents, flat=flat)
    unused = [n for n in ("n", "what") if n not in f"{family} {eta}".replace("n = ", "")]
    lines = [line for line in text.splitlines() if not any(f"data {n}[" in line for n in unused)]
    if "what" in unused:
        lines.remove("index item")
    return lgm.loads("\n".join(lines) + "\n")


def frame(case: str, size: int = 700, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng([seed, len(case)])
    who, what = rng.integers(0, 9, size), rng.integers(0, 6, size)
    x, n = rng.normal(size=size), rng.uniform(0.5, 2.0, size)
    eta = 0.3 + 0.4 * x + rng.normal(0.0, 0.6, 9)[who]
    if case in ("crossed", "walk"):
        eta = eta + rng.normal(0.0, 0.6, 6)[what]
    if case == "slopes":
        eta = eta + rng.normal(0.0, 0.4, 9)[who] * x
    kind = CASES[case][0]
    y: np.ndarray = rng.poisson(n * np.exp(eta))
    if kind == "binary":
        y = (rng.random(size) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64)
    elif kind == "real":
        y = eta + rng.normal(size=size)
    labels = np.array([f"g{k}" for k in range(9)])
    columns = {"y": y, "x": x, "who": labels[who]}
    declared = model(case).checked.symbols
    more = {"n": n, "what": what}
    return pd.DataFrame(columns | {k: v for k, v in more.items() if k in declared})


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches of several chunks."""
    monkeypatch.setattr(preparing, "BATCH", 192)
    monkeypatch.setattr(preparing, "SAMPLE", 20)
    monkeypatch.setattr(rows_of_streams, "CHUNK", 64)


def agree(streamed: lgm.Fit, kept: lgm.Fit, tolerance: float) -> None:
    assert streamed.status is kept.status
    assert "streamed" in streamed.provenance and "streamed" not in kept.provenance
    assert streamed.log_evidence == pytest.approx(kept.log_evidence, abs=tolerance, nan_ok=True)
    pinned = {b.name for b in kept.canonical.hypers.blocks if kept.learning is None}
    for name in {*streamed.names} - pinned:
        sd = np.asarray(kept.sd(name))
        assert (sd > 0.0).all(), name
        gap = np.abs(np.asarray(streamed.mean(name)) - np.asarray(kept.mean(name))) / sd
        assert gap.max() < tolerance, name
        assert np.asarray(streamed.sd(name)) == pytest.approx(sd, rel=tolerance), name


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES)
def test_laplace_agrees_with_kept_rows(case: str) -> None:
    data, declared = frame(case), model(case)
    for hyper in ("map", "integrate") if case in ("gaussian", "crossed") else ("map",):
        agree(
            lgm.fit(declared, data, method="laplace", hyper=hyper, options=STREAMED),
            lgm.fit(declared, data, method="laplace", hyper=hyper, options=KEPT),
            1e-4,
        )


@pytest.mark.few(5)
@pytest.mark.parametrize("case", CASES)
def test_natural_gradient_agrees_with_kept_rows(case: str) -> None:
    data, declared = frame(case), model(case)
    own = {"correction": "off", "marginals": "gaussian"}
    agree(
        lgm.fit(declared, data, "natural-gradient", "map", tol=1e-10, options=STREAMED),
        lgm.fit(declared, data, "natural-gradient", "map", tol=1e-10, options=KEPT | own),
        1e-3,
    )


def test_cuts_between_classes() -> None:
    """A parameter with an index of its own, learned."""
    text = """lgm 1
index obs
index group
index class = {"low", "middle", "high"}
index cut = head(class)
data y[obs] : class
data x[obs] : real
data who[obs] : group
hyper cuts[cut] : ordered ~ normal(mean = 0, sd = 3)
latent b ~ normal(sd = 2)
latent u[group] ~ normal(sd = 0.7)
let eta[obs] = b * x + u[who]
observe y ~ ordinal(logit = eta, cuts = cuts)
"""
    rng = np.random.default_rng(5)
    data = frame("poisson")[["x", "who"]]
    level = data["x"] + rng.logistic(size=len(data))
    data["y"] = np.array(["low", "middle", "high"])[np.digitize(level, [-0.5, 1.0])]
    declared = lgm.loads(text)
    agree(
        lgm.fit(declared, data, method="laplace", hyper="map", options=STREAMED),
        lgm.fit(declared, data, method="laplace", hyper="map", options=KEPT),
        1e-5,
    )


def test_missing_responses_say_nothing() -> None:
    data = frame("poisson")
    data["y"] = data["y"].astype(float)
    data.loc[[0, 3, 200, 201, 699], "y"] = np.nan
    declared = lgm.loads(model("poisson").to_lgm().replace(": count", ": count?"))
    agree(
        lgm.fit(declared, data, method="laplace", hyper="map", options=STREAMED),
        lgm.fit(declared, data, method="laplace", hyper="map", options=KEPT),
        1e-6,
    )


def test_two_statements_over_the_same_rows() -> None:
    text = model("poisson").to_lgm().replace("data x", "data z[obs] : binary\ndata x")
    declared = lgm.loads(text + "observe z ~ bernoulli(logit = a - eta)\n")
    data = frame("poisson")
    data["z"] = (np.random.default_rng(1).random(len(data)) < 0.4).astype(int)
    agree(
        lgm.fit(declared, data, method="laplace", hyper="map", options=STREAMED),
        lgm.fit(declared, data, method="laplace", hyper="map", options=KEPT),
        1e-6,
    )


def test_a_group_whose_rows_come_last(tmp_path: Path) -> None:
    """Members are found in all batches, in the order that they have when all rows are read."""
    data = frame("poisson").sort_values("who", ascending=False, ignore_index=True)
    streamed = lgm.fit(model("poisson"), data, "laplace", "map", options=STREAMED)
    kept = lgm.fit(model("poisson"), data, "laplace", "map", options=KEPT)
    assert list(streamed.mean("u").group.values) == list(kept.mean("u").group.values)
    agree(streamed, kept, 1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("group_size", [50, 64, 333, 10_000])
def test_the_same_bits_from_every_source(tmp_path: Path, group_size: int) -> None:
    data, declared = frame("negbinomial"), model("negbinomial")
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(data), path, row_group_size=group_size)
    fits = [
        lgm.fit(declared, source, "laplace", "map", options=STREAMED)
        for source in (data, path, {k: data[k].to_numpy() for k in data}, pa.table(data))
    ]
    for other in fits[1:]:
        assert other.log_evidence == fits[0].log_evidence
        assert np.array_equal(other.weight[0], fits[0].weight[0])
        assert np.array_equal(other.mean("u"), fits[0].mean("u"))
        assert all(np.array_equal(other.theta[n], fits[0].theta[n]) for n in other.theta)


def test_batches_of_other_sizes_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    data, declared = frame("slopes"), model("slopes")
    one = lgm.fit(declared, data, "laplace", "map", options=STREAMED)
    monkeypatch.setattr(preparing, "BATCH", 64 * 7)
    other = lgm.fit(declared, data, "laplace", "map", options=STREAMED)
    assert one.log_evidence == other.log_evidence
    assert np.array_equal(one.weight[0], other.weight[0])


@pytest.mark.thorough
def test_many_rows_of_a_file_are_streamed_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lgmdsl.api import streaming

    data, declared = frame("poisson"), model("poisson")
    data.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr(streaming, "MANY", 500)
    path = tmp_path / "rows.parquet"
    assert "streamed" in lgm.fit(declared, path, "laplace", "map").provenance
    assert "streamed" not in lgm.fit(declared, data, "laplace", "map").provenance
    assert "streamed" not in lgm.fit(declared, path, "coordinate-ascent", "map").provenance
    kept = lgm.fit(declared, path, "laplace", "map", options={"rows": "kept"})
    assert "streamed" not in kept.provenance
    monkeypatch.setattr(streaming, "MANY", 5000)
    assert "streamed" not in lgm.fit(declared, path, "laplace", "map").provenance


@pytest.mark.thorough
def test_a_file_and_a_pickle_give_the_fit_again(tmp_path: Path) -> None:
    data = frame("crossed")
    fit = lgm.fit(model("crossed"), data, "laplace", "integrate", options=STREAMED)
    fit.save(tmp_path / "fit.nc")
    kept = lgm.fit(model("crossed"), data, "laplace", "integrate", options=KEPT)
    new = pd.DataFrame({"x": [0.0, 1.0], "who": ["g3", "g0"], "what": [1, 5]})
    want = kept.predict(new).mean("eta").values
    for again in (fit, lgm.load_fit(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(fit))):
        assert again.log_evidence == fit.log_evidence
        assert np.array_equal(again.quantile("v", [0.05]), fit.quantile("v", [0.05]))
        assert again.predict(new).mean("eta").values == pytest.approx(want, abs=1e-8)
        assert "eta" not in again.names
        with pytest.raises(lgm.ModelError, match="rows were read by batches"):
            again.mean("eta")
        assert again.loo(data=data).elpd == pytest.approx(kept.loo().elpd, abs=1e-3)


def test_a_fit_starts_from_another() -> None:
    data, declared = frame("poisson"), model("poisson")
    first = lgm.fit(declared, data, "laplace", "map", options=STREAMED)
    again = lgm.fit(declared, data, "laplace", "map", options=STREAMED, start_from=first)
    assert again.log_evidence == pytest.approx(first.log_evidence, abs=1e-7)


def assert_same_answers_by_row(streamed: lgm.Fit, kept: lgm.Fit, data: Any = None) -> None:
    mine, theirs = streamed.loo(data=data), kept.loo()
    np.testing.assert_allclose(mine.pointwise("y"), theirs.pointwise("y"), atol=2e-4)
    np.testing.assert_allclose(mine.elpd, theirs.elpd, atol=1e-3)
    np.testing.assert_allclose(streamed.waic(data=data).elpd, kept.waic().elpd, atol=1e-3)
    pits = streamed.pit(data=data).pointwise("y"), kept.pit().pointwise("y")
    np.testing.assert_allclose(pits[0], pits[1], atol=1e-4)


@pytest.mark.few(4)
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_asked_again(case: str, method: str) -> None:
    fits = [
        lgm.fit(model(case), frame(case), method, "map", options=options)
        for options in (STREAMED, KEPT)
    ]
    assert_same_answers_by_row(*fits)


def test_rows_are_asked_again_at_every_point_of_an_integral(tmp_path: Path) -> None:
    data = frame("poisson")
    streamed, kept = (
        lgm.fit(model("poisson"), data, "natural-gradient", options=o | {"marginals": "gaussian"})
        for o in (STREAMED, KEPT)
    )
    assert_same_answers_by_row(streamed, kept)
    streamed.save(tmp_path / "fit.nc")
    stored = lgm.load_fit(tmp_path / "fit.nc")
    with pytest.raises(lgm.MethodError, match="give them again") as error:
        stored.loo()
    assert error.value.diagnostics[0].code == "E501"
    assert_same_answers_by_row(stored, kept, data)
    with pytest.raises(lgm.DataError, match="not those of the fit") as wrong:
        stored.loo(data=data.assign(y=data["y"] + 1))
    assert wrong.value.diagnostics[0].code == "E303"


def test_what_else_rows_are_asked(tmp_path: Path) -> None:
    data = frame("binary")
    pq.write_table(pa.Table.from_pandas(data), tmp_path / "rows.parquet")
    streamed = lgm.fit(
        model("binary"), tmp_path / "rows.parquet", "laplace", "map", options=STREAMED
    )
    kept = lgm.fit(model("binary"), data, "laplace", "map", options=KEPT)
    mine, theirs = streamed.augment(), kept.augment()
    assert list(mine.columns) == list(theirs.columns)
    np.testing.assert_allclose(mine["eta_mean"], theirs["eta_mean"], atol=1e-4)
    np.testing.assert_allclose(mine["y_mean"], theirs["y_mean"], atol=1e-4)
    audits = [fit.audit(n=400) for fit in (streamed, kept)]
    assert audits[0].log_evidence == pytest.approx(audits[1].log_evidence, abs=0.05)
    assert (streamed.impute().sd("y") == 0.0).all()  # all are known
    assert streamed.glance()["observations"][0] == len(data)
    assert np.isfinite(streamed.effects("x", data=data.head(50))["estimate"]).all()


def test_what_rows_cannot_be_asked() -> None:
    """Not by `ep`, whose Gaussians of the rows are not kept, nor effects at no rows."""
    fits = [
        lgm.fit(model("binary"), frame("binary"), method, fixed={"s": 0.5}, options=STREAMED)
        for method in ("ep", "laplace")
    ]
    asked: tuple[Callable[[], object], ...] = (fits[0].loo, lambda: fits[1].effects("x"))
    for ask in asked:
        with pytest.raises(lgm.MethodError, match="needs the rows of the fit") as error:
            ask()
        assert error.value.diagnostics[0].code == "E501"


REFUSED = {
    "latent `e` is over `obs`": ("latent u[", "latent e[obs] ~ normal(sd = 1)\nlatent u["),
    "rows of `obs` are joined": ("a + b * x", "a + b * sum(x, obs)"),
    "hyper `c` is in the predictor": ("b * x", "c * b * x"),
    "hypers and differs from row to row": ("exposure = n)", "exposure = n * c[who])"),
    "student_t.mean is not log-concave": (
        "poisson(log_rate = eta, exposure = n)",
        "student_t(mean = eta, scale = n, df = 4)",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_streamed_is_refused_by_name(reason: str) -> None:
    old, new = REFUSED[reason]
    text = model("poisson").to_lgm()
    dims = "[group]" if "c[who]" in new else ""
    text = text.replace(old, new).replace(
        "hyper s", f"hyper c{dims} : positive ~ gamma(shape = 2, rate = 2)\nhyper s", 1
    )
    if "student" in new:
        text = text.replace(": count", ": real")
    declared, data = lgm.loads(text), frame("poisson")
    with pytest.raises(lgm.MethodError) as error:
        lgm.fit(declared, data, "laplace", "map", options=STREAMED)
    assert error.value.diagnostics[0].code == "E501"
    assert reason in str(error.value)


def test_methods_that_need_sites_by_rows_are_refused() -> None:
    with pytest.raises(lgm.MethodError, match="`lcl` cannot read rows by batches") as error:
        lgm.fit(model("poisson"), frame("poisson"), "lcl", "map", options=STREAMED)
    for name in ("laplace", "natural-gradient", "map", "double-loop", "ep"):
        assert name in str(error.value)


def test_a_wrong_row_is_named_by_its_number() -> None:
    data = frame("poisson")
    data.loc[[451, 600], "y"] = -3
    with pytest.raises(lgm.DataError, match="451"):
        lgm.fit(model("poisson"), data, "laplace", "map", options=STREAMED)


def test_a_missing_label_is_refused() -> None:
    data = frame("poisson")
    data.loc[450, "who"] = None
    with pytest.raises(lgm.DataError, match="E304"):
        lgm.fit(model("poisson"), data, "laplace", "map", options=STREAMED)


def test_separated_classes_have_no_proper_posterior() -> None:
    data = frame("binary")
    data["y"] = (data["x"] > 0.1).astype(int)
    for rows in (STREAMED, KEPT):
        with pytest.raises(lgm.ModelError, match="E402"):
            lgm.fit(model("binary"), data, "laplace", fixed={"s": 0.5}, options=rows)


def test_collinear_columns_have_no_proper_posterior() -> None:
    data = frame("poisson")
    data["x"] = 1.0
    for rows in (STREAMED, KEPT):
        with pytest.raises(lgm.ModelError, match="E402"):
            lgm.fit(model("poisson"), data, "laplace", fixed={"s": 0.5}, options=rows)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e6, 1e12])
def test_units_of_a_covariate_do_not_matter(scale: float) -> None:
    data, declared = frame("poisson"), model("poisson")
    plain = lgm.fit(declared, data, "laplace", fixed={"s": 0.5}, options=STREAMED)
    scaled = lgm.fit(
        declared, data.assign(x=data["x"] * scale), "laplace", fixed={"s": 0.5}, options=STREAMED
    )
    assert scaled.converged
    moved = scaled.log_evidence - plain.log_evidence + np.log(scale)
    assert abs(moved) < 1e-6 or abs(moved - 2 * np.log(scale)) < 1e-6
    assert float(scaled.mean("b")) * scale == pytest.approx(float(plain.mean("b")), rel=1e-6)


PAIRS = """lgm 1
index obs
index group
data y[obs] : count
data a[obs] : group
data b[obs] : group
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent m ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
let eta[obs] = m + u[a] + u[b]
observe y ~ poisson(log_rate = eta)
"""


@pytest.mark.parametrize("alike", [range(192), range(192, 384), range(576, 577), range(5, 20)])
def test_entries_that_coincide_in_some_rows_are_refused(alike: range) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 5, 577), 5 + rng.integers(0, 4, 577)
    b[list(alike)] = a[list(alike)]
    effects = rng.normal(0.0, 0.6, 9)
    data = pd.DataFrame({"y": rng.poisson(2.0 * np.exp(effects[a] + effects[b])), "a": a, "b": b})
    with pytest.raises(lgm.MethodError, match="different numbers of latents"):
        lgm.fit(lgm.loads(PAIRS), data, "laplace", "map", options=STREAMED)
    data["b"] = 5 + rng.integers(0, 4, 577)
    agree(
        lgm.fit(lgm.loads(PAIRS), data, "laplace", "map", options=STREAMED),
        lgm.fit(lgm.loads(PAIRS), data, "laplace", "map", options=KEPT),
        1e-3,
    )


def test_times_in_a_file_are_refused_and_kept_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How a time is spelt depends on all of them."""
    from lgmdsl.api import streaming

    data, declared = frame("poisson").sort_values("who", ignore_index=True), model("poisson")
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-05T12"], "datetime64[s]")
    data["who"] = days[np.repeat(np.arange(4), 175)]
    data.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(lgm.MethodError, match="`who` holds dates or times"):
        lgm.fit(declared, tmp_path / "rows.parquet", "laplace", "map", options=STREAMED)
    monkeypatch.setattr(streaming, "MANY", 500)
    kept = lgm.fit(declared, tmp_path / "rows.parquet", "laplace", "map")
    assert "streamed" not in kept.provenance and kept.mean("u").size == 4
    agree(
        lgm.fit(declared, data, "laplace", "map", options=STREAMED),
        lgm.fit(declared, data, "laplace", "map", options=KEPT),
        1e-4,
    )


@pytest.mark.parametrize(
    "labels",
    [
        [2.0, 1e15, 3.0, 1e16],
        [0.1 + 0.2, 0.3, 1.0, 2.0],
        [1.10, 1.25, 2.00, 2.0],
        [10**20 + 1, 10**20 + 2, 3, 4],
    ],
    ids=str,
)
def test_labels_of_batches_are_those_of_the_table(labels: list[Any]) -> None:
    """Whole and other numbers, of any number of digits, in different batches."""
    data = frame("poisson")
    data["who"] = np.repeat(np.array(labels), 175)
    fixed = {"s": 0.5}
    streamed = lgm.fit(model("poisson"), data, "laplace", fixed=fixed, options=STREAMED)
    kept = lgm.fit(model("poisson"), data, "laplace", fixed=fixed, options=KEPT)
    assert streamed.log_evidence == pytest.approx(kept.log_evidence, abs=1e-8)
    assert streamed.mean("u").coords["group"].equals(kept.mean("u").coords["group"])
    assert streamed.mean("u").size == len(set(labels))


def test_the_whole_column_decides_what_labels_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.0 is the text that it is, as 2.00 stands in another batch."""
    monkeypatch.setattr(preparing, "BATCH", 175)
    monkeypatch.setattr(preparing, "SAMPLE", 10)
    data = frame("poisson").assign(who=np.repeat(["2.0", "2.00", "3.0", "3.0"], 175))
    data.to_csv(tmp_path / "rows.csv", index=False)
    streamed, kept = (
        lgm.fit(
            model("poisson"), tmp_path / "rows.csv", "laplace", fixed={"s": 0.5}, options=options
        )
        for options in (STREAMED, KEPT)
    )
    assert streamed.mean("u").coords["group"].values.tolist() == ["2.0", "2.00", "3.0"]
    assert streamed.mean("u").coords["group"].equals(kept.mean("u").coords["group"])
    assert streamed.log_evidence == pytest.approx(kept.log_evidence, abs=1e-8)


@pytest.mark.parametrize("named", [True, False])
def test_labels_of_rows_do_not_matter(named: bool) -> None:
    labels = [f"r{k % 300}" for k in range(700)]
    data = frame("poisson")
    data = data.assign(obs=labels) if named else data.set_index(pd.Index(labels))
    plain = lgm.fit(model("poisson"), frame("poisson"), "laplace", "map", options=STREAMED)
    assert lgm.fit(model("poisson"), data, "laplace", "map", options=STREAMED) == plain


@pytest.mark.parametrize("y", [np.nan, 1.0])
def test_blocks_where_nothing_is_observed(y: float) -> None:
    text = model("weighted").to_lgm().replace(": count", ": count?")
    text = re.sub(r"(data n\[obs\] *): positive", r"\1: nonnegative", text)
    data = frame("weighted").assign(y=y, n=float(np.isnan(y)))
    with pytest.raises(lgm.MethodError, match="none of its rows is observed"):
        lgm.fit(lgm.loads(text), data, "laplace", fixed={"s": 0.5}, options=STREAMED)


def test_high_levels_are_refused() -> None:
    data = frame("gaussian")
    data["y"] += 1e8
    with pytest.raises(lgm.MethodError, match="its level, 1e\\+08, is high"):
        lgm.fit(model("gaussian"), data, "laplace", "map", options=STREAMED)
    data["y"] -= 1e8 - 1e3
    agree(
        lgm.fit(model("gaussian"), data, "laplace", "map", options=STREAMED),
        lgm.fit(model("gaussian"), data, "laplace", "map", options=KEPT),
        1e-4,
    )


def test_a_datum_that_is_absent_is_named_as_ever() -> None:
    with pytest.raises(lgm.DataError, match="E305"):
        lgm.fit(model("poisson"), frame("poisson").drop(columns="x"), options=STREAMED)


def test_methods_that_are_offered_run() -> None:
    from lgmdsl.inference.registry import backends

    data, declared = frame("binary", 200), model("binary")
    able = [name for name, b in backends().items() if b.spec.takes_sums]
    assert {"laplace", "natural-gradient", "map", "double-loop", "ep"} <= {*able}
    for name in able:
        agree(
            lgm.fit(declared, data, name, fixed={"s": 0.5}, options=STREAMED),
            lgm.fit(declared, data, name, fixed={"s": 0.5}, options=KEPT),
            1e-2,
        )


def test_the_same_data_are_known_as_such() -> None:
    data, declared = frame("poisson"), model("poisson")
    streamed = lgm.fit(declared, data, "laplace", "map", options=STREAMED)
    kept = lgm.fit(declared, data, "laplace", "map", options=KEPT)
    for name in ("y", "x", "who", "n"):
        assert streamed.provenance[f"sha256_{name}"] == kept.provenance[f"sha256_{name}"]
    assert "observe different responses" not in str(lgm.compare_models({"a": streamed, "b": kept}))
    other = lgm.fit(
        declared, data.assign(y=data["y"] + (data.index == 600)), "laplace", "map", options=STREAMED
    )
    assert "observe different responses" in str(lgm.compare_models({"a": other, "b": kept}))


def test_passes_of_several_threads_see_the_same_chunks() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from lgmdsl.dataset import read
    from lgmdsl.graph.build import model_graph
    from lgmdsl.sites.catalogue import find_site
    from lgmdsl.streams.collective import Places
    from lgmdsl.streams.streamable import Table, table_of

    graph, dataset = model_graph(model("poisson").checked), read(frame("poisson"))
    table = table_of(graph, dataset)
    assert isinstance(table, Table)
    streamed = preparing.prepare(graph, dataset, table, find_site)
    (site,) = streamed.sites(streamed.hypers.start({}))
    assert isinstance(site, Places)
    s = np.random.default_rng(0).normal(size=(len(site), 3))
    begun = [site.rows.chunks() for _ in range(3)]
    for _ in range(4):
        for chunks in begun:
            next(chunks)
    once = site.log_density(s)
    with ThreadPoolExecutor(4) as pool:
        for other in pool.map(site.log_density, [s] * 12):
            assert np.array_equal(other, once)


@pytest.mark.parametrize("unit", [1e8, 1e20])
def test_covariates_in_any_unit(unit: float, tmp_path: Path) -> None:
    """A place of few latents in different units: the eigenvalues of its weight lost the small ones,
    and the fit ended in a numerical error."""
    data = frame("poisson")[["y", "x"]]
    model = lgm.loads(f"""lgm 1
index obs
data y[obs] : count
data x[obs] : real
latent a ~ normal(sd = 2)
latent b ~ normal(sd = {1 / unit})
observe y ~ poisson(log_rate = a + b * x)
""")
    place = tmp_path / "rows.parquet"
    data.assign(x=unit * data["x"]).to_parquet(place)
    fits = [lgm.fit(model, place, "laplace", options=o) for o in (STREAMED, KEPT)]
    assert fits[0].converged
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, rel=1e-10)
