"""Whole fits of structured Poisson models through the sparse engine, and how they grow.

`pytest tests/benchmarks/test_structured.py --benchmark-only -s`, one BLAS thread, CPU seconds.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import IntArray

SPACE_TIME = """lgm 1
index region
index year
data y[region, year] : count
data adj[region, region] : graph
latent b0 ~ normal(sd = 10)
latent st[region, year] ~ besag(graph = adj, sd = 0.5) * ar1(rho = 0.8)
let eta[region, year] = b0 + st
observe y ~ poisson(log_rate = eta)
"""
SERIES = """lgm 1
index t
data y[t] : count
latent b0 ~ normal(sd = 5)
latent f[t] ~ {structure}
let eta[t] = b0 + f
observe y ~ poisson(log_rate = eta)
"""


def triangulated(rows: int, columns: int) -> IntArray:
    """(E, 2) edges of a grid with one diagonal in each cell: six neighbours, as maps have."""
    at = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:]), (at[:-1, :-1], at[1:, 1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])


@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_space_and_time(method: str, benchmark: Any) -> None:
    """besag * ar1: one constraint for each year. The largest has 100,000 latents."""
    model, seconds, sizes = lgm.loads(SPACE_TIME), [], []
    for rows, columns, years in [(10, 16, 40), (16, 25, 63), (25, 40, 100)]:
        where, when = np.arange(rows * columns) / 30, np.arange(years) / 9
        rate = np.exp(1.0 + 0.3 * np.sin(where)[:, None] + 0.3 * np.cos(when))
        y = np.random.default_rng(0).poisson(rate)
        data = {"y": y, "adj": triangulated(rows, columns)}
        start = time.process_time()
        fit = lgm.fit(model, data, method=method)
        seconds.append(time.process_time() - start)
        sizes.append(y.size)
        assert fit.converged
        np.testing.assert_allclose(fit.mean("st").sum("region"), 0.0, atol=1e-6 * rows * columns)
    _report(f"besag * ar1, {method}", sizes, seconds)
    benchmark.pedantic(lambda: None, rounds=1)


@pytest.mark.parametrize(
    ("structure", "longest"), [("ar1(sd = 1, rho = 0.9)", 1_000_000), ("rw2(sd = 1)", 10_000)]
)
def test_series(structure: str, longest: int, benchmark: Any) -> None:
    """Laplace on chains; rw2 over more points is beyond double precision."""
    model, seconds, sizes = lgm.loads(SERIES.format(structure=structure)), [], []
    for n in (longest // 100, longest // 10, longest):
        rate = np.exp(1.0 + np.sin(np.arange(n) / 500))
        y = np.random.default_rng(0).poisson(rate)
        start = time.process_time()
        fit = lgm.fit(model, {"y": y}, method="laplace")
        seconds.append(time.process_time() - start)
        sizes.append(n)
        assert fit.converged
    _report(f"{structure}, laplace", sizes, seconds)
    benchmark.pedantic(lambda: None, rounds=1)


def _report(what: str, sizes: list[int], seconds: list[float]) -> None:
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    told = ", ".join(f"{n:,}: {s:.3g} s" for n, s in zip(sizes, seconds, strict=True))
    print(f"\n{what}: {told}; exponent {exponent:.2f}")
