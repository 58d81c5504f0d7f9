"""tensor_spline against te and ti of mgcv 1.8-41 (R 4.2.2) by restricted likelihood: surfaces,
smoothing parameters, degrees of freedom and evidence, at observed, new and extrapolated positions.

R, with `d` and `new` of test_mgcv_splines and

    d$v <- with(d, 3 * sin(5 * x1 * x2) + 0.3 * e)
    d$u <- with(d, 2 * cos(4 * x1) * x2 + sin(5 * x2) + 0.4 * e)
    d$n2 <- round(exp(with(d, 1 + sin(4 * x1 * x2) + 0.4 * e)))
    m <- gam(..., data = d, method = "REML", control = list(newton = list(conv.tol = 1e-9)))
    m$sp / unlist(sapply(m$smooth, function(s) s$S.scale))
    m$sig2; sum(m$edf) - 1; m$gcv.ubre; predict(m)[c(1, 20, 40, 60)]; predict(m, new)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.structures.splines import Tensor, tensor_smooth
from tests.agreement.test_mgcv_splines import DATA, NEW, NORMAL, E, X

Y: dict[str, Array] = {
    **DATA,
    "v": 3.0 * np.sin(5.0 * X["x1"] * X["x2"]) + 0.3 * E,
    "u": 2.0 * np.cos(4.0 * X["x1"]) * X["x2"] + np.sin(5.0 * X["x2"]) + 0.4 * E,
    "n2": np.asarray(np.round(np.exp(1.0 + np.sin(4.0 * X["x1"] * X["x2"]) + 0.4 * E))),
}


class Surface(NamedTuple):
    """A model of a tensor product (its columns' sizes; `apart`: with its margins next to it), and
    what mgcv says of it."""

    y: str
    sizes: tuple[int, ...]
    apart: bool
    penalties: tuple[float, ...]
    variance: float
    edf: float
    reml: float
    fitted: tuple[float, ...]
    new: tuple[float, ...]


CASES = {
    # y ~ te(x1, x2)
    "plane": Surface("y", (5, 5), False, (0.175270385, 1.70925705), 0.1679422444,
        16.82474469, 51.99387679, (-0.3780864026, 2.49464473, -0.8200984632, 3.883180339),
        (1.496428854, 2.790573211, 3.031777328)),
    # z ~ te(x1, x2): a line along x2
    "plane again": Surface("z", (5, 5), False, (0.77637985, np.inf), 0.08926586757,
        7.816750783, 21.05001527, (-0.9597686627, -0.1152300686, -0.8726153572, 0.8342478268),
        (1.341011329, 0.0204555286, 1.172080403)),
    # v ~ te(x1, x2, k = c(4, 6)), and of u
    "sizes": Surface("v", (4, 6), False, (0.054595755, 0.811925905), 0.04901380076,
        18.15850572, 21.85265915, (3.034117272, 1.593272505, 2.587369948, 1.045093458),
        (0.09348853719, 2.173414487, -13.35185613)),
    "sizes again": Surface("u", (4, 6), False, (1.00318255, 1.70014032), 0.08928141767,
        14.4176187, 27.98233798, (0.3928449282, 1.189818775, -0.8232162413, 0.7716959387),
        (-0.8002373818, 0.8025464046, -7.954996348)),
    # v ~ te(x1, x2, x3, k = c(4, 4, 3)), and of u
    "three columns": Surface("v", (4, 4, 3), False,
        (0.0310644701, 0.0437275357, 1.15274352), 0.04211542091, 27.85385501, 23.49956176,
        (2.91661588, 1.518159066, 2.729398782, 1.162115104),
        (-2.084878874, 2.205219275, -15.42901144)),
    "three columns again": Surface("u", (4, 4, 3), False,
        (1.01030576, 0.103222272, 0.304285735), 0.07508013019, 23.42897851, 23.51625542,
        (0.2826793528, 1.046541153, -0.6807946055, 0.9465533145),
        (0.9033443573, 0.6823983264, -7.354166267)),
    # n2 ~ te(x1, x2), family = poisson
    "poisson": Surface("n2", (5, 5), False, (41.5791832, 189.329256), 1.0, 7.599141204,
        121.7965387, (1.858047114, 1.507553301, 1.908466521, 1.411469343),
        (1.024228885, 1.695709108, -0.1368598419)),
    # v ~ s(x1, bs = "cr", k = 6) + s(x2, bs = "cr", k = 6) + ti(x1, x2, k = c(5, 6)), and of u
    "interaction": Surface("v", (5, 6), True, (), 0.04741983939, 21.39386342, 24.06527269,
        (3.015947155, 1.574857856, 2.607149061, 1.06881554),
        (1.163900028, 2.181945991, -11.90820081)),
    "interaction again": Surface("u", (5, 6), True, (), 0.0954384377, 10.00616641, 26.87997538,
        (0.1850842473, 1.146800239, -0.8300468066, 0.6901064232),
        (-1.402676784, 0.8747079016, -2.89646902)),
}  # fmt: skip


def fitted(case: Surface) -> lgm.Fit:
    """The fit by restricted likelihood."""
    columns = len(case.sizes)
    kind, family = NORMAL if case.y != "n2" else ("count", "poisson(log_rate = eta)")
    lines = [
        "lgm 1", "index obs", f"index d = {columns}", f"data y[obs] : {kind}",
        "data x[obs, d] : real", "data k[d] : count", "hyper s[d] : positive ~ flat",
        "latent a ~ flat",
    ]  # fmt: skip
    lines += ["hyper e : positive ~ flat"] * (case.y != "n2")
    more = ", interaction = true" * case.apart
    lines.append(f"latent f[obs] ~ tensor_spline(at = x, sd = s, size = k{more})")
    eta = "a + f"
    data = {"y": Y[case.y], "k": np.array(case.sizes), "x": at(case, X)}
    for name in ("x1", "x2") if case.apart else ():
        lines += [
            f"data {name}[obs] : real",
            f"hyper s_{name} : positive ~ flat",
            f'latent f_{name}[obs] ~ spline(at = {name}, sd = s_{name}, basis = "cubic", size = 6)',
        ]
        eta += f" + f_{name}"
        data[name] = X[name]
    lines += [f"let eta[obs] = {eta}", f"observe y ~ {family}"]
    return lgm.fit(lgm.loads("\n".join(lines) + "\n"), data, method="laplace", hyper="map")


def at(case: Surface, x: dict[str, Array]) -> Array:
    return np.column_stack([x[f"x{k}"] for k in range(1, len(case.sizes) + 1)])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_surface_is_mgcvs(case: Surface) -> None:
    fit = fitted(case)
    assert fit.converged and {w.code for w in fit.warnings} <= {"W609"}
    spread = float(np.ptp(fit.mean("eta").values))
    rows = fit.mean("eta").values[[0, 19, 39, 59]]
    np.testing.assert_allclose(rows, case.fitted, atol=1e-3 * spread)
    variance = 1.0 if case.y == "n2" else float(fit.mean("e")) ** 2
    np.testing.assert_allclose(variance, case.variance, rtol=2e-3)
    np.testing.assert_allclose(fit.smooths()["edf"].sum(), case.edf, atol=0.02)
    basis = tensor_smooth(at(case, X), np.array(case.sizes), case.apart).basis
    assert isinstance(basis, Tensor)
    sds = fit.mean("s").values if case.penalties else ()
    for margin, sd, penalty in zip(basis.margins, sds, case.penalties, strict=bool(case.penalties)):
        found = variance * margin.penalties.max() / sd**2
        if np.isfinite(penalty):
            np.testing.assert_allclose(found, penalty, rtol=0.01)
        else:
            assert found > 100.0
    new = {k: np.asarray(v) for k, v in NEW.items()}
    asked = {"x": at(case, new)} | {k: new[k] for k in ("x1", "x2") if case.apart}
    predicted = fit.predict(asked)
    np.testing.assert_allclose(predicted.mean("eta"), case.new, atol=2e-3 * spread)


@pytest.mark.parametrize("name", ["plane", "sizes", "three columns", "interaction"])
def test_the_evidence_is_the_restricted_likelihood(name: str) -> None:
    """Up to what depends on the positions alone: of two responses at the same ones it cancels."""
    one, other = CASES[name], CASES[f"{name} again"]
    ours = fitted(one).log_evidence - fitted(other).log_evidence
    np.testing.assert_allclose(ours, other.reml - one.reml, atol=1e-3)
