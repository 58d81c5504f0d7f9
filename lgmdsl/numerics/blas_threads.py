"""How many threads BLAS takes: one, where products are small.

Threads of BLAS wait for one another at the end of every product: on a busy machine a factorisation
of 100 x 100 then takes 0.1 s in place of 0.1 ms, and last digits depend on how many there are. The
limit is the process's: while one fit holds it, it holds for all that run at the time. A caller's
own `threadpoolctl` context is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from threading import Lock, Thread, get_ident

from threadpoolctl import ThreadpoolController

LARGE = 1e9  # flops of one conditioning (0.1 s) from which several threads are worth the waiting


class _Limit:
    """One thread for as long as anybody holds it, then as many as before."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.holders = list[int]()
        self.restore: Callable[[], None] | None = None

    def take(self) -> None:
        with self.lock:
            if not self.holders:
                _in_a_thread(self._limit)
            self.holders.append(get_ident())

    def give(self) -> None:
        with self.lock:
            if get_ident() in self.holders:
                self.holders.remove(get_ident())
            self._restored()

    def adopt(self, count: int) -> None:
        """`count` threads, from when nobody holds it on."""
        with self.lock:
            work = partial(_set, count)
            if self.holders:
                self.restore = work
            else:
                _in_a_thread(work)

    def forked(self) -> None:
        """In a child only the thread that forked goes on: what others held is given back."""
        self.lock = Lock()
        self.holders = [h for h in self.holders if h == get_ident()]
        self._restored()

    def _limit(self) -> None:
        limiter = _libraries().limit(limits=1, user_api="blas")
        self.restore = limiter.restore_original_limits

    def _restored(self) -> None:
        if not self.holders and self.restore is not None:
            _in_a_thread(self.restore)
            self.restore = None


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of the process, looked up once (0.6 ms, a tenth of a small fit): those of
    numpy and scipy, which every engine imports, are loaded before the first fit."""
    return ThreadpoolController()


def threads() -> int:
    """How many BLAS takes now."""
    return max(
        (i["num_threads"] for i in _libraries().info() if i["user_api"] == "blas"), default=1
    )


def adopt(count: int) -> None:
    """Let BLAS take as many threads as in another process, whose digits this one is to compute."""
    _LIMIT.adopt(count)


def _set(count: int) -> None:
    if threads() != count:
        _libraries().limit(limits=count, user_api="blas")


def _in_a_thread(work: Callable[[], None]) -> None:
    """For threadpoolctl the thread that sets a number owns it while it lives, so that no other can
    set it back, as the last holder has to."""
    thread = Thread(target=work)
    thread.start()
    thread.join()


_LIMIT = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.forked)


@contextmanager
def one_thread() -> Iterator[Callable[[float], None]]:
    """BLAS on one thread. What is yielded takes the flops of one conditioning, and gives the
    threads back from LARGE on."""
    _LIMIT.take()
    held = True

    def known(flops: float) -> None:
        nonlocal held
        if held and flops >= LARGE:
            held = False
            _LIMIT.give()

    try:
        yield known
    finally:
        if held:
            _LIMIT.give()
