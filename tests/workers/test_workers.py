"""The way of tasks to workers and back, by crews in this process that fail when they are told."""

from __future__ import annotations

import os
import pickle
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.errors import Diagnostic
from lgmdsl.numerics.blas_threads import adopt, one_thread, threads
from lgmdsl.workers import perform as performing
from lgmdsl.workers.opened import GivenExecutor, check_jobs, opened, scheduler_address
from lgmdsl.workers.perform import STORE, Store, perform
from lgmdsl.workers.sources import DataFile
from lgmdsl.workers.task import Answer, Bundle, Context, Payload, Task, here
from lgmdsl.workers.workers import Outcome, Workers
from tests.workers.models import COUNTS, counts


class Crashing:
    """A pool of `size` that takes all tasks in flight with it where one of them is `deadly`, in an
    order that `draw` decides. `together`: the tasks that were in flight at each end."""

    name = "the test's crew"
    broken: tuple[type[BaseException], ...] = (BrokenProcessPool,)
    lost: tuple[type[BaseException], ...] = (OSError,)
    shared = True
    cancels = True
    homes = True

    def __init__(self, size: int, deadly: Mapping[int, int], draw: Callable[[int], int]) -> None:
        self.size, self.deadly, self.draw = size, Counter(deadly), draw
        self.flying: list[tuple[int, Future[Any], tuple[Any, ...]]] = []
        self.together: list[list[int]] = []

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Future[Any]:
        future: Future[Any] = Future()
        payload: Payload = pickle.loads(args[1])
        self.flying.append((payload.arguments[0], future, (fn, *args)))
        return future

    def step(self) -> None:
        """Finish one of those in flight, or end all."""
        number, future, (fn, *args) = self.flying[self.draw(len(self.flying))]
        if self.deadly[number] > 0:
            self.deadly[number] -= 1
            ended, self.flying = self.flying, []
            self.together.append([n for n, _, _ in ended])
            for _, other, _ in ended:
                other.set_exception(BrokenProcessPool("a process ended"))
            return
        self.flying = [f for f in self.flying if f[1] is not future]
        future.set_result(fn(*args))

    def renew(self) -> bool:
        return True

    def put(self, bundles: object) -> bool:
        return False

    def close(self) -> None:
        pass


class Stepping(Workers):
    """Workers whose crew steps while they wait."""

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        crew: Any = self.crew

        class Waiting(queue.SimpleQueue[Any]):
            def get(self, *args: Any, **named: Any) -> Any:
                while self.empty():
                    crew.step()
                return super().get(*args, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(queue, "SimpleQueue", Waiting)
            yield from super().outcomes(tasks)


def squared(number: int) -> int:
    return number**2


def squares(size: int) -> list[Task]:
    return [Task(f"task {k}", squared, (k,)) for k in range(size)]


@given(st.data())
def test_whoever_ends_results_are_whole_and_in_order(data: st.DataObject) -> None:
    """Of tasks that have a home, all are in flight at once."""
    size, width = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4))
    deadly = data.draw(st.dictionaries(st.integers(0, size - 1), st.integers(1, 2), max_size=3))
    crew = Crashing(width, deadly, lambda n: data.draw(st.integers(0, n - 1)))
    homes = data.draw(st.lists(st.none() | st.integers(0, 3), min_size=size, max_size=size))
    tasks = [replace(t, home=home) for t, home in zip(squares(size), homes, strict=True)]
    assert Stepping(crew).results(tasks) == [k**2 for k in range(size)]


@given(st.data())
def test_a_task_that_always_ends_its_worker_is_named_and_no_other(data: st.DataObject) -> None:
    size, width = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 4))
    poison = data.draw(st.integers(0, size - 1))
    crew = Crashing(width, {poison: 99}, lambda n: data.draw(st.integers(0, n - 1)))
    seen: dict[int, int] = {}
    with pytest.raises(lgm.WorkerError) as caught:
        for number, outcome in Stepping(crew).outcomes(squares(size)):
            seen[number] = outcome.value()
    assert caught.value.codes == ("E701",) and f"task {poison} ended" in str(caught.value)
    assert all(poison in some for some in crew.together)
    shared = [some for some in crew.together if len(some) > 1]
    assert len(shared) <= 1 and len(crew.together) - len(shared) == 3
    assert sorted(crew.together, key=len, reverse=True) == crew.together  # by itself from then on
    assert seen == {k: k**2 for k in seen} and poison not in seen


def failing(number: int) -> int:
    if number in (2, 4):
        raise lgm.DataError(Diagnostic("E303", f"number {number}"))
    return number


def test_the_error_of_the_first_task_is_raised_whichever_comes_first() -> None:
    tasks = [Task(str(k), failing, (k,)) for k in range(6)]
    for first in (0, -1):
        crew = Crashing(6, {}, lambda n, first=first: first % n)  # type: ignore[misc]
        with pytest.raises(lgm.DataError, match="number 2"):
            Stepping(crew).results(tasks)


def total(array: np.ndarray, factor: int) -> float:
    return float(array.sum()) * factor


def test_a_bundle_is_sent_when_it_is_missing_and_then_no_more() -> None:
    value = np.random.default_rng(0).normal(size=4000)
    with ThreadPoolExecutor(1) as executor:
        workers = Workers(GivenExecutor(executor))
        bundle = workers.bundle(value)
        assert workers.bundle(value) is bundle
        tasks = [Task(str(k), total, (k,), (bundle,)) for k in range(20)]
        assert workers.results(tasks) == [float(value.sum()) * k for k in range(20)]
        assert workers.tasks == 21
        assert workers.sent - workers.bare == len(bundle.content) > 32000
        assert workers.bare < 21 * 1000
        workers.results(tasks)
        assert workers.sent - workers.bare == len(bundle.content)
        assert STORE.values([bundle.digest], {})[1] == []
        workers.close()
        assert STORE.values([bundle.digest], {})[1] == [bundle.digest]


def test_a_store_forgets_what_was_not_used_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LGM_MEMORY", "1MB")
    store, bundles = Store(), [Bundle.of(np.full(12_000, float(k))) for k in range(4)]
    for b in bundles:
        _, missing = store.values([b.digest], {b.digest: b.content})
        assert not missing
    assert store.values([bundles[-1].digest], {})[1] == []
    assert store.values([bundles[0].digest], {})[1] == [bundles[0].digest]
    together = {b.digest: b.content for b in bundles}
    found, missing = store.values(list(together), together)  # what a task needs is kept whole
    assert len(found) == 4 and not missing


def reply(version: str = lgm.__version__, home: bool = False, **changed: Any) -> tuple[str, Any]:
    context = Context(10**9, 1, "", here() if home else ("elsewhere", 1))
    payload = Payload(squared, (3,), (), {}, context)._replace(**changed)
    return perform(version, pickle.dumps(payload))


def test_a_worker_of_another_version_computes_nothing() -> None:
    kind, value = reply("0.0.0")
    assert kind == Answer.VERSION.value and value == lgm.__version__
    assert perform("0.0.0", b"what no pickle is")[0] == Answer.VERSION.value


@pytest.mark.parametrize(
    ("change", "words"),
    [("9.9", "has lgmdsl"), (None, "lacks a module")],
)
def test_other_software_is_an_error_by_name(
    change: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change:
        monkeypatch.setattr(performing, "__version__", change)
    else:
        monkeypatch.setattr(pickle, "loads", _lacking)
    with ThreadPoolExecutor(1) as executor, pytest.raises(lgm.WorkerError, match=words) as caught:
        Workers(GivenExecutor(executor)).results(squares(3))
    assert caught.value.codes == ("E704",)


def _lacking(_: bytes) -> object:
    raise ModuleNotFoundError("No module named 'acme'")


def test_a_worker_takes_the_callers_budget_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LGM_MEMORY", "2GB")
    before = threads()
    try:
        context = Context(123_000_000, 2, "", ("elsewhere", 1))
        kind, value = reply(call=os.getenv, arguments=("LGM_MEMORY",), context=context)
        assert kind == Answer.DONE.value and pickle.loads(value) == "123000000"
        assert threads() == 2
    finally:
        adopt(before)


def test_threads_are_adopted_when_a_fit_is_over() -> None:
    before = threads()
    try:
        adopt(2)
        with one_thread():
            adopt(3)
            assert threads() == 1
        assert threads() == 3
    finally:
        adopt(before)


def test_an_executor_that_is_shut_down_is_e702() -> None:
    class Gone(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
            raise BrokenProcessPool("it has ended")

    with pytest.raises(lgm.WorkerError, match="Gone takes no more tasks") as caught:
        Workers(GivenExecutor(Gone(1))).results(squares(2))
    assert caught.value.codes == ("E702",)


def test_a_crew_that_is_lost_is_e702() -> None:
    class Lost(Crashing):
        def submit(
            self, fn: Callable[..., Any], *args: Any, home: int | None = None
        ) -> Future[Any]:
            raise ConnectionResetError("connection reset by peer")

    with pytest.raises(lgm.WorkerError, match="connection to the test's crew was lost"):
        Workers(Lost(1, {}, lambda n: 0)).results(squares(2))


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "host:8786", "", object(), ThreadPoolExecutor])
def test_what_is_no_jobs_is_refused(bad: object) -> None:
    with pytest.raises(lgm.MethodError, match="`jobs` must be") as caught:
        check_jobs(bad)
    assert caught.value.codes == ("E108",)


def test_none_and_one_are_this_process() -> None:
    for jobs in (None, 1, np.int64(1)):
        with opened(jobs) as workers:
            assert workers is None


def test_a_scheduler_file_has_an_address(tmp_path: Path) -> None:
    place = tmp_path / "scheduler.json"
    with pytest.raises(lgm.WorkerError, match="no such file") as caught:
        scheduler_address(str(place))
    assert caught.value.codes == ("E702",)
    for text in ("", "[]", '{"address": 3}', '{"address": "host"}'):
        place.write_text(text)
        with pytest.raises(lgm.WorkerError, match="no address"):
            scheduler_address(str(place))
    place.write_text('{"type": "Scheduler", "address": "tcp://127.0.0.1:8786"}')
    assert scheduler_address(str(place)) == "tcp://127.0.0.1:8786"


def test_a_file_that_is_gone_or_another_is_e703(tmp_path: Path) -> None:
    place = tmp_path / "data.npz"
    np.savez(place, **counts())
    known = DataFile.of(place)
    assert known.checked() == str(place)
    np.savez(place, y=np.zeros(3))
    with pytest.raises(lgm.WorkerError, match="another content"):
        known.checked()
    place.unlink()
    with pytest.raises(lgm.WorkerError, match="no such file") as caught:
        known.checked()
    assert caught.value.codes == ("E703",) and str(place) in str(caught.value)


def test_a_file_that_a_worker_loses_is_e703(tmp_path: Path) -> None:
    place, first = tmp_path / "data.npz", threading.Lock()
    np.savez(place, **counts())

    class Losing(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
            with first:
                place.unlink(missing_ok=True)
            return super().submit(fn, *args)

    with Losing(2) as executor, pytest.raises(lgm.WorkerError, match=r"data\.npz") as caught:
        lgm.fit(lgm.loads(COUNTS), place, "laplace", "integrate", jobs=executor)
    assert caught.value.codes == ("E703",)


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(lgm.MethodError, match="cannot be sent to workers") as caught:
        Bundle.of(lambda: None)
    assert caught.value.codes == ("E501",) and "jobs=1" in str(caught.value)


def test_registered_words_of_other_calls_do_not_cross() -> None:
    with opened(ThreadPoolExecutor(1)) as workers:
        assert workers is not None and workers.parts is None
