"""The double loop beside coordinate descent on the same phi, and beside other bounds and the mode.
`pytest tests/benchmarks/test_double_loop.py --benchmark-only -s`, one BLAS thread.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import lgmdsl as lgm
from tests.backends.test_known_fits import CASES

GAPS = (10.0, 1.0, 1e-2, 1e-4)  # nats below the optimum


@pytest.mark.parametrize("name", ["ionosphere_gp_sd_e1_len_e0.5", "a9a_logistic_sd1"])
def test_beside_coordinate_descent(benchmark: Any, shared: Path, name: str) -> None:
    """Seconds until the bound is so many nats below its optimum."""
    text, arrays, _ = CASES[name]
    model, data = lgm.loads(text), arrays(shared / "data")

    def fitted(method: str, **change: Any) -> lgm.Fit:
        return lgm.fit(model, data, method, **change)

    best = fitted("double-loop", tol=1e-11).log_evidence
    fits = {m: fitted(m, tol=1e-8) for m in ("double-loop", "coordinate-descent")}
    for method, fit in fits.items():
        print(f"\n{name}, {method}: {fit.status}, {fit.steps} steps, {fit.seconds:.3f} s")
    for gap in GAPS:
        reached = {
            m: next((e for e in f.trace if e.objective >= best - gap), f.trace[-1])
            for m, f in fits.items()
        }
        a, b = reached["double-loop"], reached["coordinate-descent"]
        print(
            f"  to {gap:g} nats: double-loop {a.seconds:.3f} s ({a.step} steps), "
            f"coordinate-descent {b.seconds:.3f} s ({b.step} sweeps), "
            f"ratio {b.seconds / a.seconds:.0f}"
        )
    benchmark(fitted, "double-loop")


def test_beside_other_methods(benchmark: Any, shared: Path) -> None:
    """a9a: CPU seconds of the mode, Laplace, the double loop and the variational Gaussian."""
    text, arrays, _ = CASES["a9a_logistic_sd1"]
    model, data = lgm.loads(text), arrays(shared / "data")
    print()
    for method in ("map", "laplace", "double-loop", "natural-gradient"):
        lgm.fit(model, data, method)
        began = time.process_time()
        fit = lgm.fit(model, data, method)
        print(f"{method}: {time.process_time() - began:.3f} s, {fit.steps} steps")
    benchmark(lgm.fit, model, data, "double-loop")
