"""Censored lifetimes of real data, with priors too wide to matter, against maximum likelihood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import lgmdsl as lgm
from lgmdsl.arrays import Array

Data = dict[str, Any]
TEXT = """lgm 1
index obs
index term
data X[obs, term] : real
data y[obs] : positive
data seen[obs] : binary
latent b[term] ~ normal(sd = 1000)
let eta[obs] = X @ b
observe y ~ {family}, event = seen)
"""


def mice(shared: Path) -> Data:
    """Four groups of twenty, in weeks."""
    with np.load(shared / "data" / "mice.npz") as d:
        group = np.concatenate([d["group_uncensored"], d["group_censored"]])
        y = np.concatenate([d["t_uncensored"], d["censor_time"]]).astype(float)
        seen = np.repeat([1, 0], [len(d["t_uncensored"]), len(d["censor_time"])])
    return {"X": (group[:, None] == np.arange(1, 5)).astype(float), "y": y, "seen": seen}


def kidney(shared: Path) -> Data:
    """Weeks to infection, by sex and age."""
    with np.load(shared / "data" / "kidney_infection.npz") as d:
        age = (d["age"] - d["age"].mean()) / d["age"].std()
        X = np.column_stack([np.ones_like(age), d["sex"], age])
        return {"X": X, "y": d["time"], "seen": d["event"].astype(int)}


Law = Callable[[Array], Any]
LAWS: dict[str, tuple[str, Law]] = {
    "weibull": (
        "weibull(log_scale = eta, shape = 1.7",
        lambda s: stats.weibull_min(1.7, scale=np.exp(s)),
    ),
    "exponential": ("exponential(log_rate = eta", lambda s: stats.expon(scale=np.exp(-s))),
    "gamma": (
        "gamma(log_mean = eta, shape = 1.7",
        lambda s: stats.gamma(1.7, scale=np.exp(s) / 1.7),
    ),
    "lognormal": (
        "lognormal(mean = eta, sd = 0.8",
        lambda s: stats.lognorm(0.8, scale=np.exp(s)),
    ),
}


def minus_log_likelihood(b: Array, data: Data, law: Law) -> float:
    at = law(data["X"] @ b)
    return -float(np.where(data["seen"] > 0, at.logpdf(data["y"]), at.logsf(data["y"])).sum())


def best(data: Data, law: Law) -> Array:
    """Maximum likelihood by a plain search, polished."""

    def f(b: Array) -> float:
        return minus_log_likelihood(b, data, law)

    start = np.zeros(data["X"].shape[1])
    start = minimize(
        f, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}
    ).x
    start = minimize(f, start, method="BFGS").x
    return np.asarray(
        minimize(
            f, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}
        ).x
    )


def standard_errors(b: Array, data: Data, law: Law, sizes: Array) -> Array:
    """From the curvature of the likelihood, by differences in steps of a twentieth of `sizes`."""
    steps = np.diag(0.05 * sizes)

    def at(x: Array) -> float:
        return minus_log_likelihood(b + x, data, law)

    bend = [[at(i + j) - at(i - j) - at(j - i) + at(-i - j) for j in steps] for i in steps]
    scale = 4.0 * np.outer(steps.diagonal(), steps.diagonal())
    return np.asarray(np.sqrt(np.linalg.inv(np.array(bend) / scale).diagonal()))


@pytest.mark.thorough
@pytest.mark.parametrize("family", list(LAWS))
@pytest.mark.parametrize("of", [mice, kidney], ids=lambda f: f.__name__)
def test_laplace_is_maximum_likelihood(
    of: Callable[[Path], Data], family: str, shared: Path
) -> None:
    data = of(shared)
    text, law = LAWS[family]
    model = lgm.loads(TEXT.format(family=text))
    fits = {m: lgm.fit(model, data, method=m) for m in ("laplace", "natural-gradient", "ep")}
    assert all(f.converged for f in fits.values())
    known = best(data, law)
    laplace = fits["laplace"]
    sd = np.ravel(laplace.sd("b"))
    np.testing.assert_allclose(np.ravel(laplace.mean("b")), known, atol=2e-4 * sd.max())
    # The others centre on the mean of the posterior, well within an sd of its mode.
    for fit in fits.values():
        assert np.all(np.abs(np.ravel(fit.mean("b")) - known) < 0.3 * sd)
        np.testing.assert_allclose(np.ravel(fit.sd("b")), sd, rtol=0.15)
    np.testing.assert_allclose(sd, standard_errors(known, data, law, sd), rtol=5e-3)


FRAILTY = """lgm 1
index row
index patient
index kind
data t[row] : positive
data seen[row] : binary
data who[row] : patient
data age[row] : real
data sex[row] : real
data D[row, kind] : real
{priors}
latent a ~ normal(sd = 100)
latent b_age ~ normal(sd = 100)
latent b_sex ~ normal(sd = 100)
latent b_kind[kind] ~ normal(sd = 100)
latent u[patient] ~ normal(sd = {sd})
let eta[row] = a + b_age * age + b_sex * sex + D @ b_kind + u[who]
observe t ~ weibull(log_scale = eta, shape = {shape}, event = seen)
"""


def frailty(shared: Path) -> Data:
    with np.load(shared / "data" / "kidney_bugs.npz") as d:
        out = {n: np.r_[d[f"{n}_uc"], d[f"{n}_rc"]] for n in ("t", "patient", "age", "sex")}
        kind = np.r_[d["disease_uc"], d["disease_rc"]]
    D = (kind[:, None] == np.arange(2, 5)).astype(float)
    return {"who": out.pop("patient"), **out, "D": D, "seen": np.repeat([1, 0], [58, 18])}


@pytest.mark.thorough
def test_vague_priors_whose_middle_has_no_fit(shared: Path) -> None:
    """BUGS' kidney: half of its prior has Weibull shapes above 693. The values are those of fits
    at 360 pairs of shape and precision, by the corrected evidence."""
    model = FRAILTY.format(
        priors="hyper r : positive ~ gamma(shape = 1, rate = 0.001)\n"
        "hyper tau : positive ~ gamma(shape = 0.001, rate = 0.001)",
        sd="tau ^ -0.5",
        shape="r",
    )
    fit = lgm.fit(lgm.loads(model), frailty(shared))
    assert fit.converged and not fit.warnings
    assert fit.log_evidence_corrected == pytest.approx(-381.43, abs=0.05)
    np.testing.assert_allclose(fit.quantile("r", [0.05, 0.5, 0.95]), [0.86, 1.08, 1.39], atol=0.03)
    tau = np.log(fit.quantile("tau", [0.05, 0.5, 0.95]))
    np.testing.assert_allclose(tau, np.log([1.29, 6.0, 463.0]), atol=0.2)


def test_flat_priors_without_mass_are_named(shared: Path) -> None:
    """The likelihood levels off as the frailty's sd falls, and a flat prior of its log as well."""
    priors = "hyper r : real ~ flat\nhyper s : real ~ flat"
    model = FRAILTY.format(priors=priors, sd="exp(s)", shape="exp(r)")
    fit = lgm.fit(lgm.loads(model), frailty(shared))
    (warning,) = (w for w in fit.warnings if w.code == "W606")
    assert not fit.converged and np.isnan(fit.log_evidence)
    assert "has no finite mass: the posterior may have none" in warning.details[1]
    assert "a prior that falls off" in warning.help
