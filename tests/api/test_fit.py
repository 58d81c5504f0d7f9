"""Fit: labelled results, transformed reports, draws, predictions, result files."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

TEXT = """lgm 1
index obs
index dim
index subject
data x[obs, dim] : real
data who[obs] : subject
data y[obs] : {type}
latent b0 ~ normal(sd = 2)
latent u[subject] ~ normal(sd = 1)
latent f[obs] ~ gp(at = x, kernel = se(sd = 1.5, length = 1))
let eta[obs] = b0 + f + u[who]
observe y ~ {family}
report p[obs] = {report}
report odds[obs] = exp(-eta)
report ratio[subject] = u^2 / (1 + exp(b0))
"""


def fitted(rows: int = 40, correction: str = "on", **change: str) -> Fit:
    parts = {"type": "binary", "family": "bernoulli(probit = eta)", "report": "normal_cdf(eta)"}
    rng = np.random.default_rng(0)
    data = {
        "x": rng.normal(size=(rows, 2)),
        "who": np.array(["a", "b", "c"])[np.arange(rows) % 3],
        "y": rng.integers(0, 2, rows),
    }
    model = lgm.loads(TEXT.format(**{**parts, **change}))
    return lgm.fit(model, data, options={"correction": correction})


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted()


def test_the_signature_is_the_contract_s() -> None:
    defaults = {
        name: p.default
        for name, p in inspect.signature(lgm.fit).parameters.items()
        if p.kind is not p.KEYWORD_ONLY
    }
    empty = inspect.Parameter.empty
    assert defaults == {
        "model": empty,
        "data": empty,
        "method": "auto",
        "hyper": "auto",
        "fixed": None,
        "bound": None,
        "options": {},
        "start_from": None,
        "seed": 0,
        "tol": None,
        "max_steps": None,
    }


def test_results_are_labelled(fit: Fit) -> None:
    assert fit.mean("u").dims == ("subject",)
    assert list(fit.mean("u")["subject"].values) == ["a", "b", "c"]
    assert fit.quantile("u", [0.05, 0.5, 0.95]).dims == ("quantile", "subject")
    assert fit.mean("b0").shape == ()
    with pytest.raises(lgm.ModelError, match="did you mean `eta`"):
        fit.mean("etaa")
    for wrong in ([0.0], [1.5], []):
        with pytest.raises(lgm.ModelError, match="between 0 and 1"):
            fit.quantile("u", wrong)


def test_affine_quantities_are_gaussian(fit: Fit) -> None:
    levels = [0.1, 0.5, 0.9]
    want = fit.mean("eta").values + np.outer(special.ndtri(levels), fit.sd("eta").values)
    np.testing.assert_allclose(fit.quantile("eta", levels), want)


@pytest.mark.parametrize(
    ("report", "function"),
    [
        ("normal_cdf(eta)", special.ndtr),
        ("invlogit(eta)", special.expit),
        ("exp(eta)", np.exp),
        ("invlogit(exp(eta))", lambda x: special.expit(np.exp(x))),
        ("exp(0.5 * eta)", lambda x: np.exp(0.5 * x)),
    ],
)
def test_monotone_reports_are_transformed(report: str, function: np.ufunc) -> None:
    fit = fitted(rows=12, report=report, correction="off")
    m, s = fit.mean("eta").values, fit.sd("eta").values
    levels = [0.1, 0.5, 0.9]
    gaussian = m + np.outer(special.ndtri(levels), s)
    np.testing.assert_allclose(fit.quantile("p", levels), function(gaussian), rtol=1e-12)
    x = np.linspace(-12, 12, 20001)
    w = stats.norm.pdf(x) * (x[1] - x[0])
    values = function(m[:, None] + s[:, None] * x)
    mean = values @ w
    sd = np.sqrt((values - mean[:, None]) ** 2 @ w)
    np.testing.assert_allclose(fit.mean("p"), mean, rtol=1e-9)
    np.testing.assert_allclose(fit.sd("p"), sd, rtol=1e-7)


def test_wide_transformed_marginals_are_exact() -> None:
    """A predictor with sd 40: the rule must resolve the logistic's unit-width step."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent z ~ normal(sd = 40)\n"
        "let s[obs] = z\nobserve y ~ normal(mean = s, sd = 4000)\nreport p = invlogit(z)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"y": [300.0]})
    m, s = fit.mean("z").item(), fit.sd("z").item()
    x = np.linspace(-10, 10, 400001)
    w = stats.norm.pdf(x) * (x[1] - x[0])
    values = special.expit(m + s * x)
    assert fit.mean("p").item() == pytest.approx(values @ w, rel=1e-8)
    assert fit.sd("p").item() == pytest.approx(np.sqrt((values - values @ w) ** 2 @ w), rel=1e-7)


def test_other_reports_come_from_draws(fit: Fit) -> None:
    draws = fit.sample(60000, seed=3, names=["ratio", "odds"])
    for name in ("ratio", "odds"):
        spread = draws[name].std("sample")
        gap = abs(draws[name].mean("sample") - fit.mean(name)) / spread
        assert float(gap.max()) < 4.5 / np.sqrt(4000)


def test_draws_have_the_posterior_s_moments_and_repeat(fit: Fit) -> None:
    draws = fit.sample(40000, seed=1)
    assert set(draws) == {"b0", "u", "f", "eta", "p", "odds", "ratio"}
    np.testing.assert_allclose(
        draws["eta"], draws["b0"] + draws["f"] + draws["u"].values[:, np.arange(40) % 3]
    )
    for name in ("b0", "u", "eta"):
        gap = abs(draws[name].mean("sample") - fit.mean(name)) / fit.sd(name)
        assert float(gap.max()) < 5 / np.sqrt(40000)
        np.testing.assert_allclose(draws[name].std("sample"), fit.sd(name), rtol=0.03)
    again = fit.sample(5, seed=1)
    np.testing.assert_array_equal(again["u"], fit.sample(5, seed=1)["u"])
    assert not np.array_equal(again["u"], fit.sample(5, seed=2)["u"])


def test_predicting_the_rows_of_the_fit_gives_the_fit(fit: Fit) -> None:
    values = fit.canonical.grounded.values
    who = np.array(["a", "b", "c"])[np.arange(40) % 3]
    there = fit.predict({"x": values["x"][:7], "who": who[:7]})
    np.testing.assert_allclose(there.mean("eta"), fit.mean("eta").values[:7], atol=1e-8)
    np.testing.assert_allclose(there.sd("eta"), fit.sd("eta").values[:7], atol=1e-7)
    np.testing.assert_allclose(there.mean("p"), fit.mean("p").values[:7], atol=1e-8)
    np.testing.assert_allclose(there.response("y")["mean"], there.mean("p"), atol=1e-9)


def test_a_new_level_has_its_prior(fit: Fit) -> None:
    x = np.asarray(fit.canonical.grounded.values["x"])
    with pytest.warns(lgm.PredictionWarning, match="W307"):
        there = fit.predict({"x": x[:2] + 100.0, "who": ["a", "new"]})
    u = there.mean("u")
    assert float(u.sel(subject="new")) == pytest.approx(0.0, abs=1e-12)
    assert float(there.sd("u").sel(subject="new")) == pytest.approx(1.0, rel=1e-9)
    np.testing.assert_allclose(u.sel(subject=["a", "b", "c"]), fit.mean("u"), atol=1e-8)
    # Far from every input f has its prior as well, and is independent of the rest.
    want = fit.sd("b0").item() ** 2 + 1.5**2 + 1.0
    assert float(there.sd("eta")[1]) ** 2 == pytest.approx(want, rel=1e-6)


def test_gp_predictions_equal_the_textbook_s() -> None:
    """GP regression: mean and variance at new inputs in closed form."""
    rng = np.random.default_rng(2)
    x, new, y = rng.normal(size=(15, 1)), rng.normal(size=(4, 1)), rng.normal(size=15)
    text = (
        "lgm 1\nindex obs\nindex dim\ndata x[obs, dim] : real\ndata y[obs] : real\n"
        "latent f[obs] ~ gp(at = x, kernel = se(sd = 1.2, length = 0.8))\n"
        "observe y ~ normal(mean = f, sd = 0.3)\nreport g[obs] = f\n"
    )

    def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(1.44 * np.exp(-0.5 * ((a - b.T) / 0.8) ** 2))

    fit = lgm.fit(lgm.loads(text), {"x": x, "y": y})
    there = fit.predict({"x": new})
    solve = np.linalg.solve(k(x, x) + 0.09 * np.eye(15), k(x, new))
    np.testing.assert_allclose(there.mean("g"), solve.T @ y, atol=1e-8)
    variance = 1.44 - (k(x, new) * solve).sum(axis=0)
    np.testing.assert_allclose(there.sd("g") ** 2, variance, atol=1e-8)
    np.testing.assert_allclose(there.response("y")["sd"] ** 2, variance + 0.09, atol=1e-8)


@pytest.mark.filterwarnings("ignore:warning.W611")  # sds that are off, which is said
@pytest.mark.parametrize(
    ("type_", "family", "law"),
    [
        ("count", "poisson(log_rate = eta)", lambda s: stats.poisson(np.exp(s))),
        (
            "count",
            "negbinomial(log_mean = eta, size = 2)",
            lambda s: stats.nbinom(2, 2 / (2 + np.exp(s))),
        ),
        ("count", "binomial(n = 3, logit = eta)", lambda s: stats.binom(3, special.expit(s))),
        ("binary", "bernoulli(cloglog = eta)", lambda s: stats.bernoulli(-np.expm1(-np.exp(s)))),
        ("real", "student_t(mean = eta, scale = 0.5, df = 5)", lambda s: stats.t(5, s, 0.5)),
        (
            "positive",
            "gamma(log_mean = eta, shape = 3)",
            lambda s: stats.gamma(3, scale=np.exp(s) / 3),
        ),
    ],
)
def test_predictive_moments_and_probabilities(type_: str, family: str, law: object) -> None:
    """Against brute quadrature over the predictor."""
    rng = np.random.default_rng(1)
    y = rng.integers(1 if type_ == "positive" else 0, 2, 12)
    data: dict[str, Any] = {"x": rng.normal(size=(12, 2)), "who": ["a", "b"] * 6, "y": y}
    text = TEXT.format(type=type_, family=family, report="invlogit(eta)")
    fit = lgm.fit(lgm.loads(text), data, options={"marginals": "gaussian"})
    there = fit.predict({"x": data["x"][:3] + 0.1, "who": ["a", "b", "a"]})
    x = np.linspace(-14, 14, 4001)
    w = stats.norm.pdf(x) * (x[1] - x[0])
    s = there.mean("eta").values[:, None] + there.sd("eta").values[:, None] * x
    at = law(s)  # type: ignore[operator]
    mean = at.mean() @ w
    variance = (at.var() + at.mean() ** 2) @ w - mean**2
    response = there.response("y")
    np.testing.assert_allclose(response["mean"], mean, rtol=1e-7)
    np.testing.assert_allclose(response["sd"], np.sqrt(variance), rtol=1e-6)
    if type_ in ("count", "binary"):
        for k in range(2):
            np.testing.assert_allclose(
                response["probability"].sel(value=k), at.pmf(k) @ w, rtol=1e-7
            )


def test_a_result_file_keeps_everything(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "f.nc")
    back = lgm.load_fit(tmp_path / "f.nc")
    for name in ("b0", "u", "f", "eta", "p", "odds", "ratio"):
        xr.testing.assert_identical(back.mean(name), fit.mean(name))
        xr.testing.assert_identical(back.sd(name), fit.sd(name))
    assert (back.status, back.guarantee, back.steps) == (fit.status, fit.guarantee, fit.steps)
    assert back.log_evidence == fit.log_evidence and back.trace == fit.trace
    assert 0.0 < fit.trace[-1].seconds <= fit.seconds
    assert back.model == fit.model and back.provenance == fit.provenance
    np.testing.assert_allclose(back.quantile("p", [0.3]), fit.quantile("p", [0.3]), rtol=1e-10)
    np.testing.assert_allclose(back.sample(3, seed=9)["f"], fit.sample(3, seed=9)["f"], atol=1e-9)
    new = {"x": np.ones((2, 2)), "who": ["c", "zz"]}
    with pytest.warns(lgm.PredictionWarning, match="W307"):
        again, first = back.predict(new), fit.predict(new)
    np.testing.assert_allclose(again.mean("eta"), first.mean("eta"), atol=1e-10)


def test_plain_xarray_opens_it(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "f.nc")
    with xr.open_dataset(tmp_path / "f.nc", group="mean") as mean:
        assert list(mean["subject"].values) == ["a", "b", "c"]
        np.testing.assert_array_equal(mean["u"], fit.mean("u"))
    with xr.open_datatree(tmp_path / "f.nc") as tree:
        assert {"/mean", "/sd", "/hyper", "/site", "/provenance"} <= set(tree.groups)
        assert len(tree["provenance"].attrs["model_sha256"]) == 64
        assert tree.attrs["model"].startswith("lgm 1")


def test_a_failed_write_leaves_the_old_file(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "f.nc"
    fit.save(target)
    before = target.read_bytes()

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(lgm.DataError, match="cannot write"):
        fit.save(target)
    assert target.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["f.nc"]


@pytest.mark.parametrize("content", [b"", b"not a file", b"\x89HDF\r\n\x1a\n" + b"\0" * 64])
def test_foreign_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.nc").write_bytes(content)
    with pytest.raises(lgm.DataError) as caught:
        lgm.load_fit(tmp_path / "x.nc")
    assert caught.value.codes == ("E306",)
    with pytest.raises(lgm.DataError, match="does not exist"):
        lgm.load_fit(tmp_path / "absent.nc")


def test_sparse_designs_survive_a_file_and_predict(tmp_path: Path) -> None:
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = sp.random_array((50, 8), density=0.3, rng=rng, format="csr")
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : binary\n"
        "latent w[feat] ~ normal(sd = 1)\nlet eta[obs] = X @ w\n"
        "observe y ~ bernoulli(logit = eta)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"X": X, "y": rng.integers(0, 2, 50)})
    fit.save(tmp_path / "f.nc")
    back = lgm.load_fit(tmp_path / "f.nc")
    new = sp.random_array((6, 8), density=0.5, rng=rng, format="csr")
    np.testing.assert_allclose(
        back.predict({"X": new}).mean("eta"), new @ fit.mean("w").values, atol=1e-12
    )
