"""Terms of a matrix of columns: kinds of contrasts, polynomials, functions and products, against
R 4.2 (`contr.helmert`, `contr.poly`, `poly`, `lm`) and MASS (`contr.sdif`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.dataset import read
from lgmdsl.graph.build import model_graph

MODEL = """lgm 1
index obs
index term
data y[obs] : real
data X[obs, term] : real
latent a ~ normal(sd = 1000)
latent b[term] ~ normal(sd = 1000)
let eta[obs] = a + X @ b
observe y ~ normal(mean = eta, sd = 0.01)
"""
ROWS = pd.DataFrame(
    {
        "y": [3.1, 2.0, 5.2, 4.4, 6.1, 7.9, 1.2, 9.4, 6.6, 3.3, 8.0, 5.5],
        "x": [1, 2, 3, 4, 5, 6, 1.5, 7, 5.5, 2.5, 6.5, 4.5],
        "arm": ["a", "b", "c"] * 4,
        "sex": list("ffmmfmmffmfm"),
        "dose": ["low", "mid", "high", "top"] * 3,
    }
)
ORDERED = ROWS.assign(dose=pd.Categorical(ROWS.dose, ["low", "mid", "high", "top"], ordered=True))
R_HELMERT = [[-1, -1, -1], [1, -1, -1], [0, 2, -1], [0, 0, 3]]
R_SDIF = [[-0.75, -0.5, -0.25], [0.25, -0.5, -0.25], [0.25, 0.5, -0.25], [0.25, 0.5, 0.75]]
R_POLY = [
    [-0.6708203932, 0.5, -0.2236067977],
    [-0.2236067977, -0.5, 0.6708203932],
    [0.2236067977, -0.5, -0.6708203932],
    [0.6708203932, 0.5, 0.2236067977],
]


def grounded(terms: Any, rows: pd.DataFrame) -> GroundedModel:
    return ground(model_graph(lgm.loads(MODEL).checked), read(rows, {"X": terms}))


def made(terms: Any, rows: pd.DataFrame = ROWS) -> tuple[list[str], np.ndarray]:
    whole = grounded(terms, rows)
    return whole.indices["term"].labels.tolist(), np.asarray(whole.values["X"])


def fitted(terms: Sequence[str], rows: pd.DataFrame = ROWS) -> lgm.Fit:
    return lgm.fit(lgm.loads(MODEL), rows, mapping={"X": [*terms]})


@pytest.mark.parametrize(
    ("kind", "expected", "words"),
    [
        ("helmert", R_HELMERT, ["mid", "high", "top"]),
        ("difference", R_SDIF, ["mid - low", "high - mid", "top - high"]),
        ("poly", R_POLY, ["linear", "quadratic", "cubic"]),
        ("full", np.eye(4), ["low", "mid", "high", "top"]),
    ],
)
def test_contrasts_are_those_of_r(kind: str, expected: Any, words: list[str]) -> None:
    labels, X = made(f"contrasts(dose, kind={kind})", ORDERED)
    assert labels == [f"dose[{word}]" for word in words]
    assert np.allclose(X[:4], expected, atol=1e-9)


def test_polynomials_are_those_of_r() -> None:
    rows = ROWS[:6].assign(x=[1, 2.5, 4, 7, 7, 11])
    labels, X = made("poly(x, 3)", rows)
    assert labels == ["poly(x)[1]", "poly(x)[2]", "poly(x)[3]"]
    assert X[0] == pytest.approx([-0.5427980713, 0.51448639168, -0.4715609390], abs=1e-9)
    assert X[5] == pytest.approx([0.6861786939, 0.56857217925, 0.1963497944], abs=1e-9)
    labels, X = made("poly(x, 2, raw=true)", rows)
    assert labels == ["x", "x^2"] and X[3].tolist() == [7, 49]


# predict(lm(y ~ ...)) at x = 10 and arm = a, b, c
@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (["x*contrasts(arm)"], [8.535714286, 13.312345679, 10.65]),
        (["poly(x, 2)*contrasts(arm)"], [28.61818182, 14.81696638, 25.00909091]),
        (["log(x)", "scale(x):contrasts(arm, kind=full)"], [15.13407858, 14.47930820, 12.80712798]),
    ],
)
def test_new_rows_are_coded_as_the_fit_was(
    terms: list[str], expected: list[float], tmp_path: Path
) -> None:
    first = fitted(terms)
    first.save(tmp_path / "f.nc")
    for fit in (first, lgm.load_fit(tmp_path / "f.nc")):
        for k, arm in enumerate("abc"):  # each row alone
            new = pd.DataFrame({"x": [10.0], "arm": [arm]})
            assert fit.predict(new).mean("eta").item() == pytest.approx(expected[k], abs=1e-3)
    same = first.predict(pd.DataFrame({"x": [10.0], "arm": ["a"]}), mapping={"X": terms})
    assert same.mean("eta").item() == pytest.approx(expected[0], abs=1e-3)


def test_products_run_over_the_first_factor_first() -> None:
    labels, X = made("contrasts(arm):contrasts(sex, kind=full):x")
    assert labels == [f"arm[{a}]:sex[{s}]:x" for s in "fm" for a in "bc"]
    for k, (a, s) in enumerate((a, s) for s in "fm" for a in "bc"):
        assert X[:, k].tolist() == np.where((ROWS.arm == a) & (ROWS.sex == s), ROWS.x, 0).tolist()
    labels, _ = made("x*contrasts(arm)*contrasts(sex)")
    assert labels[:4] == ["x", "arm[b]", "arm[c]", "sex[m]"] and len(labels) == 11
    labels, _ = made(["x*contrasts(arm)", "x*contrasts(sex)"])
    assert labels.count("x") == 1


def test_a_column_whose_name_has_signs_is_itself() -> None:
    rows = ROWS.rename(columns={"x": "a:b"}).assign(**{"c*d": 2.0, "log(e)": 3.0})
    labels, _ = made(["a:b", "c*d", "log(e)"], rows)
    assert labels == ["a:b", "c*d", "log(e)"]
    labels, _ = made("a:b,log(e)", rows)
    assert labels == ["a:b", "log(e)"]


def test_a_function_may_be_a_datum_over_the_rows() -> None:
    text = MODEL.replace("index term\n", "").replace("X[obs, term]", "z[obs]")
    model = lgm.loads(text.replace("b[term]", "b").replace("X @ b", "z * b"))
    fit = lgm.fit(model, ROWS, mapping={"z": "scale(x)"})
    one, two = (fit.predict({"x": [v]}, mapping={"z": "scale(x)"}).mean("eta") for v in (1, 2))
    slope = float(np.polyfit(ROWS.x, ROWS.y, 1)[0])
    assert (two - one).item() == pytest.approx(slope, rel=1e-3)
    assert fit.effects("x")["estimate"].item() == pytest.approx(slope, rel=1e-3)
    with pytest.raises(lgm.DataError, match=r"`poly\(x, 2\)` is 2 columns, and `z` is one"):
        lgm.fit(model, ROWS, mapping={"z": "poly(x, 2)"})


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["poly(x, 12)"], "degree 12 needs 13 different values, and it has 12"),
        (["poly(x, two)"], r"writes `poly\(x, two\)`"),
        (["lag(x)"], "`lag.x.`, which is no column"),
        (["logg(x)"], "did you mean `log`"),
        (["log(x, y)"], r"writes `log\(x, y\)`"),
        (["x:arm"], r"x:contrasts\(arm\)"),
        (["x", "x"], "`x` twice"),
        (["contrasts(arm, kind=helmert, base=a)"], "kind `helmert` a base"),
        (["x:height"], "wants the column `height`"),
    ],
)
def test_terms_that_are_written_otherwise(terms: list[str], message: str) -> None:
    with pytest.raises(lgm.DataError, match=message):
        made(terms)


def test_numbers_that_a_function_cannot_take() -> None:
    rows = ROWS.assign(x=ROWS.x - 1.0)
    with pytest.raises(lgm.DataError, match="log needs numbers above 0, and finds 0"):
        made(["log(x)"], rows)
    with pytest.raises(lgm.DataError, match="one value"):
        made(["scale(x)"], ROWS.assign(x=3.0))
    fit = fitted(["log(x)"])
    with pytest.raises(lgm.DataError, match="finds -2"):
        fit.predict({"x": [-2.0]})


def test_columns_coded_otherwise_than_in_the_fit() -> None:
    fit = fitted(["x", "poly(x, 2):contrasts(arm)"])
    for other in (["x", "poly(x, 3):contrasts(arm)"], ["log(x)", "poly(x, 2):contrasts(arm)"]):
        with pytest.raises(lgm.DataError, match="coded otherwise than in the fit"):
            fit.predict(ROWS[:2], mapping={"X": other})


def test_cells_that_no_row_has() -> None:
    rows = ROWS[(ROWS.arm != "b") | (ROWS.sex != "m")]
    (warning,) = grounded(["contrasts(arm)*contrasts(sex)"], rows).warnings
    assert warning.code == "W309" and 'no row has 1 column ("arm[b]:sex[m]")' in warning.message
    assert "latent cell[arm, sex]" in warning.help
    rows = ROWS.assign(sex=[*"fffmmm"] * 2)
    assert not grounded(["contrasts(arm)*contrasts(sex)"], rows).warnings


# ---- effects -----------------------------------------------------------------------------------


def test_a_covariate_changes_in_all_its_terms(tmp_path: Path) -> None:
    """A slope is that of the predictor, and a level is one in products too."""
    first = fitted(["x*contrasts(arm)", "poly(x, 2)"])
    first.save(tmp_path / "f.nc")

    def mean(fit: lgm.Fit, **changed: Any) -> np.ndarray:
        rows = ROWS[["x", "arm"]].assign(**changed)
        return np.asarray(fit.predict(rows).mean("eta"))

    for fit in (first, lgm.load_fit(tmp_path / "f.nc")):
        slopes = (mean(fit, x=ROWS.x + 0.001) - mean(fit, x=ROWS.x - 0.001)) / 0.002
        found = fit.effects("x", by="arm")
        expected = [slopes[ROWS.arm == arm].mean() for arm in "abc"]
        assert found["arm"].tolist() == ["a", "b", "c"]
        assert found["estimate"].tolist() == pytest.approx(expected, rel=1e-4)
        assert fit.effects("X[x]")["estimate"].item() == pytest.approx(slopes.mean(), rel=1e-4)
        differences = [(mean(fit, arm=arm) - mean(fit, arm="a")).mean() for arm in "bc"]
        assert fit.effects("arm")["estimate"].tolist() == pytest.approx(differences, rel=1e-4)
        one = fit.effects("X[arm[c]]")["estimate"].item()
        assert one == pytest.approx(differences[1], rel=1e-4)
        at = pd.DataFrame({"x": [ROWS.x.mean()] * 3, "arm": [*"abc"]})
        levels = np.asarray(fit.predict(at).mean("eta"))
        for kind in ("conditional", "balanced"):
            table = fit.effects("arm", kind=kind, contrast="levels")
            assert table["estimate"].tolist() == pytest.approx(levels.tolist(), rel=1e-4)
        assert len(fit.effects("X")) == 3
        with pytest.raises(lgm.ModelError, match="a function of `x` and `arm`"):
            fit.effects("X[x:arm[b]]")


def test_effects_where_labels_and_rows_stand_otherwise() -> None:
    """The model lists the columns in another order, and a key column the rows."""
    terms = ["x*contrasts(arm)", "poly(x, 2):contrasts(sex)"]
    plain = fitted(terms).effects("x", by="arm")
    labels = ", ".join(f'"{v}"' for v in [*made(terms)[0]][::-1])
    text = MODEL.replace("index term", "index term = {" + labels + "}")
    turned = lgm.fit(lgm.loads(text), ROWS, mapping={"X": terms}).effects("x", by="arm")
    assert turned["estimate"].tolist() == pytest.approx(plain["estimate"].tolist(), rel=1e-6)
    keyed = ROWS.assign(obs=[f"r{k}" for k in range(12)])
    shuffled = keyed.sample(frac=1.0, random_state=3)
    declared = "index obs = {" + ", ".join(f'"r{k}"' for k in range(12)) + "}"
    for text in (MODEL, MODEL.replace("index obs", declared)):
        fit = lgm.fit(
            lgm.loads(text),
            [keyed[["obs", "y"]], {"obs": shuffled.drop(columns="y")}],
            mapping={"X": terms},
        )
        found = fit.effects("x", by="arm")["estimate"].tolist()
        assert found == pytest.approx(plain["estimate"].tolist(), rel=1e-6)


def test_the_range_of_a_covariate_is_its_own() -> None:
    """Not one that begins at 0."""
    fit = fitted(["poly(x, 2)"])
    ends = np.asarray(fit.predict({"x": [1.0, 7.0]}).mean("eta"))
    found = fit.effects("x", contrast="minmax")
    assert found["contrast"].tolist() == ["7 - 1"]
    assert found["estimate"].item() == pytest.approx(ends[1] - ends[0], rel=1e-6)


def test_numbers_that_enter_by_contrasts_too() -> None:
    rows = ROWS.assign(dose=[1, 2, 4, 2] * 3)
    fit = fitted(["dose", "contrasts(dose, kind=sum)"], rows)
    means = {
        d: float(np.asarray(fit.predict(pd.DataFrame({"dose": [d]})).mean("eta"))[0])
        for d in (1, 2, 4)
    }
    assert fit.effects("X[dose]")["estimate"].item() == pytest.approx(means[4] - means[1], abs=1e-6)
    assert fit.effects("X[dose]", contrast=(1, 2))["estimate"].item() == pytest.approx(
        means[2] - means[1], abs=1e-6
    )
    with pytest.raises(lgm.ModelError, match="it enters by contrasts too"):
        fit.effects("X[dose]", contrast="slope")


# ---- laws --------------------------------------------------------------------------------------

SPREAD = st.lists(st.integers(-50, 50), min_size=6, max_size=20).filter(lambda v: len({*v}) > 4)


@given(SPREAD, st.sampled_from([1e-20, 1.0, 1e12]), st.integers(1, 4))
def test_polynomials_are_orthonormal_in_any_unit(x: list[int], unit: float, degree: int) -> None:
    rows = pd.DataFrame({"y": 0.0, "x": np.array(x) * unit + 1e3 * unit})
    _, X = made(f"poly(x, {degree})", rows)
    assert np.allclose(X.T @ X, np.eye(degree), atol=1e-8)
    assert np.allclose(X.sum(axis=0), 0.0, atol=1e-8)
