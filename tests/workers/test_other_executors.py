"""Executors of others: loky, MPI, Dask clusters of processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.workers.task import Bundle, Task
from lgmdsl.workers.workers import Workers
from tests.processes import environment
from tests.workers.models import (
    LONG,
    alone,
    calibrated,
    end_this_process,
    hog,
    integrated,
    left_out,
    same_fit,
)

# Their own servers and sockets are closed late, which is no concern of ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_loky() -> None:
    loky = pytest.importorskip("loky")
    with loky.ProcessPoolExecutor(2) as executor:
        assert calibrated(jobs=executor).outcomes == alone()[0].outcomes


MPI = """
from mpi4py.futures import MPIPoolExecutor
from tests.workers.models import alone, calibrated, integrated, left_out, same_fit

if __name__ == "__main__":
    calibration, fit, loo = alone()
    with MPIPoolExecutor() as executor:
        print(executor.num_workers, calibrated(jobs=executor).outcomes == calibration.outcomes)
        print(same_fit(integrated(jobs=executor), fit))
        print(all((a == b).all() for a, b in zip(left_out(fit, executor), loo, strict=True)))
"""
# Open MPI refuses to start processes for root, and more of them than there are cores.
ALLOWED = {
    f"{by}_ALLOW_RUN_AS_ROOT{end}": "1" for by in ("OMPI", "PRTE") for end in ("", "_CONFIRM")
}
ALLOWED |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
ALLOWED |= {"OMPI_MCA_rmaps_base_oversubscribe": "1"}


def mpiexec(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Three MPI processes. Skips where nothing starts them; `mpiexec` is looked for next to Python
    first, where the wheels of an MPI library put the one that belongs to it."""
    own = Path(sys.executable).with_name("mpiexec")
    program = str(own) if own.exists() else shutil.which("mpiexec")
    if program is None:
        pytest.skip("no mpiexec")
    return subprocess.run(
        [program, "-n", "3", sys.executable, *map(str, arguments)],
        env={**environment(), **ALLOWED}, capture_output=True, text=True, timeout=LONG,
    )  # fmt: skip


def test_mpi(tmp_path: Path) -> None:
    """The manual's: `mpiexec -n 3 python -m mpi4py.futures script.py` with a guard, the same bits.
    It is skipped where MPI starts no process at all, and there alone."""
    pytest.importorskip("mpi4py")
    try:
        empty = mpiexec("-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)")
    except subprocess.TimeoutExpired:
        pytest.skip("MPI cannot start processes here")
    if empty.returncode or empty.stdout.count("3") != 3:  # lines of three may run together
        pytest.skip(f"MPI cannot start processes here: {(empty.stdout + empty.stderr)[-300:]}")
    script = tmp_path / "script.py"
    script.write_text(MPI)
    done = mpiexec("-m", "mpi4py.futures", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["2", "True", "True", "True"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        silence_logs=50,
    ) as made:  # fmt: skip
        yield made


def client_of(cluster: Any) -> Any:
    return pytest.importorskip("distributed").Client(cluster)


@pytest.mark.thorough
def test_a_dask_cluster_computes_the_same_bits(cluster: Any) -> None:
    calibration, fit, loo = alone()
    assert calibrated(jobs=cluster.scheduler_address).outcomes == calibration.outcomes
    with client_of(cluster) as client:
        assert same_fit(integrated(jobs=client), fit)
        assert all(map(np.array_equal, left_out(fit, client), loo))
        assert len(client.scheduler_info()["workers"]) == 2


@pytest.mark.thorough
def test_tasks_of_a_home_go_to_one_dask_worker(cluster: Any) -> None:
    from lgmdsl.workers.cluster import Cluster

    with client_of(cluster) as client:
        workers = Workers(Cluster(client, False))
        tasks = [Task(f"task {k}", os.getpid, home=k) for k in range(4)]
        first = workers.results(tasks)
        assert len(set(first)) == 2 and first[0] != first[1]
        again = [workers.results(tasks) == first for _ in range(5)]
        assert sum(again) >= 3  # the scheduler may move a task where a worker has much to do
        os.kill(first[0], signal.SIGKILL)
        assert len(workers.results(tasks)) == 4


@pytest.mark.thorough
def test_a_dask_worker_that_is_killed_changes_nothing(cluster: Any) -> None:
    with client_of(cluster) as client:

        def kill(done: int, _: int) -> None:
            if done == 4:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        assert calibrated(jobs=client, on_run=kill).outcomes == alone()[0].outcomes


@pytest.mark.thorough
def test_a_task_that_ends_dask_workers_is_named(cluster: Any) -> None:
    pytest.importorskip("distributed")
    from lgmdsl.workers.cluster import Cluster

    with client_of(cluster) as client:
        tasks = [Task(f"task {k}", divmod, (k, 2)) for k in range(4)]
        tasks[1] = Task("task 1", end_this_process)
        with pytest.raises(lgm.WorkerError, match="task 1 ended its worker three times") as caught:
            Workers(Cluster(client, False)).results(tasks)
        assert caught.value.codes == ("E701",)
        assert calibrated(jobs=client).outcomes == alone()[0].outcomes  # the cluster goes on


@pytest.fixture
def small() -> Iterator[Any]:
    """A client of one worker of 400 MB; its scheduler blames a task for the first that it ends."""
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
            silence_logs=50, memory_limit="400MB",
        ) as made,
        client_of(made) as client,
    ):  # fmt: skip
        yield client


@pytest.mark.thorough
def test_a_dask_worker_out_of_memory_is_e701_or_refused_before(small: Any) -> None:
    """The nanny ends a worker above its limit, and what was next to the task is done again; data
    that no worker has room for are not sent."""
    from lgmdsl.workers.cluster import Cluster

    workers = Workers(Cluster(small, False))
    large = Bundle.of(np.zeros(30_000_000))
    with pytest.raises(lgm.WorkerError, match="take 480 MB of a worker") as caught:
        workers.results([Task("task 0", np.shape, (), (large,))])
    assert caught.value.codes == ("E701",) and "memory limit" in str(caught.value)
    tasks = [Task(f"task {k}", divmod, (k, 2)) for k in range(3)]
    tasks[1] = Task("task 1", hog, (2000,))
    with pytest.raises(lgm.WorkerError, match="task 1 ended its worker three times") as caught:
        workers.results(tasks)
    assert caught.value.codes == ("E701",)
    assert workers.results(tasks[::2]) == [(0, 0), (1, 0)]  # the cluster goes on


@pytest.mark.thorough
def test_a_dask_cluster_with_one_worker(cluster: Any) -> None:
    local = pytest.importorskip("distributed").LocalCluster
    with (
        local(
            n_workers=1, threads_per_worker=1, host="127.0.0.1",
            dashboard_address=None, silence_logs=50,
        ) as one,
        client_of(one) as client,
    ):  # fmt: skip
        assert same_fit(integrated(jobs=client), alone()[1])


@pytest.mark.thorough
def test_a_cluster_over_tls(tmp_path: Path) -> None:
    """The manual's: a certificate that vouches for itself, and the client's by Dask's
    configuration. Without one, and with one that is not there, E702."""
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
             "/CN=lgmdsl", "-keyout", key, "-out", cert], check=True, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no openssl here: {error}")
    own = {"tls_scheduler_cert": cert, "tls_scheduler_key": key, "tls_worker_cert": cert,
           "tls_worker_key": key, "tls_client_cert": cert, "tls_client_key": key}  # fmt: skip
    security = distributed.Security(tls_ca_file=cert, require_encryption=True, **own)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        silence_logs=50, protocol="tls", security=security,
    ) as made:  # fmt: skip
        address = made.scheduler_address
        assert address.startswith("tls://")
        names = {"ca-file": cert, "client.cert": cert, "client.key": key}
        with dask.config.set({f"distributed.comm.tls.{k}": v for k, v in names.items()}):
            assert same_fit(integrated(jobs=address), alone()[1])
        with pytest.raises(lgm.WorkerError, match="cannot be reached") as caught:
            integrated(jobs=address)
        assert caught.value.codes == ("E702",) and "names no certificate" in str(caught.value)
        lost = {**names, "client.cert": str(tmp_path / "other.pem")}
        with (
            dask.config.set({f"distributed.comm.tls.{k}": v for k, v in lost.items()}),
            pytest.raises(lgm.WorkerError, match="No such file"),
        ):
            integrated(jobs=address)


@pytest.mark.thorough
def test_a_scheduler_that_is_killed_is_e702_and_the_record_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    file, record = tmp_path / "scheduler.json", tmp_path / "runs.jsonl"
    python = [sys.executable, "-m"]
    quiet = {"env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
         "--no-dashboard", "--scheduler-file", str(file)], **quiet,
    )  # type: ignore[call-overload]  # fmt: skip
    worker = None
    try:
        address = _address(file)
        worker = subprocess.Popen(
            [*python, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
             "--no-dashboard", "--death-timeout", "20", "--host", "127.0.0.1"], **quiet,
        )  # type: ignore[call-overload]  # fmt: skip

        def kill(done: int, _: int) -> None:
            if done == 5:
                scheduler.kill()

        with pytest.raises(lgm.WorkerError, match=r"the scheduler tcp:.* was lost") as caught:
            calibrated(jobs=address, record=record, on_run=kill)
        assert caught.value.codes == ("E702",)
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.kill()
                process.wait()
    done = len(record.read_text().splitlines()) - 1
    assert done >= 5
    assert calibrated(record=record).outcomes == alone()[0].outcomes


def _address(file: Path) -> str:
    """As soon as the scheduler has written it."""
    deadline = time.monotonic() + LONG
    while True:
        try:
            return str(json.loads(file.read_text())["address"])
        except (OSError, ValueError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_nobody_at_an_address_is_e702(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from lgmdsl.workers import cluster as module

    monkeypatch.setattr(module, "PATIENCE", 0.5)
    with pytest.raises(lgm.WorkerError, match="cannot be reached") as caught:
        calibrated(jobs="tcp://127.0.0.1:1")
    assert caught.value.codes == ("E702",)


@pytest.mark.thorough
def test_an_address_without_distributed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(lgm.MethodError, match=r"pip install 'lgmdsl\[cluster\]'") as caught:
        calibrated(jobs="tcp://127.0.0.1:1")
    assert caught.value.codes == ("E501",)
