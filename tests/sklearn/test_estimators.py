"""What the estimators compute, against closed forms and scikit-learn's own."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lgmdsl as lgm
from lgmdsl.inference.plan import Plan
from lgmdsl.sklearn import (
    AdditiveModel,
    BayesianGLM,
    GaussianProcess,
    LgmClassifier,
    LgmRegressor,
    MixedModel,
)


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    who = np.array(["ann", "bob", "cy", "dee", "eve"])[np.arange(60) % 5]
    frame = pd.DataFrame({"age": rng.uniform(20, 60, 60), "dose": rng.normal(size=60), "who": who})
    effect = frame["who"].map({"ann": -1.0, "bob": -0.5, "cy": 0.0, "dee": 0.5, "eve": 1.0})
    frame["y"] = 3.0 + 0.05 * frame["age"] - frame["dose"] + effect + 0.3 * rng.normal(size=60)
    return frame


def test_a_linear_model_is_the_conjugate_one(table: pd.DataFrame) -> None:
    """The posterior of the standardised coefficients in closed form, at a given noise."""
    x, y = table[["age", "dose"]], table["y"].to_numpy()
    model = BayesianGLM(fixed={"noise": 0.4}, hyper="fixed").fit(x, y)
    centre, scale, unit = x.to_numpy().mean(0), x.to_numpy().std(0), y.std()
    design = np.column_stack([np.ones(60), (x.to_numpy() - centre) / scale])
    prior = np.array([10.0 * unit, 2.5 * unit, 2.5 * unit])
    precision = design.T @ design / 0.16 + np.diag(prior**-2)
    right = design.T @ y / 0.16 + np.array([y.mean(), 0.0, 0.0]) / prior**2
    mean, covariance = np.linalg.solve(precision, right), np.linalg.inv(precision)
    np.testing.assert_allclose(model.coef_, mean[1:] / scale, rtol=1e-5)
    np.testing.assert_allclose(model.coef_sd_, np.sqrt(np.diag(covariance))[1:] / scale, rtol=1e-5)
    np.testing.assert_allclose(model.intercept_, mean[0] - mean[1:] @ (centre / scale), rtol=1e-5)
    found, sd = model.predict(x, return_std=True)
    np.testing.assert_allclose(found, design @ mean, rtol=1e-5)
    variance = np.einsum("ij,jk,ik->i", design, covariance, design) + 0.16
    np.testing.assert_allclose(sd, np.sqrt(variance), rtol=1e-5)
    by_hand = model.intercept_ + x.to_numpy() @ model.coef_
    np.testing.assert_allclose(found, by_hand, rtol=1e-8)
    assert list(model.get_feature_names_out()) == ["age", "dose"]


def test_a_gaussian_process_is_the_one_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 3.0, (40, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=40)
    mine = GaussianProcess(fixed={"s": 1.3, "length": 0.9, "noise": 0.2}, hyper="fixed").fit(X, y)
    Z, unit = (X - X.mean(0)) / X.std(0), y.std()
    kernel = ConstantKernel(1.3**2) * Matern(0.9, nu=2.5) + ConstantKernel((10.0 * unit) ** 2)
    theirs = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(Z, y - y.mean())
    new = rng.uniform(-1.0, 4.0, (15, 2))
    mean, sd = theirs.predict((new - X.mean(0)) / X.std(0), return_std=True)
    found, spread = mine.predict(new, return_std=True)
    np.testing.assert_allclose(found, mean + y.mean(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(spread, np.sqrt(sd**2 + 0.04), rtol=1e-4)


def test_groups_by_name_and_by_position(table: pd.DataFrame) -> None:
    x, y = table[["age", "dose", "who"]], table["y"]
    model = MixedModel("who", hyper="map").fit(x, y)
    text = model.model_.to_lgm()
    direct = lgm.fit(lgm.loads(text), dict(model.form_.data), hyper="map")
    assert direct == model.fit_
    effects = model.fit_.mean("u0")
    assert list(effects.coords["group0"].values) == ["ann", "bob", "cy", "dee", "eve"]
    np.testing.assert_allclose(effects.values, [-1, -0.5, 0, 0.5, 1], atol=0.3)
    by_position = MixedModel([2], hyper="map").fit(x.to_numpy(dtype=object), y)
    np.testing.assert_array_equal(by_position.predict(x.to_numpy(dtype=object)), model.predict(x))
    with_polars = MixedModel("who", hyper="map").fit(pl.from_pandas(x), y.to_numpy())
    np.testing.assert_array_equal(with_polars.predict(pl.from_pandas(x)), model.predict(x))
    # A group that was not fitted: the mean of all, with the spread between groups.
    new = x.iloc[:1].assign(who="zoe")
    mean, sd = model.predict(new, return_std=True)
    known, less = model.predict(new.assign(who="cy"), return_std=True)
    assert sd[0] > 1.5 * less[0] and abs(mean[0] - known[0]) < 1.0
    with pytest.raises(ValueError, match="there is no column 'whom': X has age, dose, who"):
        MixedModel("whom").fit(x, y)
    only = MixedModel("who", hyper="map").fit(x[["who"]], y)
    assert only.predict(x[["who"]]).shape == (60,)


def test_smooth_functions_are_found_and_continued() -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(0, 6, 150), rng.integers(0, 9, 150), rng.integers(0, 2, 150)])
    y = np.sin(X[:, 0]) + 0.1 * (X[:, 1] - 4.0) ** 2 + 0.5 * X[:, 2] + 0.1 * rng.normal(size=150)
    model = AdditiveModel().fit(X, y)
    knots, mean, sd = model.smooth(0)
    assert len(knots) == 20 and (sd < 0.2).all()
    centred = np.sin(knots) - np.sin(knots).mean()
    assert np.abs(mean - mean.mean() - centred).max() < 0.2
    ties, _, _ = model.smooth("x1")
    np.testing.assert_array_equal(ties, np.arange(9.0))
    np.testing.assert_allclose(model.fit_.mean("w") / X[:, 2].std(), 0.5, atol=0.1)
    # Between the knots and beyond them: straight lines.
    inside = np.column_stack(
        [np.linspace(float(knots[4]), float(knots[5]), 3), np.full(3, 4.0), np.zeros(3)]
    )
    beyond = np.column_stack([6.0 + np.arange(3.0), np.full(3, 4.0), np.zeros(3)])
    for line in (inside, beyond):
        first, second, third = np.asarray(model.predict(line))
        assert second == pytest.approx(0.5 * (first + third), abs=1e-8)
    with pytest.raises(ValueError, match="too few distinct values"):
        model.smooth(2)
    with pytest.raises(ValueError, match="knots"):
        AdditiveModel(knots=3).fit(X, y)


@pytest.mark.few(2)
@pytest.mark.parametrize("family", ["poisson", "negbinomial", "gamma", "student_t", "bernoulli"])
def test_families(family: str) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(120, 1))
    eta = 0.5 + 0.8 * x[:, 0]
    draws: dict[str, Any] = {
        "poisson": rng.poisson(np.exp(eta)),
        "negbinomial": rng.poisson(np.exp(eta) * rng.gamma(3.0, 1.0 / 3.0, 120)),
        "gamma": np.exp(eta) * rng.gamma(2.0, 0.5, 120),
        "student_t": eta + 0.2 * rng.standard_t(4, 120),
        "bernoulli": rng.random(120) < 1.0 / (1.0 + np.exp(-eta)),
    }
    model = BayesianGLM(family, method="laplace", hyper="map").fit(
        x, np.asarray(draws[family], dtype=float)
    )
    assert abs(model.coef_[0] - 0.8) < 4.0 * model.coef_sd_[0] < 1.5
    mean, sd = model.predict(x, return_std=True)
    assert mean.shape == sd.shape == (120,) and (sd > 0).all()
    positive = family in ("poisson", "negbinomial", "gamma")
    assert model.__sklearn_tags__().target_tags.positive_only is positive


MODEL = """lgm 1
index obs
index who
data y[obs] : count
data dose[obs] : real
data patient[obs] : who
data days[obs] : positive
data friends[who, who] : graph
latent level ~ normal(sd = 3)
latent b ~ normal(sd = 1)
latent u[who] ~ besag(graph = friends, sd = 0.5)
let eta[obs] = level + b * dose + u[patient]
observe y ~ poisson(log_rate = eta, exposure = days)
"""


@pytest.fixture
def counts() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    patient = np.array(["a", "b", "c", "d"])[np.arange(40) % 4]
    frame = pd.DataFrame({"patient": patient, "days": rng.uniform(1, 3, 40)})
    frame.insert(0, "dose", rng.normal(size=40))
    frame["y"] = rng.poisson(frame["days"] * np.exp(1.0 + 0.5 * frame["dose"]))
    return frame


@pytest.mark.thorough
def test_any_model_takes_its_columns_by_name(counts: pd.DataFrame, tmp_path: Path) -> None:
    ring = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    extra = {"friends": ring, "who": ["a", "b", "c", "d"]}
    x, y = counts[["days", "patient", "dose"]], counts["y"]
    model = LgmRegressor(MODEL, data=extra, method="laplace").fit(x, y)
    data = {n: counts[n].to_numpy() for n in counts} | extra
    direct = lgm.fit(lgm.loads(MODEL), data, method="laplace")
    np.testing.assert_array_equal(model.fit_.mean("u"), direct.mean("u"))
    expected = direct.predict(x.to_dict("list")).response("y")
    mean, sd = model.predict(x, return_std=True)
    np.testing.assert_array_equal(mean, expected["mean"])
    np.testing.assert_array_equal(sd, expected["sd"])
    (tmp_path / "m.lgm").write_text(MODEL)
    for form in (lgm.loads(MODEL), str(tmp_path / "m.lgm"), tmp_path / "m.lgm"):
        again = LgmRegressor(form, data=extra, method="laplace").fit(x, y)
        np.testing.assert_array_equal(again.predict(x), mean)
    frame = LgmRegressor(MODEL, data=extra, method="laplace").fit(pl.from_pandas(x), y.to_numpy())
    np.testing.assert_array_equal(frame.predict(pl.from_pandas(x)), mean)
    with pytest.raises(ValueError, match="X has no column dose, which the model needs"):
        LgmRegressor(MODEL, data=extra).fit(x[["days", "patient"]], y)
    with pytest.raises(ValueError, match="response='z' is no datum over one index"):
        LgmRegressor(MODEL, response="z", data=extra).fit(x, y)
    with pytest.raises(ValueError, match="2 columns without names"):
        LgmRegressor(MODEL).fit(np.ones((4, 2)), y[:4])


CLASSES = """lgm 1
index obs
index feature
index grade
index cut = head(grade)
data X[obs, feature] : real
data y[obs] : grade
hyper c[cut] : ordered ~ normal(mean = 0, sd = 5)
latent w[feature] ~ normal(sd = 3)
let eta[obs] = X @ w
observe y ~ ordinal(logit = eta, cuts = c)
"""


def class_rows() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    level = X["a"] + 0.3 * rng.logistic(size=90)
    return X, np.array(["low", "mid", "high"])[np.digitize(level, [-0.7, 0.7])]


@pytest.mark.thorough
def test_classes_in_an_order() -> None:
    X, grade = class_rows()
    ordered = pd.Series(pd.Categorical(grade, ["low", "mid", "high"], ordered=True))
    model = LgmClassifier(CLASSES, method="laplace", hyper="map").fit(X, ordered)
    assert list(model.classes_) == ["high", "low", "mid"]  # as scikit-learn's scores expect
    table = model.predict_proba(X)[:, [1, 2, 0]]
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert model.score(X, grade) > 0.7
    expected = model.fit_.predict({"X": X.to_numpy()}).response("y")["probability"]
    np.testing.assert_allclose(table, expected.values)
    assert list(model.fit_.mean("w").coords["feature"].values) == ["a", "b"]
    numbers = LgmClassifier(CLASSES, method="laplace", hyper="map").fit(X, ordered.cat.codes)
    np.testing.assert_allclose(numbers.predict_proba(X), table, atol=1e-8)
    with pytest.raises(lgm.DataError, match="E307") as caught:  # an order that nobody gave
        LgmClassifier(CLASSES, method="laplace").fit(X, grade)
    assert 'data={"grade": ["high", "low", "mid"]}' in caught.value.diagnostics[0].help
    order = {"grade": ["low", "mid", "high"]}
    text = LgmClassifier(CLASSES, method="laplace", hyper="map", data=order)
    np.testing.assert_allclose(text.fit(X, grade).predict_proba(X), model.predict_proba(X))
    losses = -np.log(
        model.predict_proba(X)[np.arange(90), np.searchsorted(sorted(order["grade"]), grade)]
    )
    for estimator, y in ((model, ordered), (text, grade)):
        (score,) = cross_val_score(
            estimator, X, y, scoring="neg_log_loss", cv=[(np.arange(90), np.arange(90))]
        )
        assert score == pytest.approx(-losses.mean())
    assert set(cross_val_predict(text, X, grade, cv=3)) <= {"low", "mid", "high"}


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["model", "data"])
def test_probabilities_across_folds_are_of_the_order_given(where: str) -> None:
    """scikit-learn replaces y by the places of its labels in the alphabet."""
    X, grade = class_rows()
    order = ["low", "mid", "high"]
    words = ", ".join(f'"{label}"' for label in order)
    named = CLASSES.replace("index grade\n", f"index grade = {{{words}}}\n")
    assert named != CLASSES
    one = LgmClassifier(named, method="laplace", hyper="map") if where == "model" else (
        LgmClassifier(CLASSES, method="laplace", hyper="map", data={"grade": order})
    )  # fmt: skip
    ordered = pd.Series(pd.Categorical(grade, order, ordered=True), index=X.index)
    folds = [(np.arange(90), np.arange(90))]
    wanted = one.fit(X, ordered).predict_proba(X)
    with pytest.warns(UserWarning, match="0: high, 1: low, 2: mid"):
        one.fit(X, np.searchsorted(sorted(order), grade))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cross_val_predict(one, X, ordered, method="predict_proba", cv=folds)
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    # A column of numbers that a user made is no such thing.
    with pytest.raises(lgm.DataError, match="E302"):
        one.fit(X, ordered.cat.codes)


def test_numbers_that_may_be_words_in_the_order_of_the_alphabet() -> None:
    """`cross_val_predict` fitted high < low < mid, and nothing said so."""
    X, grade = class_rows()
    places, one = np.unique(grade, return_inverse=True)[1], LgmClassifier(CLASSES, method="laplace")
    order = ["low", "mid", "high"]
    ordered = pd.Series(pd.Categorical(grade, order, ordered=True), index=X.index)
    for y in (grade, ordered):
        with pytest.warns(UserWarning, match="order 0 < 1 < 2.*alphabet.*grade"):
            cross_val_predict(one, X, y, method="predict_proba", cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A column, numbers that do not begin at 0, and those that are said to be the classes.
        one.fit(X, ordered.cat.codes)
        one.fit(X, places + 1)
        said = LgmClassifier(CLASSES, method="laplace", data={"grade": [0, 1, 2]}).fit(X, places)
        # Classes without an order take any.
        softmax = CLASSES.replace("ordinal(logit = eta, cuts = c)", "categorical(softmax = eta)")
        softmax = softmax.replace("hyper c[cut] : ordered ~ normal(mean = 0, sd = 5)\n", "")
        softmax = softmax.replace("index cut = head(grade)\n", "")
        softmax = softmax.replace("w[feature]", "w[feature, grade]").replace(
            "eta[obs]", "eta[obs, grade]"
        )
        LgmClassifier(softmax, method="laplace").fit(X, places)
    assert list(said.classes_) == [0, 1, 2]


BINARY = """lgm 1
index obs
data x[obs] : real
data y[obs] : binary
latent w ~ normal(sd = 2.5)
latent level ~ normal(sd = 10)
observe y ~ bernoulli(logit = level + w * x)
"""


def test_the_second_of_two_ordered_classes_is_the_event() -> None:
    rng = np.random.default_rng(9)
    X = pd.DataFrame({"x": rng.normal(size=80)})
    ill = X["x"] + rng.logistic(size=80) > 0.0
    plain = np.where(ill, "ill", "well")
    ordered = pd.Series(pd.Categorical(plain, ["well", "ill"], ordered=True))
    for given in (None, BINARY):
        first = LgmClassifier(given, method="laplace").fit(X, ordered)
        second = LgmClassifier(given, method="laplace").fit(X, plain)
        assert list(first.classes_) == list(second.classes_) == ["ill", "well"]
        table = second.predict_proba(X)
        np.testing.assert_allclose(first.predict_proba(X), table, atol=1e-6)
        assert np.corrcoef(table[:, 0], X["x"])[0, 1] > 0.9
    softmax = pd.Series(
        pd.Categorical(np.where(ill, plain, "well"), ["well", "mid", "ill"], ordered=True)
    )
    softmax[:9] = "mid"
    model = LgmClassifier(method="laplace").fit(X, softmax)
    assert list(model.classes_) == ["ill", "mid", "well"]
    assert np.corrcoef(model.predict_proba(X)[:, 0], X["x"])[0, 1] > 0.9


def test_two_classes_and_more() -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 2))
    label = np.array(["no", "yes"])[(X[:, 0] + 0.5 * rng.logistic(size=120) > 0).astype(int)]
    two = LgmClassifier(method="laplace").fit(X, label)
    assert list(two.classes_) == ["no", "yes"] and two.predict_proba(X).shape == (120, 2)
    assert two.predict_proba([[4.0, 0.0]])[0, 1] > 0.95 and two.score(X, label) > 0.75
    three = np.where(X[:, 1] > 1.0, "maybe", label)
    model = LgmClassifier(method="laplace").fit(X, three)
    assert list(model.classes_) == ["maybe", "no", "yes"] and model.score(X, three) > 0.75
    assert model.predict([[0.0, 5.0]])[0] == "maybe"
    with pytest.raises(ValueError, match="one class"):
        LgmClassifier().fit(X, np.zeros(120))


@pytest.mark.thorough
def test_searches_pipelines_and_scores(table: pd.DataFrame) -> None:
    """Over processes: what is sent are the estimators, and the texts of their models."""
    x, y = table[["age", "dose"]], table["y"]
    search = GridSearchCV(
        BayesianGLM(hyper="fixed"), {"fixed": [{"noise": n} for n in (0.3, 3.0)]}, cv=3, n_jobs=2
    ).fit(x, y)
    assert search.best_estimator_.score(x, y) > 0.5
    model = lgm.loads(
        "lgm 1\nindex obs\ndata age[obs] : real\ndata dose[obs] : real\ndata y[obs] : real\n"
        "latent a ~ normal(sd = 9)\nlatent b ~ normal(sd = 9)\nlatent c ~ normal(sd = 9)\n"
        "hyper s : positive ~ half_normal(sd = 3)\nlet eta[obs] = a + b * age + c * dose\n"
        "observe y ~ normal(mean = eta, sd = s)\n"
    )
    grid = {"hyper": ["map", "integrate"]}
    found = GridSearchCV(LgmRegressor(model), grid, cv=2, n_jobs=2).fit(x, y)
    assert found.best_score_ > 0.4
    scores = cross_val_score(make_pipeline(StandardScaler(), BayesianGLM(hyper="map")), x, y, cv=3)
    assert scores.shape == (3,) and scores.mean() > 0.4
    grouped = cross_val_score(
        MixedModel("who", hyper="map"), table[["age", "dose", "who"]], y,
        groups=table["who"], cv=GroupKFold(5),
    )  # fmt: skip
    assert np.isfinite(grouped).all()


@pytest.mark.parametrize(
    "estimator",
    [
        BayesianGLM(), MixedModel("who"), LgmRegressor(), AdditiveModel(knots=5, scales="one"),
        GaussianProcess(), LgmClassifier(),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_defaults_clone_and_pickle(estimator: Any, table: pd.DataFrame) -> None:
    columns = ["age", "dose", "who"] if isinstance(estimator, MixedModel) else ["age", "dose"]
    x, y = table[columns], table["y"]
    if isinstance(estimator, LgmClassifier):
        y = y > y.median()
    model = clone(estimator)
    assert model.get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        model.predict(x)
    model.fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.fit_ == model.fit_ and model.score(x, y) > 0.5
    assert list(model.get_feature_names_out()) == columns
    with pytest.raises(ValueError, match="input_features"):
        model.get_feature_names_out(["other"])


def test_a_fit_that_stops_early_says_so(table: pd.DataFrame) -> None:
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        BayesianGLM(hyper="map", options={"learning_steps": 1}).fit(
            table[["age", "dose"]], table["y"]
        )
    with pytest.raises(ValueError, match="family='normall' is none of normal, student_t"):
        BayesianGLM("normall").fit(table[["age", "dose"]], table["y"])


def test_columns_of_text_are_named(table: pd.DataFrame) -> None:
    x, y = table.drop(columns="y"), table["y"]
    for estimator, remedy in (
        (MixedModel(groups=["age"]), "name it in groups="),
        (BayesianGLM(), r"MixedModel\(groups=\[...\]\)"),
        (GaussianProcess(), "OneHotEncoder"),
        (LgmRegressor(), "give a model that has it"),
    ):
        with pytest.raises(ValueError, match=f"column 'who' holds text, 'ann'.*{remedy}"):
            estimator.fit(x, y)


def test_columns_of_two_matrices() -> None:
    model = lgm.loads(
        "lgm 1\nindex obs\nindex f\nindex g\ndata A[obs, f] : real\ndata B[obs, g] : real\n"
        "data y[obs] : real\nlatent a[f] ~ normal(sd = 1)\nlatent b[g] ~ normal(sd = 1)\n"
        "let eta[obs] = A @ a + B @ b\nobserve y ~ normal(mean = eta, sd = 1)\n"
    )
    x = pd.DataFrame(np.eye(4), columns=list("pqrs"))
    with pytest.raises(ValueError, match=r"the matrices A, B.*give the others by name"):
        LgmRegressor(model).fit(x, np.arange(4.0))


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_responses_without_noise_are_fitted(slope: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of a line: their density is bounded, so that the search ends, and soon. It stalled
    after 590 fits on a slope, after 6,000 on a constant."""
    fits = 0
    plain = Plan.at

    def counted(self: Plan, *rest: Any, **more: Any) -> Any:
        nonlocal fits
        fits += 1
        return plain(self, *rest, **more)

    monkeypatch.setattr(Plan, "at", counted)
    x = np.arange(10.0)[:, None]
    model = AdditiveModel().fit(x, slope * x[:, 0] + 1.0)
    assert model.fit_.converged and fits < 250
    np.testing.assert_allclose(
        model.predict([[2.5], [7.0]]), [1 + 2.5 * slope, 1 + 7 * slope], 1e-3
    )


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (LgmRegressor(hyper="map"), "number"),
        (LgmClassifier(method="laplace"), "event"),
        (LgmClassifier(method="laplace"), "class"),
        (BayesianGLM("poisson", hyper="map"), "count"),
        (AdditiveModel(knots=6), "number"),
    ],
)
def test_a_row_of_weight_w_counts_as_w_rows(estimator: Any, kind: str) -> None:
    rng = np.random.default_rng(10)
    X, w = rng.normal(size=(40, 2)), rng.integers(0, 4, 40)
    y = X @ [1.0, -1.0] + rng.normal(size=40)
    whole = {
        "number": y,
        "event": y > 0.0,
        "class": np.digitize(y, [-1.0, 1.0]),
        "count": np.maximum(np.round(y), 0.0),
    }[kind]
    weighted = clone(estimator).fit(X, whole, sample_weight=w)
    repeated = clone(estimator).fit(X.repeat(w, axis=0), whole.repeat(w))
    answers = [getattr(m, "predict_proba", m.predict)(X) for m in (weighted, repeated)]
    np.testing.assert_allclose(*answers, rtol=1e-6)  # type: ignore[call-overload]
    plain = clone(estimator).fit(X, whole)
    other = getattr(plain, "predict_proba", plain.predict)(X)
    assert np.abs(answers[0] - other).max() > 1e-3
    assert weighted.fit_.log_evidence == pytest.approx(repeated.fit_.log_evidence, abs=1e-6)


def test_weights_multiply_those_of_the_model_and_of_classes() -> None:
    rng = np.random.default_rng(11)
    text = BINARY.replace("index obs\n", "index obs\ndata times[obs] : nonnegative\n")
    model = text.replace("w * x)", "w * x, weight = times)")
    X = pd.DataFrame({"x": rng.normal(size=50), "times": rng.integers(1, 3, 50)})
    y = np.where(X["x"] + rng.logistic(size=50) > 0.8, "ill", "well")
    balanced = 50 / (2 * np.where(y == "ill", (y == "ill").sum(), (y == "well").sum()))
    extra = rng.uniform(0.5, 2.0, 50)
    settings: dict[str, Any] = {"method": "laplace"}
    by_class = LgmClassifier(model, class_weight="balanced", **settings).fit(X, y, extra)
    product = X.assign(times=X["times"] * balanced * extra)
    at_once = LgmClassifier(model, **settings).fit(product, y)
    expected = at_once.predict_proba(X)
    np.testing.assert_allclose(by_class.predict_proba(X), expected, rtol=1e-6)
    plain = LgmClassifier(model, **settings).fit(X, y).predict_proba(X)
    assert np.abs(plain - expected).max() > 0.01
    table = LgmClassifier(model, class_weight={"ill": 2.0, "well": 1.0}, **settings)
    twice = LgmClassifier(model, **settings).fit(X, y, np.where(y == "ill", 2.0, 1.0))
    np.testing.assert_allclose(table.fit(X, y).predict_proba(X), twice.predict_proba(X))


def test_noise_free_data_end_at_the_floor() -> None:
    """A line: 12 times the time, and `stalled`, while each fit tried what rounding hid."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (300, 3))
    y = 1.0 + 2.0 * x[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AdditiveModel().fit(x, y)
    assert model.fit_.converged and not model.fit_.warnings
    assert model.fit_.learning is not None and model.fit_.learning.fits < 120
    np.testing.assert_allclose(model.predict(x), y, atol=1e-8)
