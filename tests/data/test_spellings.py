"""Which labels are meant by those that a table has and another one lacks."""

import unicodedata

import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.grounding.labels import nearest_label
from lgmdsl.errors import DataError

MODEL = """lgm 1
index obs
index plot
data y[obs] : count
data where[obs] : plot
data height[plot] : real
latent b ~ normal(sd = 2)
latent u[plot] ~ normal(sd = 1)
let eta[obs] = b * height[where] + u[where]
observe y ~ poisson(log_rate = eta)
"""
PLOTS = ["Étang 1", "Étang 2", "Forêt 3", "Lande 22"]


def help_for(labels: list[str]) -> str:
    rows = pd.DataFrame({"where": labels, "y": range(len(labels))})
    plots = pd.DataFrame({"plot": PLOTS, "height": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(DataError) as caught:
        lgm.fit(lgm.loads(MODEL), [rows, {"where": plots}])
    (found,) = caught.value.diagnostics
    assert found.code == "E302"
    return found.help


def test_each_label_has_its_own_suggestion() -> None:
    upper = help_for(["FORÊT 3", "ÉTANG 1", "Étang 2"])
    assert upper == 'did you mean "Forêt 3" for "FORÊT 3" and "Étang 1" for "ÉTANG 1"?'
    assert help_for(["Foret 3", "Étang 1"]) == 'did you mean "Forêt 3"?'
    assert help_for(["Étang 1 ", "Étang  2"]).count(" for ") == 2


def test_another_number_is_another_plot() -> None:
    assert help_for(["Lande 7", "Étang 1"]) == "correct the labels, or add them to `plot`"
    assert nearest_label("1.0", ["22", "1"]) == "1"
    assert nearest_label("007", ["70", "7"]) == "7"
    assert nearest_label("site 07", ["site 70", "site 7"]) == "site 7"


def test_forms_that_look_alike_are_told_apart() -> None:
    apart = unicodedata.normalize("NFD", "Étang 1")
    assert apart != "Étang 1"
    help = help_for([apart, "Étang 2"])
    assert f'"Étang 1" for "{apart}"' in help and "NFC" in help


def test_a_prediction_asks_before_it_wants_covariates() -> None:
    rows = pd.DataFrame({"where": PLOTS * 3, "y": range(12)})
    plots = pd.DataFrame({"plot": PLOTS, "height": [1.0, 2.0, 3.0, 4.0]})
    fit = lgm.fit(lgm.loads(MODEL), [rows, {"where": plots}])
    with pytest.raises(DataError) as caught:
        fit.predict(pd.DataFrame({"where": ["étang 1"]}))
    assert 'did you mean "Étang 1"? If not, give `height` for the new' in str(caught.value)
