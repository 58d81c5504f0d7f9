"""fit.curve() against mgcv 1.8-41 (R 4.2.2), by restricted likelihood.

R, with `d` of test_mgcv_factor_smooths and

    m <- gam(y ~ who + s(t, by = who, id = 1, bs = "cr", k = 8), data = d, method = "REML")
    at <- c(0.05, 0.31, 0.5, 0.93)
    X <- function(t, w) {
      x <- predict(m, data.frame(t = t, who = w), type = "lpmatrix"); x[, 1:3] <- 0; x }
    D <- function(t, w) (X(t + 1e-5, w) - X(t - 1e-5, w)) / 2e-5
    show <- function(L) cbind(L %*% coef(m), sqrt(rowSums(L %*% vcov(m) * L)))
    critical <- function(L) {
      b <- rmvn(200000, rep(0, length(coef(m))), vcov(m))
      quantile(apply(abs(L %*% t(b)) / sqrt(rowSums(L %*% vcov(m) * L)), 2, max), 0.95) }
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from tests.agreement.test_mgcv_factor_smooths import TEXT, fitted

AT = [0.05, 0.31, 0.5, 0.93]


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return fitted(TEXT)


SLOPES = [(4.581672464, 1.5585978164), (-1.378599118, 0.8193307477),
          (-5.509742276, 1.0768340061), (3.885349160, 1.4432003908)]  # fmt: skip
APART = [(-2.510712360, 2.850212106), (1.469252000, 1.170293919),
         (5.135600284, 1.439582016), (-5.261738613, 2.237957598)]  # fmt: skip
BENDS = [(-9.106976307, 7.515222063), (-25.480654293, 14.743584864),
         (-10.560661564, 7.097661464), (15.879205156, 10.468136005)]  # fmt: skip
DIFFERENCE = [(-1.3200924846, 0.1566863907), (-1.2486929558, 0.1183388369),
              (-0.1871236672, 0.1122365577), (1.5575119130, 0.1557568079)]  # fmt: skip


def close(table: pd.DataFrame, wanted: list[tuple[float, float]]) -> None:
    np.testing.assert_allclose(table[["estimate", "sd"]], wanted, rtol=2e-4)


def test_the_difference_of_two_curves(fit: lgm.Fit) -> None:
    """show(X(at, "b") - X(at, "a"))"""
    table = fit.curve("f", AT, contrast=("a", "b"))
    assert set(table["contrast"]) == {"b - a"} and [*table["at"]] == AT
    close(table, DIFFERENCE)


def test_slopes(fit: lgm.Fit) -> None:
    """show(D(at, "a")), show(D(at, "c") - D(at, "a"))"""
    table = fit.curve("f", AT, derivative=1)
    close(table[table["g"] == "a"], SLOPES)
    apart = fit.curve("f", AT, derivative=1, contrast="reference")
    close(apart[apart["contrast"] == "c - a"], APART)


def test_second_derivatives(fit: lgm.Fit) -> None:
    """show((X(at + h, "a") - 2 * X(at, "a") + X(at - h, "a")) / h^2), h = 1e-4"""
    table = fit.curve("f", AT, derivative=2)
    close(table[table["g"] == "a"], BENDS)


def test_the_width_of_the_band(fit: lgm.Fit) -> None:
    """critical(X(seq(0, 1, length.out = 200), "a")), and of D at 50 positions"""
    for size, derivative, wanted in ((200, 0, 2.9086), (50, 1, 2.9120)):
        table = fit.curve("f", np.linspace(0.0, 1.0, size), derivative=derivative, n=40_000)
        mine = table[table["g"] == "a"]
        width = (mine["band_upper"] - mine["estimate"]) / mine["sd"]
        np.testing.assert_allclose(width, wanted, atol=0.02)
        np.testing.assert_allclose(mine["estimate"] - mine["band_lower"], width * mine["sd"])
