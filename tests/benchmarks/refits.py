"""What refits cost in units of one fit: groups left out, methods compared, calibration, an audit.
CPU seconds, each model in a process of its own.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.refits CASE [WORK ...] [--out OUT.json]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.refits all [--out FOLDER]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.refits differ OLD.json NEW.json

WORK is groups, compare, calibrate or audit (default: all). OUT.json keeps what the work found;
`differ` says how far two versions are apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.language.builder import Model
from tests.benchmarks.integration_cost import MAP, SLOPES, Columns, disease_map, sigmoid

GLMM = """lgm 1
index obs
index group
data y[obs] : count
data x[obs] : real
data who[obs] : group
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + b * x + u[who])
"""
TREND = """lgm 1
index time
data y[time] : count
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent f[time] ~ rw2(sd = s)
observe y ~ poisson(log_rate = f)
"""
RUNS = 8


def glmm(rng: np.random.Generator) -> Columns:
    """2,000 counts of 50 groups."""
    who, x = rng.integers(0, 50, 2_000), rng.normal(size=2_000)
    eta = 0.5 + 0.3 * x + 0.6 * rng.normal(size=50)[who]
    return {"y": rng.poisson(np.exp(eta)), "x": x, "who": who}


def trend(rng: np.random.Generator) -> Columns:
    """500 counts along a smooth curve."""
    return {"y": rng.poisson(np.exp(1.0 + np.sin(np.arange(500) / 500 * 3.0 * np.pi)))}


def slopes(rng: np.random.Generator) -> Columns:
    """2,000 binary responses of 100 groups."""
    who, x = rng.integers(0, 100, 2_000), rng.normal(size=2_000)
    root = np.linalg.cholesky(np.array([[0.64, 0.12], [0.12, 0.25]]))
    u = rng.normal(size=(100, 2)) @ root.T
    eta = -0.5 + 0.7 * x + u[who, 0] + x * u[who, 1]
    return {"y": (rng.random(2_000) < sigmoid(eta)).astype(np.int64), "x": x, "who": who}


# Text, data, the groups that are left out: their name, or how many rows in turn make one.
CASES: Mapping[str, tuple[str, Callable[[np.random.Generator], Columns], str | int]] = {
    "glmm": (GLMM, glmm, "group"),
    "map": (MAP, partial(disease_map, side=20), 8),
    "trend": (TREND, trend, 10),
    "slopes": (SLOPES, slopes, "group"),
}


def groups(model: Model, data: Columns, fit: Fit, labels: Any) -> dict[str, object]:
    """Every group left out of a fit of its own."""
    left = fit.loo(groups=labels, exact="all", n=512)
    density = np.asarray(left.log_density[0])
    return {"count": len(density), "elpd": left.elpd, "log_density": density.tolist()}


def compare(model: Model, data: Columns, fit: Fit, labels: Any) -> dict[str, object]:
    """Three methods, side by side."""
    found = lgm.compare(model, data, ("laplace", "ep", "natural-gradient"))
    rows = {r.method: [str(f.status), f.log_evidence] for r, f in _ran(found)}
    return {"count": len(rows), "methods": rows}


def _ran(found: Any) -> list[tuple[Any, Fit]]:
    return [(row, found.fits[row.method]) for row in found if row.method in found.fits]


def calibrate(model: Model, data: Columns, fit: Fit, labels: Any) -> dict[str, object]:
    """RUNS data sets drawn from the model and fitted, in this process."""
    given = {n: v for n, v in data.items() if n != "y"}
    sizes = {"time": len(data["y"])} if not given else {}
    found = lgm.calibrate(model, given, sizes, runs=RUNS, jobs=1)
    runs = {
        str(o.number): [o.failure or ("converged" if o.converged else "not"), dict(o.values)]
        for o in found.outcomes
    }
    return {"count": RUNS, "runs": runs}


def audit(model: Model, data: Columns, fit: Fit, labels: Any) -> dict[str, object]:
    """4,000 draws reweighted."""
    return {"count": 1, "verdict": str(fit.audit().verdict)}


WORKS = {"groups": groups, "compare": compare, "calibrate": calibrate, "audit": audit}


def case(name: str, works: list[str], out: Path | None) -> None:
    """One line for each work."""
    text, simulated, several = CASES[name]
    data, model = simulated(np.random.default_rng(0)), lgm.loads(text)
    labels = np.arange(len(data["y"])) // several if isinstance(several, int) else several
    lgm.fit(model, data)  # what is compiled at the first call
    began = time.process_time()
    fit = lgm.fit(model, data)
    one = time.process_time() - began
    learning = fit.learning
    made = f"{learning.fits} fits, {learning.iterations} steps" if learning else ""
    print(f"{name}: one fit {one:.2f} CPU s, {fit.method}, {fit.hyper}, {fit.engine}, {made}")
    kept: dict[str, object] = {}
    for work in works or list(WORKS):
        began = time.process_time()
        found = WORKS[work](model, data, fit, labels)
        spent = time.process_time() - began
        count = int(found["count"])  # type: ignore[call-overload]
        kept[work] = found
        print(
            f"  {work}: {spent:.2f} CPU s, {spent / one:.2f} fits; {count} of "
            f"{spent / count / one:.3f} fits",
            flush=True,
        )
    if out is not None:
        out.write_text(json.dumps(kept))


def differ(old: Path, new: Path) -> None:
    """How far apart two versions are."""
    before, after = json.loads(old.read_text()), json.loads(new.read_text())
    for work in before.keys() & after.keys():
        print(f"  {work}: {_apart(before[work], after[work]):.2g}")


def _apart(a: Any, b: Any) -> float:
    """The largest difference of numbers; infinity where words differ."""
    if isinstance(a, dict):
        return max((_apart(a[k], b[k]) for k in a), default=0.0) if a.keys() == b.keys() else np.inf
    if isinstance(a, list):
        return max((_apart(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    if isinstance(a, str):
        return 0.0 if a == b else np.inf
    return 0.0 if a == b or (np.isnan(a) and np.isnan(b)) else abs(a - b)


def main(arguments: list[str]) -> None:
    """See the module."""
    out: Path | None = None
    if "--out" in arguments:
        at = arguments.index("--out")
        out = Path(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2 :]
    if arguments[0] == "differ":
        differ(Path(arguments[1]), Path(arguments[2]))
    elif arguments[0] == "all":
        for name in CASES:
            command = [sys.executable, "-m", "tests.benchmarks.refits", name]
            more = [] if out is None else ["--out", str(out / f"{name}.json")]
            subprocess.run([*command, *more], check=True)
    else:
        case(arguments[0], arguments[1:], out)


if __name__ == "__main__":
    main(sys.argv[1:])
