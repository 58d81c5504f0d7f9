"""What integrating over hyperparameters costs beside their maximum: CPU seconds of six models, each
fit in a process of its own, with the most memory that it held.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.integration_cost CASE [HYPER [METHOD [OUT.json]]]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.integration_cost all [METHOD]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.integration_cost compare OLD.json NEW.json

OUT.json keeps means, sds and quantiles of the hyperparameters and of some latents, and the log
evidence; `compare` says how far two of them are apart, in sds of the first.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array

Columns = dict[str, AnyArray]
CLASSES = 5
SLOPES = """lgm 1
index obs
index group
index term = {"level", "slope"}
data y[obs] : binary
data x[obs] : real
data who[obs] : group
hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group, term] ~ iid * dense(cov = S)
let eta[obs] = a + b * x + u[who, "level"] + x * u[who, "slope"]
observe y ~ bernoulli(logit = eta)
"""
CROSSED = """lgm 1
index obs
index group
index other
data y[obs] : count
data x[obs] : real
data who[obs] : group
data item[obs] : other
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper r : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper k : positive ~ gamma(shape = 1, rate = 0.1)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
latent v[other] ~ normal(sd = r)
let eta[obs] = a + b * x + u[who] + v[item]
observe y ~ negbinomial(log_mean = eta, size = k)
"""
CHAINS = """lgm 1
index time
data y[time] : count
hyper smooth : positive ~ pc_sd(u = 3, alpha = 0.05)
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper rho : correlation ~ pc_cor1(u = 0.7, alpha = 0.7)
latent level ~ normal(sd = 5)
latent f[time] ~ rw2(sd = smooth)
latent e[time] ~ ar1(sd = s, rho = rho)
observe y ~ poisson(log_rate = level + f + e)
"""
ORDINAL = f"""lgm 1
index obs
index who
index class = 1..{CLASSES}
index cut = head(class)
data y[obs] : class
data x[obs] : real
data group[obs] : who
hyper s : positive ~ pc_sd(u = 2, alpha = 0.05)
hyper c[cut] : ordered ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[who] ~ normal(sd = s)
let eta[obs] = b * x + u[group]
observe y ~ ordinal(logit = eta, cuts = c)
"""
MAP = """lgm 1
index region
data y[region] : count
data log_expected[region] : real
data edges[region, region] : graph
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper mix : unit ~ pc_mix(graph = edges, u = 0.5, alpha = 0.67)
latent level ~ normal(sd = 5)
latent v[region] ~ bym2(graph = edges, sd = s, mix = mix)
observe y ~ poisson(log_rate = log_expected + level + v)
"""
PROCESS = """lgm 1
index obs
index axis = {"p", "q"}
data x[obs, axis] : real
data y[obs] : binary
hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)
hyper length : positive ~ pc_range(u = 0.3, alpha = 0.05)
latent level ~ normal(sd = 5)
latent f[obs] ~ gp(at = x, kernel = se(sd = s, length = length))
observe y ~ bernoulli(logit = level + f)
"""


def slopes(rng: np.random.Generator) -> Columns:
    """10^5 rows of 2,000 groups."""
    rows, groups = 100_000, 2_000
    who, x = rng.integers(0, groups, rows), rng.normal(size=rows)
    root = np.linalg.cholesky(np.array([[0.64, 0.12], [0.12, 0.25]]))
    u = rng.normal(size=(groups, 2)) @ root.T
    eta = -0.5 + 0.7 * x + u[who, 0] + x * u[who, 1]
    return {"y": (rng.random(rows) < sigmoid(eta)).astype(np.int64), "x": x, "who": who}


def crossed(rng: np.random.Generator) -> Columns:
    """10^5 rows, 2,000 groups crossed with 300."""
    rows = 100_000
    who, item, x = rng.integers(0, 2_000, rows), rng.integers(0, 300, rows), rng.normal(size=rows)
    eta = 0.5 + 0.3 * x + 0.6 * rng.normal(size=2_000)[who] + 0.4 * rng.normal(size=300)[item]
    y = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, rows))
    return {"y": y, "x": x, "who": who, "item": item}


def chains(rng: np.random.Generator) -> Columns:
    """A smooth curve and an autoregression over 5,000 steps."""
    steps, rho = 5_000, 0.8
    e = np.empty(steps)
    e[0] = rng.normal()
    for t in range(1, steps):
        e[t] = rho * e[t - 1] + math.sqrt(1.0 - rho**2) * rng.normal()
    trend = np.sin(np.arange(steps) / steps * 3.0 * np.pi)
    return {"y": rng.poisson(np.exp(1.0 + trend + 0.4 * e))}


def ordinal(rng: np.random.Generator) -> Columns:
    """20,000 answers of 500 persons in five classes."""
    rows = 20_000
    who, x = rng.integers(0, 500, rows), rng.normal(size=rows)
    eta = 0.6 * x + 0.9 * rng.normal(size=500)[who] + rng.logistic(size=rows)
    return {"y": np.searchsorted([-1.5, -0.4, 0.5, 1.6], eta) + 1, "x": x, "group": who}


def disease_map(rng: np.random.Generator, side: int = 45) -> Columns:
    """2,025 regions of a 45 x 45 lattice, or of another one."""
    at = np.arange(side * side).reshape(side, side)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])
    i, j = np.divmod(np.arange(side * side), side)
    eta = 0.4 * np.sin(i / 7.0) * np.cos(j / 9.0) + 0.25 * rng.normal(size=side * side)
    expected = rng.gamma(4.0, 2.0, side * side)
    y = rng.poisson(expected * np.exp(eta))
    return {"y": y, "log_expected": np.log(expected), "edges": edges}


def process(rng: np.random.Generator) -> Columns:
    """A binary Gaussian process at 300 points of the plane."""
    p, q = rng.uniform(-2.0, 2.0, (2, 300))
    eta = 2.0 * np.sin(1.5 * p) * np.cos(1.2 * q) + 0.5
    x = np.stack([p, q], axis=1)
    return {"x": x, "y": (rng.random(300) < sigmoid(eta)).astype(np.int64)}


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


CASES = {
    "slopes": (SLOPES, slopes),
    "crossed": (CROSSED, crossed),
    "chains": (CHAINS, chains),
    "ordinal": (ORDINAL, ordinal),
    "map": (MAP, disease_map),
    "process": (PROCESS, process),
}


def kept(fit: Fit) -> dict[str, object]:
    """What two fits are compared by: (size, 6) mean, sd and quantiles of each."""
    out: dict[str, object] = {"log_evidence": fit.log_evidence, "status": str(fit.status)}
    for name in fit.names:
        columns = [np.ravel(fit.mean(name)), np.ravel(fit.sd(name))]
        quantiles = np.asarray(fit.quantile(name, [0.025, 0.25, 0.75, 0.975]))
        columns += [np.ravel(q) for q in quantiles]
        step = max(1, len(columns[0]) // 50)
        out[name] = np.stack(columns, axis=1)[::step].tolist()
    return out


def compare(before: Path, after: Path) -> None:
    """How far the second is from the first."""
    old, new = json.loads(before.read_text()), json.loads(after.read_text())
    print(f"log evidence {new['log_evidence'] - old['log_evidence']:+.5f}, {new['status']}")
    for name in old:
        if name in ("log_evidence", "status"):
            continue
        a, b = np.array(old[name]), np.array(new[name])
        sd = np.where(a[:, 1] > 0.0, a[:, 1], 1.0)[:, None]
        worst = np.abs((b - a) / sd).max(axis=0)
        print(f"  {name}: " + " ".join(f"{w:.4f}" for w in worst))


def main(arguments: list[str]) -> None:
    """One line for a fit, or for all."""
    if arguments[0] == "compare":
        compare(Path(arguments[1]), Path(arguments[2]))
        return
    if arguments[0] == "all":
        method = arguments[1] if len(arguments) > 1 else "auto"
        for case in CASES:
            for hyper in ("map", "integrate"):
                command = [sys.executable, "-m", "tests.benchmarks.integration_cost"]
                subprocess.run([*command, case, hyper, method], check=True)
        return
    case = arguments[0]
    hyper = arguments[1] if len(arguments) > 1 else "integrate"
    method = arguments[2] if len(arguments) > 2 else "auto"
    text, simulated = CASES[case]
    columns, model = simulated(np.random.default_rng(0)), lgm.loads(text)
    began = time.process_time()
    fit = lgm.fit(model, columns, method=method, hyper=hyper)
    spent = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    learning = fit.learning
    made = f"{learning.fits} fits, {learning.iterations} steps" if learning else ""
    print(
        f"{case} {method} ({fit.method}) {hyper}: {spent:.1f} CPU s, {most:.0f} MB, {fit.engine}, "
        f"{fit.status} {' '.join(w.code for w in fit.warnings)}, {made}, "
        f"log evidence {fit.log_evidence:.6f}",
        flush=True,
    )
    if len(arguments) > 3:
        Path(arguments[3]).write_text(json.dumps(kept(fit)))


if __name__ == "__main__":
    main(sys.argv[1:])
