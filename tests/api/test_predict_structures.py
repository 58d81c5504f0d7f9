"""New members of structured axes, against fits that have them without data, and closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.arrays import AnyArray, Array

TOLD = 1e-8
LEVELS = """lgm 1
index t
data y[t] : real?
latent b0 ~ normal(sd = 5)
latent f[t] ~ {prior}
let eta[t] = b0 + f
observe y ~ normal(mean = eta, sd = 0.5)
"""
ROWS = """lgm 1
index year
index obs
data y[obs] : real?
data when[obs] : year
latent b0 ~ normal(sd = 5)
latent f[year] ~ {prior}
let eta[obs] = b0 + f[when]
observe y ~ normal(mean = eta, sd = 0.5)
"""
Y = np.cumsum(np.random.default_rng(3).normal(size=12))
STEPS = (
    "ar1(sd = 1.2, rho = 0.8)",
    "ar1(sd = 1.2, rho = -0.5)",
    "ar(sd = 1.1, pacf = p)",
    "rw1(sd = 0.8)",
    "rw2(sd = 0.8)",
    "seasonal(sd = 0.7, period = 4)",
)
CONSISTENT, INTRINSIC = STEPS[:3], STEPS[3:]
PACF = {"p": np.array([0.5, -0.3])}
LAGS = "index lag = 2\nhyper p[lag] : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)\nlatent b0"


def fit_of(template: str, prior: str, data: Mapping[str, Any]) -> Fit:
    text = template.format(prior=prior)
    if "pacf" in prior:
        return lgm.fit(lgm.loads(text.replace("latent b0", LAGS)), data, fixed=PACF)
    return lgm.fit(lgm.loads(text), data)


def fitted(prior: str, t: AnyArray | None = None) -> Fit:
    return fit_of(LEVELS, prior, {"y": Y, **({} if t is None else {"t": t})})


def dense(prior: str, fit: Fit, before: int, after: int) -> tuple[Array, Array]:
    """Means and covariances of eta over the fitted members and `before` and `after` more, where the
    prior's precision over all keeps the fitted scale and the sum of the fitted members alone."""
    n = len(Y)
    now = fit.canonical.latent("f").factors[0].build(fit.theta)
    whole = n + before + after
    from lgmdsl.structures.catalogue import structure

    arguments = {
        k: v.evaluate(fit.theta).dense() if hasattr(v, "evaluate") else v
        for k, v in fit.canonical.latent("f").factors[0].arguments.items()
    }
    longer = structure(fit.canonical.latent("f").factors[0].name, whole, **arguments)
    q = sp.csr_array(longer.precision()).toarray()
    if hasattr(longer, "unit"):
        q *= now.unit.scale[0] / longer.unit.scale[0]  # type: ignore[attr-defined]
    big = np.zeros((whole + 1, whole + 1))
    big[1:, 1:], big[0, 0] = q, 1 / 25.0
    at = np.arange(before, before + n)
    rows = np.zeros((n, whole + 1))
    rows[:, 0], rows[np.arange(n), 1 + at] = 1.0, 1.0
    a = big + rows.T @ rows / 0.25
    tied = now.constraints().toarray()
    c = np.zeros((len(tied), whole + 1))
    c[:, 1 + at] = tied
    cov = np.linalg.inv(a)
    mean = cov @ rows.T @ Y / 0.25
    gain = cov @ c.T @ np.linalg.inv(c @ cov @ c.T) if len(c) else np.zeros((whole + 1, 0))
    mean, cov = mean - gain @ (c @ mean), cov - gain @ (c @ cov)
    eta = np.hstack([np.ones((whole, 1)), np.eye(whole)])
    return eta @ mean, eta @ cov @ eta.T


@pytest.mark.parametrize("prior", STEPS)
def test_new_members_are_those_of_the_prior_that_was_fitted(prior: str) -> None:
    fit = fitted(prior)
    mean, cov = dense(prior, fit, 3, 6)
    asked = np.array([12, 17, -3, 4, 13, -1, 12])
    found = fit.predict({"t": asked})
    assert found.mean("eta")["t"].values.tolist() == asked.tolist()
    np.testing.assert_allclose(found.mean("eta"), mean[asked + 3], atol=TOLD)
    np.testing.assert_allclose(found.sd("eta") ** 2, cov.diagonal()[asked + 3], rtol=TOLD)
    drawn = found.sample(40_000, seed=1)["eta"].values
    known = cov[np.ix_(asked + 3, asked + 3)]
    scale = np.sqrt(np.outer(known.diagonal(), known.diagonal()))
    assert np.abs(np.cov(drawn.T) - known).max() < 0.03 * scale.max()
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, -1])  # twice the same member
    spread = found.response("y")["sd"].values ** 2
    np.testing.assert_allclose(spread, cov.diagonal()[asked + 3] + 0.25, rtol=1e-6)


@pytest.mark.parametrize("prior", CONSISTENT)
def test_a_fit_that_has_them_without_data_says_the_same(prior: str) -> None:
    y = np.concatenate([[np.nan] * 2, Y, [np.nan] * 4])
    longer = fit_of(LEVELS, prior, {"y": y})
    found = fitted(prior).predict({"t": np.arange(-2, 16)})
    np.testing.assert_allclose(found.mean("eta"), longer.mean("eta"), atol=TOLD)
    np.testing.assert_allclose(found.sd("eta"), longer.sd("eta"), rtol=TOLD)


@pytest.mark.parametrize("prior", STEPS)
def test_new_labels_of_a_map_are_members_by_their_place(prior: str) -> None:
    """12 and 14, as 13 is not asked for: members are placed by label, not by count."""
    mean, cov = dense(prior, fitted(prior), 0, 6)
    fit = fit_of(ROWS, prior, {"y": Y, "when": np.arange(12)})
    found = fit.predict({"when": [14, 3, 12]})
    np.testing.assert_allclose(found.mean("eta"), mean[[14, 3, 12]], atol=TOLD)
    np.testing.assert_allclose(found.sd("eta") ** 2, cov.diagonal()[[14, 3, 12]], rtol=TOLD)
    assert found.mean("f")["year"].values.tolist() == [*range(12), 12, 14]
    np.testing.assert_allclose(found.mean("f")[:12], fit.mean("f"), atol=1e-12)
    named = fit.predict({"year": [14, 3]})
    np.testing.assert_allclose(named.mean("f"), found.mean("f").sel(year=[14, 3]), atol=1e-12)
    assert set(named.to_dataset()) == {"f_mean", "f_sd"}
    assert named.to_dataset()["f_sd"].sizes == {"year": 2}


OU = """lgm 1
index obs
data y[obs] : real
data x[obs] : real
latent f[obs] ~ {prior}
let eta[obs] = f
observe y ~ normal(mean = eta, sd = 0.5)
"""
X = np.array([0.3, 5.0, 1.1, 2.0, 9.5, 7.0, 3.3, 4.1, 8.0, 12.0, 10.5, 2.7])


def test_new_positions_of_a_process_in_continuous_time() -> None:
    kernel = "matern(sd = 0.9, length = 2, smoothness = 0.5)"
    new = np.array([1.5, 5.0, 30.0, -2.0, 1.6, 1.5])
    priors = ("ou(sd = 0.9, rate = 0.5, at = x)", f"gp(at = x, kernel = {kernel})")
    fits = [lgm.fit(lgm.loads(OU.format(prior=p)), {"y": Y, "x": X}) for p in priors]
    found = [fit.predict({"x": new}) for fit in fits]
    for of in ("mean", "sd"):
        a, b = (np.asarray(getattr(p, of)("eta")) for p in found)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_walk_of_order_one_is_brownian_between_and_beyond_its_positions() -> None:
    fit = lgm.fit(lgm.loads(OU.format(prior="rw1(sd = 0.9, at = x)")), {"y": Y, "x": X})
    now = fit.canonical.latent("f").factors[0].build(fit.theta)
    step = 0.81 / now.unit.scale[0] / np.diff(np.sort(X)).mean()  # type: ignore[attr-defined]
    found = fit.predict({"x": [4.4, 14.0, 5.0]})
    z, order = fit.mean("eta").values, np.argsort(X)
    draws = fit.sample(200_000, seed=2, names=["eta"])["eta"].values
    mean = [np.interp(4.4, X[order], z[order]), z[X.argmax()], z[1]]
    np.testing.assert_allclose(found.mean("eta"), mean, atol=1e-10)
    inner = draws[:, 7] * 2 / 3 + draws[:, 1] / 3
    variance = inner.var() + step * 0.3 * 0.6 / 0.9
    np.testing.assert_allclose(found.sd("eta")[0] ** 2, variance, rtol=0.02)
    last = fit.sd("eta").values[X.argmax()] ** 2
    np.testing.assert_allclose(found.sd("eta")[1] ** 2, last + 2.0 * step, rtol=1e-9)
    np.testing.assert_allclose(found.sd("eta")[2], fit.sd("eta")[1], rtol=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "prior", ["rw2(sd = 0.9, at = x)", "rw1(sd = 0.9, at = x)", "ou(sd = 0.9, rate = 0.5, at = x)"]
)
@given(st.data())
def test_what_else_is_asked_changes_nothing(prior: str, data: st.DataObject) -> None:
    fit = fit_at(prior)
    new = data.draw(
        st.lists(st.one_of(st.floats(-5, 20), st.sampled_from(X.tolist())), min_size=1, max_size=8)
    )
    turn = data.draw(st.permutations(range(len(new))))
    whole, alone = fit.predict({"x": new}), fit.predict({"x": new[:1]})
    turned = fit.predict({"x": [new[k] for k in turn]})
    for of in ("mean", "sd"):
        a = np.asarray(getattr(whole, of)("eta"))
        np.testing.assert_allclose(getattr(turned, of)("eta"), a[list(turn)], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(getattr(alone, of)("eta"), a[:1], rtol=1e-6, atol=1e-7)


FITS: dict[str, Fit] = {}


def fit_at(prior: str) -> Fit:
    if prior not in FITS:
        FITS[prior] = lgm.fit(lgm.loads(OU.format(prior=prior)), {"y": Y, "x": X})
    return FITS[prior]


@pytest.mark.thorough
@given(st.data())
def test_rows_come_as_asked(data: st.DataObject) -> None:
    prior = data.draw(st.sampled_from(STEPS))
    if prior not in FITS:
        FITS[prior] = fitted(prior)
    fit = FITS[prior]
    asked = data.draw(st.lists(st.integers(-6, 30), min_size=1, max_size=10))
    found = fit.predict({"t": asked})
    assert found.mean("eta")["t"].values.tolist() == asked
    first = fit.predict({"t": asked[:1]})
    for of in ("mean", "sd"):
        here = np.asarray(getattr(found, of)("eta"))
        np.testing.assert_allclose(here[:1], getattr(first, of)("eta"), rtol=1e-8, atol=1e-10)
        own = np.asarray(getattr(fit, of)("eta"))
        known = [(a, own[t]) for a, t in zip(here, asked, strict=True) if 0 <= t < 12]
        for a, b in known:
            assert a == pytest.approx(b, rel=1e-9, abs=1e-10)


PRODUCTS = """lgm 1
index a
index t
data y[a, t] : real?
{more}latent z[a, t] ~ {prior}
let eta[a, t] = z
observe y ~ normal(mean = eta, sd = 0.5)
"""
TABLE = np.random.default_rng(5).normal(size=(4, 6)).cumsum(axis=1)
RING = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])


def both(prior: str, more: str, data: Mapping[str, Any], steps: int) -> tuple[Prediction, Fit]:
    model = lgm.loads(PRODUCTS.format(prior=prior, more=more))
    fit = lgm.fit(model, {"y": TABLE, **data})
    longer = np.hstack([TABLE, np.full((4, steps), np.nan)])
    known = lgm.fit(model, {"y": longer, **data})
    return fit.predict({"t": np.arange(6 + steps)}), known


@pytest.mark.parametrize(
    "prior, more, data",
    [
        ("iid * ar1(sd = 1, rho = 0.7)", "", {}),
        ("besag(graph = g, sd = 1) * ar1(rho = 0.7)", "data g[a, a] : graph\n", {"g": RING}),
        ("dense(cov = c) * ar1(rho = -0.4)", "data c[a, a] : real\n", {"c": np.eye(4) + 0.3}),
        ("ar1(sd = 1, rho = 0.6) * ar1(rho = 0.7)", "", {}),
        ("rw1(sd = 1) * ar1(rho = 0.7)", "", {}),
    ],
)
def test_products_grow_along_one_axis(prior: str, more: str, data: Mapping[str, Any]) -> None:
    found, known = both(prior, more, data, 3)
    np.testing.assert_allclose(found.mean("eta"), known.mean("eta"), atol=TOLD)
    np.testing.assert_allclose(found.sd("eta"), known.sd("eta"), rtol=TOLD)


def test_products_grow_along_both_axes_and_take_new_levels() -> None:
    model = PRODUCTS.format(prior="ar1(sd = 1, rho = 0.6) * ar1(rho = 0.7)", more="")
    fit = lgm.fit(lgm.loads(model), {"y": TABLE})
    longer = np.full((6, 9), np.nan)
    longer[1:5, :6] = TABLE
    known = lgm.fit(lgm.loads(model), {"y": longer})
    found = fit.predict({"a": np.arange(-1, 5), "t": np.arange(9)})
    np.testing.assert_allclose(found.mean("eta"), known.mean("eta"), atol=TOLD)
    np.testing.assert_allclose(found.sd("eta"), known.sd("eta"), rtol=TOLD)
    draws = found.sample(20_000, seed=3)["eta"].values
    want = known.sample(20_000, seed=4)["eta"].values
    pairs = ([0, 8], [5, 8]), ([2, 7], [5, 7]), ([2, 7], [2, 8])
    for (i, j), (k, m) in pairs:
        ours, theirs = (np.corrcoef(d[:, i, j], d[:, k, m])[0, 1] for d in (draws, want))
        assert abs(ours - theirs) < 0.03


def test_new_subjects_and_new_times_at_once() -> None:
    text = """lgm 1
index subject
index t
index obs
data y[obs] : real?
data who[obs] : subject
data when[obs] : t
latent z[subject, t] ~ iid * ar1(sd = 1, rho = 0.7)
let eta[obs] = z[who, when]
observe y ~ normal(mean = eta, sd = 0.5)
"""
    who, when = np.repeat(["a", "b"], 5), np.tile(np.arange(5), 2)
    data = {"y": Y[:10], "who": who, "when": when}
    fit = lgm.fit(lgm.loads(text), data)
    asked = {"who": ["a", "c", "c", "b"], "when": [6, 7, 2, 1]}
    longer = {k: np.concatenate([data[k], asked[k]]) for k in asked}
    longer["y"] = np.concatenate([data["y"], [np.nan] * 4])
    # 5 is a member without data: labels of the index say so
    known = lgm.fit(lgm.loads(text), {**longer, "t": np.arange(8)})
    with pytest.warns(lgm.PredictionWarning, match='of `subject` is not in the fit.*"c"'):
        found = fit.predict(asked)
    np.testing.assert_allclose(found.mean("eta"), known.mean("eta")[10:], atol=TOLD)
    np.testing.assert_allclose(found.sd("eta"), known.sd("eta")[10:], rtol=TOLD)


INTEGRATED = """lgm 1
index t
data y[t] : count?
hyper s : positive ~ pc_sd(u = 1, alpha = 0.1)
hyper r : correlation ~ pc_cor1(u = 0.7, alpha = 0.7)
latent b0 ~ normal(sd = 5)
latent f[t] ~ ar1(sd = s, rho = r)
let eta[t] = b0 + f
observe y ~ poisson(log_rate = eta)
report rate[t] = exp(eta)
"""


@pytest.mark.thorough
def test_mixtures_over_hyperparameters_and_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.poisson(np.exp(1.0 + np.cumsum(0.3 * rng.normal(size=20))))
    model = lgm.loads(INTEGRATED)
    fit = lgm.fit(model, {"y": y})
    known = lgm.fit(model, {"y": np.concatenate([y, [np.nan] * 4])})
    assert fit.hyper == "integrate"
    found = fit.predict({"t": [20, 23, 4]})
    np.testing.assert_allclose(found.mean("eta"), known.mean("eta")[[20, 23, 4]], atol=2e-3)
    np.testing.assert_allclose(found.sd("eta"), known.sd("eta")[[20, 23, 4]], rtol=2e-3)
    drawn = found.sample(20_000, seed=1)["eta"]
    np.testing.assert_allclose(drawn.std("sample"), found.sd("eta"), rtol=0.03)
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc").predict({"t": [20, 23, 4]})
    np.testing.assert_allclose(again.mean("rate"), found.mean("rate"), rtol=1e-8)
    np.testing.assert_allclose(again.sd("eta"), found.sd("eta"), rtol=1e-8)
    response = again.sample_response("y", 2000, seed=2)
    assert response.sizes == {"sample": 2000, "t": 3}


TIES = """lgm 1
index obs
data y[obs] : real
data age[obs] : real
latent b0 ~ normal(sd = 5)
latent f[obs] ~ {prior}
let eta[obs] = b0 + f
observe y ~ normal(mean = eta, sd = 0.5)
"""


@pytest.mark.parametrize(
    "prior",
    ["rw1(sd = 0.8, at = age)", "rw2(sd = 0.8, at = age)", "ou(sd = 1.1, rate = 0.3, at = age)"],
)
def test_rows_that_share_a_position_are_one_member(prior: str) -> None:
    """Against the same walk over the distinct ages, with a map into them."""
    age = np.array([20, 21, 20, 23, 24, 24, 22, 25, 26, 20, 27, 26])
    tied = lgm.fit(lgm.loads(TIES.format(prior=prior)), {"y": Y, "age": age})
    mapped = ROWS.format(prior=prior.replace(", at = age", ""))
    known = lgm.fit(lgm.loads(mapped), {"y": Y, "when": age})
    asked = [29, 20, 24, 29, 18, 21]
    ours, theirs = tied.predict({"age": asked}), known.predict({"when": asked})
    for of in ("mean", "sd"):
        np.testing.assert_allclose(getattr(ours, of)("eta"), getattr(theirs, of)("eta"), rtol=1e-8)
    own = tied.mean("eta").values
    np.testing.assert_allclose(ours.mean("eta")[1:3], own[[0, 4]], rtol=1e-9)
    np.testing.assert_allclose(tied.predict({"age": age}).sd("eta"), tied.sd("eta"), rtol=1e-8)


def test_months_and_years_are_places() -> None:
    months = np.datetime_as_string(np.arange("2019-03", "2020-03", dtype="datetime64[M]"))
    prior = "ar1(sd = 1.2, rho = 0.8)"
    found = fitted(prior, months).predict({"t": ["2020-04", "2019-03", "2019-01"]})
    plain = fitted(prior).predict({"t": [13, 0, -2]})
    np.testing.assert_allclose(found.mean("eta"), plain.mean("eta"), rtol=1e-10)
    assert found.mean("eta")["t"].values.tolist() == ["2020-04", "2019-03", "2019-01"]
    for prior in ("rw2(sd = 0.8)", "seasonal(sd = 0.7, period = 4)", "rw1(sd = 0.8)"):
        found = fitted(prior, 1990 + np.arange(12)).predict({"t": [2004, 1995, 1989]})
        plain = fitted(prior).predict({"t": [14, 5, -1]})
        np.testing.assert_allclose(found.sd("eta"), plain.sd("eta"), rtol=1e-9)


def test_an_axis_that_the_model_declares_goes_on() -> None:
    text = LEVELS.format(prior="ar1(sd = 1.2, rho = 0.8)").replace("index t", "index t = 1..12")
    found = lgm.fit(lgm.loads(text), {"y": Y}).predict({"t": [13, 1]})
    plain = fitted("ar1(sd = 1.2, rho = 0.8)").predict({"t": [12, 0]})
    np.testing.assert_allclose(found.mean("eta"), plain.mean("eta"), rtol=1e-10)


COVARIATE = """lgm 1
index t
data y[t] : real
data x[t] : real
latent b ~ normal(sd = 2)
latent f[t] ~ ar1(sd = 1, rho = 0.8)
let eta[t] = b * x + f
observe y ~ normal(mean = eta, sd = 0.5)
"""


def test_covariates_of_the_rows_that_are_asked_for() -> None:
    x = np.linspace(-1.0, 1.0, 12)
    fit = lgm.fit(lgm.loads(COVARIATE), {"y": Y, "x": x})
    found = fit.predict({"t": [12, 3, 3], "x": [2.0, x[3], 5.0], "note": [1, 2, 3]})
    b, f = float(fit.mean("b")), fit.mean("f").values
    np.testing.assert_allclose(
        found.mean("eta"), [2 * b + 0.8 * f[11], b * x[3] + f[3], 5 * b + f[3]], rtol=1e-9
    )
    np.testing.assert_allclose(fit.predict({"t": [5, 2]}).mean("eta"), fit.mean("eta")[[5, 2]])
    with pytest.raises(lgm.DataError, match="missing `x`"):
        fit.predict({"t": [12, 3]})
    with pytest.raises(lgm.DataError, match="wrong shape") as caught:
        fit.predict({"x": [1.0, 2.0]})
    assert "labels" in str(caught.value)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, told",
    [
        (["abc"], "new members by numbers"),
        ([2.5], "no members between the steps of `t`"),
        ([np.nan, 3.0], "missing label"),
        ([], "is empty"),
        (["2026-01-01"], "new members by numbers"),
    ],
)
def test_labels_that_have_no_place(asked: Any, told: str) -> None:
    with pytest.raises(lgm.DataError, match=told):
        fitted("ar1(sd = 1, rho = 0.8)").predict({"t": asked})


def test_far_away_is_the_prior_and_costs_nothing() -> None:
    found = fitted("ar1(sd = 1, rho = 0.8)").predict({"t": [10**6, -(10**9)]})
    np.testing.assert_allclose(found.sd("f"), 1.0, rtol=1e-12)
    assert sum(p.size for p in found.marginals.part(0).frame.conditioned.pieces) == 2  # type: ignore[attr-defined]
    walk = fitted("rw2(sd = 0.8)").predict({"t": [10**6]})
    assert 1e7 < float(walk.sd("f")[0]) < 1e9


def test_a_circle_has_no_beyond() -> None:
    fit = fitted("rw1(sd = 1, cyclic = true)")
    np.testing.assert_allclose(fit.predict({"t": [3]}).mean("eta"), fit.mean("eta")[3])
    with pytest.raises(lgm.DataError, match="closes its circle") as caught:
        fit.predict({"t": [12]})
    assert caught.value.codes == ("E302",)


def test_places_between_new_ages_of_a_walk() -> None:
    """Between the members of a smooth walk the mean is a cubic spline through them."""
    from scipy.interpolate import CubicSpline

    age = np.arange(20.0, 80.0, 5.0)
    fit = fitted("rw2(sd = 0.8)", age.astype(int))
    found = fit.predict({"t": [33, 47, 48]})
    spline = CubicSpline(age, fit.mean("eta").values)
    np.testing.assert_allclose(found.mean("eta"), spline([33, 47, 48]), atol=0.02)
    assert (found.sd("eta") > 0).all() and (found.sd("eta") < 1.0).all()


def test_what_takes_no_new_members_is_named() -> None:
    model = PRODUCTS.format(
        prior="besag(graph = g, sd = 1) * ar1(rho = 0.7)", more="data g[a, a] : graph\n"
    )
    fit = lgm.fit(lgm.loads(model), {"y": TABLE, "g": RING})
    with pytest.raises(lgm.DataError, match="index `a` has no member 9") as caught:
        fit.predict({"a": [9], "t": [3]})
    assert caught.value.codes == ("E302",)
    part = fit.predict({"a": [2, 0], "t": [7, 3]})
    assert part.mean("eta").shape == (2, 2)
    np.testing.assert_allclose(part.mean("eta")[:, 1], fit.mean("eta").values[[2, 0], 3])


@pytest.mark.parametrize("new", [{}, {"wind": [1.0, 2.0], "rain": [3, 4]}])
def test_data_that_say_nothing_of_the_model(new: Mapping[str, Any]) -> None:
    with pytest.raises(lgm.DataError, match="name nothing") as caught:
        fitted("ar1(sd = 1, rho = 0.8)").predict(new)
    assert caught.value.codes == ("E305",)


def test_what_takes_no_new_members_is_named_before_what_they_lack() -> None:
    model = """lgm 1
index obs
index a
data who[obs] : a
data y[obs] : real
data g[a, a] : graph
latent u[a] ~ besag(graph = g, sd = 1)
observe y ~ normal(mean = u[who], sd = 1)
"""
    pairs = np.array([["p", "q"], ["q", "r"]])
    fit = lgm.fit(lgm.loads(model), {"y": [0.1, 0.4, -0.2], "who": list("pqr"), "g": pairs})
    with pytest.raises(lgm.DataError, match="takes no new ones") as caught:
        fit.predict({"who": ["z"]})
    assert caught.value.codes == ("E302",)


def test_a_mapping_to_a_key_that_is_not_there_is_refused() -> None:
    fit = lgm.fit(lgm.loads(ONE), {"y": np.sin(np.arange(9.0)), "t": np.arange(9)})
    with pytest.raises(lgm.DataError, match=r"`t` \(as `yeer`\)") as caught:
        fit.predict({"year": [3, 9]}, mapping={"t": "yeer"})
    assert caught.value.codes == ("E305",)


def test_rows_of_new_data_whose_labels_repeat_are_taken_by_position() -> None:
    frame = pd.DataFrame({"y": np.sin(np.arange(9.0)), "t": np.arange(9)})
    fit = lgm.fit(lgm.loads(ONE), frame)
    new = pd.DataFrame({"t": [8, 3]}, index=[5, 5])
    repeated, plain = fit.predict(new), fit.predict(new.reset_index(drop=True))
    np.testing.assert_array_equal(repeated.mean("eta"), plain.mean("eta"))
    np.testing.assert_allclose(repeated.mean("eta"), fit.mean("eta")[[8, 3]], atol=1e-12)


def test_a_prediction_shows_its_names_and_not_its_arrays() -> None:
    fit = lgm.fit(lgm.loads(ONE), {"y": np.sin(np.arange(9.0)), "t": np.arange(9)})
    assert repr(fit.predict({"t": [9]})) == "Prediction(eta, y)"
    assert repr(fit.predict({"year": [9]})) == "Prediction(u)"


ONE = """lgm 1
index obs
index year
data y[obs] : real
data t[obs] : year
latent u[year] ~ ar1(sd = 1, rho = 0.8)
let eta[obs] = u[t]
observe y ~ normal(mean = eta, sd = 0.5)
"""
