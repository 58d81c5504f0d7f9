"""Methods other than `laplace` and `natural-gradient` on rows that are read by batches, against the
fits that keep the rows."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main
from lgmdsl.streams import prepare as preparing
from lgmdsl.streams import row_sites
from lgmdsl.streams import rows as rows_of_streams

STREAMED: dict[str, Any] = {"rows": "streamed"}
KEPT: dict[str, Any] = {"rows": "kept", "merge": "off"}
TEXT = """lgm 1
index obs
index group
data y[obs] : {type}
data x[obs] : real
data n[obs] : positive
data who[obs] : group
{hyper}hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent a ~ flat
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
latent v[group] ~ normal(sd = 0.5)
let eta[obs] = a + b * x + u[who] + v[who] * x + {more}
observe y ~ {family}
"""
SCALE = "hyper t : positive ~ pc_sd(u = 1, alpha = 0.05)\n"
FAMILIES = {
    "poisson": ("count", "poisson(log_rate = eta)", ""),
    "binary": ("binary", "bernoulli(logit = eta, weight = n)", ""),
    "binomial": ("count", "binomial(logit = eta, n = 9)", ""),
    "normal": ("real", "normal(mean = eta, sd = t)", SCALE),
    "laplace": ("real", "laplace(mean = eta, scale = t)", SCALE),
    "logistic": ("real", "logistic(mean = eta, scale = t)", SCALE),
    "quantile": ("real", "asymmetric_laplace(quantile = eta, scale = t, level = 0.3)", SCALE),
}
BOUNDED = ("binary", "binomial", "normal", "laplace", "logistic", "quantile")
PINNED = {"s": 0.6, "t": 0.8}


def model(case: str, more: str = "0.1 * n") -> lgm.Model:
    kind, family, hyper = FAMILIES[case]
    return lgm.loads(TEXT.format(type=kind, family=family, hyper=hyper, more=more))


def frame(case: str, size: int = 400, groups: int = 9) -> pd.DataFrame:
    rng = np.random.default_rng([1, len(case)])
    who, x, n = rng.integers(0, groups, size), rng.normal(size=size), rng.uniform(0.5, 2.0, size)
    eta = 0.3 + 0.4 * x + rng.normal(0.0, 0.6, groups)[who] + rng.normal(0.0, 0.4, groups)[who] * x
    kind = FAMILIES[case][0]
    y: np.ndarray = eta + rng.laplace(size=size)
    if kind == "binary":
        y = (rng.random(size) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64)
    elif kind == "count":
        y = np.minimum(rng.poisson(np.exp(eta)), 9)
    labels = np.array([f"g{k}" for k in range(groups)])
    return pd.DataFrame({"y": y, "x": x, "n": n, "who": labels[who]})


def pins(declared: lgm.Model) -> dict[str, float]:
    hypers = declared.checked.symbols
    return {n: v for n, v in PINNED.items() if n in hypers}


def fitted(case: str, method: str, options: dict[str, Any], data: object = None) -> lgm.Fit:
    declared = model(case)
    data = frame(case) if data is None else data
    return lgm.fit(declared, data, method, fixed=pins(declared), options=options, tol=1e-9)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "BATCH", 192)
    monkeypatch.setattr(preparing, "SAMPLE", 20)
    monkeypatch.setattr(rows_of_streams, "CHUNK", 64)


def agree(streamed: lgm.Fit, kept: lgm.Fit, tolerance: float, evidence: float = 1e-9) -> None:
    assert streamed.converged and kept.converged
    assert "streamed" in streamed.provenance and "streamed" not in kept.provenance
    if np.isfinite(kept.log_evidence):
        assert streamed.log_evidence == pytest.approx(kept.log_evidence, rel=evidence)
    assert np.isfinite(streamed.log_evidence) == np.isfinite(kept.log_evidence)
    for name in {*kept.names} & {*streamed.names}:
        sd = np.asarray(kept.sd(name))
        if (sd > 0.0).all():
            gap = np.abs(np.asarray(streamed.mean(name)) - np.asarray(kept.mean(name))) / sd
            assert gap.max() < tolerance, name
            assert np.asarray(streamed.sd(name)) == pytest.approx(sd, rel=tolerance), name


@pytest.mark.parametrize("case", ["poisson", "binary", "normal", "logistic"])
def test_the_mode_is_that_of_the_rows(case: str) -> None:
    agree(fitted(case, "map", STREAMED), fitted(case, "map", KEPT), 1e-7)


def test_the_mode_with_a_kinked_potential_on_latents() -> None:
    """Blocks that are not streamed take their steps as ever: some effects are 0 at the mode."""
    text = model("poisson").to_lgm().replace("latent u[group] ~ normal(sd = s)", "latent u[group]")
    text = text.replace("latent u[group]", "latent u[group] ~ flat")
    declared = lgm.loads(text + "potential u ~ laplace(scale = 0.02)\n")
    data, fixed = frame("poisson"), {"s": 1.0}
    both = [lgm.fit(declared, data, "map", fixed=fixed, options=o) for o in (STREAMED, KEPT)]
    zero = [np.abs(np.asarray(fit.mean("u"))) < 1e-9 for fit in both]
    assert np.array_equal(*zero) and 0 < zero[0].sum() < 9
    streamed, kept = (np.asarray(fit.mean("u")) for fit in both)
    assert streamed == pytest.approx(kept, abs=1e-6)


@pytest.mark.parametrize("case", BOUNDED)
def test_the_double_loop_bounds_each_row(case: str) -> None:
    agree(fitted(case, "double-loop", STREAMED), fitted(case, "double-loop", KEPT), 1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "hyper"), [("laplace", "map"), ("binary", "integrate"), ("quantile", "map")]
)
def test_the_double_loop_learns_hyperparameters(case: str, hyper: str) -> None:
    """A search's tolerance apart."""
    streamed, kept = (
        lgm.fit(model(case), frame(case), "double-loop", hyper, options=o, tol=1e-10)
        for o in (STREAMED, KEPT)
    )
    agree(streamed, kept, 1e-3, 1e-8)


@pytest.mark.few(6)
@pytest.mark.parametrize("case", ["poisson", *BOUNDED])
def test_ep_matches_the_moments_of_each_row(case: str) -> None:
    agree(fitted(case, "ep", STREAMED), fitted(case, "ep", KEPT), 1e-6, 1e-8)


@pytest.mark.parametrize("power", [0.5, 0.01])
def test_ep_of_a_power(power: float) -> None:
    declared, data, options = model("binary"), frame("binary"), {"power": power}
    streamed, kept = (
        lgm.fit(declared, data, "ep", fixed=pins(declared), options=o | options, tol=1e-9)
        for o in (STREAMED, KEPT)
    )
    agree(streamed, kept, 1e-6, 1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize(("case", "hyper"), [("laplace", "map"), ("binary", "integrate")])
def test_ep_learns_hyperparameters(case: str, hyper: str) -> None:
    streamed, kept = (
        lgm.fit(model(case), frame(case), "ep", hyper, options=o, tol=1e-10)
        for o in (STREAMED, KEPT | {"correction": "off", "marginals": "gaussian"})
    )
    agree(streamed, kept, 1e-3, 1e-8)


def test_ep_next_to_potentials_on_latents() -> None:
    """One block whose rows are visited in passes, scalar ones and one of groups that are not."""
    text = model("binary").to_lgm()
    more = "potential b ~ laplace(scale = 0.3)\npotential u ~ logistic(scale = 0.5)\n"
    declared, data = lgm.loads(text + more), frame("binary")
    streamed, kept = (
        lgm.fit(declared, data, "ep", fixed=pins(declared), options=o, tol=1e-9)
        for o in (STREAMED, KEPT)
    )
    agree(streamed, kept, 1e-6, 1e-8)


@pytest.mark.thorough
def test_the_slope_of_ep_in_a_parameter_of_the_rows() -> None:
    """By differences of the evidence in the scale of the rows' density."""
    data, step = frame("laplace"), 1e-4

    def at(value: float) -> lgm.Fit:
        fixed = {"s": 0.6, "t": value}
        return lgm.fit(model("laplace"), data, "ep", fixed=fixed, options=STREAMED, tol=1e-11)

    up, down = at(0.8 + step).log_evidence, at(0.8 - step).log_evidence
    learned = lgm.fit(model("laplace"), data, "ep", "map", fixed={"s": 0.6}, options=STREAMED)
    t = float(learned.theta["t"])
    prior = lgm.fit(model("laplace"), data, "ep", fixed={"s": 0.6, "t": t}, options=STREAMED)
    assert prior.log_evidence > max(up, down)
    by_rows = slope_in_scale(data, 0.8)
    assert by_rows == pytest.approx((up - down) / (2.0 * step), rel=1e-5)


def slope_in_scale(data: pd.DataFrame, value: float) -> float:
    """d log evidence / dt of EP's streamed posterior."""
    from lgmdsl.dataset import read
    from lgmdsl.graph.build import model_graph
    from lgmdsl.inference.driver import Tolerances, run
    from lgmdsl.inference.plan import plan
    from lgmdsl.sites.catalogue import find_site
    from lgmdsl.streams.streamable import Table, table_of

    graph, dataset = model_graph(model("laplace").checked), read(data)
    table = table_of(graph, dataset)
    assert isinstance(table, Table)
    planned = plan(preparing.prepare(graph, dataset, table, find_site), "ep", None, {})
    theta = {"s": np.array(0.6), "t": np.array(value)}
    posterior = run(planned.backend, planned.at(theta), Tolerances(1e-12, 1e-8), 100).posterior
    assert posterior is not None and posterior.slopes is not None
    (slopes,) = posterior.slopes()
    return float(np.sum(slopes["scale"]))


def test_the_sites_of_rows_on_disk_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fitted("binary", "ep", STREAMED)
    monkeypatch.setattr(row_sites, "SHARE", 0.0)
    assert row_sites.on_disk(1)
    other = fitted("binary", "ep", STREAMED)
    assert one.log_evidence == other.log_evidence
    assert np.array_equal(one.weight[0], other.weight[0])


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, first: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(row_sites, "SHARE", 0.0)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(lgm.DataError, match="no space left on device") as error:
        fitted("binary", "ep", STREAMED)
    assert error.value.diagnostics[0].code == "E306"
    assert "TMPDIR" in str(error.value)


def test_ep_takes_part_of_a_step_where_the_whole_one_leads_away() -> None:
    """`damping`: the sites between those visited and those asked for, and the same fixed point."""
    declared, data = model("laplace"), frame("laplace")
    streamed, kept = (
        lgm.fit(declared, data, "ep", fixed=pins(declared), options=o, tol=1e-9)
        for o in (STREAMED | {"damping": 0.3}, KEPT)
    )
    agree(streamed, kept, 1e-6, 1e-8)
    assert streamed.steps > kept.steps


@pytest.mark.parametrize("mode", ["sequential", "double-loop"])
def test_orders_of_ep_that_need_all_rows_are_refused(mode: str) -> None:
    with pytest.raises(lgm.MethodError, match="cannot walk through rows") as error:
        fitted("binary", "ep", STREAMED | {"mode": mode})
    assert error.value.diagnostics[0].code == "E501"


def test_rows_on_potentials_of_the_residual_predict_and_are_stored(tmp_path: Path) -> None:
    """`laplace` observations are a potential on eta - y; what is read again is the family."""
    both = [fitted("laplace", "double-loop", o) for o in (STREAMED, KEPT)]
    both[0].save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    new = frame("laplace", 7).drop(columns="y")
    want = both[1].predict(new).mean("eta").values
    for fit in (both[0], again):
        assert fit.predict(new).mean("eta").values == pytest.approx(want, abs=1e-6)
    assert again.log_evidence == both[0].log_evidence


def test_high_levels_on_a_residual_are_refused() -> None:
    data = frame("laplace")
    data["y"] += 1e8
    with pytest.raises(lgm.MethodError, match="its level, 1e\\+08, is high"):
        fitted("laplace", "double-loop", STREAMED, data)


METHODS = [
    ("poisson", "map"),
    ("binary", "double-loop"),
    ("laplace", "double-loop"),
    ("binary", "ep"),
    ("laplace", "ep"),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("case", "method"), METHODS)
def test_the_same_bits_for_any_batches_and_sources(
    case: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = frame(case), tmp_path / "rows.parquet"
    pieces = [data[:0], data[:64], data[64:64], data[64:301], data[301:]]  # empty ones too
    schema = pa.Schema.from_pandas(data, preserve_index=False)
    with pq.ParquetWriter(path, schema) as writer:
        for piece in pieces:
            writer.write_table(pa.Table.from_pandas(piece, schema, preserve_index=False))
    fits = [fitted(case, method, STREAMED, source) for source in (data, path)]
    monkeypatch.setattr(preparing, "BATCH", 64 * 7)
    fits.append(fitted(case, method, STREAMED))
    for other in fits[1:]:
        assert np.array_equal(other.log_evidence, fits[0].log_evidence, equal_nan=True)
        assert np.array_equal(other.weight[0], fits[0].weight[0])
        assert np.array_equal(other.mean("u"), fits[0].mean("u"))
        assert np.array_equal(other.sd("v"), fits[0].sd("v"))


HOSTILE: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "groups of one row": lambda d: d.assign(who=[f"g{k}" for k in range(len(d))])[:70],
    "shuffled": lambda d: d.sample(frac=1.0, random_state=3, ignore_index=True),
    "rows without a response": lambda d: d.assign(
        y=d["y"].astype(float).where(d.index.to_series() % 3 > 0)
    ),
    "a group without a response": lambda d: d.assign(
        y=d["y"].astype(float).where(d["who"] != "g4")
    ),
    "a covariate in tiny units": lambda d: d.assign(x=1e-20 * d["x"]),
    "a covariate in large units": lambda d: d.assign(x=1e2 * d["x"]),
}


@pytest.mark.few(7)
@pytest.mark.parametrize("change", HOSTILE)
@pytest.mark.parametrize(("case", "method"), METHODS)
def test_hostile_rows(case: str, method: str, change: str) -> None:
    data = HOSTILE[change](frame(case))
    text = model(case).to_lgm()
    if data["y"].isna().any():
        text = text.replace(f": {FAMILIES[case][0]}", f": {FAMILIES[case][0]}?", 1)
    declared = lgm.loads(text)
    streamed, kept = (
        lgm.fit(declared, data, method, fixed=pins(declared), options=o, tol=1e-9)
        for o in (STREAMED, KEPT)
    )
    agree(streamed, kept, 2e-6)


@pytest.mark.parametrize(("case", "method"), METHODS)
def test_a_nan_is_named_by_its_row(case: str, method: str) -> None:
    data = frame(case)
    data.loc[311, "x"] = np.nan
    with pytest.raises(lgm.DataError, match="311"):
        fitted(case, method, STREAMED, data)


def test_offsets_beyond_any_data_are_no_answer() -> None:
    """Poisson rates of exp(1e20): an error, or a run that does not say `converged`."""
    data = frame("poisson")
    data.loc[17, "n"] = 1e20
    for options in (STREAMED, KEPT):
        with pytest.raises(lgm.LgmError):
            fitted("poisson", "map", options, data)


def test_an_offset_of_1e20_on_a_row_that_it_explains() -> None:
    """log t is 0 there: the row says nothing, and the others what they did."""
    data = frame("binary")
    data.loc[17, ["n", "y"]] = 1e20, 1
    text = model("binary").to_lgm().replace("weight = n", "weight = 1")
    declared = lgm.loads(text)
    for method in ("map", "double-loop", "ep"):
        whole, without = (
            lgm.fit(declared, rows, method, fixed=pins(declared), options=o, tol=1e-9)
            for rows, o in ((data, STREAMED), (data.drop(17), KEPT))
        )
        agree(whole, without, 1e-6)


def test_kinks_of_rows_are_refused_by_the_mode() -> None:
    with pytest.raises(lgm.MethodError, match="keeps the slope of each row") as error:
        fitted("laplace", "map", STREAMED)
    assert error.value.diagnostics[0].code == "E501"
    kept = fitted("laplace", "map", {"rows": "kept"})  # the remedy
    assert kept.converged


def test_a_support_that_moves_is_looked_for_row_by_row() -> None:
    text = model("poisson").to_lgm().replace("data y[obs] : count", "data y[obs] : positive")
    text = text.replace(
        "poisson(log_rate = eta)", "generalized_pareto(log_scale = eta, shape = -0.4)"
    )
    data = frame("poisson")
    data["y"] = 1.0 + data["y"]
    for method in ("map", "laplace"):
        with pytest.raises(lgm.NumericalError, match="no latents were found for which every row"):
            lgm.fit(lgm.loads(text), data, method, fixed={"s": 0.5}, options=STREAMED)


@pytest.mark.parametrize(("case", "method"), METHODS)
def test_the_command_takes_them(
    case: str, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared, data = model(case), frame(case)
    files = [str(tmp_path / name) for name in ("model.lgm", "rows.parquet", "fit.nc")]
    Path(files[0]).write_text(declared.to_lgm(), encoding="utf-8")
    data.to_parquet(files[1])
    sets = [word for name, value in pins(declared).items() for word in ("--set", f"{name}={value}")]
    words = ["--method", method, "--option", "rows=streamed", "-o", files[2], "--tol", "1e-9"]
    assert main(["fit", *files[:2], *words, *sets]) == 0
    assert "400 rows at" in capsys.readouterr().out
    stored = lgm.load_fit(files[2])
    assert np.array_equal(stored.mean("u"), fitted(case, method, STREAMED).mean("u"))


def test_explain_says_what_reads_rows_by_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    frame("binary").to_parquet(path)
    page = " ".join(str(lgm.explain(model("binary"), path)).split())
    methods = ("laplace", "natural-gradient", "double-loop", "ep", "map")
    assert "400 rows over `obs`, read by batches with `--option rows=streamed` by" in page
    for name in methods:
        assert name in page.split("read by batches")[1].split("ep holds")[0]
    assert "ep holds a Gaussian of each row then: about 25.6 kB in memory" in page
    monkeypatch.setattr(row_sites, "SHARE", 0.0)
    assert "in temporary files" in str(lgm.explain(model("binary"), path))
    frame("laplace").to_parquet(path)
    page = " ".join(str(lgm.explain(model("laplace"), path)).split())
    assert "laplace.mean has a kink, and method `map` keeps the slope of each row" in page
    joined = lgm.loads(model("binary").to_lgm().replace("b * x", "b * sum(x, obs)"))
    frame("binary").to_parquet(path)
    assert "kept in memory: rows of `obs` are joined" in str(lgm.explain(joined, path))
    assert "by batches" not in str(lgm.explain(model("binary"), frame("binary")))
