"""The variational Gaussian: its default solver beside bayesnewton and Laplace, the hard GP's flops,
and the growth of all five solvers. `pytest tests/benchmarks --benchmark-only -s`, one BLAS thread.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from tests.backends.test_natural_gradient import hard_gp
from tests.benchmarks.conftest import side_by_side
from tests.benchmarks.test_laplace import GP, LOGISTIC

SOLVERS = ("natural-gradient", "cholesky", "opper-archambeau", "coordinate-ascent", "lcl")


def flops(fit: lgm.Fit) -> float:
    """What the engine counted, in multiplications with their additions."""
    return float(fit.posterior.conditioned.engine.flops)  # type: ignore[attr-defined]


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def easy_gp(peers: ModuleType, n: int) -> tuple[lgm.Model, dict[str, AnyArray]]:
    d = peers.gp(n)
    return lgm.loads(GP.format(ell=d["ell"])), {"X": d["X"], "y": d["y"]}


def test_gp_beside_bayesnewton(
    benchmark: Any, peers: ModuleType, shared: Path, tmp_path: Path
) -> None:
    """N = 500, 1500 to 1e-4, variational and EP, in CPU seconds, the peer's with and without its
    compilation. Its Python (NumPy 1, JAX 0.4.13) is named by LGM_PEER_PYTHON."""
    python = os.environ.get("LGM_PEER_PYTHON", "")
    if not python:
        pytest.skip("LGM_PEER_PYTHON names no Python with bayesnewton (see ../shared/peers)")
    for script in (shared / "peers").glob("*.py"):
        shutil.copy(script, tmp_path)
    (tmp_path / "out").mkdir()
    one_thread = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    }
    for n in (500, 1500):
        model, data = easy_gp(peers, n)

        def own(method: str, model: lgm.Model = model, data: Any = data) -> lgm.Fit:
            return lgm.fit(model, data, method)

        variational, ep = side_by_side(partial(own, "natural-gradient"), partial(own, "ep"), runs=5)
        subprocess.run(
            [python, "a_bn.py", "bernoulli", str(n), "60"],
            cwd=tmp_path,
            env=one_thread,
            check=True,
            capture_output=True,
            timeout=900,
        )
        lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
        found = {r["peer"]: r for r in map(json.loads, lines) if r["N"] == n and "cpu" in r}
        for method, seconds, peer in (
            ("natural-gradient", variational, "bayesnewton CVI (VariationalGP) lr=1.0"),
            ("ep", ep, "bayesnewton PowerEP lr=1.0"),
        ):
            spent = found[peer]["cpu"]
            bare = found[peer]["iters"] * found[peer]["cpu_per_iter"]
            print(
                f"\nN = {n}, {method}: lgmdsl {seconds:.3f} s, {peer} {spent:.3f} s "
                f"({bare:.3f} without compiling), ratios {seconds / spent:.2f} and "
                f"{seconds / bare:.2f}; log evidence {own(method).log_evidence:.6f} and "
                f"{found[peer]['neg_energy']:.6f}"
            )
    benchmark(partial(own, "ep"))


def test_hard_gp(benchmark: Any) -> None:
    """Prior sd e^4, length e^-1: flops of the engine until the ELBO stands to 1e-8."""
    sizes, counted = (500, 1000, 1500), []
    for n in sizes:
        text, data = hard_gp(n)
        began = time.process_time()
        fit = lgm.fit(lgm.loads(text), data, "natural-gradient", tol=1e-8)
        seconds = time.process_time() - began
        assert fit.converged
        counted.append(flops(fit))
        print(
            f"\nN = {n}: {fit.steps} steps, {counted[-1] / n**3:.1f} N^3 flops, {seconds:.2f} s, "
            f"ELBO {fit.log_evidence:.8f}"
        )
    print(f"exponent of the flops {exponent(sizes, counted):.2f}")
    benchmark(lambda: lgm.fit(lgm.loads(hard_gp(500)[0]), hard_gp(500)[1], "natural-gradient"))


def test_sparse_logistic_beside_laplace(benchmark: Any, peers: ModuleType) -> None:
    """32,561 x 123: the variational fit beside Laplace's."""
    rows, seconds = (8000, 16000, 32561), []
    model = lgm.loads(LOGISTIC)
    for n in rows:
        X, y, _ = peers.a9a_like(n)

        def own(X: Any = X, y: Any = y) -> lgm.Fit:
            return lgm.fit(model, {"X": X, "y": y}, "natural-gradient")

        def other(X: Any = X, y: Any = y) -> lgm.Fit:
            return lgm.fit(model, {"X": X, "y": y}, "laplace")

        a, b = side_by_side(own, other)
        seconds.append(a)
        print(f"\n{n} rows: natural-gradient {a:.3f} s, laplace {b:.3f} s, ratio {a / b:.1f}")
    print(f"exponent {exponent(rows, seconds):.2f} (linear in rows)")
    benchmark(own)


def test_growth_of_each_solver(benchmark: Any, peers: ModuleType) -> None:
    """CPU seconds and steps at N = 250, 500, 1000 on the easy GP; the exponents are of seconds for
    one step, as the number of steps grows with N in its own way."""
    sizes = (250, 500, 1000)
    for method in SOLVERS:
        seconds, each = [], []
        for n in sizes:
            model, data = easy_gp(peers, n)
            began = time.process_time()
            fit = lgm.fit(model, data, method)
            seconds.append(time.process_time() - began)
            each.append(seconds[-1] / max(fit.steps, 1))
            print(
                f"\n{method}, N = {n}: {fit.status.name}, {fit.steps} steps, {seconds[-1]:.3f} s, "
                f"{fit.log_evidence:.6f}",
                end="",
            )
        print(
            f"\n{method}: exponents {exponent(sizes, seconds):.2f} of the whole, "
            f"{exponent(sizes, each):.2f} of one step"
        )
    model, data = easy_gp(peers, 200)
    benchmark(lambda: lgm.fit(model, data, "natural-gradient"))
