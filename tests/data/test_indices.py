"""Index sets: where labels come from, and how maps and graphs are matched to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.errors import DataError
from tests.data.models import GLMM, bind, one

BASE: dict[str, Any] = {"y": [1, 2, 3], "X": np.eye(3), "time": [1, 1, 1]}
CHOICE = """lgm 1
index obs
index class = {"walk", "bike", "bus"}
index cut = head(class)
data y[obs] : class?
latent b[cut] ~ normal(sd = 1)
let eta[obs, cut] = b
observe y ~ categorical(stick = eta)
"""
AREA = """lgm 1
index region
data y[region] : count
data adj[region, region] : graph
latent v[region] ~ besag(graph = adj, sd = 1)
let eta[region] = v
observe y ~ poisson(log_rate = eta)
"""
GROUPS = """lgm 1
index obs
index g
data y[obs] : real
data of[obs] : g
data z[g] : real
latent u[g] ~ normal(sd = 1)
let eta[obs] = (u + z)[of]
observe y ~ normal(mean = eta, sd = 1)
""".replace("(u + z)[of]", "u[of] + z[of]")


def test_labels_from_the_key_of_the_index() -> None:
    data = BASE | {"who": ["c", "a", "c"], "subject": ["c", "b", "a"]}
    got = bind(GLMM, data)
    assert got.indices["subject"].labels.tolist() == ["c", "b", "a"]
    assert got.indices["subject"].origin == "from dict:subject"
    assert got.values["who"].tolist() == [0, 2, 0]  # b is unused, which is fine


def test_labels_from_the_maps_are_sorted() -> None:
    got = bind(GLMM, BASE | {"who": [30, 7, 30]})
    assert got.indices["subject"].labels.tolist() == [7, 30]
    assert got.values["who"].tolist() == [1, 0, 1]


def test_integer_map_into_positions_may_leave_members_unused() -> None:
    got = bind(GROUPS, {"y": [1.0, 2], "of": [0, 2], "z": [5.0, 6, 7]})
    assert got.indices["g"].labels.tolist() == [0, 1, 2] and got.values["of"].tolist() == [0, 2]
    assert got.warnings == ()


def test_numbers_that_may_begin_at_one_are_said() -> None:
    """The labels 1 and 2 of three: of 0, 1, 2 or of 1, 2, 3, which is one member off."""
    got = bind(GROUPS, {"y": [1.0, 2], "of": [1, 2], "z": [5.0, 6, 7]})
    assert got.indices["g"].labels.tolist() == [0, 1, 2] and got.values["of"].tolist() == [1, 2]
    assert [w.code for w in got.warnings] == ["W302"] and "g: 0, 1, 2" in got.warnings[0].render()
    named = {"y": [1.0, 2], "of": [1, 2], "z": [5.0, 6, 7], "g": [1, 2, 3]}
    assert bind(GROUPS, named).warnings == ()


def test_unlabelled_array_over_labels_of_maps_is_said() -> None:
    got = bind(GROUPS, {"y": [1.0, 2], "of": ["b", "a"], "z": [5.0, 6]})
    assert [w.code for w in got.warnings] == ["W302"] and "a, b" in got.warnings[0].render()
    one_based = bind(GROUPS, {"y": [1.0, 2], "of": [2, 1], "z": [5.0, 6]})
    assert one_based.warnings == () and one_based.values["of"].tolist() == [1, 0]


def test_declared_labels_and_head() -> None:
    got = bind(CHOICE, {"y": ["bus", "", "walk"]})
    assert got.values["y"].tolist() == [2, -1, 0] and got.missing["y"].tolist() == [0, 1, 0]
    assert got.indices["cut"].labels.tolist() == ["walk", "bike"]
    with pytest.raises(DataError, match='did you mean "bike"'):
        bind(CHOICE, {"y": ["bus", "bikes", "walk"]})
    with pytest.raises(DataError, match=r'np.array\(\["walk", "bike", "bus"\]\)\[y\]'):
        bind(CHOICE, {"y": [0, 1, 2]})


def test_minus_one_is_missing_in_an_integer_map() -> None:
    text = CHOICE.replace('{"walk", "bike", "bus"}', "3")
    assert bind(text, {"y": [2, -1, 0]}).values["y"].tolist() == [2, -1, 0]
    with pytest.raises(DataError) as caught:
        bind(text.replace("class?", "class"), {"y": [2, -1, 0]})
    assert caught.value.codes == ("E304",)


def test_declared_range_takes_rows_by_label() -> None:
    text = one("real").replace("index obs", "index obs = 1..3")
    got = bind(text, {"y": [30.0, 10, 20], "obs": [3, 1, 2]})
    assert got.values["y"].tolist() == [10.0, 20.0, 30.0]
    with pytest.raises(DataError, match="no entry for 3") as caught:
        bind(text, {"y": [10.0, 20], "obs": [1, 2]})
    assert caught.value.codes == ("E302",)


@pytest.mark.parametrize(
    ("extra", "code", "text"),
    [
        ({"subject": ["a", "a", "b"]}, "E302", "the labels of index `subject` repeat"),
        ({"subject": ["a", ""]}, "E301", "missing label"),
        ({"subject": [["a", "b"]]}, "E301", "rename `subject`"),
        ({"obs": [1, 2]}, "E301", "obs has 2 labels, from dict:obs"),
        ({"who": ["a", "b"]}, "E301", "given    (2,)"),
        ({"X": np.eye(3)[None]}, "E301", "given    (1, 3, 3)"),
        ({"time": [1.0, 2, 3, 4]}, "E301", "obs has 3 labels, from dict:y"),
    ],
)
def test_contradictions_are_told(extra: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(DataError) as caught:
        bind(GLMM, BASE | {"who": ["a", "b", "a"]} | extra)
    assert code in caught.value.codes and text in str(caught.value)


def test_transposed_column_and_row() -> None:
    data = {"y": [1, 2, 3], "who": [0, 1, 2], "time": [1, 1, 1]}
    for given, help in ((np.ones((2, 3)), "X.T"), (np.ones(3), "X[:, None]")):
        with pytest.raises(DataError) as caught:
            bind(GLMM, data | {"X": given})
        assert caught.value.codes == ("E301",)
        assert caught.value.diagnostics[0].help.startswith(help)


def test_pandas_rows_with_repeated_labels() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": [1.0, 2]}, index=[0, 0])
    assert bind(one("real"), frame).values["y"].tolist() == [1.0, 2.0]  # names of no row
    (dim,) = bind(one("real"), frame).indices
    with pytest.raises(DataError, match="E302"):
        bind(one("real"), frame.rename_axis(dim))


GRAPHS: list[Any] = [
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]],
    np.array([[False, True, False], [True, False, True], [False, True, False]]),
    [[0, 1], [1, 2]],
    [[1, 0], [2, 1], [0, 1], [0, 1]],
]
TWO: Any = [[0, 1], [1, 0]]


@pytest.mark.parametrize("given", GRAPHS)
def test_graphs_as_adjacency_or_pairs(given: Any) -> None:
    got = bind(AREA, {"y": [1, 2, 3], "adj": given}).values["adj"]
    assert got.toarray().tolist() == GRAPHS[0] and got.dtype == np.float64


def test_two_by_two_is_one_edge_either_way() -> None:
    assert bind(AREA, {"y": [1, 2], "adj": TWO}).values["adj"].toarray().tolist() == TWO
    three = bind(AREA, {"y": [1, 2, 3], "adj": TWO}).values["adj"]
    assert three.shape == (3, 3) and three.toarray()[:2, :2].tolist() == TWO and three.nnz == 2


def test_graph_pairs_by_label_and_loops() -> None:
    data = {"y": [1, 2, 3], "region": ["x", "y", "z"], "adj": [["y", "x"], ["z", "y"], ["x", "x"]]}
    got = bind(AREA, data)
    assert got.values["adj"].toarray().tolist() == GRAPHS[0]
    assert [w.code for w in got.warnings] == ["W303"]


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ([[0, 1, 0], [0, 0, 1], [0, 1, 0]], "E303", "np.maximum(adj, adj.T)"),
        ([[0, 2, 0], [2, 0, 1], [0, 1, 0]], "E303", "adj != 0"),
        ([[1, 9], [9, 4], [0, 1]], "E302", "in rows 0, 1"),
        ([[1, 3], [1, 3], [3, 3]], "E302", "adj - 1"),
        ([[0.0, np.nan, 0], [1, 0, 1], [0, 1, 0]], "E303", "missing"),
        ([[0, 1, 0], [1, 0, 1]], "E301", "given    (2, 3)"),
    ],
)
def test_wrong_graphs(given: Any, code: str, text: str) -> None:
    with pytest.raises(DataError) as caught:
        bind(AREA, {"y": [1, 2, 3], "adj": given})
    assert caught.value.codes == (code,) and text in str(caught.value)


def test_sizes_and_partial() -> None:
    got = bind(one("count"), {}, partial=True, sizes={"obs": 4})
    assert got.indices["obs"].size == 4 and "y" not in got.values
    with pytest.raises(DataError, match="nothing gives the size of index `obs`"):
        bind(one("count"), {}, partial=True)
    with pytest.raises(DataError, match="its size was given as 4"):
        bind(one("count"), {"y": [1, 2]}, sizes={"obs": 4})
    with pytest.raises(DataError, match="did you mean `obs`"):
        bind(one("count"), {"y": [1, 2]}, sizes={"ob": 4})
    with pytest.raises(DataError, match="mapping names `z`"):
        bind(one("count"), {"y": [1, 2]}, {"z": "y"})


def test_too_many_labels_are_refused_before_they_are_made(monkeypatch: Any) -> None:
    with pytest.raises(DataError, match="cannot have the size"):
        bind(one("count"), {}, partial=True, sizes={"obs": 10**15})
    monkeypatch.setenv("LGM_MEMORY", str(1 << 20))
    with pytest.raises(DataError, match="at most"):
        bind(one("count").replace("index obs", "index obs = 1..90000"), {"y": [1]})


def test_an_axis_of_too_many_members_is_refused() -> None:
    sp = pytest.importorskip("scipy.sparse")
    X = sp.csr_array((np.ones(1), ([0], [10**12])), shape=(3, 10**13))
    with pytest.raises(DataError, match="index `feat` has 10000000000000 labels"):
        bind(GLMM, BASE | {"X": X, "who": [0, 1, 0]})


def test_columns_of_a_frame_label_the_features() -> None:
    for library in ("pandas", "polars"):
        frames = pytest.importorskip(library)
        X = frames.DataFrame({"age": [1.0, 2, 3], "sex": [0.0, 1, 0]})
        got = bind(GLMM, BASE | {"X": X, "who": [0, 1, 0]})
        assert got.indices["feat"].labels.tolist() == ["age", "sex"]


def test_dates_are_labels_whatever_their_unit() -> None:
    days = ["2020-01-01", "2020-01-02", "2020-01-03"]
    for dates in (
        np.array(days, dtype="M8[D]"),
        np.array(days, dtype="M8[ns]"),
        [np.datetime64(d) for d in days],
    ):
        got = bind(GLMM, BASE | {"who": [0, 1, 0], "obs": dates})
        assert got.indices["obs"].labels.tolist() == days


def test_columns_with_several_levels_of_names_are_refused_once() -> None:
    pandas = pytest.importorskip("pandas")
    columns = pandas.MultiIndex.from_tuples([("a", "y"), ("a", "who")])
    with pytest.raises(DataError, match="columns have 2 levels of names") as caught:
        bind(GLMM, pandas.DataFrame(np.ones((3, 2)), columns=columns))
    assert len(caught.value.diagnostics) == 1
