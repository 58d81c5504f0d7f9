"""BLAS on one thread while anybody asks for it, and as many as before after that."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.linalg  # loads a library of its own
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from lgmdsl.numerics import blas_threads
from lgmdsl.numerics.blas_threads import LARGE, one_thread


def counts() -> set[int]:
    scipy.linalg.cholesky(np.eye(2))
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def in_a_thread(work: Callable[[], None]) -> None:
    """So that nobody owns the number that it sets."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    restore: list[Callable[[], None]] = []

    def limit() -> None:
        limiter = ThreadpoolController().limit(limits=2, user_api="blas")
        restore.append(limiter.restore_original_limits)

    in_a_thread(limit)
    if counts() != {2}:
        pytest.skip("a BLAS that does not take two threads")
    yield
    in_a_thread(restore[0])


def test_small_problems_take_one_thread_and_large_ones_give_it_back() -> None:
    with one_thread() as known:
        assert counts() == {1}
        known(0.9 * LARGE)
        assert counts() == {1}
        known(LARGE)
        assert counts() == {2}
        known(2.0 * LARGE)
        assert counts() == {2}
    assert counts() == {2}


def test_an_error_gives_it_back() -> None:
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert counts() == {2}


def test_a_context_of_the_caller_is_left_alone() -> None:
    with threadpool_limits(limits=2, user_api="blas"), one_thread():
        pass
    assert counts() == {2}


def test_nested_and_overlapping_holders() -> None:
    inside, finish = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            inside.set()
            finish.wait(60)

    with one_thread():
        with one_thread() as known:
            known(LARGE)
            known(LARGE)  # what was given back is not given back again
            assert counts() == {1}, "the outer one still holds it"
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(60)
    assert counts() == {1}, "the other thread holds it"
    finish.set()
    thread.join()
    assert counts() == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_is_not_held_by_threads_that_it_does_not_have() -> None:
    inside, finish = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            inside.set()
            finish.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if not child:
        os._exit(0 if counts() == {2} else 1)
    _, status = os.waitpid(child, 0)
    finish.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_libraries_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[ThreadpoolController] = []

    def counted() -> ThreadpoolController:
        lookups.append(ThreadpoolController())
        return lookups[-1]

    monkeypatch.setattr(blas_threads, "ThreadpoolController", counted)
    blas_threads._libraries.cache_clear()
    for _ in range(3):
        with one_thread():
            assert counts() == {1}
        assert counts() == {2}
    assert len(lookups) == 1


def in_a_child(work: Callable[[], bool]) -> bool:
    """Whether `work` is true in a forked process, within a minute."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_keeps_a_number_that_was_set_since() -> None:
    with one_thread():
        pass
    restore: list[Callable[[], None]] = []

    def limit() -> None:
        limiter = ThreadpoolController().limit(limits=1, user_api="blas")
        restore.append(limiter.restore_original_limits)

    in_a_thread(limit)
    try:
        assert in_a_child(lambda: counts() == {1})
    finally:
        in_a_thread(restore[0])


def _limits_itself() -> bool:
    with one_thread():
        return counts() == {1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_forked_in_the_middle_of_a_change_can_limit_itself() -> None:
    locked, finish = threading.Event(), threading.Event()

    def other() -> None:
        with blas_threads._LIMIT.lock:
            locked.set()
            finish.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert locked.wait(60)
    try:
        assert in_a_child(_limits_itself)
    finally:
        finish.set()
        thread.join()
