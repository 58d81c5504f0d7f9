"""Calibration by simulation of default fits: ten models with learned hyperparameters.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.calibration FOLDER RUNS [SECONDS] [NAME...]

RUNS of each model, or as many as SECONDS of this process's time allow; each run is appended to
FOLDER/NAME.jsonl, and a later call goes on from there. A page for each model, and a line of the
table in README.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import lgmdsl as lgm
from lgmdsl.api.page import columns

from .cases import CASES

BATCH = 20
HEADER = ("model", "runs", "ms", "claimed", "W609", "worst", "bias", "sd", "p", "verdict")


def calibrated(name: str, folder: Path, runs: int, seconds: float) -> tuple[lgm.Calibration, float]:
    """The calibration of a model, and the seconds of a run."""
    case, start, done = CASES[name], time.process_time(), 0
    model = lgm.loads(case.text)
    fresh = 0

    def count(_done: int, _wanted: int) -> None:
        nonlocal fresh
        fresh += 1

    while True:
        done = min(done + BATCH, runs)
        found = lgm.calibrate(
            model, case.data, case.sizes, done, fixed=case.fixed, jobs=1,
            record=folder / f"{name}.jsonl", on_run=count,
        )  # fmt: skip
        spent = time.process_time() - start
        if done >= runs or spent > seconds:
            return found, spent / max(fresh, 1)


def line(name: str, found: lgm.Calibration, each: float) -> tuple[str, ...]:
    """Of the table: the least uniform quantity."""
    worst = found.worst_first[0]
    test, claim = found.tests[worst], found.claims.average
    claimed = f"{claim['mean']:.2f}, {100.0 * claim['sd']:.0f} %, {claim['quantile']:.2f}"
    return (
        name, f"{len(found.outcomes)}", f"{1000.0 * each:.0f}", claimed, f"{found.claims.warned}",
        worst, f"{test.bias:+.2f} +- {test.bias_error:.2f}",
        f"{100.0 * test.sd_off:+.0f} +- {100.0 * test.sd_error:.0f} %", f"{test.p:.2g}",
        found.verdict.partition(":")[0],
    )  # fmt: skip


def main(folder: Path, runs: int, seconds: float, names: list[str]) -> None:
    """Calibrate, and print."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in names or CASES:
        found, each = calibrated(name, folder, runs, seconds)
        print(f"== {name}\n{found.table}\n", flush=True)
        lines.append(line(name, found, each))
    print("\n".join(columns([HEADER, *lines])))


if __name__ == "__main__":
    place, wanted, *rest = sys.argv[1:]
    numbers = [r for r in rest if r.replace(".", "").isdigit()]
    limit = float(numbers[0]) if numbers else float("inf")
    main(Path(place), int(wanted), limit, [r for r in rest if r not in numbers])
