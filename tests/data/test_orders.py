"""Where the order of an index comes from, and that text without one is refused (E307)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.files.netcdf import ATTRIBUTE, digest
from lgmdsl.canonical.grounding.ground import ground
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.dataset import read
from lgmdsl.errors import DataError
from lgmdsl.extend import Parameter, Signature, Spacing
from lgmdsl.graph.build import model_graph
from lgmdsl.vocabulary.lookup import register, unregister

GOLDEN = Path(__file__).parent / "golden"
ORDINAL = """lgm 1
index obs
index stage
index cut = head(stage)
data y[obs] : stage
data x[obs] : real
hyper c[cut] : ordered ~ normal(mean = 0, sd = 5)
latent b ~ normal(sd = 3)
observe y ~ ordinal(logit = b * x, cuts = c)
"""
MAPPED = """lgm 1
index row
index t
data when[row] : t
data y[row] : real
{extra}latent f[t] ~ {prior}
observe y ~ normal(mean = f[when], sd = 0.2)
"""
DIRECT = """lgm 1
index t
data y[t] : real
latent f[t] ~ ar1(sd = 0.7, rho = 0.6)
observe y ~ normal(mean = f, sd = 0.2)
"""
LEVELS = ["mild", "bad", "worse", "worst"]
GIVEN = ["bad", "mild", "worse", "mild"]  # not the last one
X = [0.0, 1.0, 2.0, 3.0]
CATEGORICAL = pd.Categorical(GIVEN, LEVELS, ordered=True)
ENUM = pl.Series("y", GIVEN, dtype=pl.Enum(LEVELS))
ARROW = pa.table(
    {"y": pa.DictionaryArray.from_arrays([1, 0, 2, 0], pa.array(LEVELS), ordered=True), "x": X}
)
STEPS = (
    "ar1(sd = 1, rho = 0.5)",
    "seasonal(sd = 1, period = 2)",
    "rw1(sd = 1, cyclic = true)",
    "ar(sd = 1, pacf = p)",
)
LINES = ("rw1(sd = 0.7)", "rw2(sd = 0.7)", "ou(sd = 0.7, rate = 0.3)")
FIVE = np.array([0.3, -1.0, 0.4, 2.0, 1.1])


def grounded(text: str, data: Any) -> GroundedModel:
    return ground(model_graph(lgm.loads(text, "m.lgm").checked), read(data))


def labels(text: str, data: Any, index: str) -> list[Any]:
    return list(grounded(text, data).indices[index].labels.tolist())


def refusal(text: str, data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        grounded(text, data)
    return caught.value


def mapped(prior: str) -> str:
    extra = "index lag = 2\nhyper p[lag] : correlation = 0.3\n" if "pacf" in prior else ""
    return MAPPED.format(prior=prior, extra=extra)


# ---- classes -----------------------------------------------------------------------------------


def parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "d.parquet", row_group_size=2)
    return folder / "d.parquet"


@pytest.mark.parametrize("kind", ["pandas", "dict", "polars", "arrow", "parquet", "pandas file"])
def test_levels_of_an_ordered_categorical_are_the_classes(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": CATEGORICAL, "x": X})
    frame.to_parquet(tmp_path / "p.parquet")
    sources: dict[str, Any] = {
        "pandas": frame, "dict": {"y": CATEGORICAL, "x": X},
        "polars": pl.DataFrame({"y": ENUM, "x": X}), "arrow": ARROW,
        "parquet": parquet(ARROW, tmp_path), "pandas file": tmp_path / "p.parquet",
    }  # fmt: skip
    found = grounded(ORDINAL, sources[kind])
    assert found.indices["stage"].labels.tolist() == LEVELS
    assert found.indices["cut"].labels.tolist() == LEVELS[:-1]
    assert found.values["y"].tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize(
    "y", [GIVEN, pd.Categorical(GIVEN, LEVELS), pl.Series(GIVEN, dtype=pl.Categorical)]
)
def test_text_has_no_order(y: Any, tmp_path: Path) -> None:
    error = refusal(ORDINAL, {"y": y, "x": X})
    assert error.codes == ("E307",)
    said = str(error)
    assert "index `stage`, which `head` and `ordinal` need" in said
    assert "in their order (here they are only sorted)" in said
    assert 'index stage = {"bad", "mild", "worse"}' in said and 'data["stage"] = [' in said
    pd.DataFrame({"y": GIVEN, "x": X}).to_csv(tmp_path / "d.csv", index=False)
    shown = refusal(ORDINAL, tmp_path / "d.csv").diagnostics[0].on_command_line().help
    assert ".parquet" in shown and "pd." not in shown


def test_every_remedy_works() -> None:
    stated = ORDINAL.replace("index stage", 'index stage = {"mild", "bad", "worse"}')
    bound = {"y": GIVEN, "x": X, "stage": ["mild", "bad", "worse"]}
    for text, data in ((stated, {"y": GIVEN, "x": X}), (ORDINAL, bound)):
        assert labels(text, data, "stage") == ["mild", "bad", "worse"]


def test_numbers_and_truth_values_are_classes_in_their_order() -> None:
    assert labels(ORDINAL, {"y": [10, 9, 11, 9], "x": X}, "stage") == [9, 10, 11]
    assert labels(ORDINAL, {"y": ["10", "9", "11", "9"], "x": X}, "stage") == ["9", "10", "11"]
    assert labels(ORDINAL, {"y": [2.5, 10.0, -1.0, 2.5], "x": X}, "stage") == ["-1", "2.5", "10"]
    assert labels(ORDINAL, {"y": [True, False, True, False], "x": X}, "stage") == [0, 1]


def test_labels_under_the_name_go_by_their_levels() -> None:
    stage = pd.Categorical(["worse", "mild", "bad"], LEVELS, ordered=True)
    assert labels(ORDINAL, {"y": GIVEN, "x": X, "stage": stage}, "stage") == LEVELS[:3]


def test_two_categoricals_must_agree() -> None:
    text = ORDINAL.replace("data x", "data z[obs] : stage\ndata x").replace("b * x", "b * x + d[z]")
    text = text.replace("latent b", "latent d[stage] ~ normal(sd = 1)\nlatent b")
    short = pd.Categorical(["bad", "mild", "mild", "mild"], ["mild", "bad"], ordered=True)
    other = pd.Categorical(["bad", "mild", "mild", "mild"], ["bad", "mild"], ordered=True)
    assert labels(text, {"y": CATEGORICAL, "x": X, "z": short}, "stage") == LEVELS
    error = refusal(text, {"y": CATEGORICAL, "x": X, "z": other})
    assert error.codes[0] == "E307" and "`y` and `z` give different orders" in str(error)


def test_an_index_that_needs_no_order_has_no_unused_levels() -> None:
    text = mapped("normal(sd = 1)")
    data = {"when": CATEGORICAL, "y": X}
    assert labels(text, data, "t") == ["bad", "mild", "worse"]


def test_the_family_is_asked_what_it_needs() -> None:
    text = ORDINAL.replace("index cut = head(stage)\n", "").replace(
        "hyper c[cut]", "hyper c[stage]"
    )
    text = text.replace(": ordered ~ normal(mean = 0, sd = 5)", ": real ~ normal(mean = 0, sd = 1)")
    text = text.replace("ordinal(logit = b * x, cuts = c)", "categorical(softmax = b * x * c)")
    assert labels(text, {"y": GIVEN, "x": X}, "stage") == ["bad", "mild", "worse"]


def test_operators_along_an_index_need_its_order() -> None:
    text = mapped("normal(sd = 1)") + "potential diff(f, t) ~ laplace(scale = 1)\n"
    assert refusal(text, {"when": ["b", "a", "c"], "y": X[:3]}).codes == ("E307",)
    assert labels(text, {"when": [3, 1, 2], "y": X[:3]}, "t") == [1, 2, 3]


# ---- steps -------------------------------------------------------------------------------------

FILLED: dict[str, tuple[Any, list[Any]]] = {
    "integers": ([0, 1, 4], [0, 1, 2, 3, 4]),
    "every second year": ([2000, 2002, 2006], [2000, 2002, 2004, 2006]),
    "text of integers": (["8", "9", "11"], ["8", "9", "10", "11"]),
    "days": (["2001-02-27", "2001-02-28", "2001-03-02"],
             ["2001-02-27", "2001-02-28", "2001-03-01", "2001-03-02"]),
    "weeks": (["2001-01-01", "2001-01-08", "2001-01-22"],
              ["2001-01-01", "2001-01-08", "2001-01-15", "2001-01-22"]),
    "months": (["2000-12", "2001-02", "2001-03"], ["2000-12", "2001-01", "2001-02", "2001-03"]),
    "first days of months": (["2000-12-01", "2001-02-01", "2001-03-01"],
                             ["2000-12-01", "2001-01-01", "2001-02-01", "2001-03-01"]),
    "last days of months": (["2000-12-31", "2001-01-31", "2001-03-31"],
                            ["2000-12-31", "2001-01-31", "2001-02-28", "2001-03-31"]),
    "quarters": (["2000Q4", "2001Q1", "2001Q3"], ["2000Q4", "2001Q1", "2001Q2", "2001Q3"]),
    "ISO weeks": (["2020-W52", "2021-W01", "2021-W02"],
                  ["2020-W52", "2020-W53", "2021-W01", "2021-W02"]),
    "years": (pd.PeriodIndex(["2000", "2001", "2003"], freq="Y"), [2000, 2001, 2002, 2003]),
    "periods": (pd.PeriodIndex(["2000-12", "2001-01", "2001-03"], freq="M"),
                ["2000-12", "2001-01", "2001-02", "2001-03"]),
    "timestamps": (pd.to_datetime(["2001-01-01", "2001-01-02", "2001-01-04"]),
                   ["2001-01-01", "2001-01-02", "2001-01-03", "2001-01-04"]),
    "hours": (np.array(["2001-01-01T22", "2001-01-01T23", "2001-01-02T01"], dtype="M8[h]"),
              ["2001-01-01T22:00:00", "2001-01-01T23:00:00", "2001-01-02T00:00:00",
               "2001-01-02T01:00:00"]),
    "minutes as text": (["2001-01-01 22:00", "2001-01-01 22:10", "2001-01-01 22:30"],
                        [f"2001-01-01 22:{m}" for m in ("00", "10", "20", "30")]),
    "equal decimals": ([0.1, 0.2, 0.3], ["0.1", "0.2", "0.3"]),
    "thirds": ([0.0, 1 / 3, 2 / 3], ["0", "0.3333333333333333", "0.6666666666666666"]),
}  # fmt: skip


@pytest.mark.parametrize("prior", STEPS)
@pytest.mark.parametrize("name", FILLED)
def test_steps_without_data_are_members(name: str, prior: str) -> None:
    when, wanted = FILLED[name]
    assert labels(mapped(prior), {"when": when, "y": FIVE[: len(when)]}, "t") == wanted


REFUSED: dict[str, tuple[Any, str]] = {
    "uneven decimals": ([0.5, 1.0, 2.1], "its steps are between 0.5 and 1.1"),
    "a gap of 1e9": ([0, 1, 10**9], "1,000,000,001 equal steps lie between"),
    "beyond 64 bits": ([-(2**62), 0, 2**62], "it goes from"),
    "a nanosecond": (np.array(["2001-01-01T00:00:00.000000001", "2001-01-01T00:00:00.000000002",
                               "2001-01-02"], dtype="M8[ns]"), "equal steps lie between"),
    "no date": (["2001-02-28", "2001-02-30", "2001-03-01"], "is not given"),
    "dates of two forms": (["2001-02", "2001-02-28", "2001-03-01"], "is not given"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_labels_without_equal_steps(name: str) -> None:
    when, said = REFUSED[name]
    error = refusal(mapped(STEPS[0]), {"when": when, "y": FIVE[:3]})
    assert said in str(error) and "`ar1`" in str(error)
    assert ("ou(sd = ..., rate = ...)" in str(error)) == (error.codes[0] == "E302")


def test_the_model_says_which_members_there_are() -> None:
    text = mapped(STEPS[0]).replace("index t\n", 'index t = {"1", "2", "4"}\n')
    assert "some steps are left out" in str(refusal(text, {"when": [1, 2, 4], "y": FIVE[:3]}))
    text = text.replace('{"1", "2", "4"}', '{"c", "a", "b"}')
    assert labels(text, {"when": ["a", "b", "c"], "y": FIVE[:3]}, "t") == ["c", "a", "b"]


@pytest.mark.parametrize("kind", ["dict", "frame", "shuffled", "xarray", "series"])
def test_a_response_over_steps_is_missing_where_it_has_no_data(kind: str) -> None:
    at = [0, 1, 2, 5, 6]
    frame = pd.DataFrame({"t": at, "y": FIVE})
    sources: dict[str, Any] = {
        "dict": {"t": at, "y": FIVE}, "frame": frame,
        "shuffled": frame.sample(frac=1.0, random_state=1),
        "xarray": xr.Dataset({"y": ("t", FIVE)}, coords={"t": at}),
        "series": {"y": pd.Series(FIVE, index=pd.Index(at, name="t"))},
    }  # fmt: skip
    fit = lgm.fit(lgm.loads(DIRECT), sources[kind])
    far = np.subtract.outer(at, at)
    cov = 0.49 * 0.6 ** np.abs(far) + 0.04 * np.eye(5)
    exact = -0.5 * (FIVE @ np.linalg.solve(cov, FIVE) + np.linalg.slogdet(2 * np.pi * cov)[1])
    assert fit.log_evidence == pytest.approx(exact, abs=1e-10)
    assert fit.mean("f")["t"].values.tolist() == list(range(7))
    wanted = 0.49 * 0.6 ** np.abs(np.subtract.outer(np.arange(7), at)) @ np.linalg.solve(cov, FIVE)
    np.testing.assert_allclose(fit.mean("f").values, wanted, atol=1e-10)
    assert fit.impute()["y"].sel(t=3).item() == pytest.approx(wanted[3], abs=1e-10)


def test_a_covariate_over_steps_is_named() -> None:
    text = DIRECT.replace("data y", "data x[t] : real\ndata y").replace("mean = f", "mean = f + x")
    error = refusal(text, {"t": [0, 1, 3], "y": FIVE[:3], "x": FIVE[:3]})
    assert error.codes == ("E302",) and "no entry for 2" in str(error)
    assert "data when[row] : t" in str(error)


# ---- positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", LINES)
@pytest.mark.parametrize(
    ("when", "at"),
    [
        ([18.4, 19.0, 19.2, 25.0, 60.0], [18.4, 19.0, 19.2, 25.0, 60.0]),
        ([1, 2, 4, 9, 10], [1, 2, 4, 9, 10]),
        (["2001-01-01", "2001-01-02", "2001-01-05", "2001-02-01", "2001-03-01"], [0, 1, 4, 31, 59]),
        (["2001-01", "2001-02", "2001-05", "2002-01", "2002-02"], [0, 1, 4, 12, 13]),
        ([3, 4, 5, 6, 7], [0, 1, 2, 3, 4]),
    ],
)
def test_numbers_and_dates_are_positions(prior: str, when: Any, at: Any) -> None:
    by_label = lgm.fit(lgm.loads(mapped(prior)), {"when": when, "y": FIVE})
    text = (
        mapped(prior)
        .replace("latent", "data at[t] : real\nlatent")
        .replace(")\nob", ", at = at)\nob")
    )
    by_hand = lgm.fit(lgm.loads(text), {"when": range(5), "y": FIVE, "at": at})
    assert by_label.log_evidence == pytest.approx(by_hand.log_evidence, abs=1e-10)
    np.testing.assert_allclose(by_label.mean("f"), by_hand.mean("f"), atol=1e-10)
    np.testing.assert_allclose(by_label.sd("f"), by_hand.sd("f"), atol=1e-10)


def test_declared_numbers_are_positions_too() -> None:
    text = mapped(LINES[0])
    stated = text.replace("index t\n", 'index t = {"1", "2", "4"}\n')
    data = {"when": [1, 2, 4], "y": FIVE[:3]}
    assert lgm.fit(lgm.loads(stated), data).log_evidence == pytest.approx(
        lgm.fit(lgm.loads(text), data).log_evidence, abs=1e-12
    )


def test_an_argument_needs_no_order() -> None:
    text = mapped("rw1(sd = 0.7, at = at)").replace("latent", "data at[t] : real\nlatent")
    at = pd.Series([1.0, 0.0, 5.0], index=["b", "a", "c"])
    data = {"when": ["b", "a", "c"], "y": FIVE[:3], "at": at}
    by_number = lgm.fit(lgm.loads(mapped("rw1(sd = 0.7)")), {"when": [1, 0, 5], "y": FIVE[:3]})
    fit = lgm.fit(lgm.loads(text), data)
    assert fit.log_evidence == pytest.approx(by_number.log_evidence, abs=1e-10)


def test_labels_too_close_for_float64_are_named() -> None:
    when = [2**60, 2**60 + 1, 2**60 + 2**30]
    error = refusal(mapped(LINES[0]), {"when": when, "y": FIVE[:3]})
    assert error.codes == ("E302",) and "too close" in str(error)


@pytest.mark.few(2)
@pytest.mark.parametrize("prior", [*STEPS, *LINES])
@given(seed=st.integers(0, 1000))
def test_neither_the_order_of_rows_nor_the_start_of_the_labels_matters(
    prior: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    when = np.unique(rng.integers(0, 12, 8))
    when = when[rng.integers(0, when.size, 12)]
    if np.unique(when).size < 4:
        when = np.array([0, 1, 3, 7, 8, 8])
    y = rng.normal(size=when.size)
    text = mapped(prior)
    first = lgm.fit(lgm.loads(text), {"when": when, "y": y})
    rows = rng.permutation(when.size)
    turned = lgm.fit(lgm.loads(text), pd.DataFrame({"when": when + 40, "y": y}).iloc[rows])
    assert turned.log_evidence == pytest.approx(first.log_evidence, abs=1e-9)
    np.testing.assert_allclose(turned.mean("f"), first.mean("f"), atol=1e-8)


@pytest.mark.thorough
@given(order=st.permutations(range(5)))
def test_a_table_over_the_axis_may_come_in_any_order(order: list[int]) -> None:
    frame = pd.DataFrame({"t": [0, 1, 2, 5, 6], "y": FIVE})
    first = lgm.fit(lgm.loads(DIRECT), frame)
    for turned in (frame.iloc[order], frame.iloc[order].reset_index(drop=True)):
        assert lgm.fit(lgm.loads(DIRECT), turned).log_evidence == first.log_evidence


@pytest.mark.thorough
@given(names=st.permutations(["p", "q", "r", "s"]))
def test_relabelled_classes_are_the_same_fit(names: list[str]) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    y = np.digitize(x + rng.logistic(size=60), [-1.0, 0.0, 1.0])
    fixed = {"c": [-1.0, 0.0, 1.0]}
    plain = lgm.fit(lgm.loads(ORDINAL), {"y": y, "x": x}, fixed=fixed)
    told = pd.Categorical(np.array(names)[y], names, ordered=True)
    fit = lgm.fit(lgm.loads(ORDINAL), {"y": told, "x": x}, fixed=fixed)
    assert fit.log_evidence == plain.log_evidence


# ---- files and predictions -----------------------------------------------------------------------


@pytest.mark.thorough
def test_the_order_is_kept_in_the_file(tmp_path: Path) -> None:
    data = {"y": pd.Categorical([*GIVEN, "worst"] * 9, LEVELS, ordered=True), "x": [*X, 1.5] * 9}
    fit = lgm.fit(lgm.loads(ORDINAL), data)
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    assert (
        again.predict({"x": [1.0]}).response("y")["probability"]["stage"].values.tolist() == LEVELS
    )
    walk = lgm.fit(lgm.loads(mapped(LINES[1])), {"when": [18.4, 19.0, 19.2, 25.0], "y": FIVE[:4]})
    walk.save(tmp_path / "w.nc")
    kept = lgm.load_fit(tmp_path / "w.nc")
    np.testing.assert_allclose(kept.quantile("f", [0.1]), walk.quantile("f", [0.1]), atol=1e-12)
    index = kept.canonical.grounded.indices["t"]
    assert index.places is not None and index.places.tolist() == [18.4, 19.0, 19.2, 25.0]


def test_files_of_the_first_format_took_all_steps_as_equal(tmp_path: Path) -> None:
    place = tmp_path / "w.nc"
    when = {"when": [18.4, 19.0, 19.2, 25.0], "y": FIVE[:4]}
    lgm.fit(lgm.loads(mapped(LINES[1])), when).save(place)
    with h5netcdf.File(place, "a") as file:
        file.attrs["lgmdsl_format"] = 1
        for variable in file["index"].variables.values():
            del variable.attrs["given"], variable.attrs["spaced"]
        file.attrs[ATTRIBUTE] = digest(file)
    index = lgm.load_fit(place).canonical.grounded.indices["t"]
    assert index.ordered and index.places is None
    equal = lgm.fit(lgm.loads(mapped(LINES[1])), {**when, "when": range(4)})
    weights = lgm.load_fit(place).canonical.linear({}).blocks[0].factors[0].precision()
    same = equal.canonical.linear({}).blocks[0].factors[0].precision()
    assert isinstance(weights, sp.csr_array) and isinstance(same, sp.csr_array)
    np.testing.assert_allclose(weights.toarray(), same.toarray(), atol=1e-12)


@pytest.mark.parametrize("new", [["b"], ["2001-01-01"]])
def test_new_members_must_lie_on_the_fitted_line(new: list[str]) -> None:
    fit = lgm.fit(lgm.loads(mapped(LINES[2])), {"when": [1.0, 2.5, 4.0], "y": FIVE[:3]})
    with pytest.raises(DataError, match=r"E302.*takes new members by numbers"):
        fit.predict({"when": new})


def test_new_places_of_ou_are_those_of_its_labels() -> None:
    fit = lgm.fit(lgm.loads(mapped(LINES[2])), {"when": [1.0, 2.5, 4.0], "y": FIVE[:3]})
    there = np.array([1.0, 2.5, 4.0])
    cov = 0.49 * np.exp(-0.3 * np.abs(np.subtract.outer(there, there))) + 0.04 * np.eye(3)
    new = 0.49 * np.exp(-0.3 * np.abs(np.array([3.1, 9.0])[:, None] - there))
    found = fit.predict({"when": [3.1, 9.0]}).mean("f").sel(t=["3.1", "9"])
    np.testing.assert_allclose(found, new @ np.linalg.solve(cov, FIVE[:3]), atol=1e-10)


def test_repeated_labels_name_the_map_they_are_meant_for(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("t,y\n18.4,1\n19,2\n19,3\n25,4\n")
    error = refusal(mapped(LINES[1]), tmp_path / "d.csv")
    assert error.codes == ("E305", "E302")
    for found in error.diagnostics:
        assert 'mapping={"when": "t"}' in found.help
        assert "--map when=t" in found.on_command_line().help
    fit = lgm.fit(lgm.loads(mapped(LINES[1])), tmp_path / "d.csv", mapping={"when": "t"})
    assert fit.mean("f")["t"].values.tolist() == [18.4, 19.0, 25.0]


def test_the_message_is_as_recorded() -> None:
    found = str(refusal(ORDINAL, {"y": GIVEN, "x": X})) + "\n"
    kept = GOLDEN / "e307_order.txt"
    assert found == kept.read_text(encoding="utf-8")


def test_a_structure_from_outside_declares_what_it_needs() -> None:
    """By its declaration alone: positions for one, an order for the other."""
    names = {"drift": Spacing("positions", at="at"), "rank": Spacing("steps"), "kin": None}
    for name, spacing in names.items():
        register(
            Signature(
                name,
                "structure",
                (Parameter("sd", "positive", over="none"),),
                ordered_axis=spacing is not None,
                spacing=spacing or Spacing(),
                carries_scale=("sd",),
            )
        )
    try:
        data = {"when": ["b", "a", "c"], "y": FIVE[:3]}
        for name, spacing in names.items():
            text = mapped(f"{name}(sd = 1)")
            if spacing is None:
                assert labels(text, data, "t") == ["a", "b", "c"]
            else:
                assert f"which `{name}` needs" in str(refusal(text, data))
                kept = labels(text, {**data, "when": [0, 1, 3]}, "t")
                assert kept == ([0, 1, 3] if name == "drift" else [0, 1, 2, 3])
    finally:
        for name in names:
            unregister("structure", name)


def test_fractions_that_rounding_separates_are_too_close() -> None:
    error = refusal(mapped(LINES[0]), {"when": [0.3, 0.1 + 0.2, 1.0], "y": FIVE[:3]})
    assert error.codes == ("E302",) and "round(12)" in str(error)
