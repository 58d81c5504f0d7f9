"""Curves by a factor and by a number against mgcv 1.8-41 (R 4.2.2), by restricted likelihood.

R, with `frac` of test_mgcv_splines and

    i <- 1:120
    d <- data.frame(t = round(50 * frac(0.618034 * i)) / 50, e = sin(12.9 * i + 3 * sin(i)),
                    who = c("a", "b", "c")[(((i - 1) * 7) %/% 5) %% 3 + 1])
    d$y <- with(d, sin(6 * t) * (who == "a") + 2 * t * (who == "b") + 0.4 * e)
    d$who <- factor(d$who); d$z <- 2 * d$t - 0.7 + sin(i)
    m <- gam(..., data = d, method = "REML")
    summary(m)$s.table; m$sig2; m$gcv.ubre
    predict(m, data.frame(t = c(0.1, 0.5), who = c("b", "a")))
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.operators.explicit import Sparse

I = np.arange(1, 121)
T = np.round(50.0 * ((0.618034 * I) % 1.0)) / 50.0
WHO = np.array(list("abc"))[((I - 1) * 7 // 5) % 3]
E = np.sin(12.9 * I + 3.0 * np.sin(I))
DATA = {"t": T, "who": WHO, "y": np.sin(6.0 * T) * (WHO == "a") + 2.0 * T * (WHO == "b") + 0.4 * E}
NEW = pd.DataFrame({"t": [0.1, 0.5], "who": ["b", "a"]})
TEXT = """lgm 1
index obs
index g
data y[obs] : real
data t[obs] : real
data who[obs] : g
hyper s : positive ~ flat
hyper e : positive ~ flat
latent b[g] ~ flat
latent f[g, obs] ~ iid * spline(at = t, sd = s, basis = "cubic", size = 8)
let eta[obs] = b[who] + f[who, obs]
observe y ~ normal(mean = eta, sd = e)
"""
EACH = TEXT.replace("hyper s :", "hyper s[g] :")


def fitted(text: str, data: object = DATA) -> lgm.Fit:
    return lgm.fit(lgm.loads(text), data, method="laplace", hyper="map")


def test_curves_of_one_sd() -> None:
    """y ~ who + s(t, by = who, id = 1, bs = "cr", k = 8)"""
    fit = fitted(TEXT)
    assert fit.converged and not fit.warnings
    table = fit.smooths(test=True)
    assert [*table["labels"]] == ["a", "b", "c"]
    np.testing.assert_allclose(table["edf"], [4.412819126, 4.26053712, 4.09612222], atol=1e-4)
    np.testing.assert_allclose(table["ref_df"], [5.248299678, 5.122354968, 4.951864711], atol=2e-4)
    np.testing.assert_allclose(table["p_value"].iloc[2], 0.5717863141, rtol=1e-3)
    np.testing.assert_allclose(float(fit.mean("e")) ** 2, 0.0824890819, rtol=1e-4)
    found = fit.predict(NEW).mean("eta").values
    np.testing.assert_allclose(found, [0.08276299715, 0.26244494153], atol=1e-4)
    np.testing.assert_allclose(fit.mean("f").sum("obs"), 0.0, atol=1e-9)


def test_an_sd_for_each_curve() -> None:
    """y ~ who + s(t, by = who, bs = "cr", k = 8): two of the curves are lines."""
    fit = fitted(EACH)
    assert fit.converged and not fit.warnings
    table = fit.smooths(test=True)
    np.testing.assert_allclose(table["edf"], [5.138442847, 1.000016743, 1.000027523], atol=1e-3)
    np.testing.assert_allclose(table["p_value"].iloc[2], 0.2583280414, rtol=2e-3)
    np.testing.assert_allclose(table["sd"], fit.mean("s").values)
    np.testing.assert_allclose(float(fit.mean("e")) ** 2, 0.08158319387, rtol=1e-4)
    found = fit.predict(NEW).mean("eta").values
    np.testing.assert_allclose(found, [0.1152297775, 0.2766367571], atol=1e-4)
    ours = fit.log_evidence - fitted(TEXT).log_evidence
    np.testing.assert_allclose(ours, 39.5635013323 - 32.53599549393, atol=1e-3)


def test_by_a_number_is_algebra() -> None:
    """y ~ s(t, by = z, bs = "cr", k = 8), whose curve is not centred."""
    text = TEXT.replace("data who[obs] : g", "data z[obs] : real").replace("index g\n", "")
    text = text.replace("b[g] ~ flat", "b ~ flat\nlatent c ~ flat")
    text = text.replace("f[g, obs] ~ iid * ", "f[obs] ~ ").replace(
        "b[who] + f[who, obs]", "b + z * (c + f)"
    )
    fit = fitted(text, {"y": DATA["y"], "t": T, "z": 2.0 * T - 0.7 + np.sin(I)})
    rows = fit.mean("eta").values[[0, 19, 39, 59]]
    wanted = [0.3260356533, 0.346669056, 0.3125867243, 0.2725641933]
    np.testing.assert_allclose(rows, wanted, atol=1e-4)
    np.testing.assert_allclose(float(fit.mean("e")) ** 2, 0.5410783968, rtol=1e-4)
    np.testing.assert_allclose(fit.smooths()["edf"] + 1.0, 2.000063083, atol=1e-3)


# ---- not of mgcv ---------------------------------------------------------------------------------


def test_curves_over_rows_and_over_places_are_the_same() -> None:
    """Of places that are as often members as rows have them, sums to zero included."""
    places, where = np.unique(T, return_inverse=True)
    text = TEXT.replace("index g\n", "index g\nindex place\ndata where[obs] : place\n")
    text = text.replace("data t[obs] : real", "data t[place] : real")
    text = text.replace("f[g, obs]", "f[g, place]").replace("f[who, obs]", "f[who, where]")
    one = fitted(text, DATA | {"t": places, "where": where, "place": np.arange(len(places))})
    other = fitted(TEXT)
    np.testing.assert_allclose(one.mean("eta"), other.mean("eta"), atol=1e-6)
    np.testing.assert_allclose(one.smooths()["edf"], other.smooths()["edf"], atol=1e-5)
    assert one.mean("f").dims == ("g", "place")


def test_the_design_has_entries_for_each_rows_own_curve_alone() -> None:
    fit = fitted(TEXT)
    predictor = fit.canonical.linear(fit.theta).predictors[0]
    curve = predictor.columns["f.curve"]
    assert isinstance(curve, Sparse) and curve.shape == (120, 18)
    assert curve.sparse().nnz == 120 * 6


def test_a_new_member_has_a_curve_from_the_prior(tmp_path: Path) -> None:
    text = TEXT.replace("b[g] ~ flat", "b[g] ~ normal(sd = 1)")
    fit = fitted(text.replace("size = 8", "size = 8, shrink = true"))
    fit.save(tmp_path / "fit.nc")
    asked = pd.DataFrame({"t": [0.1, 0.1, 0.1], "who": ["d", "a", "e"]})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit.predict(asked)
    assert "latents that have their prior there: b, f\n" in str(said[0].message)
    with pytest.warns(lgm.PredictionWarning):
        again = lgm.load_fit(tmp_path / "fit.nc").predict(asked)
    np.testing.assert_allclose(again.sd("eta"), found.sd("eta"), rtol=1e-10)
    mean, sd = found.mean("eta").values, found.sd("eta").values
    np.testing.assert_allclose(mean[[0, 2]], 0.0, atol=1e-9)
    assert sd[0] == pytest.approx(sd[2]) and sd[0] > 2.0 * sd[1] and sd[0] > 1.0
    np.testing.assert_allclose(mean[1], fit.predict(asked[1:2]).mean("eta").values[0], atol=1e-9)


def test_what_a_product_takes() -> None:
    numbered = TEXT.replace("index g\n", "index g = 3\n").replace("iid *", "rw1() *")
    data = DATA | {"who": (WHO == "b") + 2 * (WHO == "c")}
    with pytest.raises(lgm.MethodError, match="another structure than iid") as refused:
        fitted(numbered, data)
    assert "iid * spline" in str(refused.value)
    with pytest.raises(lgm.LgmError, match="one for each member of `g`"):
        lgm.loads(TEXT.replace("hyper s :", "hyper s[obs] :"))
    with pytest.raises(lgm.LgmError, match="must be one number"):
        lgm.loads(EACH.replace("f[g, obs] ~ iid *", "f[obs] ~").replace("f[who, obs]", "f"))
    unit = fitted(TEXT.replace("sd = s, ", "").replace("hyper s : positive ~ flat\n", ""))
    given = fitted(TEXT.replace("sd = s", "sd = 1").replace("hyper s : positive ~ flat\n", ""))
    np.testing.assert_allclose(unit.log_evidence, given.log_evidence)


def test_surfaces_by_a_factor() -> None:
    """Each of them is the fit to its own rows where nothing is shared."""
    text = TEXT.replace("data t[obs] : real", "index d = 2\ndata t[obs, d] : real")
    text = text.replace(
        'spline(at = t, sd = s, basis = "cubic", size = 8)', "tensor_spline(at = t)"
    )
    text = text.replace("tensor_spline(at = t)", "tensor_spline(at = t, sd = s, size = 3)")
    text = text.replace("positive ~ flat", "positive = 0.5")
    at = np.column_stack([T, np.cos(I)])
    fit = fitted(text, DATA | {"t": at})
    mine = WHO == "b"
    single = text.replace("index g\n", "").replace("data who[obs] : g\n", "")
    single = single.replace("b[g]", "b").replace("f[g, obs] ~ iid *", "f[obs] ~")
    single = single.replace("b[who] + f[who, obs]", "b + f").replace(
        "data y[obs] : real", "data y[obs] : real?"
    )
    alone = fitted(single, {"t": at, "y": np.where(mine, DATA["y"], np.nan)})
    np.testing.assert_allclose(
        fit.mean("eta").values[mine], alone.mean("eta").values[mine], atol=1e-6
    )
    table = fit.smooths()
    found, wanted = table["edf"].to_numpy()[1], alone.smooths()["edf"].to_numpy()[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_curves_are_drawn_along_their_covariate() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    fit = fitted(TEXT)
    (axes,) = np.atleast_1d(fit.plot("f"))
    assert axes.get_xlabel() == "t"
    assert [t.get_text() for t in axes.get_legend().get_texts()][:3] == ["a", "b", "c"]


def test_curves_over_two_indices_are_those_of_their_pairs() -> None:
    part = np.where(np.cos(5.0 * I) > 0.0, "hi", "lo")
    both = TEXT.replace("index g\n", 'index g\nindex half = {"lo", "hi"}\ndata part[obs] : half\n')
    both = both.replace("f[g, obs] ~ iid *", "f[g, half, obs] ~ iid * iid *")
    both = both.replace("f[who, obs]", "f[who, part, obs]").replace("b[g] ~", "b[g, half] ~")
    both = both.replace("b[who]", "b[who, part]").replace("hyper s :", "hyper s[half] :")
    fixed = {"s": np.array([0.3, 0.6]), "e": 0.3}
    one = lgm.fit(lgm.loads(both), DATA | {"part": part}, fixed=fixed)
    pairs = np.char.add(np.char.add(WHO, " "), part)
    labels = [f"{g} {half}" for g in "abc" for half in ("lo", "hi")]
    each = EACH.replace("index g", "index g = {" + ", ".join(f'"{v}"' for v in labels) + "}")
    fixed = {"s": np.tile([0.3, 0.6], 3), "e": 0.3}
    other = lgm.fit(lgm.loads(each), DATA | {"who": pairs}, fixed=fixed)
    np.testing.assert_allclose(one.mean("eta"), other.mean("eta"), atol=1e-9)
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-10)
    table, wanted = one.smooths(), other.smooths()
    assert [*table["labels"]] == [v.replace(" ", ", ") for v in labels]
    np.testing.assert_allclose(table["edf"], wanted["edf"], rtol=1e-8)
    np.testing.assert_allclose(table["sd"], wanted["sd"])
