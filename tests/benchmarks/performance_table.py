"""The table of docs/choosing/performance.md: seconds of one fit, with the engine it took.

OMP_NUM_THREADS=1 python -m tests.benchmarks.performance_table

The models are those of `accuracy_cost`, with 100,000 latents in all at the most. CPU seconds of
the process, the least of three fits after a first one that compiles kernels. At given
hyperparameters (`pinned`) nothing is corrected (`effort = low`), and the estimate of the errors is
part of the fit; `learned` is `lgm fit` as it is.
"""

from __future__ import annotations

import time
from typing import Any

import lgmdsl as lgm
from tests.benchmarks.accuracy_cost import CASES, Case

RUNS = 3
# The rows: what the case is called in the manual, and the hyperparameters of the pinned fit.
ROWS: dict[str, tuple[str, dict[str, object]]] = {
    "glmm": ("mixed model, 20,000 rows, 2,000 groups", {"s": 0.8}),
    "gp": ("Gaussian process, 1,500 points, binary", {}),
    "rw2": ("random walk, 10,000 steps, counts", {}),
    "bym2": ("`bym2` on a graph, 2,000 regions", {"s": 0.5, "mix": 0.5}),
    "latents": ("a latent for each of 100,000 counts", {}),
}


def seconds(case: Case, runs: int, **settings: Any) -> tuple[float, str]:
    """CPU seconds of a fit, the least of several after a first, and its engine."""
    text, data, more = case
    model = lgm.loads(text)
    best = float("inf")
    for run in range(runs + 1):
        began = time.process_time()
        fit = lgm.fit(model, data, **{**more, **settings})
        spent = time.process_time() - began
        best = min(best, spent) if run or not runs else best
    return best, str(fit.engine)


def shown(value: float) -> str:
    """Seconds with two digits."""
    return f"{float(f'{value:.2g}'):g} s"


def main() -> None:
    """The table, row by row as it is measured."""
    print("| model | pinned | learned | engine |\n|---|---|---|---|", flush=True)
    for name, (words, fixed) in ROWS.items():
        case = CASES[name]()
        pinned, engine = seconds(case, RUNS, fixed=fixed, options={"effort": "low"})
        learned = shown(seconds(case, 1)[0]) if fixed else ""
        print(f"| {words} | {shown(pinned)} | {learned} | {engine} |", flush=True)


if __name__ == "__main__":
    main()
