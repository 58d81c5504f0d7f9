"""Families next to glmmTMB: maximum likelihood on data that ship with R's packages, with and
without an intercept for each group, and CPU seconds at 20,000 rows.

    OMP_NUM_THREADS=1 python -m pytest tests/benchmarks/test_families.py --benchmark-only -s
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.benchmarks.r_families import CASES, Case
from tests.benchmarks.r_peers import Record, run_r, write_csv

COUNTS = (
    "poisson", "nbinom1", "nbinom2", "genpois", "tweedie", "zero-inflated poisson",
    "zero-inflated nbinom2", "hurdle poisson", "hurdle nbinom2", "nbinom2 dispersion",
)  # fmt: skip
REAL = {
    "owls": COUNTS,
    "salamanders": COUNTS,
    "cbpp": (
        "betabinomial logit", "betabinomial probit", "betabinomial cloglog", "binomial logit",
        "binomial cloglog", "compois",
    ),
    "sleepstudy": ("normal", "lognormal", "gamma", "student_t"),
    "petrol": ("beta",),
}  # fmt: skip
GROUPS = 200
TIMED = tuple(c for c in CASES if not c.endswith(("probit", "cloglog")) and c != "normal")


def fitted(case: Case, columns: dict[str, Array], random: bool, runs: int) -> tuple[float, Any]:
    spent = []
    for _ in range(runs):
        model, data = lgm.loads(case.text(random)), case.data(columns, random)
        start = time.process_time()
        fit = lgm.fit(model, data, method="laplace", hyper="map")
        spent.append(time.process_time() - start)
    return float(np.median(spent)), fit


def compared(label: str, case: Case, own: tuple[float, Any], peer: Record) -> tuple[float, float]:
    """Print one line; differences of the log likelihood, and of estimates in standard errors: of
    coefficients, log dispersion and log sd."""
    seconds, fit = own
    names = case.coefficients
    order = [k for k in names if k[0] in "bz"] + [k for k in names if k[0] == "c"]
    pairs = [(float(fit.mean(k)), *x) for k, *x in zip(order, peer["b"], peer["se"], strict=True)]
    if case.uses("d"):
        pairs.append((case.halves * np.log(float(fit.mean("d")) + case.shift), *peer["dispersion"]))
    if peer["sd"][1] > 0.0:
        pairs.append((float(np.log(fit.mean("s"))), *peer["sd"]))
    away = max(abs(ours - theirs) / error for ours, theirs, error in pairs if error > 0.0)
    gap = fit.log_evidence - peer["loglik"]
    print(
        f"| {label} | {fit.status} | {fit.log_evidence:.6f} | {gap:+.0e} | {away:.0e} | "
        f"{seconds:.2f} | {peer['cpu']:.2f} | {seconds / peer['cpu']:.2f} | "
        f"(its gradient {peer['gradient']:.0e}, log sd {peer['sd'][0]:.2f})"
    )
    return gap, away


def beside(case: Case, label: str, columns: dict[str, Array], random: bool, folder: Path,
           runs: int) -> tuple[float, float, Record]:  # fmt: skip
    write_csv(folder / "d.csv", columns)
    options = (case.family, case.link, str(int(random)), str(runs), case.zero, case.dispersion)
    (peer,) = run_r(folder, "families.R", "d.csv", *options, limit=3000.0)
    return *compared(label, case, fitted(case, columns, random, runs), peer), peer


@pytest.mark.parametrize("random", [False, True], ids=["fixed", "random"])
@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, kinds in REAL.items() for k in kinds])
def test_maximum_likelihood_on_real_data(
    name: str, kind: str, random: bool, benchmark: Any, tmp_path: Path
) -> None:
    run_r(tmp_path, "families.R", "data", name)
    table = np.genfromtxt(tmp_path / f"{name}.csv", delimiter=",", names=True)
    columns = {k: np.array(table[k]) for k in table.dtype.names}
    case = CASES[kind]
    if kind == "tweedie":
        columns["y"] = columns["rate"]
    if not case.uses("e"):
        columns["e"] = np.ones(len(table))
    gap, away, peer = beside(
        case, f"{name} {kind} {'random' if random else 'fixed'}", columns, random, tmp_path, 1
    )
    # A higher likelihood than the peer's is no fault of ours; where the sd goes to 0 both stop
    # short of the edge.
    edge = random and peer["sd"][0] < np.log(1e-2)
    assert gap > (-1e-3 if edge else -1e-4)
    assert away < 1e-3 or edge or gap > 1e-9
    benchmark.pedantic(lambda: None, rounds=1)


@pytest.mark.parametrize("kind", TIMED)
def test_cpu_time_at_20000_rows(kind: str, benchmark: Any, tmp_path: Path) -> None:
    case = CASES[kind]
    columns = case.drawn(case.rows, min(GROUPS, case.rows // 20))
    gap, away, peer = beside(case, f"{case.rows} {kind}", columns, True, tmp_path, 3)
    assert gap > -1e-8 * abs(peer["loglik"])
    assert away < 1e-2 or gap > 0.0
    benchmark.pedantic(lambda: None, rounds=1)
