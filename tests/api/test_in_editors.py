"""What `help`, editors and attribute access show of fits."""

from __future__ import annotations

import inspect
import pydoc
import typing

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.hyper_ways import HYPER_WAYS
from lgmdsl.api.predict.by_batches import predicted_pieces
from lgmdsl.api.predict.by_shards import predict_shards
from lgmdsl.api.predict.predict import predict
from lgmdsl.cli.commands.predict import command
from lgmdsl.inference.registry import backends
from lgmdsl.inference.settings import HyperName, MethodName

TEXT = """lgm 1
index obs
data y[obs] : count
data x[obs] : real
latent b ~ normal(sd = 1)
let eta[obs] = b * x
observe y ~ poisson(log_rate = eta)
"""
DATA = {"y": [1, 2, 3, 0], "x": [0.5, 1.0, 1.5, -1.0]}


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(TEXT, DATA)


def test_means_are_attributes(fit: lgm.Fit) -> None:
    response = fit.predict(DATA).response("y")
    assert (response.estimate == response["mean"]).all()
    assert float(fit["b"].estimate) == float(fit.mean("b"))


def test_the_constructor_of_a_fit_is_not_shown(fit: lgm.Fit) -> None:
    for made in (lgm.Fit, lgm.Comparison, lgm.ModelComparison, lgm.Calibration, lgm.Design):
        assert str(inspect.signature(made)) == "()"
    page = pydoc.plain(pydoc.render_doc(lgm.Fit))
    assert "theta: 'Mapping" not in page.partition("Methods defined here")[0]
    assert "Made by lgm.fit and lgm.load_fit" in page


def test_one_name_for_the_treatment_of_hyperparameters(fit: lgm.Fit) -> None:
    assert fit.hyper == "fixed" and not hasattr(fit, "hypers")


def test_the_manual_of_fit_has_sections() -> None:
    doc = inspect.getdoc(lgm.fit)
    assert doc is not None
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"\n{section}\n{'-' * len(section)}\n" in doc
    described = doc.partition("Parameters\n")[2].partition("\nReturns\n")[0]
    for name in inspect.signature(lgm.fit).parameters:
        assert f"\n{name} : " in described, name


def test_words_are_literals() -> None:
    hints = inspect.get_annotations(lgm.fit)
    assert "MethodName" in hints["method"] and "HyperName" in hints["hyper"]
    assert {*typing.get_args(MethodName)} == {"auto", *backends()}
    assert {*typing.get_args(HyperName)} == {way.name for way in HYPER_WAYS}


@pytest.mark.parametrize(
    "method", [*(getattr(lgm.Fit, n) for n in ("tidy", "augment", "glance", "survival", "effects"))]
)
def test_frames_are_typed(method: object) -> None:
    assert inspect.signature(method).return_annotation == "pd.DataFrame"  # type: ignore[arg-type]


def test_frames_are_frames(fit: lgm.Fit) -> None:
    assert isinstance(fit.tidy(), pd.DataFrame)
    assert isinstance(fit.predict(DATA).frame(), pd.DataFrame)
    assert np.isfinite(fit.glance(criteria=False)["log_evidence"]).all()


def test_every_way_to_predict_takes_what_predict_takes() -> None:
    """`lgm predict` and predictions of shards are the same question."""
    asked = {*inspect.signature(lgm.Fit.predict).parameters} - {"self", "data"}
    assert asked <= {*inspect.signature(predict).parameters}
    assert asked <= {*inspect.signature(lgm.Fit.predict_shards).parameters}
    assert asked <= {*inspect.signature(predict_shards).parameters}
    assert asked <= {p.name for p in command.params}
    assert asked - {"mapping"} <= {*inspect.signature(predicted_pieces).parameters}  # data are read
