"""Labels are what a file says: text stays text where a number does not write back to it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
latent u[g] ~ normal(sd = 1)
observe y ~ normal(mean = u[who], sd = 1)
"""
GRAPH = """lgm 1
index area
data y[area] : count
data near[area, area] : graph
latent v[area] ~ besag(graph = near, sd = 1)
observe y ~ poisson(log_rate = v)
"""
LONG = [f"10000000000000000000{k}" for k in range(1, 4)]


def _members(data: object) -> list[object]:
    return list(lgm.fit(lgm.loads(MODEL), data, method="laplace").mean("u")["g"].values)


@pytest.mark.parametrize(
    ("fields", "members"),
    [
        (LONG, LONG),
        (["1.1", "1.10", "1.2", "1.20"], ["1.1", "1.10", "1.2", "1.20"]),
        (["01234", "1234"], ["01234", "1234"]),
        (["1e2", "100"], ["100", "1e2"]),
        (["2", "10", "2"], [2, 10]),
        (["2.0", "10.0"], [2, 10]),
    ],
    ids=lambda v: ",".join(map(str, v)),
)
def test_members_of_a_csv(fields: list[str], members: list[object], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,who\n" + "".join(f"{k}.5,{f}\n" for k, f in enumerate(fields)))
    fit = lgm.fit(lgm.loads(MODEL), path, method="laplace")
    got = list(fit.mean("u")["g"].values)
    assert sorted(map(str, got)) == sorted(map(str, members))
    as_frame = {"y": np.arange(len(fields)) + 0.5, "who": np.array(fields)}
    if all(isinstance(m, str) for m in members):
        assert sorted(map(str, _members(as_frame))) == sorted(map(str, members))


def test_rows_stay_with_their_members(tmp_path: Path) -> None:
    """The effects of `01` and `1` are those of their own rows, also where labels are given."""
    path = tmp_path / "t.csv"
    path.write_text("y,who\n5,01\n-5,1\n5,01\n-5,1\n")
    fit = lgm.fit(lgm.loads(MODEL), path, method="laplace")
    u = fit.mean("u")
    assert float(u.sel(g="01")) > 3.0 > -3.0 > float(u.sel(g="1"))
    low, high = fit.predict({"who": ["1", "01"]}).response("y")["mean"].values
    assert low < -3.0 < 3.0 < high


def test_tables_have_labels_as_they_are_written(tmp_path: Path) -> None:
    """Predictions and augmented rows can be joined by their labels, and by ids that the model
    doesn't read; numbers stay numbers."""
    path = tmp_path / "t.csv"
    path.write_text(f"y,who,zip,x\n5,01,007,1.50\n-5,1,100,2\n5,01,,3\n1,{LONG[0]},001,4\n")
    text = MODEL.replace("who[obs] : g", "who[obs] : g\ndata x[obs] : real")
    fit = lgm.fit(lgm.loads(text.replace("u[who]", "u[who] + x")), path, method="laplace")
    for table in (fit.predict(path).frame(), fit.augment(path, loo=False)):
        assert table["who"].tolist() == ["01", "1", "01", LONG[0]]
        assert table["zip"].fillna("").tolist() == ["007", "100", "", "001"]
        assert table["x"].tolist() == [1.5, 2.0, 3.0, 4.0]
    rows = tmp_path / "rows.csv"
    rows.write_text("obs,y,who\n01,5,a\n1,-5,b\n")
    fit = lgm.fit(lgm.loads(MODEL), rows, method="laplace")
    assert fit.predict(rows).frame()["obs"].tolist() == ["01", "1"]


def test_pairs_of_a_graph(tmp_path: Path) -> None:
    pairs = tmp_path / "near.csv"
    pairs.write_text("from,to\n01,1\n1,02\n")
    data = {"y": np.array([1, 2, 3]), "near": pairs, "area": ["01", "02", "1"]}
    v = lgm.fit(lgm.loads(GRAPH), data, method="laplace").mean("v")
    assert sorted(v["area"].values.tolist()) == ["01", "02", "1"]


def test_whole_decimals_are_integers() -> None:
    pa = pytest.importorskip("pyarrow")
    big = [Decimal(f"1234567890123456789{k}") for k in range(3)]
    for values, members in ((big, [str(v) for v in big]), ([Decimal(2), Decimal(10)], [2, 10])):
        column = pa.array(values, pa.decimal128(38, 0))
        table = pa.table({"y": np.arange(len(values)) + 0.5, "who": column})
        assert sorted(map(str, _members(table))) == sorted(map(str, members))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"y": [0.5, 1.5, 2.5], "who": big})
    assert sorted(map(str, _members(frame))) == [str(v) for v in big]


def test_a_bootstrap_sample_has_rows_without_names() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"y": np.arange(6.0), "who": list("abcabc")})
    drawn = frame.sample(6, replace=True, random_state=1)
    assert not drawn.index.is_unique
    plain = lgm.fit(lgm.loads(MODEL), drawn.reset_index(drop=True))
    assert lgm.fit(lgm.loads(MODEL), drawn).log_evidence == plain.log_evidence
    with pytest.raises(lgm.DataError, match="E302"):
        lgm.fit(lgm.loads(MODEL), drawn.rename_axis("obs"))
