"""What a fit of shards costs: splitting, time by one process and by two, bytes of a question.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.shards [ROWS] [SHARDS] [FOLDER]

Poisson counts in groups of 100 rows with a covariate, the sd of the groups at the highest evidence.
Wall seconds, CPU seconds and peak memory of each step, which is a process of its own; the table is
written a million rows at a time. Without a FOLDER all is below the folder for temporary files
(TMPDIR), and removed: 80,000,000 rows in 16 shards are 1.1 GB as a table and as much in shards.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lgmdsl as lgm
from lgmdsl.shards.passes import Passes
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

    def submit(self, fn: Any, *args: Any, home: int | None = None) -> Any:
        self.out.append(len(args[1]))
        future = super().submit(fn, *args, home=home)
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


def _children() -> tuple[float, float]:
    """CPU seconds of processes that have ended, and the most memory of one of them, in GB."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1e6


def timed(name: str, work: Any) -> Any:
    """The result, with a line of how long it took."""
    wall, cpu, others = time.perf_counter(), time.process_time(), _children()[0]
    out = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    spent, most = _children()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{name}: {wall:.1f} s, CPU here {cpu:.1f} s, of others {spent - others:.1f} s, "
        f"peak here {peak:.2f} GB, of another {most:.2f} GB",
        flush=True,
    )
    return out


def fitted(folder: Path, jobs: int) -> None:
    """Fit in this process (0), or by so many; questions, bytes and bits."""
    asked: list[Any] = []
    whole = Passes.done

    def seen(self: Passes) -> None:
        asked.append(self)
        whole(self)

    Passes.done = seen  # type: ignore[method-assign]
    pool = Clocked(jobs or 1)
    if jobs:
        opened._crew = lambda jobs: pool
    name = f"fit, {jobs or 'this process'}"
    call = lambda: lgm.fit(lgm.loads(MODEL), folder, hyper="map", jobs=2 if jobs else None)  # noqa: E731
    fit = timed(name, call)
    print(f"  {asked[-1].asked} questions to all, {asked[-1].received:,} bytes of numbers back")
    if pool.out:
        some = sorted(pool.out)[len(pool.out) // 2], sorted(pool.back)[len(pool.back) // 2]
        print(f"  {len(pool.out)} tasks of {some[0]:,} bytes, answers of {some[1]:,} (medians)")
    print(f"  {fit.status}, log evidence {fit.log_evidence!r}, s = {float(fit.theta['s'])!r}")


def main(count: int, shards: int, place: Path) -> None:
    """Write, split, and fit in this process, by one process and by two. Each is a process of its
    own, so that its memory is its own."""
    rows, folder = place / "rows.parquet", place / "shards"
    if not folder.exists():
        timed(f"write {count:,} rows", lambda: write(rows, count))
        of = [str(rows), "--by", "who", "-o", str(folder), "--shards", str(shards)]
        timed(f"lgm shard, {shards}", lambda: _run("-m", "lgmdsl", "shard", *of))
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"  {rows.stat().st_size / 1e9:.2f} GB, in shards {size / 1e9:.2f} GB")
    bits = {
        _run("-m", __spec__.name, "fit", str(folder), str(jobs)).splitlines()[-1]
        for jobs in (0, 1, 2)
    }
    assert len(bits) == 1, "the same bits"


def _run(*arguments: str) -> str:
    """What a Python process prints, which is printed here too."""
    done = subprocess.run(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    print(done.stdout, end="", flush=True)
    return done.stdout


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
    if given[:1] == ["fit"]:
        fitted(Path(given[1]), int(given[2]))
        sys.exit()
    number = int(float(given[0])) if given else 1_000_000
    many = int(given[1]) if len(given) > 1 else 4
    dispatch()
    if len(given) > 2:
        Path(given[2]).mkdir(parents=True, exist_ok=True)
        main(number, many, Path(given[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(number, many, Path(scratch))
