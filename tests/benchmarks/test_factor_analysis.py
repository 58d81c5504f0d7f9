"""Binary factor analysis of many persons: seconds and memory of an EM iteration by bound, growth in
N, and NumPyro's SVI on the same objective (`LGM_NUMPYRO` names a Python that has it).

`pytest tests/benchmarks/test_factor_analysis.py --benchmark-only -s`; LGM_PERSONS=100000 for the
largest size (default 20,000). Wall seconds, beside NumPyro CPU seconds; one thread; every fit is a
process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.factor_analysis import responses

LARGEST = int(os.environ.get("LGM_PERSONS", "20000"))
SIZES = (LARGEST // 10, LARGEST // 3, LARGEST)
BOUNDS = ("jaakkola", "bohning", "piecewise-quadratic-4")
PEER = Path(__file__).parent / "peers" / "binary_factors_svi.py"
NEAR = 1e-3  # nats a datum below our optimum: where the peer is stopped


def one(persons: int, bound: str) -> dict[str, Any]:
    return _json([sys.executable, "-m", "tests.benchmarks.factor_analysis", str(persons), bound])


def _json(command: list[str]) -> dict[str, Any]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    ended = subprocess.run(command, env=env, check=True, text=True, capture_output=True)
    out: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return out


def _first(path: list[list[float]], enough: float) -> str:
    found = next((p for p in path if p[2] >= enough), None)
    return "never" if found is None else f"{found[0]:.3g} CPU s, {found[1]} steps"


@pytest.mark.parametrize("bound", BOUNDS)
def test_growth(bound: str, benchmark: Any) -> None:
    found = benchmark.pedantic(lambda: [one(n, bound) for n in SIZES], rounds=1)
    assert all(f["status"] == "converged" for f in found)
    times = [f["iteration"] for f in found]
    exponent = np.polyfit(np.log(SIZES), np.log(times), 1)[0]
    for f in found:
        print(
            f"\n{f['persons']:>7} persons, {bound}: {f['iteration']:.3g} s an iteration, "
            f"{f['iterations']} of them, {f['megabytes']:.0f} MB",
            end="",
        )
    print(f"\nexponent {exponent:.2f}")


def test_beside_numpyro(benchmark: Any, tmp_path: Path) -> None:
    python = os.environ.get("LGM_NUMPYRO")
    if python is None:
        pytest.skip("LGM_NUMPYRO names no Python with numpyro")
    own = benchmark.pedantic(lambda: one(LARGEST, "exact"), rounds=1)
    np.savez(tmp_path / "y.npz", y=responses(LARGEST))
    limit = str(max(60.0, 3.0 * own["cpu"]))
    enough = own["objective"] - NEAR * 20.0 * LARGEST
    print(
        f"\nlgmdsl: {own['cpu']:.3g} CPU s to {own['objective']:.2f}; "
        f"within {NEAR} nats a datum after {_first(own['path'], enough)}"
    )
    for rate in ("0.02", "0.1"):
        peer = _json([python, str(PEER), str(tmp_path / "y.npz"), limit, "50", rate])
        there = _first(peer["path"], enough)
        best = max(peer["path"], key=lambda p: p[2])
        assert best[2] < own["objective"] + 1e-3 * abs(own["objective"])
        print(
            f"SVI at {rate}: within {NEAR} nats a datum after {there}; best "
            f"{best[2]:.2f} after {best[0]:.3g} CPU s, {best[1]} steps"
        )
