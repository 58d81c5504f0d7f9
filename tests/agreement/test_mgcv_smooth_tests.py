"""fit.smooths() against summary(gam) of mgcv 1.8-41 (R 4.2.2), by restricted likelihood.

R, with `d` of test_mgcv_splines and

    d$w <- with(d, 0.4 * cos(2 * pi * x4) + e)
    d$m <- round(exp(with(d, 1 + 0.3 * cos(2 * pi * x4) + 0.3 * e)))
    summary(gam(..., data = d, method = "REML"))$s.table

with Davies's tolerance in `mgcv:::psum.chisq` at 1e-9, and `stat` of `mgcv:::testStat` the mean of
its d and d1, of which it shows the first. It rounds the residual degrees of freedom.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import lgmdsl as lgm
from tests.agreement.test_mgcv_splines import DATA, NORMAL, E, X

Y = {
    **DATA,
    "w": 0.4 * np.cos(2.0 * np.pi * X["x4"]) + E,
    "m": np.round(np.exp(1.0 + 0.3 * np.cos(2.0 * np.pi * X["x4"]) + 0.3 * E)),
}
POISSON = ("count", "poisson(log_rate = eta)")


class Summary(NamedTuple):
    """A formula's smooths (column and basis), and their rows: edf, Ref.df, statistic, p value."""

    y: str
    observed: tuple[str, str]
    smooths: tuple[tuple[str, str], ...]
    rows: tuple[tuple[float, float, float, float], ...]


SUMMARIES = {
    # y ~ s(x1) + s(x2) + s(x3) + s(x4); F times Ref.df
    "additive": Summary("y", NORMAL, tuple((x, "thin-plate") for x in X), (
        (6.876551804, 7.929677807, 1106.7791347, 0.0), (4.328937308, 5.212530063, 561.63166, 0.0),
        (2.339551318, 2.859171087, 18.8865867, 0.001146870941),
        (1.000080160, 1.000111541, 0.1965200937, 0.659771951953))),
    # w ~ s(x4, bs = "cr"), "cc"
    "normal": Summary("w", NORMAL, (("x4", "cubic"),),
        ((2.407930788, 2.997214468, 4.943750754, 0.1882841904),)),
    "cyclic": Summary("w", NORMAL, (("x4", "cyclic"),),
        ((1.567794325, 8.0, 3.550372416, 0.09237531309),)),
    # m ~ s(x4, bs = "cr"), "cc", family = poisson
    "counts": Summary("m", POISSON, (("x4", "cubic"),),
        ((2.168029625, 2.696520407, 4.953116666, 0.1415673812),)),
    "cyclic counts": Summary("m", POISSON, (("x4", "cyclic"),),
        ((1.455222392, 8.0, 3.634031105, 0.06327733658),)),
    # cbind(k, 6 - k) ~ s(x3, bs = "ps") + s(x4, bs = "cr"), family = binomial
    "binomial": Summary("k", ("count", "binomial(n = 6, logit = eta)"),
        (("x3", "p-spline"), ("x4", "cubic")),
        ((3.853363918, 4.607812558, 13.3564112, 0.01601593544),
         (1.000080948, 1.000161119, 1.39436876, 0.23770115706))),
}  # fmt: skip


@pytest.mark.parametrize("case", SUMMARIES.values(), ids=SUMMARIES)
def test_the_table_is_mgcvs(case: Summary) -> None:
    kind, family = case.observed
    lines = ["lgm 1", "index obs", f"data y[obs] : {kind}", "latent a ~ flat"]
    if case.observed is NORMAL:
        lines.append("hyper e : positive ~ flat")
    for x, basis in case.smooths:
        lines += [
            f"data {x}[obs] : real",
            f"hyper s_{x} : positive ~ flat",
            f'latent f_{x}[obs] ~ spline(at = {x}, sd = s_{x}, basis = "{basis}")',
        ]
    eta = " + ".join(["a", *(f"f_{x}" for x, _ in case.smooths)])
    lines += [f"let eta[obs] = {eta}", f"observe y ~ {family}"]
    data = {"y": Y[case.y]} | {x: X[x] for x, _ in case.smooths}
    fit = lgm.fit(lgm.loads("\n".join(lines) + "\n"), data, method="laplace", hyper="map")
    table = fit.smooths(test=True)
    edf, ref_df, statistic, p_value = np.array(case.rows).T
    np.testing.assert_allclose(table["edf"], edf, atol=1e-4)
    np.testing.assert_allclose(table["ref_df"], ref_df, atol=2e-4)
    np.testing.assert_allclose(table["statistic"], statistic, rtol=1e-3)
    rounded = 0.02 if case.observed is NORMAL else 1e-3
    np.testing.assert_allclose(table["p_value"], p_value, rtol=rounded, atol=1e-9)
    np.testing.assert_allclose(table["sd"], [float(fit.mean(f"s_{x}")) for x, _ in case.smooths])
