"""More than one table: a table for each index, and matrices made of columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import DataError
from lgmdsl.graph.build import model_graph

MODEL = """lgm 1
index obs
index subject
index feat
data y[obs] : real
data X[obs, feat] : real
data who[obs] : subject
data age[subject] : real
latent b[feat] ~ normal(sd = 2)
latent u[subject] ~ normal(sd = 1)
let eta[obs] = X @ b + u[who] + 0.01 * age[who]
observe y ~ normal(mean = eta, sd = 1)
"""
MAIN = pd.DataFrame(
    {
        "who": ["a", "b", "a", "c", "b", "c"],
        "y": [1.0, 2.0, 0.5, 3.0, 2.5, 2.0],
        "x": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        "arm": ["new", "old", "none", "new", "old", "none"],
    }
)
PEOPLE = pd.DataFrame({"subject": ["c", "a", "b"], "age": [30.0, 10.0, 20.0]})
COLUMNS = {"X": ["x", "contrasts(arm)"]}


def grounded(*sources: Any, mapping: Keys | None = None, model: str = MODEL) -> GroundedModel:
    data = list(sources) if len(sources) > 1 else sources[0]
    return ground(
        model_graph(lgm.loads(model).checked), read(data, COLUMNS if mapping is None else mapping)
    )


def age_of(whole: GroundedModel) -> dict[str, float]:
    labels = whole.indices["subject"].labels.tolist()
    return dict(zip(labels, np.asarray(whole.values["age"]).tolist(), strict=True))


# ---- a table for each index --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["subject", "who", "people"])
def test_a_table_is_over_the_index_that_its_key_column_names(name: Any) -> None:
    whole = grounded(MAIN, {name: PEOPLE})
    assert whole.indices["subject"].labels.tolist() == ["c", "a", "b"]
    assert age_of(whole) == {"a": 10.0, "b": 20.0, "c": 30.0}
    assert [whole.indices["subject"].labels[k] for k in np.asarray(whole.values["who"])] == [
        *MAIN.who
    ]


def test_the_order_of_the_rows_of_a_table_means_nothing() -> None:
    shuffled = PEOPLE.iloc[[2, 0, 1]]
    assert age_of(grounded(MAIN, {"who": shuffled})) == age_of(grounded(MAIN, {"who": PEOPLE}))


def test_a_key_column_may_have_the_name_of_the_map() -> None:
    people = PEOPLE.rename(columns={"subject": "who"})
    assert age_of(grounded(MAIN, {"subject": people})) == {"a": 10.0, "b": 20.0, "c": 30.0}


def test_a_key_column_of_another_name_is_mapped() -> None:
    people = PEOPLE.rename(columns={"subject": "person"})
    whole = grounded(MAIN, {"who": people}, mapping={**COLUMNS, "subject": "person"})
    assert age_of(whole) == {"a": 10.0, "b": 20.0, "c": 30.0}


def test_a_dict_of_frames_of_two_libraries() -> None:
    whole = grounded({"main": pl.from_pandas(MAIN), "who": PEOPLE})
    assert age_of(whole) == {"a": 10.0, "b": 20.0, "c": 30.0}
    assert whole.indices["obs"].size == 6


def test_two_tables_over_one_index_are_matched_by_label() -> None:
    model = MODEL.replace("data age", "data height[subject] : real\ndata age")
    heights = pd.DataFrame({"subject": ["b", "c", "a"], "height": [2.0, 3.0, 1.0]})
    whole = grounded(MAIN, {"who": PEOPLE, "heights": heights}, model=model)
    assert np.asarray(whole.values["height"]).tolist() == [3.0, 1.0, 2.0]


def test_files_and_frames_mean_the_same(tmp_path: Path) -> None:
    MAIN.to_csv(tmp_path / "main.csv", index=False)
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    from_files = grounded(tmp_path / "main.csv", {"who": tmp_path / "people.parquet"})
    from_frames = grounded(MAIN, {"who": PEOPLE})
    assert from_files.hashes == from_frames.hashes
    named = grounded({"main": str(tmp_path / "main.csv"), "who": tmp_path / "people.parquet"})
    assert named.hashes == from_frames.hashes


def test_tables_of_one_file_name_do_not_lend_each_other_their_keys(tmp_path: Path) -> None:
    """Both are `t.csv`: rows must go by the key column of their own table."""
    model = MODEL.replace("data age", "data height[subject] : real\ndata age")
    for folder, rows in (
        ("a", "subject,age\nc,30\na,10\nb,20\n"),
        ("b", "subject,height\na,1\nb,2\nc,3\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.csv").write_text(rows)
    tables = {"who": tmp_path / "a" / "t.csv", "more": tmp_path / "b" / "t.csv"}
    whole = grounded(MAIN, tables, model=model)
    assert np.asarray(whole.values["height"]).tolist() == [3.0, 1.0, 2.0]


def test_a_label_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(DataError, match=r"E302.*`who` holds a label that `subject` does not"):
        grounded(MAIN, {"who": PEOPLE.iloc[:2]})


def test_a_label_that_no_row_names_is_a_member() -> None:
    people = pd.concat([PEOPLE, pd.DataFrame({"subject": ["d"], "age": [40.0]})])
    assert age_of(grounded(MAIN, {"who": people}))["d"] == 40.0


def test_repeated_keys_are_refused() -> None:
    with pytest.raises(DataError, match=r"E302.*the labels of index `subject` repeat") as error:
        grounded(MAIN, {"who": pd.concat([PEOPLE, PEOPLE.iloc[:1]])})
    assert '"c" (2)' in str(error.value)


def test_a_table_without_a_key_is_refused() -> None:
    with pytest.raises(DataError, match=r"E305.*no column of `who` says which `subject`"):
        grounded(MAIN, {"who": PEOPLE.rename(columns={"subject": "name"})})


def test_a_column_that_stands_in_two_tables_is_refused_and_qualified() -> None:
    model = MODEL.replace("data age", "data height[subject] : real\ndata age")
    both = PEOPLE.assign(height=1.0)
    with pytest.raises(DataError, match=r"E306.*`age` is in `who` and `more`"):
        grounded(MAIN, {"who": both, "more": PEOPLE.assign(age=5.0)}, model=model)
    whole = grounded(
        MAIN,
        {"who": both, "more": PEOPLE.assign(age=5.0)},
        model=model,
        mapping={**COLUMNS, "age": "more.age"},
    )
    assert age_of(whole) == {"a": 5.0, "b": 5.0, "c": 5.0}


def test_a_column_of_the_rows_does_not_hide_that_of_the_table() -> None:
    whole = grounded(MAIN.assign(age=99.0), {"who": PEOPLE})
    assert age_of(whole) == {"a": 10.0, "b": 20.0, "c": 30.0}


def test_rows_of_several_responses_need_no_labels() -> None:
    model = """lgm 1
index visit
index event
data y[visit] : real
data z[event] : real
latent a ~ normal(sd = 1)
observe y ~ normal(mean = a, sd = 1)
observe z ~ normal(mean = 2 * a, sd = 1)
"""
    tables = {"visit": pd.DataFrame({"y": [1.0, 2.0]}), "event": pd.DataFrame({"z": [3.0]})}
    whole = grounded(tables, mapping={}, model=model)
    assert (whole.indices["visit"].size, whole.indices["event"].size) == (2, 1)


def test_positions_come_from_the_table_of_their_index() -> None:
    model = """lgm 1
index obs
index station
index axis
data y[obs] : real
data station_of[obs] : station
data place[station, axis] : real
latent f[station] ~ gp(at = place, kernel = se(sd = 1, length = 1))
observe y ~ normal(mean = f[station_of], sd = 1)
"""
    rows = pd.DataFrame({"station_of": ["s", "r"], "y": [0.1, 0.2]})
    stations = pd.DataFrame({"station": ["r", "s"], "lon": [1.0, 2.0], "lat": [3.0, 4.0]})
    whole = grounded(rows, {"station": stations}, mapping={"place": ["lon", "lat"]}, model=model)
    assert whole.indices["axis"].labels.tolist() == ["lon", "lat"]
    assert np.asarray(whole.values["place"]).tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_table_of_which_nothing_is_used_is_reported() -> None:
    (warning,) = grounded(MAIN, {"who": PEOPLE, "spare": pd.DataFrame({"q": [1, 2]})}).warnings
    assert warning.code == "W308" and "the table `spare` is not used" in warning.message


# ---- rows of two tables over one index ---------------------------------------------------------

WEATHER = """lgm 1
index day
index feat
data y[day] : real?
data X[day, feat] : real
data temp[day] : real
latent f[day] ~ rw1(sd = 1)
latent b[feat] ~ normal(sd = 1)
observe y ~ normal(mean = f + X @ b + 0 * temp, sd = 1)
"""
DAYS = pd.DataFrame(
    {"day": ["2024-01-01", "2024-01-02", "2024-01-04"], "y": [1.0, 2.0, 3.0], "z": [5.0, 6.0, 7.0]}
)
TEMPERATURES = pd.DataFrame(
    {"day": ["2024-01-04", "2024-01-01", "2024-01-02"], "temp": [40.0, 10.0, 20.0]}
)


def by_day(*sources: Any) -> dict[str, list[float]]:
    whole = grounded(*sources, mapping={"X": ["z"]}, model=WEATHER)
    order = np.argsort(whole.indices["day"].labels)
    return {n: np.asarray(whole.values[n]).reshape(-1)[order].tolist() for n in ("y", "X", "temp")}


def test_both_go_by_their_own_key_columns(tmp_path: Path) -> None:
    """The key of one table is not that of the other, though they are of one length."""
    wanted = {"y": [1.0, 2.0, 3.0], "X": [5.0, 6.0, 7.0], "temp": [10.0, 20.0, 40.0]}
    assert by_day(DAYS, {"weather": TEMPERATURES}) == wanted
    assert by_day({"days": DAYS, "weather": TEMPERATURES}) == wanted
    assert by_day({"weather": TEMPERATURES, "days": DAYS}) == wanted
    DAYS.to_csv(tmp_path / "d.csv", index=False)
    TEMPERATURES.to_csv(tmp_path / "t.csv", index=False)
    assert by_day(tmp_path / "d.csv", {"weather": tmp_path / "t.csv"}) == wanted


@pytest.mark.parametrize("lacking", ["first", "second", "files"])
def test_rows_that_nothing_names_are_refused(lacking: str, tmp_path: Path) -> None:
    days = DAYS.drop(columns="day") if lacking == "first" else DAYS
    weather = TEMPERATURES if lacking == "first" else TEMPERATURES.drop(columns="day")
    sources: list[Any] = [days, {"weather": weather}]
    if lacking == "files":
        days.to_csv(tmp_path / "d.csv", index=False)
        weather.to_csv(tmp_path / "t.csv", index=False)
        sources = [tmp_path / "d.csv", tmp_path / "t.csv"]
    with pytest.raises(DataError, match=r"E302.*nothing says which `day` the rows of"):
        by_day(*sources)


def test_arrays_of_a_file_with_a_name_keep_their_keys(tmp_path: Path) -> None:
    np.savez(tmp_path / "more.npz", subject=["c", "a", "b"], age=[30.0, 10.0, 20.0])
    assert age_of(grounded(MAIN, {"more": tmp_path / "more.npz"}))["a"] == 10.0
    np.savez(tmp_path / "one.npz", values=np.ones((6, 1)))
    whole = grounded(MAIN, {"who": PEOPLE, "X": tmp_path / "one.npz"}, mapping={})
    assert np.asarray(whole.values["X"]).shape == (6, 1)
    with pytest.raises(DataError, match=r"E306.*`subject` is in more.npz too"):
        grounded(MAIN, {"more": tmp_path / "more.npz", "again": tmp_path / "more.npz"})


def test_rows_of_two_tables_without_labels_are_not_joined(tmp_path: Path) -> None:
    """Nothing says that they are in one order, though they are of one length."""
    x, y = MAIN[["x", "arm"]], MAIN[["who", "y"]]
    with pytest.raises(DataError, match=r"E302.*nothing joins the rows of frame and frame"):
        grounded(y, pl.from_pandas(x), {"who": PEOPLE})
    assert grounded(y, x, {"who": PEOPLE}).indices["obs"].size == 6  # by the index of pandas
    x.to_csv(tmp_path / "x.csv", index=False)
    y.to_csv(tmp_path / "y.csv", index=False)
    with pytest.raises(DataError, match=r"E302.*nothing joins the rows of"):
        grounded(tmp_path / "y.csv", tmp_path / "x.csv", {"who": PEOPLE})
    with pytest.raises(DataError, match=r"E302.*the columns of `X` are in x.csv and z.csv"):
        x[["x"]].to_csv(tmp_path / "x.csv", index=False)
        x[["arm"]].to_csv(tmp_path / "z.csv", index=False)
        grounded(y, tmp_path / "x.csv", tmp_path / "z.csv", {"who": PEOPLE})
    whole = grounded(pd.concat([y, x], axis=1), {"who": PEOPLE})
    assert whole.indices["obs"].size == 6


def test_a_matrix_goes_by_the_labels_of_the_rows(tmp_path: Path) -> None:
    rows = MAIN[["who", "y"]].assign(obs=[*"rstuvw"])
    X = pd.DataFrame({"obs": [*"wvutsr"], "x": MAIN.x[::-1]})
    X.to_csv(tmp_path / "X.csv", index=False)
    whole = grounded(rows, {"who": PEOPLE, "X": tmp_path / "X.csv"}, mapping={})
    assert np.asarray(whole.values["X"])[:, 0].tolist() == [*MAIN.x]
    X.drop(columns="obs").to_csv(tmp_path / "X.csv", index=False)
    with pytest.raises(DataError, match=r"E302.*nothing says which `obs` the rows of X.csv are"):
        grounded(rows, {"who": PEOPLE, "X": tmp_path / "X.csv"}, mapping={})


# ---- a matrix of columns -----------------------------------------------------------------------


def design(mapping: Any, rows: pd.DataFrame = MAIN) -> tuple[list[str], AnyArray]:
    whole = grounded(rows, {"who": PEOPLE}, mapping={"X": mapping})
    return whole.indices["feat"].labels.tolist(), np.asarray(whole.values["X"])


@pytest.mark.parametrize("mapping", ["x,contrasts(arm)", ["x", "contrasts(arm)"]])
def test_treatment_contrasts(mapping: Any) -> None:
    labels, X = design(mapping)
    assert labels == ["x", "arm[none]", "arm[old]"]
    assert X[:, 0].tolist() == [*MAIN.x]
    assert X[:, 1].tolist() == [0, 0, 1, 0, 0, 1]
    assert X[:, 2].tolist() == [0, 1, 0, 0, 1, 0]


def test_a_base_is_chosen() -> None:
    labels, X = design("contrasts(arm, base=old)")
    assert labels == ["arm[new]", "arm[none]"]
    assert X.tolist() == [[1, 0], [0, 0], [0, 1], [1, 0], [0, 0], [0, 1]]


def test_sum_contrasts_are_deviations_from_the_mean_of_the_levels() -> None:
    labels, X = design("contrasts(arm, kind=sum)")
    assert labels == ["arm[new]", "arm[none]"]
    by_level = {arm: row.tolist() for arm, row in zip(MAIN.arm, X, strict=True)}
    assert by_level == {"new": [1, 0], "none": [0, 1], "old": [-1, -1]}
    assert np.sum([*by_level.values()], axis=0).tolist() == [0, 0]


def test_levels_of_an_ordered_categorical_keep_their_order() -> None:
    arm = pd.Categorical(MAIN.arm, ["none", "old", "new"], ordered=True)
    labels, _ = design("contrasts(arm)", MAIN.assign(arm=arm))
    assert labels == ["arm[old]", "arm[new]"]


def test_two_factors_and_whole_numbers_as_levels() -> None:
    labels, _ = design("contrasts(arm, dose)", MAIN.assign(dose=[10, 2, 10, 2, 3, 3]))
    assert labels == ["arm[none]", "arm[old]", "dose[3]", "dose[10]"]


def test_a_level_that_is_missing_is_missing_in_all_columns() -> None:
    with pytest.raises(DataError, match="E304"):
        design("contrasts(arm)", MAIN.assign(arm=pd.Series([None, *MAIN.arm[1:]], dtype=object)))


def test_a_column_whose_name_holds_a_comma_is_itself() -> None:
    labels, _ = design(["x", "a, b"], MAIN.assign(**{"a, b": 1.0}))
    assert labels == ["x", "a, b"]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("x,arm", r"`arm`, a column of `X`, holds text"),
        ("x,height", r"`X` wants the column `height`, which frame does not have"),
        ("x,x", r"names the column `x` twice"),
        ("contrasts(x)", r"`x` holds numbers with fractions, which are no levels"),
        ("contrasts(arm, kind=hemlert)", r"wants contrasts of the kind `hemlert`"),
        ("contrasts(arm, base=odl)", r'names the level "odl"'),
        ("contrasts(arm, levels=3)", r"gives contrasts `levels`"),
        ("contrasts()", r"wants contrasts of no column"),
    ],
)
def test_wrong_selections(mapping: Any, message: Any) -> None:
    with pytest.raises(DataError, match=message):
        design(mapping)


def test_a_single_level_has_no_contrasts() -> None:
    with pytest.raises(DataError, match="contrasts of a single level"):
        design("contrasts(arm)", MAIN.assign(arm="new"))


def test_columns_of_a_datum_with_one_index_are_refused() -> None:
    with pytest.raises(DataError, match=r"E301.*`age` is none"):
        grounded(MAIN, {"who": PEOPLE}, mapping={**COLUMNS, "age": ["age", "subject"]})


def test_one_column_makes_a_matrix() -> None:
    labels, X = design("x")
    assert (labels, X.shape) == (["x"], (6, 1))


def test_rows_keep_their_labels() -> None:
    """A matrix of columns goes by the key column of its table, as the columns do."""
    rows = MAIN.assign(obs=[5, 3, 4, 2, 1, 0])
    reordered = grounded(rows, {"who": PEOPLE}, mapping={"X": ["x"]})
    other = [
        {"obs": [0, 1, 2, 3, 4, 5]},
        rows.drop(columns="obs").set_index(pd.Index(rows.obs, name="row")),
    ]
    by_index = grounded(*other, {"who": PEOPLE}, mapping={"X": ["x"]})
    for whole in (reordered, by_index):
        X = {
            int(k): float(v)
            for k, v in zip(whole.indices["obs"].labels, whole.values["X"][:, 0], strict=True)
        }
        assert dict(zip([5, 3, 4, 2, 1, 0], MAIN.x, strict=True)) == X


# ---- predictions -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(lgm.loads(MODEL), [MAIN, {"who": PEOPLE}], method="laplace", mapping=COLUMNS)


@pytest.fixture(scope="module", params=[False, True], ids=["fresh", "stored"])
def known(request: Any, fit: lgm.Fit, tmp_path_factory: Any) -> lgm.Fit:
    if not request.param:
        return fit
    path = tmp_path_factory.mktemp("fits") / "f.nc"
    fit.save(path)
    return lgm.load_fit(path)


def test_predictions_read_new_rows_as_the_fit_did(known: Any, fit: Any) -> None:
    rows = MAIN[["who", "x", "arm"]]
    assert np.allclose(known.predict(rows.iloc[:2]).mean("eta"), fit.mean("eta")[:2])
    assert np.allclose(
        known.predict(rows.iloc[[4]], mapping=COLUMNS).mean("eta"), fit.mean("eta")[4]
    )


def test_one_row_of_the_base_level_is_coded_as_in_the_fit(known: Any, fit: Any) -> None:
    new = pd.DataFrame({"who": ["a"], "x": [0.1], "arm": ["new"]})
    assert np.allclose(known.predict(new).mean("eta"), fit.mean("eta")[0])


def test_a_new_level_is_refused_in_predictions(known: Any) -> None:
    with pytest.raises(DataError, match=r"E302.*`arm` holds a level that the fit does not know"):
        known.predict(pd.DataFrame({"who": ["a"], "x": [0.1], "arm": ["nwe"]}))


@pytest.mark.parametrize("other", ["arm", "contrasts(arm, kind=sum)", "contrasts(arm, base=old)"])
def test_another_coding_than_the_fits_is_refused(known: Any, other: str) -> None:
    new = pd.DataFrame({"who": ["a"], "x": [0.1], "arm": ["new"]})
    with pytest.raises(DataError, match=r"E303.*`arm`.* is coded otherwise than in the fit"):
        known.predict(new, mapping={"X": ["x", other]})
    same = known.predict(new, mapping={"X": ["contrasts(arm, base=new)", "x"]})
    assert np.allclose(same.mean("eta"), known.predict(new).mean("eta"))


def test_new_members_come_with_a_table_of_theirs(known: Any) -> None:
    new = pd.DataFrame({"who": ["d"], "x": [0.0], "arm": ["new"]})
    with pytest.warns(UserWarning, match="W307"):
        people = pd.DataFrame({"subject": ["d"], "age": [50.0]})
        prediction = known.predict([new, {"who": people}])
    assert np.allclose(prediction.mean("eta"), 0.5)


def test_the_name_of_the_model_goes_before_the_mapping_of_the_fit(known: Any, fit: Any) -> None:
    X = np.array([[0.1, 0.0, 0.0]])
    assert np.allclose(known.predict({"X": X, "who": ["a"]}).mean("eta"), fit.mean("eta")[0])


def test_the_mapping_of_the_fit_goes_before_a_column_of_the_name() -> None:
    """A table with the columns of the fit's is read as that was, whatever else it holds."""
    model = """lgm 1
index obs
data y[obs] : real
data x[obs] : real
latent b ~ normal(sd = 2)
let eta[obs] = b * x
observe y ~ normal(mean = eta, sd = 1)
"""
    table = pd.DataFrame({"y": [1.0, 2.0], "x": [9.0, -9.0], "dose": [1.0, 2.0]})
    fit = lgm.fit(lgm.loads(model), table, mapping={"x": "dose"})
    assert np.allclose(fit.predict(table).mean("eta"), fit.mean("eta"))
    assert np.allclose(fit.predict({"x": [1.0]}).mean("eta"), fit.mean("eta")[0])
    own = fit.predict(table, mapping={"x": "x"}).mean("eta")
    assert np.allclose(own, float(fit.mean("b")) * table.x)


def test_the_index_of_a_frame_is_a_key() -> None:
    people = PEOPLE.set_index("subject").rename_axis(None)
    assert age_of(grounded(MAIN, {"who": people})) == {"a": 10.0, "b": 20.0, "c": 30.0}


def test_the_data_again(fit: Any, tmp_path: Any) -> None:
    fit.save(tmp_path / "f.nc")
    stored = lgm.load_fit(tmp_path / "f.nc")
    again = stored.loo(data=[MAIN, {"who": PEOPLE}])
    assert again.elpd == pytest.approx(fit.loo().elpd)


# ---- levels and members without rows -----------------------------------------------------------


def test_members_without_rows_are_reported() -> None:
    people = pd.concat([PEOPLE, pd.DataFrame({"subject": ["d"], "age": [40.0]})])
    (warning,) = grounded(MAIN, {"who": people}).warnings
    assert warning.code == "W309" and 'no row has 1 member ("d")' in warning.message
    assert not grounded(MAIN, {"who": PEOPLE}).warnings


def test_members_of_a_walk_need_no_rows() -> None:
    model = MODEL.replace("u[subject] ~ normal(sd = 1)", "u[subject] ~ rw1(sd = 1)")
    people = pd.concat([PEOPLE, pd.DataFrame({"subject": ["d"], "age": [40.0]})])
    assert not grounded(MAIN, {"who": people}, model=model).warnings


def test_levels_without_rows_are_reported() -> None:
    arm = pd.Categorical(MAIN.arm, ["none", "old", "new", "newest"], ordered=True)
    (warning,) = grounded(MAIN.assign(arm=arm), {"who": PEOPLE}).warnings
    assert warning.code == "W309" and 'no row has 1 level ("newest") of `arm`' in warning.message


# ---- tables that are not what they should be -----------------------------------------------------


def test_a_column_of_rows_is_none_of_members() -> None:
    """`age` in the table of the rows is not one entry for each subject."""
    both = MAIN.assign(age=10.0)
    with pytest.raises(
        DataError, match=r"E301.*rows are those of `obs`, not of `subject`"
    ) as wrong:
        grounded(both)
    assert '[data, {"who": frame}]' in str(wrong.value)
    assert "or declare age[obs]" in str(wrong.value)
    assert "--data who=FILE" in wrong.value.diagnostics[0].on_command_line().render()


def test_a_column_of_rows_in_new_data(fit: Any) -> None:
    new = MAIN[["who", "x", "arm"]]
    with pytest.raises(DataError, match=r"E301.*not of `subject`") as wrong:
        fit.predict(new.assign(age=10.0))
    assert "declare" not in str(wrong.value).split("help:")[1]
    with pytest.raises(DataError, match="E305") as absent:
        fit.predict(new.assign(who="z"))
    assert 'labels of subject: "z" (a table of them: [data, {"who": frame}])' in str(absent.value)
    table = pd.DataFrame({"who": ["z"], "age": [1.0]})
    with pytest.warns(lgm.PredictionWarning, match="W307"):
        there = fit.predict([new.assign(who="z"), {"who": table}])
    assert len(there.frame()) == len(new)


def test_a_table_without_rows_is_refused_once(fit: Any) -> None:
    for action in (
        lambda: grounded(MAIN, {"who": PEOPLE[:0]}),
        lambda: fit.predict([MAIN, {"who": PEOPLE[:0]}]),
    ):
        with pytest.raises(DataError, match="it has the names of its columns and no rows") as wrong:
            action()
        assert [d.code for d in wrong.value.diagnostics] == ["E306"]


@pytest.mark.parametrize(
    "data",
    [
        {"obs": MAIN.set_index(["who", "x"]), "who": PEOPLE},
        [MAIN, {"who": PEOPLE.set_index(["subject", "age"])}],
        [MAIN, {"subject": PEOPLE.set_index(["subject", "age"])}],
    ],
)
def test_a_frame_with_several_index_levels_is_refused_as_one(data: Any) -> None:
    with pytest.raises(DataError, match=r"frame\.reset_index\(\)") as wrong:
        grounded(data)
    assert {d.code for d in wrong.value.diagnostics} == {"E306"}


def test_labels_that_look_alike_are_reported() -> None:
    model = MODEL.replace("data age[subject] : real\n", "").replace(" + 0.01 * age[who]", "")
    spaced = MAIN.assign(who=["a", "b", "a ", "c", "b", "c"])
    (warning,) = grounded(spaced, model=model).warnings
    assert warning.code == "W310" and warning.details == ('"a", "a "',)
    assert not grounded(MAIN, model=model).warnings
    levels = MAIN.assign(arm=["new", "old", "none", "new ", "old", "none"])
    (warning,) = grounded(levels, model=model).warnings
    assert warning.code == "W310" and "labels of `arm`" in warning.message


def test_unlabelled_arrays_next_to_a_column_of_that_name() -> None:
    """W302's remedy works: a key of the index's name would be in two places."""
    model = MODEL.replace("data X[obs, feat] : real\n", "").replace("X @ b + ", "")
    model = model.replace("latent b[feat] ~ normal(sd = 2)\n", "").replace("index feat\n", "")
    table, age = MAIN.rename(columns={"who": "subject"}), np.array([10.0, 20.0, 30.0])
    keys = {"who": "subject"}
    (warning,) = grounded(table, {"age": age}, mapping=keys, model=model).warnings
    assert warning.code == "W302" and '[data, {"subject": frame}]' in warning.help
    whole = grounded(table, {"subject": PEOPLE}, mapping=keys, model=model)
    assert age_of(whole) == {"a": 10.0, "b": 20.0, "c": 30.0} and not whole.warnings
    rows = {"who": MAIN.who, "y": MAIN.y, "age": age}
    (warning,) = grounded(rows, mapping={}, model=model).warnings
    assert "give a key `subject`" in warning.help


LIFETIMES = """lgm 1
index obs
data time[obs] : positive
data died[obs] : binary
latent level ~ normal(sd = 5)
let eta[obs] = level
observe time ~ exponential(log_rate = eta, event = died)
"""


@pytest.mark.parametrize(
    ("status", "term"),
    [
        (["event", "censored"] * 4, "contrasts(status, base=censored)"),
        ([2, 1] * 4, "contrasts(status, base=1)"),
        ([True, False] * 4, "contrasts(status, base=0)"),
    ],
)
def test_the_contrast_of_two_levels_is_a_datum_of_its_own(status: list[Any], term: str) -> None:
    time = np.arange(1.0, 9.0)
    table = pd.DataFrame({"time": time, "status": status})
    model = lgm.loads(LIFETIMES)
    fit = lgm.fit(model, table, mapping={"died": term}, method="laplace")
    plain = lgm.fit(model, {"time": time, "died": [1, 0] * 4}, method="laplace")
    assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=1e-12)
    # One row alone has one level: those of the fit hold.
    as_covariate = lgm.loads(LIFETIMES.replace("= level", "= level + died"))
    fit = lgm.fit(as_covariate, table, mapping={"died": term}, method="laplace")
    one = fit.predict(table[1:2]).mean("eta").item()
    assert one == pytest.approx(fit.mean("level").item())


def test_contrasts_of_more_levels_are_no_column() -> None:
    table = pd.DataFrame({"time": [1.0, 2.0, 3.0], "status": ["dead", "alive", "lost"]})
    with pytest.raises(DataError, match="contrasts of `status` are 2 columns, and `died` is one"):
        lgm.fit(lgm.loads(LIFETIMES), table, mapping={"died": "contrasts(status)"})


def test_a_column_under_another_name_is_called_by_it() -> None:
    """An index was given the column that a map into it wants."""
    text = "lgm 1\nindex obs\nindex batch\ndata y[obs] : real\ndata of[obs] : batch\n"
    text += "latent u[batch] ~ normal(sd = 1)\nobserve y ~ normal(mean = u[of], sd = 1)\n"
    rows = pd.DataFrame({"y": [1.0, 2.0, 3.0], "Batch": ["a", "b", "a"]})
    with pytest.raises(DataError) as raised:
        lgm.fit(lgm.loads(text), rows, mapping={"batch": "Batch"})
    helps = [d.help for d in raised.value.diagnostics]
    assert len(helps) == 2 and all("of=Batch" in h or '{"of": "Batch"}' in h for h in helps)
