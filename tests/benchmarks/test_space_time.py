"""A Poisson model of space and time, besag * ar1 and a walk over the years, three hyperparameters
by their maximum: CPU seconds, peak memory, growth. `pytest tests/benchmarks --benchmark-only -s`.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from tests.benchmarks.test_hyperparameters import exponent, scale_of
from tests.benchmarks.test_structured import triangulated

MODEL = """lgm 1
index region
index year
data y[region, year] : count
data adj[region, region] : graph
hyper s_walk : positive ~ pc_sd(u = 1, alpha = 0.01)
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
hyper rho : correlation ~ pc_cor1(u = 0.7, alpha = 0.7)
latent b0 ~ normal(sd = 10)
latent trend[year] ~ rw1(sd = s_walk)
latent st[region, year] ~ besag(graph = adj, sd = s) * ar1(rho = rho)
let eta[region, year] = b0 + trend + st
observe y ~ poisson(log_rate = eta)
"""
TRUTH = {"s_walk": 0.4, "s": 0.5, "rho": 0.8}


def draw(rows: int, columns: int, years: int) -> dict[str, AnyArray]:
    """Data of the model itself at TRUTH."""
    rng = np.random.default_rng(rows)
    edges = triangulated(rows, columns)
    size = rows * columns
    near = np.zeros((size, size))
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = 1.0
    laplacian = np.diag(near.sum(axis=0)) - near
    values, vectors = np.linalg.eigh(laplacian)
    root: Array = vectors[:, 1:] / np.sqrt(values[1:]) * (TRUTH["s"] / scale_of(laplacian))
    steps = root @ rng.standard_normal((size - 1, years))
    st = np.empty((size, years))
    st[:, 0] = steps[:, 0]
    for t in range(1, years):
        st[:, t] = TRUTH["rho"] * st[:, t - 1] + np.sqrt(1 - TRUTH["rho"] ** 2) * steps[:, t]
    differences = np.diff(np.eye(years), axis=0)
    walk = np.cumsum(rng.standard_normal(years))
    walk = (walk - walk.mean()) * TRUTH["s_walk"] / scale_of(differences.T @ differences)
    return {"y": rng.poisson(np.exp(1.0 + walk + st)), "adj": edges}


def test_space_and_time(benchmark: Any) -> None:
    """6,400, 25,200 and 100,000 latents in space and time."""
    model = lgm.loads(MODEL)
    sizes: list[int] = []
    costs: list[float | None] = []
    for rows, columns, years in [(10, 16, 40), (16, 25, 63), (25, 40, 100)]:
        data = draw(rows, columns, years)
        start = time.process_time()
        try:
            fit = lgm.fit(model, data, method="laplace", hyper="map")
        except lgm.LgmError as error:
            assert "E5" in str(error), error
            print(f"\nlgmdsl: {str(error).splitlines()[0]}")
            fixed = lgm.fit(model, data, method="laplace", fixed=TRUTH)
            print(f"at the truth: {time.process_time() - start:.2f} s, {fixed.log_evidence:.4f}")
            continue
        seconds = time.process_time() - start
        assert fit.converged
        found = {name: fit.mean(name).item() for name in TRUTH}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(
            f"\n{data['y'].size:,} latents: {seconds:.1f} s, {peak:.2f} GiB at most so far; "
            + ", ".join(f"{k} {v:.4f} (truth {TRUTH[k]})" for k, v in found.items())
        )
        assert abs(found["rho"] - TRUTH["rho"]) < 0.1 and abs(found["s"] - TRUTH["s"]) < 0.1
        sizes.append(data["y"].size)
        costs.append(seconds)
    if sizes:
        exponent(sizes, costs)
    benchmark.pedantic(lambda: None, rounds=1)
