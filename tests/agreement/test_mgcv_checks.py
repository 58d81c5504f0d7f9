"""fit.smooths(check=True, concurvity=True) against k.check and concurvity of mgcv 1.8-41 (R 4.2.2),
by restricted likelihood.

R, with `d` of test_mgcv_factor_smooths and

    d$z <- round(2 * d$t - 0.7 + sin(i), 1)
    d$u <- 20 * (sin(3.7 * i) + 1); d$v <- cos(2.3 * i + sin(i)); d$w <- with(d, sin(u / 3) * v + 0.3 * e)
    m <- gam(..., data = d, method = "REML")
    k.check(m); concurvity(m)

Surfaces are of places without equal distances, of which mgcv and we might choose others.
"""  # noqa: E501

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.agreement.test_mgcv_factor_smooths import DATA, TEXT, E, I, T, fitted

Z = np.round(2.0 * T - 0.7 + np.sin(I), 1)
PLACES = np.column_stack([20.0 * (np.sin(3.7 * I) + 1.0), np.cos(2.3 * I + np.sin(I))])
SURFACE = np.sin(PLACES[:, 0] / 3.0) * PLACES[:, 1] + 0.3 * E
TWO = """lgm 1
index obs
index g
data y[obs] : real
data t[obs] : real
data x[obs] : real
data who[obs] : g
hyper s : positive ~ flat
hyper r : positive ~ flat
hyper e : positive ~ flat
latent b[g] ~ flat
latent f[obs] ~ spline(at = t, sd = s, basis = "cubic", size = 8)
latent h[obs] ~ spline(at = x, sd = r, basis = "cubic", size = 6)
observe y ~ normal(mean = b[who] + f + h, sd = e)
"""
ONE = """lgm 1
index obs
index d = 2
data x[obs, d] : real
data y[obs] : real
hyper s : positive ~ flat
hyper e : positive ~ flat
latent a ~ flat
latent f[obs] ~ spline(at = x, sd = s, size = 20)
observe y ~ normal(mean = a + f, sd = e)
"""


def looked_at(text: str, data: object) -> pd.DataFrame:
    return fitted(text, data).smooths(check=True, concurvity=True)


def agree(table: pd.DataFrame, k: list[int], index: list[float], p: list[float]) -> None:
    """The index to what REML's optimum is known to, p values to their Monte Carlo error."""
    assert [*table["k"]] == k
    np.testing.assert_allclose(table["k_index"], index, rtol=2e-6)
    np.testing.assert_allclose(table["k_p_value"], p, atol=0.06)


def test_two_curves_of_a_formula() -> None:
    """y ~ who + s(t, bs = "cr", k = 8) + s(e, bs = "cr", k = 6)"""
    table = looked_at(TWO, DATA | {"x": E})
    agree(table, [7, 5], [1.1833134394, 0.9774304059], [0.965, 0.3825])
    np.testing.assert_allclose(table["concurvity_worst"], [0.15451115339, 0.12555036671], rtol=1e-8)
    np.testing.assert_allclose(
        table["concurvity_observed"], [0.03131968647, 0.05425258052], rtol=2e-5
    )


def test_curves_by_a_factor() -> None:
    """y ~ who + s(t, by = who, id = 1, bs = "cr", k = 8): residuals of all rows in each."""
    table = looked_at(TEXT, DATA)
    agree(table, [7] * 3, [1.130295668] * 3, [0.92] * 3)
    worst, observed = [0.0412323218114, 0.110579939274, 0.242593066584], [0.000112783, 0.012205672]
    np.testing.assert_allclose(table["concurvity_worst"], worst, rtol=1e-8)
    np.testing.assert_allclose(table["concurvity_observed"], [*observed, 0.028077873], rtol=1e-4)


def test_covariates_that_follow_one_another() -> None:
    """y ~ s(t, bs = "cr", k = 8) + s(z, bs = "cr", k = 6), with 40 places for 120 rows."""
    text = TWO.replace("index g\n", "").replace("data who[obs] : g\n", "")
    text = text.replace("latent b[g]", "latent b").replace("b[who]", "b")
    table = looked_at(text, {"y": DATA["y"], "t": T, "x": Z})
    agree(table, [7, 5], [1.3546016, 1.0209849], [1.0, 0.57])
    np.testing.assert_allclose(table["concurvity_worst"], [0.4245389009] * 2, rtol=1e-8)


def test_surfaces() -> None:
    """w ~ s(u, v, k = 20) and te(u, v, k = 5)"""
    agree(looked_at(ONE, {"x": PLACES, "y": SURFACE}), [19], [0.9603823743], [0.28])
    text = ONE.replace("hyper s ", "hyper s[d] ").replace("size = 20", "size = 5")
    table = looked_at(text.replace("spline", "tensor_spline"), {"x": PLACES, "y": SURFACE})
    assert [*table["k"]] == [24]
    np.testing.assert_allclose(table["k_index"], 0.8237026658, rtol=3e-5)
    np.testing.assert_allclose(table["k_p_value"], 0.0075, atol=0.02)
