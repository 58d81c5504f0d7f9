"""Predictions whose rows are read, predicted and written by batches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.predict import by_batches
from lgmdsl.api.predict.by_batches import predicted_pieces
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.api.predict.table import table_columns
from lgmdsl.cli.tables import ROW_WRITERS, WRITERS
from lgmdsl.dataset import arrow, read
from lgmdsl.dataset.entries import Loaded
from tests.cli.conftest import Run

MODEL = """lgm 1
index obs
index site
data y[obs] : count
data x[obs] : real
data where[obs] : site
latent b ~ normal(sd = 2)
latent u[site] ~ normal(sd = 0.5)
let eta[obs] = b * x + u[where]
observe y ~ poisson(log_rate = eta)
"""
ROWS = 103
LEVELS = np.array([0.05, 0.5, 0.95])


def table(seed: int) -> pd.DataFrame:
    """Rows at three sites, with plots numbered beyond what floats hold, two of them unknown."""
    rng = np.random.default_rng(seed)
    where = rng.choice(["fen", "bog", "heath"], ROWS)
    plot = pd.array(np.arange(ROWS) + 2**60, dtype="Int64")
    whole = pd.DataFrame({"x": rng.normal(size=ROWS), "where": where, "plot": plot})
    whole.loc[[5, 70], "plot"] = pd.NA
    return whole


@pytest.fixture(scope="module")
def fit() -> Fit:
    given = table(1)
    y = np.random.default_rng(3).poisson(1.0, ROWS)
    data = {"y": y, "x": given["x"].to_numpy(), "where": given["where"].to_numpy()}
    return lgm.fit(lgm.loads(MODEL), data, method="laplace")


@pytest.fixture
def saved(fit: Fit, tmp_path: Path) -> Path:
    fit.save(tmp_path / "f.nc")
    return tmp_path / "f.nc"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    table(2).to_parquet(path, row_group_size=17)
    return path


@pytest.fixture
def by_tens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of more than ten rows is read by batches."""
    monkeypatch.setattr(by_batches, "predicted_pieces", partial(predicted_pieces, rows=10))


def as_frame(part: Prediction) -> pd.DataFrame:
    return pd.DataFrame(table_columns(part, LEVELS))


def test_batches_are_the_rows_of_the_whole(fit: Fit, rows: Path) -> None:
    def refuse(name: str) -> Loaded:
        raise AssertionError(f"all rows of `{name}` were read")

    whole, dataset = fit.predict(str(rows)).frame(), read(rows)
    entries = {k: replace(e, loader=partial(refuse, k)) for k, e in dataset.entries.items()}
    parts = predicted_pieces(fit, replace(dataset, entries=entries), 10)
    frames = [as_frame(p) for p in parts]
    assert [len(f) for f in frames] == [10] * 10 + [3]
    pd.testing.assert_frame_equal(pd.concat(frames, ignore_index=True), whole, rtol=1e-12)


def test_a_parquet_file_has_the_rows_and_types_of_its_source(
    saved: Path, rows: Path, by_tens: None, run: Run, fit: Fit
) -> None:
    out = saved.with_name("out.parquet")
    done = run("predict", saved, rows, "-o", out, "--quantiles", "0.1")
    assert (done.status, done.out) == (0, "")
    assert pq.ParquetFile(out).num_row_groups == 11
    written, source = pq.read_table(out), pq.read_table(rows)
    for name in source.column_names:
        assert written.column(name).combine_chunks() == source.column(name).combine_chunks(), name
    assert written.column("obs").to_pylist() == list(range(ROWS))
    wanted = fit.predict(str(rows)).frame(quantiles=(0.1,))
    for name in ("eta_mean", "eta_q10", "y_sd", "y_q10"):
        np.testing.assert_allclose(written.column(name).to_numpy(), wanted[name], rtol=1e-12)


def test_csv_by_batches_is_csv_of_the_whole(
    saved: Path, rows: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("predict", saved, rows)
    monkeypatch.setattr(by_batches, "predicted_pieces", partial(predicted_pieces, rows=10))
    assert run("predict", saved, rows).out == whole.out


def test_a_label_that_a_later_batch_has_first_is_warned_of_once(
    saved: Path, rows: Path, by_tens: None, run: Run
) -> None:
    changed = pd.read_parquet(rows)
    changed.loc[[25, 77], "where"] = "fenn"
    changed.to_parquet(rows)
    done = run("predict", saved, rows, "-o", saved.with_name("out.parquet"))
    assert done.status == 0
    assert done.err.count("W307") == 1 and '"fenn"' in done.err
    status = pq.read_table(saved.with_name("out.parquet")).column("where_status").to_pylist()
    assert [k for k, s in enumerate(status) if s == "new"] == [25, 77]


def test_a_bad_row_of_a_later_batch_leaves_no_file(
    saved: Path, rows: Path, by_tens: None, run: Run
) -> None:
    changed = pd.read_parquet(rows)
    changed.loc[90, "x"] = np.inf
    changed.to_parquet(rows)
    out = saved.with_name("out.parquet")
    done = run("predict", saved, rows, "-o", out)
    assert done.status == 1 and "`x`" in done.err and not out.exists()
    assert "counted among 90 to 99" in done.err
    assert not list(saved.parent.glob(".lgm-*"))


def test_steps_of_one_another_are_predicted_together(tmp_path: Path) -> None:
    text = """lgm 1
index t
data y[t] : real
latent f[t] ~ ar1(sd = 1, rho = 0.9)
observe y ~ normal(mean = f, sd = 0.5)
"""
    y = np.random.default_rng(0).normal(size=30)
    fit = lgm.fit(lgm.loads(text), {"t": np.arange(30), "y": y})
    new = tmp_path / "later.parquet"
    pd.DataFrame({"t": np.arange(20, 50)}).to_parquet(new)
    (whole,) = predicted_pieces(fit, read(new), 10)
    np.testing.assert_array_equal(as_frame(whole)["t"], np.arange(20, 50))
    np.testing.assert_allclose(
        as_frame(whole)["y_mean"], fit.predict(str(new)).frame()["y_mean"], rtol=1e-12
    )


def test_tables_that_are_no_parquet_files_can_be_written_as_one(
    saved: Path, rows: Path, run: Run
) -> None:
    pd.read_parquet(rows).to_csv(saved.with_name("rows.csv"), index=False)
    out = saved.with_name("out.parquet")
    assert run("predict", saved, saved.with_name("rows.csv"), "-o", out).status == 0
    plots = pq.read_table(out).column("plot").to_pylist()
    assert plots == pq.read_table(rows).column("plot").to_pylist()


def test_what_cannot_be_a_parquet_file_is_refused_before_the_work(
    saved: Path, rows: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = saved.with_name("out.parquet")
    refused = run("predict", saved, rows, "-o", out, "--json")
    assert refused.status == 2 and ".nc or .npz" in refused.out
    assert run("predict", saved, rows, "-o", rows).status == 1  # it is the new data
    with monkeypatch.context() as patch:
        patch.setattr(arrow, "find_spec", lambda name: None)
        lacking = run("predict", saved, saved.with_name("absent.csv"), "-o", out)
    assert lacking.status == 1 and "lgmdsl[data]" in lacking.err
    assert not out.exists()


@pytest.mark.parametrize("ending", sorted({*WRITERS, *ROW_WRITERS}))
def test_what_is_written_can_be_read(
    run: Run, fit: Fit, saved: Path, rows: Path, tmp_path: Path, ending: str
) -> None:
    """By the ending of the file, with the same numbers."""
    out = tmp_path / f"out{ending}"
    assert run("predict", saved, rows, "-o", out).status == 0
    written = read(out).entries["y_mean"].loaded.values
    np.testing.assert_allclose(written, fit.predict(rows).response("y")["mean"], rtol=1e-9)
