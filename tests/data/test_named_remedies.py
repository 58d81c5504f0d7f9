"""What refusals of labels name, and the remedies that they give."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import DataError, NumericalError

MODEL = """lgm 1
index obs
index school{size}
data who[obs] : school
data y[obs] : real
latent u[school] ~ {prior}
let eta[obs] = u[who]
observe y ~ normal(mean = eta, sd = 1)
"""
Y = np.arange(8.0)


def model(prior: str, size: str = "") -> lgm.Model:
    return lgm.loads(MODEL.format(prior=prior, size=size))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_new_member_that_nothing_determines_is_named_by_its_label() -> None:
    fit = lgm.fit(model("flat"), {"who": ["a", "b", "c", "d"] * 2, "y": Y})
    with pytest.raises(NumericalError, match=r"E602.*determines u\[e\]$"):
        fit.predict({"who": ["e", "a"]}).mean("eta")


def test_text_labels_of_a_sized_index_want_it_without_the_size() -> None:
    data = {"who": ["a", "b", "c", "d"] * 2, "y": Y}
    with pytest.raises(DataError, match="write `index school` without a size") as caught:
        lgm.fit(model("normal(sd = 1)", " = 5"), data)
    assert caught.value.codes == ("E302",)
    assert lgm.fit(model("normal(sd = 1)"), data).converged, "the remedy works"


@pytest.mark.parametrize("prior", ["ar1(sd = 1, rho = 0.5)", "rw1(sd = 1)", "ou(sd = 1, rate = 1)"])
@pytest.mark.parametrize("more", [{}, {"school": [False, True]}], ids=["map", "key"])
def test_truth_values_are_no_places_of_a_line(prior: str, more: dict[str, list[bool]]) -> None:
    data = {"who": [True, False] * 4, "y": Y, **more}
    with pytest.raises(DataError, match="holds truth values, which have no distances") as caught:
        lgm.fit(model(prior), data)
    assert caught.value.codes == ("E302",)


def test_truth_values_name_members_without_an_order() -> None:
    fit = lgm.fit(model("normal(sd = 1)"), {"who": [True, False] * 4, "y": Y})
    assert fit.mean("u")["school"].values.tolist() == [0, 1]
