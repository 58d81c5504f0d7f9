"""The same labels are the same members in whatever holds them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.grounding.ground import ground
from lgmdsl.dataset import read
from lgmdsl.graph.build import model_graph
from lgmdsl.language.load import loads

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

MODEL = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
latent u[g] ~ normal(sd = 1)
observe y ~ normal(mean = u[who], sd = 1)
"""
D = Decimal
PLUS = [np.datetime64("2024-02-03T04:05:06", "ns") + np.timedelta64(k, "ns") for k in range(3)]

# Labels, and the members that they are where these do not read like the labels.
TABLES: dict[str, tuple[Any, Sequence[str] | None]] = {
    # text
    "words": (["b", "a", "c"], None),
    "cases": (["A", "a", "Á"], None),
    "leading zeros": (["01234", "1234", "001"], None),
    "zeros alone": (["0", "00", "000"], None),
    "versions": (["1.1", "1.10", "1.2", "1.20"], None),
    "three parts": (["1.1.0", "1.10.0", "1.1"], None),
    "exponents": (["1e2", "100", "1E2"], None),
    "hexadecimals": (["0x10", "16", "1e1"], None),
    "text of long numbers": ([f"1000000000000000000{k}x" for k in range(3)], None),
    "signs": (["+1", "1", "-1"], None),
    "underscores": (["1_000", "1000"], None),
    "infinities": (["inf", "1", "x"], None),
    "truth in two spellings": (["TRUE", "true", "FALSE"], None),
    "truth among words": (["true", "no", "yes"], None),
    "other digits": (["١", "1", "x"], None),
    "forms of Unicode": (["\u00e9", "e\u0301", "e"], None),
    "inner spaces": (["a b", "a  b", "ab"], None),
    "quotes": (['a"b', "a'b", "a,b"], None),
    "formulas": (["=1+1", "@a", "+a"], None),
    "lines": (["a\nb", "a b"], None),
    "punctuation": ([".", "-", "--"], None),
    "dates by slashes": (["1/2/2024", "01/02/2024"], None),
    "months": (["2024-01", "2023-12"], None),
    "quarters": (["2024Q1", "2023Q4"], None),
    "names with numbers": (["m10", "m2", "m1"], None),
    "ids with letters": (["12a", "012a", "12A"], None),
    # whole numbers
    "numbers": ([3, 1, 2], None),
    "negative numbers": ([-3, 0, 2], None),
    "numbers of 16 digits": ([9007199254740993, 9007199254740992, 1], None),
    "numbers of 19 digits": ([2**63 - 1, 2**63 - 2, -(2**63)], None),
    "unsigned numbers": (np.array([2**64 - 1, 2**64 - 2, 1], dtype=np.uint64), None),
    "numbers of 20 digits": ([10**20 + 1, 10**20 + 2, 10**20 + 3], None),
    "numbers of 38 digits": ([10**37 + 1, 10**37 + 2, 1], None),
    # fractions
    "fractions": ([0.5, 1.5, 0.25], None),
    "whole fractions": ([2.0, 10.0, 3.0], ["2", "10", "3"]),
    "fractions and whole ones": ([2.0, 0.5], ["2", "0.5"]),
    "rounding": ([0.1 + 0.2, 0.3, 0.1], None),
    "thirds": ([1 / 3, 0.333333333333333, 2 / 3], None),
    "of single precision": (np.array([0.1, 0.2, 0.3], dtype=np.float32), ["0.1", "0.2", "0.3"]),
    "small and large": ([1e-9, 1e22, 0.5], None),
    "large whole ones": ([1e15, 0.5, 123456789012345.0], ["1000000000000000", "0.5",
                                                         "123456789012345"]),
    # decimals
    "whole decimals": ([D(2), D(10), D(3)], None),
    "long decimals": ([D(f"1234567890123456789{k}") for k in range(3)], None),
    "decimals of two digits": ([D("1.10"), D("1.25"), D("2.00")], None),
    "decimals of one digit": ([D("1.5"), D("2.0")], ["1.5", "2"]),
    "decimals beyond floats": ([D("0.1000000000000000001"), D("0.1000000000000000002")], None),
    # truth, dates and times
    "truth": ([True, False, True], ["1", "0", "1"]),
    "days": ([date(2024, 1, 31), date(2023, 12, 1)], None),
    "seconds": ([datetime(2024, 1, 31, 4, 5, 6), datetime(2024, 1, 31, 4, 5, 7)],
                ["2024-01-31T04:05:06", "2024-01-31T04:05:07"]),
    "microseconds": ([datetime(2024, 1, 31, 4, 5, 6, 7), datetime(2024, 1, 31, 4, 5, 6)],
                     ["2024-01-31T04:05:06.000007", "2024-01-31T04:05:06.000000"]),
    "nanoseconds": (np.array(PLUS), list(map(str, PLUS))),
    "times of a zone": ([datetime(2024, 1, 31, 4, k, tzinfo=UTC) for k in range(2)],
                        ["2024-01-31T04:00:00", "2024-01-31T04:01:00"]),
    "times of day": ([time(4, 5, 6), time(4, 5, 7)], None),
    "fine times of day": ([time(4, 5, 6), time(4, 5, 6, 7)],
                          ["04:05:06.000000", "04:05:06.000007"]),
}  # fmt: skip


def members(data: object) -> tuple[set[str], list[str]]:
    """The members, and the label of each row."""
    graph = model_graph(loads(MODEL).checked)
    grounded = ground(graph, read(data))
    labels = [str(v) for v in grounded.indices["g"].labels.tolist()]
    return set(labels), [labels[k] for k in np.asarray(grounded.values["who"])]


def response(labels: Sequence[Any]) -> list[float]:
    return [0.5 + k for k in range(len(labels))]


def typed(labels: Any) -> Any:
    """As an Arrow array; whole numbers of more than 64 bits are decimals there."""
    if isinstance(labels, np.ndarray):
        return pa.array(labels)
    long = isinstance(labels[0], int) and any(abs(v) >= 2**63 for v in labels)
    return pa.array([D(v) for v in labels], pa.decimal128(38, 0)) if long else pa.array(labels)


def table(labels: Sequence[Any]) -> Any:
    return pa.table({"y": response(labels), "who": typed(labels)})


def delimited(sign: str) -> Callable[[Sequence[Any], Path], object]:
    def written(labels: Sequence[Any], folder: Path) -> object:
        path = folder / "t.csv"
        texts = [str(v) for v in labels]
        if isinstance(labels[0], datetime):
            form = "microseconds" if any(v.microsecond for v in labels) else "seconds"
            texts = [v.replace(tzinfo=None).isoformat("T", form) for v in labels]
        elif isinstance(labels[0], time):
            form = "microseconds" if any(v.microsecond for v in labels) else "seconds"
            texts = [v.isoformat(form) for v in labels]
        with path.open("w", newline="") as file:
            rows = csv.writer(file, delimiter=sign)
            rows.writerows([["y", "who"], *zip(response(labels), texts, strict=True)])
        return path

    return written


def in_npz(labels: Sequence[Any], folder: Path) -> object:
    values = np.asarray(labels)
    if values.dtype == object:
        pytest.skip("an .npz file holds no Python objects")
    np.savez(folder / "t.npz", y=response(labels), who=values)
    return folder / "t.npz"


def in_parquet(labels: Sequence[Any], folder: Path) -> object:
    import pyarrow.parquet as pq

    pq.write_table(table(labels), folder / "t.parquet")
    return folder / "t.parquet"


def in_feather(labels: Sequence[Any], folder: Path) -> object:
    from pyarrow import feather

    feather.write_feather(table(labels), folder / "t.feather")
    return feather.read_table(folder / "t.feather")


def in_netcdf(labels: Sequence[Any], folder: Path) -> object:
    xr = pytest.importorskip("xarray")
    values = np.asarray(labels)
    return xr.Dataset({"y": ("obs", response(labels)), "who": ("obs", values)})


FORMATS: dict[str, Callable[[Sequence[Any], Path], object]] = {
    "csv": delimited(","),
    "tabs": delimited("\t"),
    "npz": in_npz,
    "parquet": in_parquet,
    "feather": in_feather,
    "xarray": in_netcdf,
    "lists": lambda labels, _: {"y": response(labels), "who": list(labels)},
    "pandas": lambda labels, _: pd.DataFrame({"y": response(labels), "who": labels}),
    "objects": lambda labels, _: pd.DataFrame(
        {"y": response(labels), "who": pd.Series(list(labels), dtype=object)}
    ),
    "categories": lambda labels, _: pd.DataFrame(
        {"y": response(labels), "who": pd.Categorical(list(labels))}
    ),
    "arrow types": lambda labels, _: table(labels).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda labels, _: pl.from_arrow(table(labels)),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", TABLES)
def test_members(name: str, form: str, tmp_path: Path) -> None:
    labels, names = TABLES[name]
    wanted = [str(v) for v in labels] if names is None else list(names)
    got, rows = members(FORMATS[form](labels, tmp_path))
    assert rows == wanted
    assert got == set(wanted)


def test_pairs_of_numbers_and_text(tmp_path: Path) -> None:
    """A column of numbers beside one of text keeps its own text."""
    path = tmp_path / "near.csv"
    path.write_text("from,to\n01,b\n1,b\n")
    model = (
        "lgm 1\nindex area\ndata y[area] : real\ndata near[area, area] : graph\n"
        "latent v[area] ~ besag(graph = near, sd = 1)\nobserve y ~ normal(mean = v, sd = 1)\n"
    )
    grounded = ground(model_graph(loads(model).checked), read({"y": [1.0, 2.0, 3.0], "near": path}))
    assert set(grounded.indices["area"].labels.tolist()) == {"01", "1", "b"}


def test_levels_keep_their_digits() -> None:
    for ordered in (False, True):
        levels = [D("1.25"), D("1.10"), D("2.00")]
        who = pd.Categorical(levels[1:] * 2, levels, ordered=ordered)
        assert members({"y": [0.5, 1.5, 2.5, 3.5], "who": who})[1] == ["1.10", "2.00"] * 2


def test_a_computed_fraction_names_its_member() -> None:
    """0.1 + 0.2 is the member 0.3 where there is no other to 15 digits; else they are two, and
    this is said."""
    y = [1.0, 2.0]
    fit = lgm.fit(lgm.loads(MODEL), {"y": y, "who": [0.1 + 0.2, 0.3]}, method="laplace")
    assert any("W310" in str(w) for w in fit.warnings)
    assert fit.mean("u")["g"].values.tolist() == [0.3, 0.1 + 0.2]
    fit = lgm.fit(lgm.loads(MODEL), {"y": y, "who": [0.3, 0.5]}, method="laplace")
    at = [fit.predict({"who": [w]}).response("y")["mean"].item() for w in (0.3, 0.1 + 0.2)]
    assert at[0] == at[1] != 0.0


def test_fields_that_spaces_join_are_named(tmp_path: Path) -> None:
    def found(text: str) -> list[str]:
        (tmp_path / "t.csv").write_text(text)
        grounded = ground(model_graph(loads(MODEL).checked), read(tmp_path / "t.csv"))
        return [w.code + " " + w.details[0] for w in grounded.warnings]

    assert found("y,who\n1,a\n2,a \n3, b\n") == ['W310 "a", "a "']
    assert found("y,who\n1,01\n2, 01\n3,1\n") == ['W310 " 01", "01"']
    assert found("y, who\n1, a\n2, b\n") == found("y, who\n1, 1\n2,1\n") == []


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["m10", "m2", "m1"], ["m1", "m2", "m10"]),
        (["10b", "10a", "9z", "a"], ["9z", "10a", "10b", "a"]),
        (["1.10", "1.9", "1.2.1"], ["1.2.1", "1.9", "1.10"]),
        (["m02", "m2", "m1", "m"], ["m", "m1", "m02", "m2"]),
        (["2", "10", "1.5"], ["1.5", "2", "10"]),
        ([10, 9, 0], [0, 9, 10]),
        (["2024-10-01", "2024-09-30"], ["2024-09-30", "2024-10-01"]),
        (["x" + "9" * 5000, "x1"], ["x1", "x" + "9" * 5000]),
    ],
    ids=lambda labels: str(labels[0])[:9],
)
def test_members_are_in_natural_order(labels: list[Any], order: list[Any]) -> None:
    fit = lgm.fit(lgm.loads(MODEL), {"y": response(labels), "who": labels}, method="laplace")
    names = [str(v).removesuffix(".0") for v in fit.mean("u")["g"].values.tolist()]
    assert names == [str(v) for v in order]
    again = fit.predict({"who": labels[::-1]}).response("y")["mean"].values
    assert (np.diff(again) < 0.0).all()  # rows find their members by label
