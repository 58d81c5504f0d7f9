"""spline against mgcv 1.8-41 (R 4.2.2) by restricted likelihood: curves, smoothing parameters,
degrees of freedom and evidence, at observed, new and extrapolated positions.

R, with `frac <- function(z) z - floor(z)`:

    i <- 1:60
    d <- data.frame(x1 = round(50 * frac(0.618034 * i)) / 50, x2 = frac(0.414214 * i),
                    x3 = frac(0.732051 * i), x4 = frac(0.236068 * i),
                    e = sin(12.9 * i + 3 * sin(i)))
    d$y <- with(d, 2 * sin(6 * x1) + 8 * (x2 - 0.3)^2 + x3 + 0.5 * e)
    d$z <- with(d, cos(5 * x1) + 0.4 * e)
    d$n <- round(exp(with(d, 1 + sin(6 * x1) + 0.4 * e)))
    d$k <- round(6 / (1 + exp(-with(d, 2 * sin(5 * x2) + 1.5 * e))))
    new <- data.frame(x1 = c(-0.2, 0.33, 1.3), x2 = c(-0.1, 0.5, 1.1),
                      x3 = c(0.1, 0.5, 0.9), x4 = c(0.2, 0.4, 0.6))
    m <- gam(..., data = d, method = "REML")
    m$sp / sapply(m$smooth, function(s) s$S.scale); m$sig2; sum(m$edf) - 1; m$gcv.ubre
    predict(m)[c(1, 20, 40, 60)]; predict(m, new)

The formula stands next to each case.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.structures.splines import smooth

I = np.arange(1, 61, dtype=np.float64)
E = np.sin(12.9 * I + 3.0 * np.sin(I))
X: dict[str, Array] = {
    "x1": np.asarray(np.round(50.0 * ((0.618034 * I) % 1.0)) / 50.0),
    "x2": (0.414214 * I) % 1.0,
    "x3": (0.732051 * I) % 1.0,
    "x4": (0.236068 * I) % 1.0,
}
DATA: dict[str, Array] = {
    **X,
    "y": 2.0 * np.sin(6.0 * X["x1"]) + 8.0 * (X["x2"] - 0.3) ** 2 + X["x3"] + 0.5 * E,
    "z": np.cos(5.0 * X["x1"]) + 0.4 * E,
    "n": np.asarray(np.round(np.exp(1.0 + np.sin(6.0 * X["x1"]) + 0.4 * E))),
    "k": np.round(6.0 / (1.0 + np.exp(-(2.0 * np.sin(5.0 * X["x2"]) + 1.5 * E)))),
}
NEW = {
    "x1": [-0.2, 0.33, 1.3], "x2": [-0.1, 0.5, 1.1], "x3": [0.1, 0.5, 0.9], "x4": [0.2, 0.4, 0.6],
}  # fmt: skip
NORMAL = ("real", "normal(mean = eta, sd = e)")


class Case(NamedTuple):
    """A model of smooths (their columns, basis and size) and what mgcv says of it."""

    y: str
    smooths: tuple[tuple[tuple[str, ...], str, int], ...]
    observed: tuple[str, str]
    penalties: tuple[float, ...]
    variance: float
    edf: float
    reml: float
    fitted: tuple[float, ...]
    new: tuple[float, ...]


def one(y: str, basis: str, *found: Any) -> Case:
    return Case(y, ((("x1",), basis, 10),), NORMAL, *found)


CASES = {
    # y ~ s(x1, bs = "tp")
    "thin-plate": one("y", "thin-plate", (0.00169182992,), 1.40267976, 4.67337031, 100.762156,
        (0.46806148, 3.380090117, -0.091280014, 2.156395573),
        (-1.35246106, 3.57106038, 2.88299142)),
    "thin-plate again": one("z", "thin-plate", (0.0010874828,), 0.0814631447, 5.14974829,
        19.0923488, (-0.956430523, -0.169734495, -0.84833547, 0.848855343),
        (1.1655135662, -0.0238309818, 1.7735668966)),
    # y ~ s(x1, bs = "cr")
    "cubic": one("y", "cubic", (0.00168665377,), 1.40325982, 4.64098275, 99.5095771,
        (0.473111671, 3.380919081, -0.102786126, 2.158992916),
        (-1.40548698, 3.57104227, 2.91419067)),
    "cubic again": one("z", "cubic", (0.00112637574,), 0.0819572636, 5.0664916, 17.916877,
        (-0.954479806, -0.169275559, -0.852977995, 0.854119851),
        (1.1191230276, -0.0186041128, 1.8171362497)),
    # y ~ s(x1, bs = "ps")
    "p-spline": one("y", "p-spline", (0.477666075,), 1.39945643, 4.27895474, 99.0876501,
        (0.479007837, 3.36767895, -0.142315308, 2.17025578),
        (-1.79133257, 3.56275892, 2.94594798)),
    "p-spline again": one("z", "p-spline", (0.336294259,), 0.0822539626, 4.55926703, 17.5006831,
        (-0.950692239, -0.15100255, -0.864062586, 0.858842753),
        (1.09124629272, -0.00413321755, 1.85471117756)),
    # y ~ s(x1, bs = "cc")
    "cyclic": one("y", "cyclic", (0.00115948426,), 1.36987925, 3.96511681, 100.00042,
        (0.439769156, 3.429298507, -0.121585113, 1.974684221),
        (-0.340779363, 3.62931517, 3.676946677)),
    "cyclic again": one("z", "cyclic", (0.000355886731,), 0.0875033332, 5.27076467, 21.575416,
        (-0.975983162, -0.196944095, -0.833258989, 0.773311056),
        (-0.7437432481, -0.0437261879, 0.0120303224)),
    # y ~ s(x1, x2, k = 20)
    "surface": Case("y", ((("x1", "x2"), "thin-plate", 20),), NORMAL, (0.000718919764,),
        0.189949569, 16.7452691, 60.9588229,
        (-0.299546599, 2.429014112, -0.774044627, 3.863365374),
        (-0.197548224, 2.711129662, 4.683111217)),
    "surface again": Case("z", ((("x1", "x2"), "thin-plate", 20),), NORMAL, (0.00307203781,),
        0.0927206154, 13.1661976, 30.9964413,
        (-0.88799072, -0.114810204, -0.890508086, 0.843170982),
        (1.1880453123, -0.0349286322, 0.5753669618)),
    # y ~ s(x1, x2, x3, k = 16)
    "three dimensions": Case("y", ((("x1", "x2", "x3"), "thin-plate", 16),), NORMAL,
        (0.000471528364,), 0.803419178, 11.9560321, 86.1372465,
        (0.3447206434, 1.5711766303, -0.0742719155, 5.1549611189),
        (1.656102354, 1.911526989, 0.897061299)),
    # y ~ s(x1) + s(x2) + s(x3) + s(x4): the last one is a straight line
    "additive": Case("y", tuple(((x,), "thin-plate", 10) for x in X), NORMAL,
        (1.76895194e-04, 1.76695168e-03, 2.49827269e-02, np.inf), 0.116544302,
        6.8765518 + 4.32893731 + 2.33955132 + 1.00008016, 43.7463325,
        (-0.404012395, 2.192989038, -0.828659382, 4.121867148),
        (-0.82961153, 2.44769378, 8.1361947)),
    # n ~ s(x1, bs = "cr"), family = poisson
    "poisson": Case("n", ((("x1",), "cubic", 10),), ("count", "poisson(log_rate = eta)"),
        (0.00625093676,), 1.0, 4.42214123, 104.884386,
        (0.625710349, 1.901644026, 0.276653301, 1.513833483),
        (-0.233332618, 1.992230143, 0.990552159)),
    # cbind(k, 6 - k) ~ s(x2, bs = "ps"), family = binomial
    "binomial": Case("k", ((("x2",), "p-spline", 10),), ("count", "binomial(n = 6, logit = eta)"),
        (1.42216709,), 1.0, 3.54015097, 91.9218568,
        (1.261738557, 1.578339981, 0.272581587, -1.407330397),
        (-0.373850122, 0.766146906, -1.647643557)),
}  # fmt: skip


def fitted(case: Case) -> tuple[lgm.Fit, dict[str, Array]]:
    """The fit by restricted likelihood, and its data."""
    lines = ["lgm 1", "index obs", f"data y[obs] : {case.observed[0]}", "latent a ~ flat"]
    data = {"y": DATA[case.y]}
    if "e)" in case.observed[1]:
        lines.append("hyper e : positive ~ flat")
    for k, (columns, basis, size) in enumerate(case.smooths):
        lines += [f"index d{k} = {len(columns)}", f"data at{k}[obs, d{k}] : real"]
        if len(columns) == 1:
            lines[-2:] = [f"data at{k}[obs] : real"]
        lines += [
            f"hyper s{k} : positive ~ flat",
            f'latent f{k}[obs] ~ spline(at = at{k}, sd = s{k}, basis = "{basis}", size = {size})',
        ]
        data[f"at{k}"] = at(case, k, X)
    eta = " + ".join(["a", *(f"f{k}" for k in range(len(case.smooths)))])
    lines += [f"let eta[obs] = {eta}", f"observe y ~ {case.observed[1]}"]
    model = lgm.loads("\n".join(lines) + "\n")
    return lgm.fit(model, data, method="laplace", hyper="map"), data


def at(case: Case, k: int, x: Any) -> Array:
    columns = [np.asarray(x[c]) for c in case.smooths[k][0]]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def weights(case: Case, fit: lgm.Fit) -> Array:
    """Minus the second derivatives of log t at the mode."""
    eta = fit.mean("eta").values
    if case.y == "n":
        return np.asarray(np.exp(eta))
    if case.y == "k":
        return np.asarray(6.0 / (2.0 + np.exp(eta) + np.exp(-eta)))
    return np.full(len(eta), 1.0 / float(fit.mean("e")) ** 2)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fit_is_mgcvs(case: Case) -> None:
    fit, _ = fitted(case)
    assert fit.converged
    assert {w.code for w in fit.warnings} <= {"W609"}  # of what laplace leaves out
    spread = float(np.ptp(fit.mean("eta").values))
    rows = fit.mean("eta").values[[0, 19, 39, 59]]
    np.testing.assert_allclose(rows, case.fitted, atol=1e-3 * spread)
    variance = float(fit.mean("e")) ** 2 if case.observed is NORMAL else 1.0
    np.testing.assert_allclose(variance, case.variance, rtol=2e-3)
    for k, penalty in enumerate(case.penalties):
        columns, basis, size = case.smooths[k]
        made = smooth(at(case, k, X).reshape(60, -1), basis, size)
        found = variance * made.scale**2 / float(fit.mean(f"s{k}")) ** 2
        if np.isfinite(penalty):
            np.testing.assert_allclose(found, penalty, rtol=0.01)
        else:
            assert found > 100.0, columns
        assert abs(float(fit.mean(f"f{k}").sum())) < 1e-6
    edf = float((weights(case, fit) * fit.sd("eta").values ** 2).sum()) - 1.0
    assert abs(edf - case.edf) < 0.02
    predicted = fit.predict({f"at{k}": at(case, k, NEW) for k in range(len(case.smooths))})
    np.testing.assert_allclose(predicted.mean("eta"), case.new, atol=1e-3 * spread)


@pytest.mark.parametrize("name", ["thin-plate", "cubic", "p-spline", "cyclic", "surface"])
def test_the_evidence_is_the_restricted_likelihood(name: str) -> None:
    """Up to what depends on the positions alone: of two responses at the same ones it cancels."""
    one, other = CASES[name], CASES[f"{name} again"]
    ours = fitted(one)[0].log_evidence - fitted(other)[0].log_evidence
    np.testing.assert_allclose(ours, other.reml - one.reml, atol=1e-3)


def test_shrunk_smooths_are_near_mgcvs() -> None:
    """z ~ s(x1, bs = "cs") + ... + s(x4, bs = "cs"): what is free is penalised by a tenth of the
    least penalty, there of values at knots, here of those at the members. x2 and x4 say nothing."""
    lines = ["lgm 1", "index obs", "data y[obs] : real", "latent a ~ flat"]
    lines.append("hyper e : positive ~ flat")
    for x in X:
        lines += [f"data {x}[obs] : real", f"hyper s_{x} : positive ~ flat"]
        more = f'at = {x}, sd = s_{x}, basis = "cubic", shrink = true'
        lines.append(f"latent f_{x}[obs] ~ spline({more})")
    lines.append(f"observe y ~ normal(mean = a + {' + '.join(f'f_{x}' for x in X)}, sd = e)")
    model = lgm.loads("\n".join(lines) + "\n")
    fit = lgm.fit(model, {"y": DATA["z"], **X}, method="laplace", hyper="map")
    assert fit.converged and not fit.warnings
    table = fit.smooths(test=True)
    np.testing.assert_allclose(table["edf"], [4.861, 0.0, 1.306, 0.0], atol=0.2)
    np.testing.assert_allclose(table["ref_df"], 9.0)
    np.testing.assert_allclose(table["p_value"].iloc[2], 0.02319, atol=0.003)
    np.testing.assert_allclose(float(fit.mean("e")) ** 2, 0.07484554343, rtol=0.02)


PERIODIC = """lgm 1
index obs
data y[obs] : real
data x[obs] : real
hyper s : positive ~ flat
hyper e : positive ~ flat
latent a ~ flat
latent f[obs] ~ spline(at = x, sd = s, basis = "BASIS", period = 1.5)
let eta[obs] = a + f
observe y ~ normal(mean = eta, sd = e)
"""


def test_a_period_is_mgcvs_knots() -> None:
    """z ~ s(x1, bs = "cc", k = 10), knots = list(x1 = c(0.02, 1.52))."""
    data = {"y": DATA["z"], "x": X["x1"]}
    model = lgm.loads(PERIODIC.replace("BASIS", "cyclic"))
    fit = lgm.fit(model, data, method="laplace", hyper="map")
    rows = fit.mean("eta").values[[0, 19, 39, 59]]
    wanted = [-0.9567507316, -0.1680265911, -0.8507989791, 0.8573103215]
    np.testing.assert_allclose(rows, wanted, atol=1e-4)
    np.testing.assert_allclose(float(fit.mean("e")) ** 2, 0.08228710382, rtol=1e-4)
    np.testing.assert_allclose(fit.smooths()["edf"], [4.63311638], atol=1e-3)
    predicted = fit.predict({"x": [-0.2, 0.33, 1.3]}).mean("eta")
    np.testing.assert_allclose(predicted, [0.82048920588, -0.01574962472, 0.82048920588], atol=1e-4)
    with pytest.raises(lgm.ModelError, match='`period` is an argument of basis = "cyclic"'):
        lgm.fit(lgm.loads(PERIODIC.replace("BASIS", "cubic")), data)
    with pytest.raises(lgm.ModelError, match=r"`period` is 1.5, and the positions reach over 1.9"):
        lgm.fit(model, {**data, "x": 2.0 * X["x1"]})
