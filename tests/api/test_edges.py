"""Corners where results went wrong once: names, stored responses, mutable results, extremes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

ROWS = "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : real\n"
DATA = {"x": np.array([-1.0, 0.5, 2.0]), "y": np.array([1.0, 2.0, 4.0])}
NORMAL = "observe y ~ normal(mean = b, sd = 1)\n"


def fitted(text: str, data: dict[str, Any] | None = None, **settings: Any) -> Fit:
    return lgm.fit(lgm.loads(text), data or DATA, method="laplace", **settings)


# ---- lets and reports ------------------------------------------------------------------------


def test_a_let_is_constant_along_an_index_that_its_value_lacks() -> None:
    fit = fitted(
        ROWS + "hyper h : real = 0.5\nlatent b ~ normal(sd = 1)\nlet c[obs] = b\nlet k[obs] = h\n"
        "let total = x @ c\nlet known = x @ k\nlet summed = sum(c, obs)\n"
        "observe y ~ normal(mean = c, sd = 1)\n"
        "report curved = x @ exp(c)\nreport added = sum(exp(c), obs)\n"
        "report shares[obs] = softmax(c, obs)\n"
    )
    b = float(fit.mean("b"))
    assert float(fit.mean("total")) == pytest.approx(b * DATA["x"].sum())
    assert float(fit.mean("known")) == pytest.approx(0.5 * DATA["x"].sum())
    assert float(fit.mean("summed")) == pytest.approx(3 * b)
    draws = fit.sample(20, seed=1)
    each = np.exp(draws["b"].values)
    np.testing.assert_allclose(draws["curved"], each * DATA["x"].sum())
    np.testing.assert_allclose(draws["added"], 3 * each)
    np.testing.assert_allclose(draws["shares"], 1 / 3)


def test_a_report_may_use_earlier_reports_and_functions_of_hypers() -> None:
    fit = fitted(
        ROWS
        + "hyper h : real = 2\nlatent b ~ normal(sd = 1)\n"
        + NORMAL
        + "report twice = 2 * b\nreport more = twice + 1\n"
        "report odds = exp(b)\nreport back = log(odds)\nreport chance = invlogit(h)\n"
    )
    assert float(fit.mean("more")) == pytest.approx(2 * float(fit.mean("b")) + 1)
    draws = fit.sample(20, seed=1)
    np.testing.assert_allclose(draws["back"], draws["b"])
    assert float(fit.mean("chance")) == pytest.approx(special.expit(2.0))


def test_moments_that_are_infinite_are_told_as_infinite() -> None:
    fit = fitted(ROWS + "latent b ~ normal(sd = 1)\n" + NORMAL + "report r = exp(exp(b))\n")
    assert float(fit.sd("r")) == np.inf
    assert float(fit.mean("r")) > 1e100
    assert np.isfinite(fit.quantile("r", [0.1, 0.9]).values).all()


# ---- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sample", "quantile", "value", "mean", "sd", "y_mean"])
def test_an_index_may_have_any_name(name: str) -> None:
    text = (
        f"lgm 1\nindex {name}\ndata x[{name}] : real\ndata y[{name}] : count\n"
        f"latent b ~ normal(sd = 1)\nlet e[{name}] = b * x\n"
        "observe y ~ poisson(log_rate = e)\n"
    )
    fit = fitted(text, {"x": DATA["x"], "y": [1, 2, 3]})
    added = "quantile_2" if name == "quantile" else "quantile"
    assert fit.quantile("e", [0.1, 0.9]).dims == (added, name)
    added = "sample_2" if name == "sample" else "sample"
    assert fit.sample(5, seed=1)["e"].dims == (added, name)
    new = fit.predict({"x": DATA["x"][:2]})
    assert new.response("y")["probability"].shape[0] == 2
    assert new.to_dataset()["y_mean"].shape == (2,)


def test_a_latent_may_be_called_as_an_added_axis() -> None:
    text = ROWS + "latent sample[obs] ~ normal(sd = 1)\nobserve y ~ normal(mean = sample, sd = 1)\n"
    assert fitted(text).sample(4, seed=1)["sample"].dims == ("sample_2", "obs")


@pytest.mark.parametrize("label", ["a\0b", "\ud800"])
def test_labels_that_no_file_can_hold_are_refused(label: str) -> None:
    text = (
        "lgm 1\nindex obs\nindex g\ndata who[obs] : g\ndata y[obs] : real\n"
        "latent b[g] ~ normal(sd = 1)\nobserve y ~ normal(mean = b[who], sd = 1)\n"
    )
    with pytest.raises(lgm.DataError) as caught:
        fitted(text, {"who": [label, "c", "d"], "y": DATA["y"]})
    assert caught.value.codes == ("E306",)


# ---- results and the data are apart ------------------------------------------------------------


def test_writing_into_results_or_data_does_not_reach_the_fit() -> None:
    text = ROWS + "hyper h : positive = 2\nlatent b[obs] ~ normal(sd = h)\n" + NORMAL
    data = {k: v.copy() for k, v in DATA.items()}
    fit = fitted(text, data)
    kept = {n: (fit.mean(n).values.copy(), fit.sd(n).values.copy()) for n in ("b", "h")}
    for name in kept:
        fit.mean(name).values[...] = 99.0
        fit.sd(name).values[...] = 99.0
    for values in data.values():
        values[...] = 0.0
    for name, (mean, sd) in kept.items():
        np.testing.assert_array_equal(fit.mean(name), mean)
        np.testing.assert_array_equal(fit.sd(name), sd)


def test_a_stored_fit_of_rewritten_observations_keeps_its_posterior(tmp_path: Path) -> None:
    text = (
        ROWS.replace("real\n", "real?\n") + "latent b ~ normal(sd = 1)\nlet e[obs] = b\n"
        "observe y ~ student_t(mean = e, scale = 1, df = 4)\n"
    )
    data = {"x": DATA["x"], "y": np.array([1.0, np.nan, 4.0])}
    fit = fitted(text, data)
    fit.save(tmp_path / "t.nc")
    back = lgm.load_fit(tmp_path / "t.nc")
    levels = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(back.quantile("b", levels), fit.quantile("b", levels), rtol=1e-9)
    np.testing.assert_allclose(back.sample(5)["b"], fit.sample(5)["b"], rtol=1e-9)
    assert fitted(text, data, start_from=back).steps == 0


def test_the_response_of_a_datum_that_is_also_a_covariate_is_predicted_as_written() -> None:
    text = ROWS + (
        "latent b ~ normal(sd = 1)\nlet e[obs] = b + 0.5 * y\n"
        "observe y ~ student_t(mean = e, scale = 1, df = 4)\n"
    )
    fit = fitted(text)
    new = fit.predict({"x": DATA["x"], "y": DATA["y"]})
    np.testing.assert_allclose(new.response("y")["mean"], new.mean("e"), rtol=1e-6)


def test_new_data_cannot_change_the_prior_of_what_was_fitted() -> None:
    text = (
        "lgm 1\nindex obs\nindex g\ndata who[obs] : g\ndata z[g] : real\ndata y[obs] : real\n"
        "latent u[g] ~ gp(at = z, kernel = se(sd = 1, length = 1))\n"
        "latent v[obs] ~ normal(sd = 1)\nlet e[obs] = u[who] + v\n"
        "observe y ~ normal(mean = e, sd = 1)\n"
    )
    who, z = ["a", "b", "b"], np.array([0.1, 0.7])
    fit = fitted(text, {"who": who, "z": z, "y": DATA["y"]})
    with pytest.raises(lgm.DataError, match="`z` differs") as caught:
        fit.predict({"who": ["b"], "z": z[::-1]})
    assert caught.value.codes == ("E303",)
    same, left_out = fit.predict({"who": ["b"], "z": z}), fit.predict({"who": ["b"]})
    np.testing.assert_allclose(same.mean("e"), left_out.mean("e"))
    np.testing.assert_allclose(left_out.mean("u"), fit.mean("u"))


# ---- extremes and wrong values -------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior", ["normal(sd = {})", "gp(at = x, kernel = se(sd = {}, length = 1))"]
)
@pytest.mark.parametrize("sd", ["1e-200", "1e200"])
def test_scales_whose_squares_are_no_doubles_are_refused(prior: str, sd: str) -> None:
    with pytest.raises(lgm.DataError, match="`sd` of the prior of `b`") as caught:
        fitted(ROWS + f"latent b[obs] ~ {prior.format(sd)}\n" + NORMAL)
    assert caught.value.codes == ("E303",)


@pytest.mark.parametrize("expression", ["b / x", "b + log(x)"])
def test_a_predictor_that_is_not_finite_is_refused(expression: str) -> None:
    text = ROWS + f"latent b ~ normal(sd = 1)\nobserve y ~ normal(mean = {expression}, sd = 1)\n"
    with pytest.raises(lgm.DataError, match="predictor of `y` is not finite in 1 row\n") as caught:
        fitted(text, {**DATA, "x": np.array([1.0, 0.0, 2.0])})
    assert caught.value.codes == ("E303",)


@pytest.mark.parametrize("x", [1e200, -1e200])
def test_overflow_in_a_fit_is_an_error_not_a_warning(x: float) -> None:
    text = ROWS + "latent b[obs] ~ gp(at = x, kernel = linear(sd = 1))\n" + NORMAL
    with pytest.raises(lgm.NumericalError):
        fitted(text, {**DATA, "x": np.array([x, 0.0, 1.0])})


def test_a_tiny_exposure_does_not_saturate_the_rate() -> None:
    text = (
        "lgm 1\nindex obs\ndata y[obs] : count\nlatent b ~ normal(sd = 1e4)\n"
        "observe y ~ poisson(log_rate = b, exposure = 1e-300)\n"
    )
    fit = fitted(text, {"y": [3, 5]})
    assert fit.converged
    assert float(fit.mean("b")) == pytest.approx(np.log(4.0) - np.log(1e-300), abs=1e-3)


def test_products_of_sparse_matrices_are_refused_by_name_of_their_indices() -> None:
    text = (
        "lgm 1\nindex obs\nindex k\nindex m\ndata y[obs] : real\ndata X[obs, k] : real\n"
        "data Z[k, m] : real\nlatent b[m] ~ normal(sd = 1)\nlet e[obs] = X @ (Z @ b)\n"
        "observe y ~ normal(mean = e, sd = 1)\n"
    )
    x, z = np.eye(3), np.ones((3, 2))
    with pytest.raises(lgm.MethodError, match="sparse matrix over") as caught:
        fitted(text, {"y": DATA["y"], "X": sp.csr_array(x), "Z": sp.csr_array(z)})
    assert caught.value.codes == ("E501",)
    dense = fitted(text, {"y": DATA["y"], "X": x, "Z": z})
    mixed = fitted(text, {"y": DATA["y"], "X": sp.csr_array(x), "Z": z})
    assert mixed.log_evidence == pytest.approx(dense.log_evidence, rel=1e-12)


def test_what_is_asked_of_a_fit_is_checked() -> None:
    fit = fitted(ROWS + "latent b ~ normal(sd = 1)\n" + NORMAL)
    for wrong in ("ab", [None], [[0.1]], [np.nan], ["x"]):
        with pytest.raises(lgm.ModelError, match="between 0 and 1"):
            fit.quantile("b", wrong)  # type: ignore[arg-type]
    assert fit.quantile("b", 0.5).shape == (1,)  # type: ignore[arg-type]
    for size in (-1, 1.5, "x", None):
        with pytest.raises(lgm.ModelError, match="whole"):
            fit.sample(size)  # type: ignore[arg-type]
    assert fit.sample(0)["b"].shape == (0,)
    with pytest.raises(lgm.MethodError, match="`name` is one name"):
        fit.mean(3)  # type: ignore[arg-type]
    for seed in (-1, "a", 1.5, True):
        with pytest.raises(lgm.MethodError, match="`seed` must be a whole number"):
            lgm.simulate(fit.model, DATA, seed=seed)  # type: ignore[arg-type]
