"""Mixed models of many rows: CPU seconds of fits, each in a process of its own, and the most memory
that the process held.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.many_rows CASE ROWS [HYPER [ENGINE]]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.many_rows all

An intercept, a slope and a hundred rows for each group, in no order; `crossed` has a second factor
with a tenth of the groups.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray

HEAD = """lgm 1
index obs
index group
{index}data y[obs] : {type}
data x[obs] : real
data who[obs] : group
{data}hyper s : positive ~ flat
{hyper}latent a ~ flat
latent b ~ flat
latent u[group] ~ normal(sd = s)
{latent}let eta[obs] = a + b * x + u[who]{term}
observe y ~ {family}
"""
PLAIN = {
    "poisson": ("count", "", "poisson(log_rate = eta)"),
    "crossed": ("count", "", "poisson(log_rate = eta)"),
    "binary": ("binary", "", "bernoulli(logit = eta)"),
    "gaussian": ("real", "hyper t : positive ~ flat\n", "normal(mean = eta, sd = t)"),
    "negbinomial": (
        "count",
        "hyper k : positive ~ flat\n",
        "negbinomial(log_mean = eta, size = k)",
    ),
}
TABLE = [
    *(("poisson", n, "map") for n in (10**4, 10**5, 10**6, 10**7)),
    ("poisson", 10**6, "integrate"),
    *((case, 10**6, "map") for case in ("crossed", "binary", "gaussian", "negbinomial")),
]


def text(case: str) -> str:
    """The model."""
    kind, hyper, family = PLAIN[case]
    crossed = case == "crossed"
    return HEAD.format(
        type=kind,
        family=family,
        index="index other\n" if crossed else "",
        data="data item[obs] : other\n" if crossed else "",
        hyper=hyper + ("hyper r : positive ~ flat\n" if crossed else ""),
        latent="latent v[other] ~ normal(sd = r)\n" if crossed else "",
        term=" + v[item]" if crossed else "",
    )


def data(case: str, rows: int) -> dict[str, AnyArray]:
    """Simulated rows."""
    rng = np.random.default_rng(0)
    groups = max(rows // 100, 10)
    who, x = rng.integers(0, groups, rows), rng.normal(size=rows)
    eta = 0.3 + 0.4 * x + rng.normal(0.0, 0.5, groups)[who]
    out: dict[str, AnyArray] = {"x": x, "who": who}
    if case == "crossed":
        out["item"] = rng.integers(0, groups // 10, rows)
        eta = eta + rng.normal(0.0, 0.3, groups // 10)[out["item"]]
    if case == "binary":
        out["y"] = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64)
    elif case == "gaussian":
        out["y"] = eta + rng.normal(size=rows)
    elif case == "negbinomial":
        out["y"] = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, rows))
    else:
        out["y"] = rng.poisson(np.exp(eta))
    return out


def main(arguments: list[str]) -> None:
    """One line for a fit, or for all."""
    if arguments == ["all"]:
        for case, rows, hyper in TABLE:
            command = [sys.executable, "-m", "tests.benchmarks.many_rows", case, str(rows), hyper]
            subprocess.run(command, check=True)
        return
    case, rows = arguments[0], int(float(arguments[1]))
    hyper = arguments[2] if len(arguments) > 2 else "map"
    options = {"engine": arguments[3]} if len(arguments) > 3 else {}
    columns, model = data(case, rows), lgm.loads(text(case))
    began = time.process_time()
    fit = lgm.fit(model, columns, method="laplace", hyper=hyper, options=options)
    spent = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(
        f"{case} {rows:.0e} rows {hyper}: {spent:.1f} CPU s, {most:.0f} MB, {fit.engine}, "
        f"{fit.status}, log evidence {fit.log_evidence:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
