"""Labels of new data that the fit does not know, or that are none: reported or refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.cli.main import main

RNG = np.random.default_rng(3)
NAMES = ["Ashford", "Bexley", "Croydon", "Dover", "Ealing"]
X, WHO = RNG.normal(size=30), np.arange(30) % 5
MODEL = """lgm 1
index obs
index school
data x[obs] : real
data dose : real
data who[obs] : school
data y[obs] : real
latent b ~ normal(sd = 3)
latent u[school] ~ normal(sd = 0.5)
let eta[obs] = b * x * dose + u[who]
observe y ~ normal(mean = eta, sd = 0.5)
"""
EACH = MODEL.replace("latent b", "latent e[obs] ~ normal(sd = 1)\nlatent b").replace(
    "u[who]", "e + u[who]"
)
LINE = """lgm 1
index t
data y[t] : real
latent f[t] ~ ar1(sd = 1, rho = 0.5)
observe y ~ normal(mean = f, sd = 0.5)
"""


def schools(labels: Any, text: str = MODEL) -> Fit:
    who = np.asarray(labels)[WHO]
    return lgm.fit(lgm.loads(text), {"x": X, "who": who, "y": X + 0.2 * WHO, "dose": 1.0})


def asked(fit: Fit, **data: Any) -> tuple[Prediction, list[str]]:
    """The predictors, and the codes of what was said, in Python and in the prediction alike."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit.predict(data)
    assert all(w.category is lgm.PredictionWarning and w.filename == __file__ for w in said)
    assert [str(w.message).split("[")[1][:4] for w in said] == [w.code for w in found.warnings]
    return found, [w.code for w in found.warnings]


def test_unknown_groups_are_named_with_what_may_be_meant() -> None:
    fit = schools(NAMES)
    found, codes = asked(fit, x=[0.0] * 3, who=["Ashford", "Ashfrod", "dover"])
    assert codes == ["W307"]
    message = found.warnings[0]
    assert "2 labels of `school` are not in the fit" in message.message
    assert (
        '"Ashfrod", "dover"' in message.message
        and "latents that have their prior there: u" in message.details
    )
    assert message.help == 'did you mean "Ashford" for "Ashfrod" and "Dover" for "dover"?'
    np.testing.assert_allclose(found.sd("eta").values[1:], 0.5, rtol=1e-9)
    assert asked(fit, x=[0.0], who=["Ealing"])[1] == []
    assert asked(fit, school=["Ealing", "Ealign"])[1] == ["W307"]


def test_numbers_are_no_slips_of_numbers() -> None:
    found, codes = asked(schools([1, 2, 3, 4, 50]), x=[0.0, 0.0], who=[5, 2])
    assert codes == ["W307"] and "did you mean" not in found.warnings[0].help
    assert found.warnings[0].message.endswith(
        "1 label of `school` is not in the fit, and is predicted from the prior: 5"
    )


@pytest.mark.parametrize("who", [[1.0, 2.0], ["1", "2"], pd.Series([1, 2], dtype="Int64")])
def test_one_label_in_several_types(who: Any) -> None:
    fit = schools([1, 2, 3, 4, 5])
    found, codes = asked(fit, x=[0.0, 0.0], who=who)
    assert codes == []
    np.testing.assert_allclose(found.mean("eta"), fit.mean("u").values[:2], atol=1e-12)


@pytest.mark.parametrize("who", [[" 1"], ["01"], [1.5], ["Ashford"], [2**60]])
def test_what_is_almost_a_label_is_a_new_one(who: Any) -> None:
    assert asked(schools([1, 2, 3, 4, 5]), x=[0.0], who=who)[1] == ["W307"]


def test_declared_labels_take_no_others() -> None:
    listed = ", ".join(f'"{n}"' for n in NAMES)
    fit = schools(NAMES, MODEL.replace("index school", f"index school = {{{listed}}}"))
    with pytest.raises(lgm.DataError, match='did you mean "Ashford"') as caught:
        fit.predict({"x": [0.0], "who": ["Ashfrod"]})
    assert caught.value.codes == ("E302",)


@pytest.mark.parametrize("labels", [[1, 2, 3, 4, 5], NAMES, [0, 1, 2, 3, 4]])
def test_truth_values_are_no_labels(labels: Any) -> None:
    fit = schools(labels)
    for data in ({"x": [0.0, 0.0], "who": [True, False]}, {"school": [True, False]}):
        with pytest.raises(lgm.DataError, match=r"truth values.*\n.*has 5 labels") as caught:
            fit.predict(data)
        assert caught.value.codes == ("E302",)


def test_truth_values_are_no_times() -> None:
    fit = lgm.fit(lgm.loads(LINE), {"y": X})
    for mask in ([True, False], np.array([True, False]), pd.Series([True, False])):
        with pytest.raises(lgm.DataError, match="`t` holds truth values"):
            fit.predict({"t": mask})


def test_groups_of_truth_values_are_known_again() -> None:
    fit = lgm.fit(lgm.loads(MODEL), {"x": X, "who": WHO > 2, "y": X, "dose": 1.0})
    found, codes = asked(fit, x=[0.0, 0.0], who=[True, False])
    assert codes == []
    np.testing.assert_allclose(found.mean("eta"), fit.mean("u").values[::-1], atol=1e-12)


def test_rows_named_in_part() -> None:
    rows = [f"r{k}" for k in range(30)]
    data = {"x": X, "who": WHO, "y": X, "dose": 1.0, "obs": rows}
    fit = lgm.fit(lgm.loads(EACH), data)
    new = {"x": pd.Series([0.0, 0.0], ["r3", "R4"]), "who": pd.Series([1, 2], ["r3", "R4"])}
    found, codes = asked(fit, **new)
    assert codes == ["W307"] and found.warnings[0].help == 'did you mean "r4" for "R4"?'


def test_the_rows_of_another_part_of_a_frame_are_new_in_silence() -> None:
    whole = pd.DataFrame({"x": X, "who": WHO, "y": X}, index=range(100, 130))
    first, rest = whole.iloc[:26], whole.iloc[26:]
    fit = lgm.fit(lgm.loads(EACH), {**{k: first[k] for k in ("x", "who", "y")}, "dose": 1.0})
    assert fit.mean("e")["obs"].values[0] == 100
    assert asked(fit, x=rest["x"], who=rest["who"])[1] == []
    some = whole.iloc[24:28]
    assert asked(fit, x=some["x"], who=some["who"])[1] == ["W307"]


@pytest.mark.parametrize("key", ["Dose", "doze"])
def test_a_mistyped_datum_is_said(key: str) -> None:
    fit = schools(NAMES)
    found, codes = asked(fit, x=[1.0], who=["Dover"], **{key: 9.0})
    assert (
        codes == ["W308"] and f"`{key}` is not used, and `dose` keeps" in found.warnings[0].message
    )
    assert asked(fit, x=[1.0], who=["Dover"], height=9.0)[1] == []
    assert asked(fit, x=[1.0], who=["Dover"], doses=[9.0, 8.0])[1] == []


def test_mistyped_labels_of_an_index_are_said() -> None:
    data = {"x": X, "who": np.array(NAMES)[WHO], "y": X, "dose": 1.0}
    fit = lgm.fit(lgm.loads(MODEL), data | {"schol": NAMES[::-1], "age": np.arange(5)})
    assert [w.code for w in fit.warnings] == ["W308"]
    assert "`schol` is not used" in fit.warnings[0].message
    table = pd.DataFrame({"y": X, "tt": X, "T": np.arange(30)})
    fit = lgm.fit(lgm.loads(LINE), table)
    assert ["`T` is not used" in w.message for w in fit.warnings] == [True]


def test_rows_without_a_label_are_refused() -> None:
    rows = {
        "x": pd.Series([0.0, 1.0], [3, np.nan]),
        "who": pd.Series(["Dover", "Dover"], [3, np.nan]),
    }
    with pytest.raises(lgm.DataError, match="a label of `obs` along `x` is missing"):
        schools(NAMES).predict(rows)


def test_a_wrong_name_of_a_key_is_said_once() -> None:
    with pytest.raises(lgm.DataError) as caught:
        schools(NAMES).predict({"x": [0.0], "who": ["Dover"]}, mapping={"x": "xx"})
    assert caught.value.codes == ("E305",)


def test_the_command_line_says_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schools(NAMES).save(tmp_path / "f.nc")
    (tmp_path / "new.csv").write_text("x,who\n0,Ashfrod\n0,Dover\n")
    assert main(["predict", str(tmp_path / "f.nc"), str(tmp_path / "new.csv")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("obs,x,who,who_status,eta_mean")
    assert [row.split(",")[3] for row in out.splitlines()[1:]] == ["new", "fitted"]
    assert err.count("W307") == 1 and 'did you mean "Ashford" for "Ashfrod"?' in err
