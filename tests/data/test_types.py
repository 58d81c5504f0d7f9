"""Types of data: what is accepted, and what is told of values outside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import DataError
from tests.data.models import GLMM, bind, one

REFUSED = [
    # type, values, code, found, remedy
    ("binary", [1, 2, 1, 2], "E303", "found 1 (2), 2 (2)", "y - 1"),
    ("binary", [-1, 1, 1], "E303", "found -1 (1), 1 (2)", "(y + 1) / 2"),
    ("binary", [0, 255], "E303", "found 0 (1), 255 (1)", "y == 255"),
    ("binary", ["no", "yes", "no"], "E303", 'found text: "no" (2), "yes" (1)', 'y == "yes"'),
    ("binary", [-1, 0, 1], "E303", "found -1 (1), at obs 0", "np.where(y == -1, np.nan, y)"),
    ("binary", [0, 1, 0.5], "E303", "found 0.5 (1), at obs 2", "truth value"),
    ("count", [1, -2, 3], "E303", "found -2 (1), at obs 1", "integer"),
    ("count", [1, -1, 3], "E303", "found -1 (1), at obs 1", "np.where(y == -1, np.nan, y)"),
    ("count", [1, 2.5], "E303", "found 2.5 (1), at obs 1", "np.round(y)"),
    ("positive", [0.0, 1], "E303", "found 0 (1), at obs 0", "0 is not positive"),
    ("positive", [-3.0, 1], "E303", "found -3 (1), at obs 0", "negative"),
    ("unit", [20.0, 80], "E303", "found 20 (1), 80 (1), at obs 0, 1", "y / 100"),
    ("unit", [0.0, 0.5], "E303", "found 0 (1), at obs 0", "np.clip(y"),
    ("integer", [0.5, 1], "E303", "found 0.5 (1), at obs 0", "np.round(y)"),
    ("real", [np.inf, 1], "E303", "found inf (1), at obs 0", "NaN"),
    ("real", [1, -np.inf], "E303", "found -inf (1), at obs 1", "drop these rows"),
    ("real", ["1.5", "x"], "E303", 'found text: "x" (1), at obs 1', "NA where they are missing"),
    ("real", ["1.5", "2"], "E303", "found text", "dtype=float"),
    ("real", ["1,5", "0,2"], "E303", "found text", "without decimal commas: 0.2"),
    ("count", ["1,000", "2"], "E303", 'text: "1,000" (1), at obs 0', "without commas: 1000"),
    ("count", ["#N/A", "2"], "E303", 'text: "#N/A" (1), at obs 0', "is empty or NA"),
    ("real", ["low", "high"], "E303", "found text", "declare an index"),
    ("real", [1.0, np.nan], "E304", "1 of 2 missing, at obs 1", "data y[obs] : real?"),
    ("count", [1, None], "E304", "1 of 2 missing, at obs 1", "count?"),
    ("binary", np.ma.masked_equal([0, 1, 1], 0), "E304", "1 of 3 missing", "binary?"),
    ("real", [], "E301", "index `obs` is empty", "at least one row"),
    ("real", [[1.0, 2], [3, 4]], "E301", "given    (2, 2)", ""),
    ("real", 3.0, "E301", "given    ()", ""),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "code", "found", "remedy"), REFUSED)
def test_values_outside_the_type_are_refused(
    kind: str, values: Any, code: str, found: str, remedy: str
) -> None:
    with pytest.raises(DataError) as caught:
        bind(one(kind), {"y": values})
    assert caught.value.codes == (code,)
    assert found in str(caught.value) and remedy in str(caught.value)
    assert caught.value.diagnostics[0].span.known


@pytest.mark.parametrize("kind", ["int8", "uint16", "float32", "bool", "float16", ">f8", ">i4"])
def test_smaller_and_foreign_numbers_are_widened(kind: str) -> None:
    got = bind(one("real"), {"y": np.array([1, 0, 1], dtype=kind)}).values["y"]
    assert got.dtype == np.float64 and got.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nan, 2],
        [1, None, 2],
        np.ma.masked_equal([1, 7, 2], 7),
        np.array([1.0, np.nan, 2]),
        np.array([1, None, 2], dtype=object),
        np.ma.masked_equal(np.array([1, 7, 2], object), 7),
    ],
)
def test_missing_entries_are_marked(values: Any) -> None:
    got = bind(one("count?"), {"y": values})
    assert got.missing["y"].tolist() == [False, True, False]
    np.testing.assert_array_equal(got.values["y"], [1, np.nan, 2])


def test_accepted_without_complaint() -> None:
    """One row, constant and collinear columns, separated classes: the prior carries these."""
    one_row = {"y": [3], "X": [[1.0, 1.0]], "who": ["a"], "time": [2.0]}
    assert bind(GLMM, one_row).indices["obs"].size == 1
    X = np.ones((4, 3))
    got = bind(GLMM, {"y": [0, 0, 9, 9], "X": X, "who": [5, 5, 7, 7], "time": [1] * 4})
    assert got.warnings == () and got.indices["subject"].labels.tolist() == [5, 7]


def test_every_problem_of_every_datum_in_one_pass() -> None:
    data = {"y": [1, -2, 3], "X": np.full((3, 2), np.nan), "who": ["a", "", "b"]}
    with pytest.raises(DataError) as caught:
        bind(GLMM, data)
    assert sorted(caught.value.codes) == ["E303", "E304", "E304", "E305"]


OBJECTS = [
    np.array([1, "a", None], dtype=object), [object()], {"a": 1}, lambda: 0, [1 + 2j],
    np.array([(1, 2.0)], dtype="i4,f8"), [[1, 2], [3]], [{}], [10**400], np.array([1j]), b"ab",
    np.array([b"\xff"]), [1, "a"], {1, 2},
]  # fmt: skip


@pytest.mark.parametrize("values", OBJECTS, ids=[str(k) for k in range(len(OBJECTS))])
def test_python_objects_are_refused(values: Any) -> None:
    with pytest.raises(DataError) as caught:
        bind(one("real"), {"y": values})
    assert caught.value.codes[0] == "E306" and "`y`" in str(caught.value)


def test_responses_that_cannot_occur_are_named() -> None:
    model = lgm.loads(
        "lgm 1\nindex obs\ndata n[obs] : count\ndata y[obs] : count\nlatent a ~ normal(sd = 2)\n"
        "observe y ~ binomial(n = n, logit = a)\n"
    )
    with pytest.raises(DataError, match=r"E303.*cannot occur under `binomial"):
        lgm.fit(model, {"y": [3, 5], "n": [4, 2]})
