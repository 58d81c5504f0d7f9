"""Arguments that are one name: a list of one is that name, of several an error with the way on."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.api.predict.predict import Prediction

TEXT = """lgm 1
index obs
index group
data y[obs] : positive
data x[obs] : real
data who[obs] : group
hyper k : positive ~ lognormal(mean = 0, sd = 1)
latent b ~ normal(sd = 2)
latent u[group] ~ normal(sd = 1)
latent f[obs] ~ spline(at = x, sd = 0.5, size = 4)
let eta[obs] = b * x + u[who] + f
observe y ~ gamma(log_mean = eta, shape = k)
"""
RNG = np.random.default_rng(2)
DATA = pd.DataFrame(
    {"y": RNG.gamma(2.0, 1.0, 40), "x": RNG.normal(size=40), "who": RNG.choice(["a", "b"], 40)}
)
# What other parameters of the methods need.
REST: dict[str, Any] = {"probabilities": [0.5], "times": [1.0], "size": 3}
# A name that each parameter takes, where it is not the first of these.
NAMES: dict[str, Any] = {
    "name": ("b", "x", "eta", "y", "f"),
    "by": ("who",),
    "response": ("y",),
    "kind": ("average",),
    "compare": ("ratio",),
    "scale": ("link",),
}
# Pictures have a test of their own; the others are steps of questions.
OTHERS = ("plot", "precision", "doubt", "quantity", "labelled", "observed")


@pytest.fixture(scope="module")
def results() -> tuple[lgm.Fit, Prediction]:
    fit = lgm.fit(lgm.loads(TEXT), DATA, method="laplace", hyper="map")
    return fit, fit.predict(DATA)


def questions() -> Iterator[tuple[str, str, str]]:
    """The public methods of results, with each parameter that is one name."""
    for owner in (lgm.Fit, Prediction):
        for method, function in inspect.getmembers(owner, inspect.isfunction):
            for p in inspect.signature(function).parameters.values():
                if not method.startswith("_") and p.annotation in ("str", "str | None"):
                    yield owner.__name__, method, p.name


CASES = [q for q in questions() if q[2] in NAMES and q[1] not in OTHERS]


def test_there_are_questions() -> None:
    assert {"effects", "mean", "sd", "quantile", "density", "survival"} <= {m for _, m, _ in CASES}


@pytest.mark.parametrize(("owner", "method", "parameter"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_list_of_one_name_is_the_name(
    owner: str, method: str, parameter: str, results: tuple[lgm.Fit, Prediction]
) -> None:
    result = results[0] if owner == "Fit" else results[1]
    asked = getattr(result, method)
    wanted = inspect.signature(asked).parameters
    rest = {k: v for k, v in REST.items() if k in wanted and wanted[k].default is inspect._empty}
    if parameter != "name" and "name" in wanted and wanted["name"].default is inspect._empty:
        rest["name"] = "x" if method == "effects" else "b"
    plain = None
    for name in NAMES[parameter]:
        try:
            plain = asked(**rest, **{parameter: name})
        except lgm.LgmError:
            continue
        for listed in ([name], (name,), np.array([name])):
            same = asked(**rest, **{parameter: listed})
            assert str(same) == str(plain)
        break
    assert plain is not None
    for several in (["b", "x"], 3, {"b": 1}, []):
        with pytest.raises(lgm.LgmError) as raised:
            asked(**rest, **{parameter: several})
        assert raised.value.diagnostics[0].help


def test_a_contrast_may_be_an_array(results: tuple[lgm.Fit, Prediction]) -> None:
    fit, _ = results
    pair = fit.effects("x", contrast=np.array([0.0, 1.0]), n=100)
    pd.testing.assert_frame_equal(pair, fit.effects("x", contrast=(0.0, 1.0), n=100))


def test_fits_are_compared_by_name(results: tuple[lgm.Fit, Prediction]) -> None:
    fit, _ = results
    for given in ([fit, fit], fit, (fit, fit)):
        with pytest.raises(lgm.MethodError, match=r"E108.*given by name"):
            lgm.compare_models(given)  # type: ignore[arg-type]


def test_labels_of_an_index_may_be_an_array() -> None:
    model = lgm.Model()
    for name, labels in (
        ("a", np.array(["x", "y"])),
        ("b", pd.Index(["x", "y"])),
        ("c", ("x", "y")),
    ):
        model.index(name, labels)  # type: ignore[arg-type]
    model.index("d", np.int64(3))  # type: ignore[arg-type]
    assert model.to_lgm().count('{"x", "y"}') == 3
