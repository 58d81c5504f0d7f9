"""New rows for a fitted model: rows are replaced, features kept, new labels appended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.canonical.grounding.ground import GroundedModel, ground_new
from lgmdsl.dataset import read
from lgmdsl.errors import DataError
from tests.data.models import GLMM, bind

OLD: dict[str, Any] = {
    "y": [1, 2, 3], "X": np.arange(6.0).reshape(3, 2), "who": ["b", "a", "b"],
    "time": [1.0, 1, 1], "feat": ["p", "q"],
}  # fmt: skip
NEW: dict[str, Any] = {"X": np.ones((2, 2)), "who": ["b", "zed"], "time": [1.0, 2.0]}


@pytest.fixture
def fitted() -> GroundedModel:
    return bind(GLMM, OLD)


def test_rows_are_replaced_and_new_labels_appended(fitted: GroundedModel) -> None:
    got = ground_new(fitted, read(NEW))
    assert got.replaced == ("obs",)
    assert got.indices["subject"].labels.tolist() == ["a", "b", "zed"]
    assert got.new_levels["subject"].tolist() == ["zed"]
    assert got.values["who"].tolist() == [1, 2] and got.indices["obs"].size == 2
    assert got.indices["feat"].labels.tolist() == ["p", "q"] and "y" not in got.values


def test_features_are_matched_by_label(fitted: GroundedModel) -> None:
    X = np.array([[10.0, 20.0]])
    got = ground_new(fitted, read(NEW | {"X": X, "feat": ["q", "p"], "who": ["a"], "time": [1]}))
    assert got.values["X"].tolist() == [[20.0, 10.0]] and not got.new_levels


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"X": np.ones((2, 3))}, "E301"),
        ({"feat": ["p", "r"]}, "E302"),
        ({"who": None}, "E305"),
        ({"time": [1.0]}, "E301"),
        ({"time": [1.0, -1]}, "E303"),
    ],
)
def test_wrong_new_data(fitted: GroundedModel, change: dict[str, Any], code: str) -> None:
    data = {k: v for k, v in (NEW | change).items() if v is not None}
    with pytest.raises(DataError) as caught:
        ground_new(fitted, read(data))
    assert code in caught.value.codes


def test_kept_data_may_be_left_out() -> None:
    text = GLMM.replace("data time[obs]    : positive", "data time[subject] : positive").replace(
        "exposure = time", "exposure = time[who]"
    )
    old = bind(text, OLD | {"time": [1.0, 3.0]})
    got = ground_new(old, read({"X": np.ones((1, 2)), "who": ["a"]}))
    assert got.values["time"].tolist() == [1.0, 3.0]
    with pytest.raises(DataError, match='for the new labels of subject: "zed"'):
        ground_new(old, read({"X": np.ones((1, 2)), "who": ["zed"]}))


def test_area_models_keep_their_regions() -> None:
    from tests.data.test_indices import AREA, GRAPHS

    old = bind(AREA, {"y": [1, 2, 3], "adj": GRAPHS[0]})
    got = ground_new(old, read({}))
    assert got.replaced == () and got.indices["region"].size == 3
    assert got.values["adj"].nnz == 4 and "y" not in got.values
    with pytest.raises(DataError):
        ground_new(old, read({"y": [1, 2]}))
