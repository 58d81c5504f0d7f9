"""Fits of real data by every back end against an independent dense implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main
from lgmdsl.contract.status import Guarantee

GP = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : binary
hyper s : positive = exp(1)
hyper ell : positive = exp(0.5)
latent f[obs] ~ gp(at = X, kernel = se(sd = s, length = ell))
let eta[obs] = f
observe y ~ bernoulli({link} = eta)
"""
WEIGHTS = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = {sd})
let eta[obs] = X @ w
observe y ~ bernoulli({link} = eta)
"""
EPIL = """lgm 1
index obs
index subject
index feat = {"base", "trt", "age", "v4"}
data X[obs, feat] : real
data y[obs] : count
data who[obs] : subject
latent b0 ~ normal(sd = 10)
latent b[feat] ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = 0.5)
let eta[obs] = b0 + X @ b + u[who]
observe y ~ poisson(log_rate = eta)
"""


def binary(y: np.ndarray) -> np.ndarray:
    return (y > 0).astype(np.int64)


def ionosphere(folder: Path) -> dict[str, Any]:
    d = np.load(folder / "ionosphere.npz")
    return {"X": d["X"], "y": binary(d["y"])}


def lupus(folder: Path) -> dict[str, Any]:
    d = np.load(folder / "lupus.npz")
    return {"X": d["X"], "y": binary(d["y"])}


def epil(folder: Path) -> dict[str, Any]:
    d = np.load(folder / "epil.npz")
    X = np.c_[np.log(d["Base"] / 4), d["Trt"], np.log(d["Age"]), d["V4"]]
    return {"X": X, "y": d["y"], "who": d["Ind"]}


def a9a(folder: Path) -> dict[str, Any]:
    d = np.load(folder / "a9a.npz")
    parts = {f"X.{k}": d[k] for k in ("data", "indices", "indptr", "shape")}
    return {**parts, "y": binary(d["y"])}


CASES = {
    "ionosphere_gp_sd_e1_len_e0.5": (GP.format(link="logit"), ionosphere, ("f",)),
    "ionosphere_gp_probit": (GP.format(link="probit"), ionosphere, ("f",)),
    "lupus_probit_sd5": (WEIGHTS.format(sd=5, link="probit"), lupus, ("w",)),
    "epil_glmm_sd0.5": (EPIL, epil, ("b0", "b", "u")),
    "a9a_logistic_sd1": (WEIGHTS.format(sd=1, link="logit"), a9a, ("w",)),
}


THREE = ("ionosphere_gp_sd_e1_len_e0.5", "lupus_probit_sd5", "epil_glmm_sd0.5")
# Of the evidence; of means and sds of predictors.
VARIATIONAL = {
    "cholesky": ({"rel": 1e-6}, 2e-4), "opper-archambeau": ({"rel": 1e-6}, 2e-3),
    "lcl": ({"rel": 1e-8}, 1e-3), "coordinate-ascent": ({"rel": 1e-8}, 3e-4),
    "natural-gradient": ({"rel": 1e-7}, None),
}  # fmt: skip
WAYS = [
    pytest.param(m, n, marks=[pytest.mark.thorough] * (m == "coordinate-ascent" and n != THREE[0]))
    for m in VARIATIONAL
    for n in THREE
]


def fitted(name: str, shared: Path, method: str, **settings: Any) -> lgm.Fit:
    text, data, _ = CASES[name]
    return lgm.fit(lgm.loads(text), data(shared / "data"), method, **settings)


def check(
    fit: lgm.Fit, name: str, key: str, shared: Path, evidence: dict[str, Any],
    eta: float | None, latents: tuple[float, dict[str, Any]] | None = None,
) -> None:  # fmt: skip
    """`latents`: of their means, in units of the largest sd where sds are compared relatively."""
    known = json.loads((shared / "reference" / "known_fits.json").read_text())[f"{name}/{key}"]
    assert fit.converged
    assert fit.log_evidence == pytest.approx(known["log_evidence"], **evidence)
    if latents is not None:
        near, spread = latents
        of = [
            np.concatenate([np.ravel(answer(n).values) for n in CASES[name][2]])
            for answer in (fit.mean, fit.sd)
        ]
        z, sd = (values[: len(known["z"])] for values in of)
        unit = np.array(known["zsd"]).max() if "rtol" in spread else 1.0
        np.testing.assert_allclose(z, known["z"], atol=near * unit)
        np.testing.assert_allclose(sd, known["zsd"], **spread)
    if eta is not None:
        np.testing.assert_allclose(fit.mean("eta").values[:6], known["mean"], atol=eta)
        np.testing.assert_allclose(fit.sd("eta").values[:6], known["sd"], atol=eta)


@pytest.mark.parametrize(("method", "name"), WAYS)
def test_variational_gaussians(method: str, name: str, shared: Path) -> None:
    evidence, eta = VARIATIONAL[method]
    fit = fitted(name, shared, method)
    check(fit, name, "vg", shared, evidence, eta, (2e-4, {"rtol": 2e-4}) if eta is None else None)
    assert fit.guarantee is Guarantee.LOWER
    assert method != "lcl" or fit.steps < 20
    if method == "coordinate-ascent":
        rises = np.diff([e.objective for e in fit.trace])
        assert (rises >= -1e-12 * abs(fit.log_evidence)).all()


@pytest.mark.parametrize("name", ["ionosphere_gp_probit", *THREE])
def test_expectation_propagation(name: str, shared: Path) -> None:
    fit = fitted(name, shared, "ep", tol=1e-9)
    check(fit, name, "ep", shared, {"abs": 1e-6}, 1e-5, (1e-5, {"atol": 1e-5}))
    assert fit.guarantee is Guarantee.APPROXIMATE


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["ionosphere_gp_sd_e1_len_e0.5", "a9a_logistic_sd1"])
def test_the_double_loop(name: str, shared: Path) -> None:
    """Through the covariance engine, and through the precision engine with sparse rows."""
    fit = fitted(name, shared, "double-loop")
    check(fit, name, "jaakkola", shared, {"abs": 1e-6}, None, (2e-4, {"rtol": 2e-4}))
    assert fit.guarantee is Guarantee.LOWER and fit.steps <= 6


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, "laplace") for name in CASES),
        *(
            (name, "natural-gradient")
            for name in ("ionosphere_gp_sd_e1_len_e0.5", "a9a_logistic_sd1")
        ),
    ],
)
def test_through_the_command_line(
    name: str, method: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laplace, and the variational Gaussian through Jaakkola's bound."""
    text, data, _ = CASES[name]
    (tmp_path / "m.lgm").write_text(text)
    np.savez(tmp_path / "d.npz", **data(shared / "data"))
    monkeypatch.chdir(tmp_path)
    more = [] if method == "laplace" else ["--bound", "jaakkola"]
    assert main(["fit", "m.lgm", "d.npz", "--method", method, *more, "-o", "o.nc"]) == 0
    fit = lgm.load_fit(tmp_path / "o.nc")
    if method == "laplace":
        check(fit, name, "laplace", shared, {"abs": 1e-6}, 1e-5, (1e-5, {"atol": 1e-5}))
    else:
        check(fit, name, "jaakkola", shared, {"abs": 1e-6}, None, (1e-4, {"rtol": 1e-4}))
        assert fit.guarantee is Guarantee.LOWER
