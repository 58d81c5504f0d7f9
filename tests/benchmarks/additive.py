"""Additive models that are simulated, of linear, null and wiggly curves: does every fit converge
without a warning, and do 95 % intervals of the curves hold the truth at 95 % of the rows?

    OMP_NUM_THREADS=1 python -m tests.benchmarks.additive [MODELS [HYPER]]

Curves: those of mgcv's gamSim, a line and none, each less its mean over the rows. The coverage of a
curve is the share of rows whose interval holds it (Marra and Wood 2012), averaged over models.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array

CURVES: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: 0.0 * x,
    "line": lambda x: 2.0 * x,
    "sine": lambda x: 2.0 * np.sin(np.pi * x),
    "exponential": lambda x: np.exp(2.0 * x),
    "bumps": lambda x: 0.2 * x**11 * (10 * (1 - x)) ** 6 + 10 * (10 * x) ** 3 * (1 - x) ** 10,
}
LAWS = {
    "normal": ("real", "normal(mean = eta, sd = e)"),
    "poisson": ("count", "poisson(log_rate = eta)"),
    "bernoulli": ("binary", "bernoulli(logit = eta)"),
}
SIZES = (200, 400, 800)
LEVELS = (0.025, 0.975)


def text(law: str, count: int) -> str:
    kind, observed = LAWS[law]
    lines = ["lgm 1", "index obs", f"data y[obs] : {kind}", "latent a ~ normal(sd = 10)"]
    for k in range(count):
        lines += [
            f"data x{k}[obs] : real",
            f"hyper s{k} : positive ~ pc_sd(u = 3, alpha = 0.05)",
            f"latent f{k}[obs] ~ spline(at = x{k}, sd = s{k}, size = 10)",
        ]
    if law == "normal":
        lines.append("hyper e : positive ~ pc_sd(u = 10, alpha = 0.05)")
    curves = " + ".join(f"f{k}" for k in range(count))
    return "\n".join([*lines, f"let eta[obs] = a + {curves}", f"observe y ~ {observed}", ""])


def simulated(seed: int) -> tuple[str, dict[str, Any], dict[str, Array]]:
    """The law, the data and the curves, which have these names and mean zero."""
    rng = np.random.default_rng(seed)
    law, size = [*LAWS][seed % 3], SIZES[seed // 3 % 3]
    names = rng.choice([*CURVES], 3, replace=False)
    x = rng.uniform(size=(3, size))
    curves = {f"f{k}:{name}": CURVES[name](x[k]) for k, name in enumerate(names)}
    shrink = 1.0 if law == "normal" else 0.25
    curves = {name: shrink * (f - f.mean()) for name, f in curves.items()}
    eta = sum(curves.values(), np.zeros(size))
    if law == "normal":
        y = eta + 2.0 * rng.normal(size=size)
    elif law == "poisson":
        y = rng.poisson(np.exp(1.0 + eta)).astype(np.float64)
    else:
        y = (rng.random(size) < 1.0 / (1.0 + np.exp(-eta))).astype(np.float64)
    return law, {"y": y, **{f"x{k}": x[k] for k in range(3)}}, curves


def main(models: int = 100, hyper: Any = "auto") -> None:
    statuses: Counter[str] = Counter()
    coverage: dict[str, list[float]] = {}
    seconds = time.process_time()
    for seed in range(models):
        law, data, curves = simulated(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = lgm.fit(lgm.loads(text(law, 3)), data, hyper=hyper)
        codes = sorted({w.code for w in fit.warnings})
        statuses[f"{'converged' if fit.converged else 'not converged'} {' '.join(codes)}"] += 1
        if codes or not fit.converged:
            print(seed, law, len(data["y"]), [*curves], codes, fit.accuracy, flush=True)
        for name, truth in curves.items():
            latent, curve = name.split(":")
            low, high = np.asarray(fit.quantile(latent, LEVELS))
            inside = float(((low <= truth) & (truth <= high)).mean())
            for key in (curve, law, "all"):
                coverage.setdefault(key, []).append(inside)
    print(dict(statuses), f"{time.process_time() - seconds:.0f} CPU s")
    for key, shares in coverage.items():
        print(f"{key:12} {np.mean(shares):.3f} of {len(shares)} curves")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
