"""Hyperparameters by their maximum, beside glmmTMB, TMB, lme4 and mgcv on the same data.

`pytest tests/benchmarks/test_hyperparameters.py --benchmark-only -s`, one BLAS thread, CPU seconds.
Hypers have flat priors, so the maximum is the peers': REML where coefficients are flat latents,
which are integrated; ML where they are flat hypers, which are maximised. Peers' sds of intrinsic
structures are brought to the scaled ones (geometric mean of the marginal sds) by dense algebra.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from tests.benchmarks.r_peers import Record, run_r, write_csv

RUNS = 5
# {flat} is a flat latent for REML, a flat hyper for ML.
GLMM = """lgm 1
index obs
index group
data y[obs] : count
data x1[obs] : real
data x2[obs] : real
data who[obs] : group
hyper s : positive ~ flat
{b0}
{b1}
{b2}
latent u[group] ~ normal(sd = s)
let eta[obs] = b0 + b1 * x1 + b2 * x2 + u[who]
observe y ~ poisson(log_rate = eta)
"""
AUTOREGRESSION = """lgm 1
index t
data y[t] : count
hyper s : positive ~ flat
hyper rho : correlation ~ flat
{b0}
latent a[t] ~ ar1(sd = s, rho = rho)
let eta[t] = b0 + a
observe y ~ poisson(log_rate = eta)
"""
TREND = """lgm 1
index t
data y[t] : count
hyper s : positive ~ flat
latent b0 ~ flat
latent f[t] ~ rw2(sd = s)
let eta[t] = b0 + f
observe y ~ poisson(log_rate = eta)
"""
BINOMIAL_TREND = TREND.replace("hyper s", "data n[t] : count\nhyper s").replace(
    "poisson(log_rate = eta)", "binomial(n = n, logit = eta)"
)
LATTICE = """lgm 1
index area
data y[area] : count
data E[area] : positive
data edges[area, area] : graph
hyper s : positive ~ flat
latent b0 ~ flat
latent f[area] ~ besag(graph = edges, sd = s)
let eta[area] = b0 + f
observe y ~ poisson(log_rate = eta, exposure = E)
"""


def reml(text: str) -> lgm.Model:
    return lgm.loads(text.format(**{b: f"latent {b} ~ flat" for b in ("b0", "b1", "b2")}))


def ml(text: str) -> lgm.Model:
    return lgm.loads(text.format(**{b: f"hyper {b} : real ~ flat" for b in ("b0", "b1", "b2")}))


def timed(model: lgm.Model, data: Mapping[str, AnyArray]) -> tuple[float, lgm.Fit] | None:
    """Median CPU seconds after a warm-up, and the fit; None in a version that learns no hypers."""
    seconds: list[float] = []
    for _ in range(RUNS + 1):
        start = time.process_time()
        try:
            fit = lgm.fit(model, data, method="laplace", hyper="map")
        except lgm.LgmError as error:
            assert "E5" in str(error), error
            print(f"\nlgmdsl: {str(error).splitlines()[0]}")
            return None
        seconds.append(time.process_time() - start)
    assert fit.converged
    return float(np.median(seconds[1:])), fit


def line(what: str, cpu: float, found: Mapping[str, float | Sequence[float]]) -> None:
    numbers = ", ".join(
        f"{k} {np.array2string(np.asarray(v), precision=6)}" for k, v in found.items()
    )
    print(f"  {what:34s} {cpu:8.3f} s  {numbers}")


def beside(
    title: str,
    own: tuple[float, lgm.Fit] | None,
    peers: Sequence[Record],
    names: Sequence[str],
    best: str,
) -> float | None:
    """Print both sides, and the ratio to the peer whose name begins with `best`."""
    print(f"\n{title}")
    for peer in peers:
        shown = {k: peer[k] for k in (*names, "b", "log_evidence", "compiling", "mb") if k in peer}
        line(peer["peer"], peer["cpu"], shown)
    if own is None:
        return None
    seconds, fit = own
    estimates = {k: fit.mean({"sd": "s"}.get(k, k)).item() for k in names if k != "edf"}
    line("lgmdsl", seconds, {**estimates, "log_evidence": fit.log_evidence})
    yardstick = next(p["cpu"] for p in peers if p["peer"].startswith(best))
    print(f"  ratio to {best}: {seconds / yardstick:.3f}")
    return seconds


def exponent(sizes: Sequence[int], costs: Sequence[float | None]) -> None:
    """Print the exponent of the growth."""
    known = [c for c in costs if c is not None]
    if len(known) == len(sizes):
        print(f"exponent {np.polyfit(np.log(sizes), np.log(known), 1)[0]:.2f}")


def agree(
    own: tuple[float, lgm.Fit] | None, peer: Record, names: Sequence[str], rel: float
) -> None:
    for name in names if own is not None else ():
        found = own[1].mean({"sd": "s"}.get(name, name)).item()  # type: ignore[index]
        assert found == pytest.approx(peer[name], rel=rel), (name, peer["peer"])


def scale_of(precision: Array, nullity: int = 1) -> float:
    """Geometric mean of the marginal sds of the unscaled structure."""
    values, vectors = np.linalg.eigh(precision)
    return float(np.exp(0.5 * np.log(vectors[:, nullity:] ** 2 @ (1.0 / values[nullity:])).mean()))


def test_poisson_glmm(benchmark: Any, peers: ModuleType, tmp_path: Path) -> None:
    """250, 500, 1,000 groups x 20: REML and ML beside glmmTMB and lme4."""
    sizes, costs = (250, 500, 1000), []
    for groups in sizes:
        d = peers.poisson_glmm(groups)
        write_csv(tmp_path / "d.csv", {k: d[k] for k in ("y", "x1", "x2", "g")})
        rows = run_r(tmp_path, "glmm.R", "d.csv")
        data = {"y": d["y"], "x1": d["x1"], "x2": d["x2"], "who": d["g"]}
        for text, kind in ((reml(GLMM), "REML"), (ml(GLMM), "ML")):
            own = timed(text, data)
            here = [r for r in rows if r["reml"] == (kind == "REML")]
            spent = beside(f"{groups} groups x 20, {kind}", own, here, ["sd"], "glmmTMB")
            agree(own, here[0], ["sd"], 2e-4)
        costs.append(spent)
    exponent(sizes, costs)
    benchmark.pedantic(lambda: None, rounds=1)


def test_poisson_autoregression(benchmark: Any, peers: ModuleType, tmp_path: Path) -> None:
    """T = 2,500, 5,000, 10,000, sd and rho: beside TMB (compiling apart), and glmmTMB's ar1."""
    sizes, costs = (2500, 5000, 10000), []
    for length in sizes:
        d = peers.ts_poisson_ar1(length)
        write_csv(tmp_path / "d.csv", {"t": d["t"], "y": d["y"]})
        rows = run_r(tmp_path, "autoregression.R", "d.csv")
        if length == sizes[0]:  # 39 s and 4.3 GB at the largest
            rows += run_r(tmp_path, "autoregression.R", "d.csv", "glmmTMB")
        for text, kind in ((ml(AUTOREGRESSION), "ML"), (reml(AUTOREGRESSION), "REML")):
            own = timed(text, {"y": d["y"]})
            here = [r for r in rows if r["reml"] == (kind == "REML")]
            spent = beside(f"T = {length}, {kind}", own, here, ["sd", "rho"], "TMB")
            agree(own, here[0], ["sd", "rho"], 2e-4)
        costs.append(spent)
    exponent(sizes, costs)
    benchmark.pedantic(lambda: None, rounds=1)


@pytest.mark.parametrize("answer", ["poisson", "binomial"])
def test_smooth_trend(answer: str, benchmark: Any, peers: ModuleType, tmp_path: Path) -> None:
    """T = 2,500, 5,000, 10,000: rw2 beside P-splines with 200 basis functions. Two priors on one
    curve: sds are compared through the curvature that both penalise, curves within their noise."""
    sizes, costs = (2500, 5000, 10000), []
    draw = peers.ts_poisson_smooth if answer == "poisson" else peers.ts_binomial_smooth
    model = lgm.loads(TREND if answer == "poisson" else BINOMIAL_TREND)
    for length in sizes:
        d = draw(length)
        data = {k: d[k] for k in ("y", "n") if k in d}
        write_csv(tmp_path / "d.csv", {"t": d["t"], **data})
        arguments = ["d.csv"] if answer == "poisson" else ["d.csv", "binomial"]
        rows = run_r(tmp_path, "smooth.R", *arguments)
        # an integrated Wiener process of rate r: second differences at gaps h have sd r h^(3/2)
        # at low frequencies; the scale of rw2 over T points grows with T^(3/2)
        few = np.diff(np.eye(200), 2, axis=0)
        scale = scale_of(few.T @ few, 2) * (length / 200.0) ** 1.5
        for row in rows:
            row["sd"] = row["sd1"] / row["apart"] ** 1.5 * scale
            row["rmse"] = float(np.sqrt(np.mean((np.array(row["eta"]) - d["f"]) ** 2)))
        own = timed(model, data)
        title = f"{answer}, T = {length}"
        costs.append(
            beside(title, own, rows, ["sd", "edf", "rmse"][: 3 if own is None else 1], "mgcv bam")
        )
        if own is not None:
            eta = own[1].mean("eta").values
            gap = np.sqrt(np.mean((eta - np.array(rows[0]["eta"])) ** 2))
            rmse = np.sqrt(np.mean((eta - d["f"]) ** 2))
            print(f"  rmse of eta: lgmdsl {rmse:.4f}, peer {rows[0]['rmse']:.4f}; apart {gap:.4f}")
            assert gap < 0.5 * rows[0]["rmse"]
    exponent(sizes, costs)
    benchmark.pedantic(lambda: None, rounds=1)


def test_lattice(benchmark: Any, peers: ModuleType, tmp_path: Path) -> None:
    """ICAR on 10 x 10, 20 x 20, 30 x 30, sd: beside mgcv's Markov random field of full rank."""
    sizes, costs = (10, 20, 30), []
    model = lgm.loads(LATTICE)
    for side in sizes:
        d = peers.lattice_bym(side)
        write_csv(tmp_path / "d.csv", {k: d[k] for k in ("id", "y", "E")})
        np.savetxt(tmp_path / "e.csv", d["edges"], fmt="%d", delimiter=",")
        rows = run_r(tmp_path, "lattice.R", "d.csv", "e.csv")
        near = np.zeros((side**2, side**2))
        near[d["edges"][:, 0], d["edges"][:, 1]] = near[d["edges"][:, 1], d["edges"][:, 0]] = 1.0
        scale = scale_of(np.diag(near.sum(axis=0)) - near)
        for row in rows:
            row["sd"] = row["sd1"] * scale
        own = timed(model, {k: d[k] for k in ("y", "E", "edges")})
        costs.append(beside(f"{side} x {side}", own, rows, ["sd"], "mgcv"))
        agree(own, rows[0], ["sd"], 1e-3)
        if own is not None:
            gap = np.abs(own[1].mean("eta").values - np.array(rows[0]["eta"])).max()
            print(f"  largest difference of eta {gap:.1e}")
            assert gap < 1e-4
    exponent([s**2 for s in sizes], costs)
    benchmark.pedantic(lambda: None, rounds=1)
