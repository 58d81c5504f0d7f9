"""What a fit of shards costs: splitting, time by one process and by two, bytes of a question.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.shards [ROWS] [SHARDS] [FOLDER]

Poisson counts in groups of 100 rows with a covariate, the sd of the groups at the highest evidence.
Wall seconds, with the CPU seconds of this process.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lgmdsl as lgm
from lgmdsl.api import sharding
from lgmdsl.shards.model import ShardedModel
from lgmdsl.shards.split import split
from lgmdsl.workers import opened
from lgmdsl.workers.pool import Pool

MODEL = """lgm 1
index obs
index group
data y[obs] : count
data x[obs] : real
data who[obs] : group
hyper s : positive ~ gamma(shape = 2, rate = 2)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 2)
latent u[group] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + b * x + u[who])
"""
BATCH, GROUP = 1_000_000, 100


class Clocked(Pool):
    """Keeps the bytes and the seconds of tasks there and back."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.out: list[int] = []
        self.back: list[int] = []

    def submit(self, fn: Any, *args: Any) -> Any:
        self.out.append(len(args[1]))
        future = super().submit(fn, *args)
        future.add_done_callback(lambda f: self.back.append(len(f.result()[1])))
        return future


def write(place: Path, count: int) -> None:
    """Rows in no order, a million at a time."""
    rng = np.random.default_rng(0)
    groups = max(count // GROUP, 2)
    u = 0.5 * rng.standard_normal(groups)
    writer = None
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        who, x = rng.integers(0, groups, size), rng.standard_normal(size)
        y = rng.poisson(np.exp(0.5 + 0.3 * x + u[who]))
        part = pa.table({"y": y.astype(np.int32), "x": x, "who": who.astype(np.int32)})
        writer = writer or pq.ParquetWriter(place, part.schema)
        writer.write_table(part)
    assert writer is not None
    writer.close()


def _children() -> float:
    """CPU seconds of processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def timed(name: str, work: Any) -> Any:
    """The result, with a line of how long it took."""
    wall, cpu, others = time.perf_counter(), time.process_time(), _children()
    out = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{name}: {wall:.1f} s, CPU here {cpu:.1f} s, of workers {_children() - others:.1f} s, "
        f"peak here {peak:.2f} GB",
        flush=True,
    )
    return out


def main(count: int, shards: int, place: Path) -> None:
    """Split, then fit in this process, by one process and by two."""
    rows, folder = place / "rows.parquet", place / "shards"
    if not folder.exists():
        timed(f"write {count:,} rows", lambda: write(rows, count))
        timed(f"split into {shards}", lambda: split(rows, "who", folder, shards))
    model, fits = lgm.loads(MODEL), []
    asked: list[Any] = []
    whole = sharding.finishing

    def seen(made: ShardedModel) -> Any:
        asked.append(made.passes)
        return whole(made)

    from lgmdsl.api.fit import fitting

    fitting.finishing = seen  # type: ignore[attr-defined, assignment]
    for jobs in (None, 1, 2):
        pool = Clocked(jobs or 1)
        if jobs is not None:
            opened._crew = lambda _, p=pool: p  # type: ignore[misc]
        call = lambda: lgm.fit(model, folder, hyper="map", jobs=None if jobs is None else 2)  # noqa: E731, B023
        fits.append(timed(f"fit, {'this process' if jobs is None else jobs}", call))
        passes = asked[-1]
        print(f"  {passes.asked} questions, {passes.received:,} bytes of numbers back")
        if pool.out:
            some = sorted(pool.out)[len(pool.out) // 2], sorted(pool.back)[len(pool.back) // 2]
            print(f"  {len(pool.out)} tasks of {some[0]:,} bytes, answers of {some[1]:,} (medians)")
    print(f"  log evidence {fits[0].log_evidence:.6f}, s = {float(fits[0].theta['s']):.6f}")
    assert all(f == fits[0] for f in fits), "the same bits"


def dispatch() -> None:
    """Seconds of a task of a process that does nothing, one after the other and two at a time."""
    from lgmdsl.workers.task import Task
    from lgmdsl.workers.workers import Workers

    for size in (1, 2):
        workers = Workers(Pool(size))
        workers.results([Task(str(k), divmod, (k, 2)) for k in range(2)])
        began = time.perf_counter()
        workers.results([Task(str(k), divmod, (k, 2)) for k in range(500)])
        print(f"a task through {size}: {(time.perf_counter() - began) / 500 * 1e3:.2f} ms")
        workers.close()


if __name__ == "__main__":
    given = sys.argv[1:]
    number = int(float(given[0])) if given else 1_000_000
    many = int(given[1]) if len(given) > 1 else 4
    dispatch()
    if len(given) > 2:
        Path(given[2]).mkdir(parents=True, exist_ok=True)
        main(number, many, Path(given[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(number, many, Path(scratch))
