"""Rows that are alike, merged or not: CPU seconds, and what looking for them costs in vain.

python -m tests.benchmarks.merged_rows [ROWS]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import lgmdsl as lgm

TEXT = """lgm 1
index obs
index group
index item
data g[obs] : group
data k[obs] : item
data x[obs] : real
data y[obs] : binary
hyper s : positive ~ half_normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 1)
latent u[group] ~ normal(sd = s)
latent v[item] ~ normal(sd = t)
let eta[obs] = a + b * x + u[g] + v[k]
observe y ~ bernoulli(logit = eta)
"""
CROSSED, PINNED = (20, 50), {"s": 0.8, "t": 0.5}


def data(rows: int, continuous: bool) -> dict[str, Any]:
    """Binary rows of 20 x 50 crossed cells, with a covariate of two values or a continuous one."""
    rng = np.random.default_rng(0)
    g, k = (rng.integers(0, size, rows) for size in CROSSED)
    x = rng.normal(size=rows) if continuous else rng.choice([0.0, 1.0], rows)
    effects = 0.8 * rng.normal(size=20)[g] + 0.5 * rng.normal(size=50)[k]
    return {"g": g, "k": k, "x": x, "y": rng.random(rows) < 1.0 / (1.0 + np.exp(-effects))}


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    model = lgm.loads(TEXT)
    for continuous in (False, True):
        given = data(rows, continuous)
        few = {name: values[:3000] for name, values in given.items()}
        for hyper in ("fixed", "map", "integrate")[: 1 if continuous else 3]:
            settings: dict[str, Any] = {"hyper": hyper, "method": "natural-gradient"}
            if hyper == "fixed":
                settings["fixed"] = PINNED
            lgm.fit(model, few, **settings)
            for merge in ("on", "off"):
                begun = time.process_time()
                fit = lgm.fit(model, given, options={"merge": merge}, **settings)
                seconds = time.process_time() - begun
                merged = fit.provenance.get("merged", "nothing merged")
                print(
                    hyper, merge, f"{seconds:.2f} s", f"{fit.log_evidence:.6f}", merged, flush=True
                )


if __name__ == "__main__":
    main()
