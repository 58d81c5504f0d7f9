"""What sharing work costs: start of a pool and of a Dask cluster, a calibration by one and two
processes, bytes of a task.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.workers [start] [calibrate] [bytes]

Wall seconds, as CPU seconds are those of several processes.
"""

from __future__ import annotations

import pickle
import sys
import time
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.workers import opened
from lgmdsl.workers.pool import Pool
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers

GLMM = """lgm 1
index obs
index group
data y[obs] : count
data x[obs] : real
data who[obs] : group
hyper s : positive ~ gamma(shape = 2, rate = 2)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + b * x + u[who])
"""
RUNS = 40
ROWS = 100_000


class Counting(Pool):
    """Keeps the bytes of tasks, without and with the bundles that came with them."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.bare: list[int] = []
        self.bundles: list[int] = []

    def submit(self, fn: Any, *args: Any, **named: Any) -> Any:
        payload = pickle.loads(args[1])
        inline = sum(map(len, payload.inline.values()))
        self.bare.append(len(args[1]) - inline)
        self.bundles.append(inline)
        return super().submit(fn, *args, **named)


def start() -> None:
    """Until the first two tasks are done."""
    began = time.perf_counter()
    workers = Workers(Pool(2))
    workers.results([Task(str(k), divmod, (k, 2)) for k in range(2)])
    print(f"pool of 2: {time.perf_counter() - began:.2f} s", flush=True)
    workers.close()
    from distributed import Client, LocalCluster

    began = time.perf_counter()
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):  # fmt: skip
        client.submit(divmod, 1, 2).result()
        print(f"Dask cluster of 2: {time.perf_counter() - began:.2f} s", flush=True)


def calibrate() -> None:
    """A GLMM of 2,000 rows and 100 groups, hyperparameter and all."""
    model, sizes = lgm.loads(GLMM), {"obs": 2000, "group": 100}
    found = []
    for jobs in (1, 2):
        began, cpu = time.perf_counter(), time.process_time()
        found.append(lgm.calibrate(model, sizes=sizes, runs=RUNS, jobs=jobs))
        wall, own = time.perf_counter() - began, time.process_time() - cpu
        print(f"{RUNS} runs, jobs={jobs}: {wall:.1f} s, CPU of the caller {own:.1f} s", flush=True)
    assert found[0].outcomes == found[1].outcomes


def sent() -> None:
    """Bytes of tasks at ROWS rows."""
    rng = np.random.default_rng(0)
    who, x = rng.integers(0, 1000, ROWS), rng.standard_normal(ROWS)
    u = 0.5 * rng.standard_normal(1000)
    data = {"y": rng.poisson(np.exp(0.5 + 0.3 * x + u[who])), "x": x, "who": who}
    pool = Counting(2)
    opened._crew = lambda _: pool  # type: ignore[assignment]
    lgm.fit(lgm.loads(GLMM), data, "laplace", "integrate", options={"effort": "low"}, jobs=2)
    _print("integrate", pool)
    pool = Counting(2)
    given = {"x": x, "who": who}
    lgm.calibrate(lgm.loads(GLMM), given, {"group": 1000}, 7, "laplace", {"s": 0.5}, jobs=2)
    _print("calibrate", pool)


def _print(name: str, pool: Counting) -> None:
    with_bundles = sum(b > 0 for b in pool.bundles)
    print(
        f"{name} at {ROWS:,} rows: {len(pool.bare)} tasks of {min(pool.bare):,} to "
        f"{max(pool.bare):,} bytes; bundles with {with_bundles} of them, "
        f"{sum(pool.bundles) / 1e6:.1f} MB",
        flush=True,
    )


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["start", "calibrate", "bytes"]
    for work in chosen:
        {"start": start, "calibrate": calibrate, "bytes": sent}[work]()
