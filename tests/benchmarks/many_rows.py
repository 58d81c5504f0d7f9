"""Mixed models of many rows: CPU seconds of fits, each in a process of its own, and the most memory
that the process held.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.many_rows CASE ROWS [HYPER [ENGINE | streamed
        [METHOD]]]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.many_rows all

An intercept, a slope and a hundred rows for each group, in no order; `crossed` has a second factor
with a tenth of the groups. `streamed`: from a .parquet file, by batches; it is written a million
rows at a time by another process, so that memory is the fit's. HYPER `fixed` pins them, as the
method `map` needs.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    "laplace": ("real", "hyper t : positive ~ flat\n", "laplace(mean = eta, scale = t)"),
    "negbinomial": (
        "count",
        "hyper k : positive ~ flat\n",
        "negbinomial(log_mean = eta, size = k)",
    ),
}
MILLION = 10**6
TABLE: list[tuple[str | int, ...]] = [
    *(("poisson", n, "map") for n in (10**4, 10**5, 10**6, 10**7)),
    ("poisson", 10**6, "integrate"),
    *((case, 10**6, "map") for case in ("crossed", "binary", "gaussian", "negbinomial")),
    *(("poisson", n, "map", "streamed") for n in (10**6, 10**7, 10**8)),
    ("poisson", 10**6, "integrate", "streamed"),
    *((case, 10**6, "map", "streamed") for case in ("binary", "gaussian", "negbinomial")),
    ("poisson", 10**6, "fixed", "streamed", "map"),
    *(("binary", 10**6, h, "streamed", m) for m in ("double-loop", "ep") for h in ("fixed", "map")),
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


def data(case: str, rows: int, of: int = 0, part: int = 0) -> dict[str, AnyArray]:
    """Simulated rows; a `part` of them where there are `of` in all."""
    groups = max((of or rows) // 100, 10)
    shared = np.random.default_rng(0).normal(0.0, 0.5, groups) if of else None
    rng = np.random.default_rng([part, 1] if of else 0)
    who, x = rng.integers(0, groups, rows), rng.normal(size=rows)
    effects = rng.normal(0.0, 0.5, groups) if shared is None else shared
    eta = 0.3 + 0.4 * x + effects[who]
    out: dict[str, AnyArray] = {"x": x, "who": who}
    if case == "crossed":
        out["item"] = rng.integers(0, groups // 10, rows)
        eta = eta + rng.normal(0.0, 0.3, groups // 10)[out["item"]]
    if case == "binary":
        out["y"] = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64)
    elif case in ("gaussian", "laplace"):
        out["y"] = eta + rng.normal(size=rows)
    elif case == "negbinomial":
        out["y"] = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, rows))
    else:
        out["y"] = rng.poisson(np.exp(eta))
    return out


def write(case: str, rows: int, path: str) -> None:
    """A .parquet file of simulated rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for part in range(max(rows // MILLION, 1)):
        table = pa.table(data(case, min(rows, MILLION), rows, part))
        writer = pq.ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table)
    assert writer is not None
    writer.close()


def main(arguments: list[str]) -> None:
    """One line for a fit, or for all."""
    again = [sys.executable, "-m", "tests.benchmarks.many_rows"]
    if arguments == ["all"]:
        for row in TABLE:
            subprocess.run([*again, *map(str, row)], check=True)
        return
    if arguments[0] == "write":
        write(arguments[1], int(arguments[2]), arguments[3])
        return
    if arguments[3:4] == ["streamed"]:
        with tempfile.TemporaryDirectory() as folder:
            case, rows, hyper = arguments[0], int(float(arguments[1])), arguments[2]
            path = Path(folder) / "rows.parquet"
            subprocess.run([*again, "write", case, str(rows), str(path)], check=True)
            subprocess.run([*again, case, str(rows), hyper, str(path), *arguments[4:]], check=True)
        return
    case, rows = arguments[0], int(float(arguments[1]))
    hyper = arguments[2] if len(arguments) > 2 else "map"
    method = arguments[4] if len(arguments) > 4 else "laplace"
    options = {"engine": arguments[3]} if len(arguments) > 3 else {}
    pinned = {"s": 0.5, "t": 1.0, "k": 2.0, "r": 0.3} if hyper == "fixed" else {}
    columns: object
    if len(arguments) > 3 and arguments[3].endswith(".parquet"):
        options, columns = {"rows": "streamed"}, arguments[3]
    else:
        columns = data(case, rows)
    model = lgm.loads(text(case))
    began = time.process_time()
    fixed = {n: v for n, v in pinned.items() if n in model.checked.symbols}
    fit = lgm.fit(model, columns, method=method, hyper=hyper, fixed=fixed, options=options)
    spent = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(
        f"{case} {rows:.0e} rows {method} {hyper}: {spent:.1f} CPU s, {most:.0f} MB, {fit.engine}, "
        f"{fit.status}, log evidence {fit.log_evidence:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
