"""Estimated errors of fits to shards: those of the same rows read by batches."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.errors import in_sample
from lgmdsl.shards.split import split

MODEL = """lgm 1
index obs
index group
data y[obs] : binary
data who[obs] : group
hyper s : positive ~ half_normal(sd = 3)
latent a ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
observe y ~ bernoulli(logit = a + u[who])
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(800), 3)
    u = 2.0 * rng.normal(size=800)
    y = (rng.random(len(who)) < 1.0 / (1.0 + np.exp(-0.5 - u[who]))).astype(int)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pd.DataFrame({"y": y, "who": pd.Categorical([f"g{k}" for k in who])}).to_parquet(path)
    return path


@pytest.fixture(scope="module")
def folder(table: Path) -> Path:
    split(table, "who", table.parent / "shards", 4)
    return table.parent / "shards"


@pytest.mark.thorough
@pytest.mark.parametrize("hyper", ["map", "integrate"])
def test_as_of_rows_read_by_batches(hyper: str, table: Path, folder: Path) -> None:
    model = lgm.loads(MODEL)
    shards = lgm.fit(model, folder, "laplace", hyper)
    rows = lgm.fit(model, table, "laplace", hyper, options={"rows": "streamed"})
    assert shards.accuracy.evidence == pytest.approx(rows.accuracy.evidence, rel=0.02)
    assert shards.accuracy.mean == pytest.approx(
        rows.accuracy.mean, rel=0.01 if hyper == "map" else 0.3
    )
    assert [w.code for w in shards.warnings] == [w.code for w in rows.warnings] == ["W609"]
    assert "`s` may be off" in shards.warnings[0].message


def test_a_sample_of_the_shards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lgm.loads(MODEL)
    whole = lgm.fit(model, folder, "laplace", "map").accuracy
    monkeypatch.setattr(in_sample, "ROWS", 300)
    monkeypatch.setattr(in_sample, "GROUPS", 50)
    part = lgm.fit(model, folder, "laplace", "map").accuracy
    (rows,) = re.findall(r"in (\d+) of 2,400 rows", part.basis)
    assert 250 <= int(rows) <= 400
    assert part.mean == pytest.approx(whole.mean, rel=0.3)
    assert part.evidence == pytest.approx(whole.evidence, rel=0.3)
    assert part.sd == pytest.approx(whole.sd, rel=0.3)


@pytest.mark.thorough
def test_auto_corrects_hyperparameters(folder: Path) -> None:
    model = lgm.loads(MODEL)
    named, auto = (lgm.fit(model, folder, method, "map") for method in ("laplace", "auto"))
    assert named.theta["s"] < 1.05 * auto.theta["s"]
    assert "maximise the corrected evidence" in auto.provenance["notes"]
    asked = lgm.fit(model, folder, "laplace", "map", options={"correction": "on"})
    assert asked.theta == auto.theta
    plain = lgm.fit(model, folder, "auto", "map", options={"correction": "off"})
    assert plain.theta == named.theta
