"""Laplace against an independent dense implementation, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main

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


@pytest.mark.parametrize("name", CASES)
def test_known_answers_through_the_command_line(
    name: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, data, latents = CASES[name]
    known = json.loads((shared / "reference" / "known_fits.json").read_text())[f"{name}/laplace"]
    (tmp_path / "m.lgm").write_text(text)
    np.savez(tmp_path / "d.npz", **data(shared / "data"))
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "m.lgm", "d.npz", "--method", "laplace", "-o", "o.nc"]) == 0
    fit = lgm.load_fit(tmp_path / "o.nc")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(known["log_evidence"], abs=1e-6)
    z = np.concatenate([np.ravel(fit.mean(n).values) for n in latents])[: len(known["z"])]
    sd = np.concatenate([np.ravel(fit.sd(n).values) for n in latents])[: len(known["z"])]
    np.testing.assert_allclose(z, known["z"], atol=1e-5)
    np.testing.assert_allclose(sd, known["zsd"], atol=1e-5)
    np.testing.assert_allclose(fit.mean("eta").values[:6], known["mean"], atol=1e-5)
    np.testing.assert_allclose(fit.sd("eta").values[:6], known["sd"], atol=1e-5)
