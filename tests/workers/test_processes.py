"""Pools of processes from the outside: scripts, interrupts, what is loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.workers.pool import Pool
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers
from tests.processes import environment
from tests.workers.models import COUNTS, LONG, counts, end_this_process

SCRIPT = """
import os, sys
import numpy as np
import lgmdsl as lgm
from tests.workers.models import COUNTS, counts
print("RUN")
class Local:
    pass
one, two = (lgm.fit(lgm.loads(COUNTS), counts(), "laplace", "integrate", jobs=j) for j in (1, 2))
print(one.log_evidence == two.log_evidence)
"""

CALIBRATION = """
import signal
import lgmdsl as lgm
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job lacks
from lgmdsl.workers import opened
from lgmdsl.workers.pool import Pool
from tests.workers.models import GAUSSIAN
pool = Pool(2)
opened._crew = lambda _: pool
def report(done, wanted):
    if done == 4:
        print(*(p.pid for p in pool.processes), flush=True)
done = lgm.calibrate(
    lgm.loads(GAUSSIAN), sizes={"obs": 6, "feat": 2}, runs=10**4, method="laplace", jobs=2,
    on_run=report,
)
print(len(done.outcomes) >= 4, done.interrupted)
"""


@pytest.mark.thorough
def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script], env=environment(), capture_output=True, text=True,
        timeout=LONG, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["RUN", "True"]


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_who_started_them(by: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C, which the whole group gets, and a caller that is killed."""
    script = tmp_path / "script.py"
    script.write_text(CALIBRATION)
    caller = subprocess.Popen(
        [sys.executable, script], env=environment(), stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert caller.stdout is not None
    try:
        workers = [int(word) for word in caller.stdout.readline().split()]
        assert len(workers) == 2 and all(map(alive, workers))
        if by == signal.SIGINT:
            os.killpg(caller.pid, signal.SIGINT)
            assert caller.stdout.read().split() == ["True", "True"]
            assert caller.wait(LONG) == 0
        else:
            caller.kill()
            caller.wait(LONG)
        deadline = time.monotonic() + LONG
        while any(map(alive, workers)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        if caller.poll() is None:
            os.killpg(caller.pid, signal.SIGKILL)
        caller.stdout.close()


def alive(process: int) -> bool:
    """Whether it runs (one that has ended and that nobody asked about does not)."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def test_a_task_that_ends_its_process_is_e701() -> None:
    workers = Workers(Pool(1))
    tasks = [Task(f"task {k}", divmod, (k, 2)) for k in range(3)]
    tasks[1] = Task("task 1", end_this_process)
    seen = {}
    try:
        with pytest.raises(lgm.WorkerError, match="task 1 ended its worker three times"):
            for number, outcome in workers.outcomes(tasks):
                seen[number] = outcome.value()
    finally:
        workers.close()
    assert seen == {0: (0, 0)}


@pytest.mark.thorough
def test_tasks_of_a_home_go_to_one_process_while_it_lives() -> None:
    """And the end of one is none of the others'."""
    pool = Pool(2)
    workers = Workers(pool)
    tasks = [Task(f"task {k}", os.getpid, home=k) for k in range(4)]
    try:
        first = workers.results(tasks)
        assert first[0] == first[2] != first[1] == first[3]
        assert workers.results(tasks[::-1]) == first[::-1]
        assert set(workers.results([Task("any", os.getpid)])) <= set(first)
        os.kill(first[1], signal.SIGKILL)
        second = workers.results(tasks)
        assert second[0] == second[2] == first[0]
        assert second[1] == second[3] not in first
        ends = [*tasks, Task("deadly", end_this_process, home=1)]
        with pytest.raises(lgm.WorkerError, match="deadly ended its worker three times"):
            workers.results(ends)
        assert workers.results(tasks)[0] == first[0]
    finally:
        workers.close()


WITHOUT = """
import sys
import numpy as np
import lgmdsl as lgm
if sys.argv[1:] == ["fit"]:
    data = {{"y": np.arange(8) % 3, "who": np.arange(8) % 4}}
    fit = lgm.fit(lgm.loads({model!r}), data, "laplace", "integrate")
    fit.loo(exact=True)
if len(sys.argv) > 2:
    from lgmdsl.cli.main import main
    assert main(sys.argv[1:]) == 0
print("MODULES", *sys.modules)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("work", ["import", "fit", "lgm fit"])
def test_without_jobs_nothing_of_it_is_loaded(work: str, tmp_path: Path) -> None:
    """Neither by an import, nor by a fit and what is asked of it, nor by the command."""
    arguments: list[str | Path] = ["fit"] if work == "fit" else []
    if work == "lgm fit":
        arguments = ["fit", tmp_path / "model.lgm", tmp_path / "data.npz", "--method", "laplace"]
        (tmp_path / "model.lgm").write_text(COUNTS)
        np.savez(tmp_path / "data.npz", **counts())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(model=COUNTS), *arguments], env=environment(),
        capture_output=True, text=True, timeout=LONG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.partition("MODULES")[2].split())
    assert ("lgmdsl.api.fit.fitting" in loaded) == bool(arguments)
    pools = {"concurrent.futures.process", "multiprocessing.pool", "multiprocessing.spawn",
             "lgmdsl.workers.pool"}  # fmt: skip
    clusters = {"distributed", "dask", "loky", "mpi4py", "lgmdsl.workers.cluster"}
    assert loaded and not loaded & (pools | clusters)
