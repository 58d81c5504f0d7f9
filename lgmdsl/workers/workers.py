"""Tasks to workers and their results back, in the order of the tasks, whoever ends on the way."""

from __future__ import annotations

import pickle
import queue
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from lgmdsl import __version__
from lgmdsl.memory import budget
from lgmdsl.numerics.blas_threads import threads
from lgmdsl.workers.perform import STORE, perform
from lgmdsl.workers.refusals import broken, deadly, lost, other_version, without_module
from lgmdsl.workers.task import Answer, Bundle, Context, Payload, Task, here

TIMES = 3  # workers that a task may end
BREAKS = 20  # of a pool without a result in between


class Crew(Protocol):
    """A set of workers. `size`: tasks at a time; `broken`, `lost`: exceptions by which a worker
    that has ended and a cluster that has gone are known; `shared`: whether all tasks in flight fail
    when a worker ends; `cancels`: whether tasks that have not begun may be given up; `homes`:
    whether tasks wait for the worker that is their home."""

    name: str
    broken: tuple[type[BaseException], ...]
    lost: tuple[type[BaseException], ...]
    shared: bool
    cancels: bool
    homes: bool

    @property
    def size(self) -> int: ...

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Any: ...

    def renew(self) -> bool: ...

    def put(self, bundles: Mapping[str, bytes]) -> bool: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """What became of a task: its result, or the exception that it raised."""

    result: Any = None
    error: Exception | None = None

    def value(self) -> Any:
        """The result. Raises what the task raised."""
        if self.error is not None:
            raise self.error
        return self.result


class Workers:
    """A crew at work for one call. `parts`: those registered at run time (`registry.packed`).

    `sent`: bytes of all tasks that were sent, bundles included; `bare`: of tasks alone; `tasks`:
    how many were sent.
    """

    def __init__(self, crew: Crew, parts: bytes = b"") -> None:
        self.crew = crew
        self.parts = Bundle.of(parts) if parts else None
        self.sent = self.bare = self.tasks = 0
        self._known: dict[int, tuple[object, Bundle]] = {}
        self._put: set[str] = set()
        self._digests: set[str] = set()

    def bundle(self, value: object, key: object = None) -> Bundle:
        """The bundle of a value that does not change, made once for the `key`, by its identity: the
        value itself, or what it is made of each time."""
        key = value if key is None else key
        known = self._known.get(id(key))
        if known is None:
            known = self._known[id(key)] = key, Bundle.of(value)
        return known[1]

    def results(
        self, tasks: Sequence[Task], arrived: Callable[[int, Any], None] | None = None
    ) -> list[Any]:
        """The results in the order of the tasks. `arrived` is called with the number of a task and
        its result as soon as that is there. Raises what the first task that failed raised; and as
        `outcomes`."""
        out: list[Outcome | None] = [None] * len(tasks)
        for k, outcome in self.outcomes(tasks):
            out[k] = outcome
            if arrived is not None and outcome.error is None:
                arrived(k, outcome.result)
        return [o.value() for o in out if o is not None]

    def in_order(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """The results in the order of the tasks, each as soon as those before it are there. Raises
        as `results`."""
        early: dict[int, Outcome] = {}
        wanted = 0
        for k, outcome in self.outcomes(tasks):
            early[k] = outcome
            while wanted in early:
                yield early.pop(wanted).value()
                wanted += 1

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        """What becomes of each task, by its number, as soon as it is known.

        Where workers end, their tasks are done again, those that may be to blame one at a time.
        Raises WorkerError: E701 for a task that has ended three workers, E702 where the crew is
        lost, E704 where a worker has other software.
        """
        wave = _Wave(self, tasks)
        try:
            yield from wave.outcomes()
        finally:
            wave.cancel()

    def payload(self, task: Task, inline: set[str], context: Context) -> bytes:
        """A task as it is sent, with some of its bundles."""
        bundles = self._all(task)
        digests = tuple(b.digest for b in task.bundles)
        known = {b.digest: b.content for b in bundles if b.digest in inline}
        self._digests.update(known)
        content = pickle.dumps(
            Payload(task.call, task.arguments, digests, known, context), protocol=5
        )
        self.tasks += 1
        self.sent += len(content)
        self.bare += len(content) - sum(map(len, known.values()))
        return content

    def put(self, tasks: Sequence[Task]) -> None:
        """Send what tasks share to all workers at once, where the crew can."""
        needed = {b.digest: b.content for t in tasks for b in self._all(t)}
        new = {d: c for d, c in needed.items() if d not in self._put}
        if new and self.crew.put(new):
            self._put.update(new)
            self.sent += sum(map(len, new.values()))

    def context(self) -> Context:
        """What results depend on beyond their tasks, as it is in this process now."""
        parts = "" if self.parts is None else self.parts.digest
        return Context(budget(), threads(), parts, here())

    def close(self) -> None:
        """End the crew, if it is ours, and forget what threads of this process were sent."""
        self.crew.close()
        STORE.drop(self._digests)

    def _all(self, task: Task) -> tuple[Bundle, ...]:
        return task.bundles if self.parts is None else (*task.bundles, self.parts)


class _Wave:
    """Some tasks on their way. `alone`: tasks that were in flight when a worker ended; while there
    are any, each is the only one in flight, so that who ends workers is known. `suspects`: those of
    a worker that has just ended, until all that is in flight has come down; `apart`: all that ever
    were; `ended`: how many workers a task has ended by itself."""

    def __init__(self, workers: Workers, tasks: Sequence[Task]) -> None:
        self.workers, self.crew, self.tasks = workers, workers.crew, tasks
        self.waiting, self.alone = deque(range(len(tasks))), deque[int]()
        self.suspects: list[int] = []
        self.flying: dict[Any, int] = {}
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.inline: dict[int, set[str]] = {}
        self.apart = set[int]()
        self.ended: Counter[int] = Counter()
        self.breaks = 0

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        self._guarded(lambda: self.workers.put(self.tasks))
        context = self.workers.context()
        reason = ""
        while self.waiting or self.alone or self.flying or self.suspects:
            if self.suspects and not self.flying:
                self._blame()
                self._renew(reason)
            if not self.suspects:
                self._fill(context)
            future = self.done.get()
            number = self.flying.pop(future)
            try:
                kind, value = self._reply(future)
            except self.crew.broken as error:
                reason = _line(error)
                self.suspects.append(number)
                continue
            self.breaks = 0
            if kind == Answer.MISSING.value:
                self.inline.setdefault(number, set()).update(value)
                (self.alone if number in self.apart else self.waiting).appendleft(number)
            else:
                yield number, _outcome(kind, value)

    def cancel(self) -> None:
        """Give up what has not begun."""
        for future in self.flying if self.crew.cancels else ():
            future.cancel()

    def _fill(self, context: Context) -> None:
        while (self.alone or self.waiting) and self.apart.isdisjoint(self.flying.values()):
            source, most = (self.alone, 1) if self.alone else (self.waiting, 0)
            number = source[0]
            home = self.tasks[number].home
            if home is not None and self.crew.homes and not most:
                most = len(self.tasks)  # they wait where they are to be done
            most = most or self._guarded(lambda: self.crew.size)
            if len(self.flying) >= most:
                return
            inline = self.inline.get(number, set())
            content = self.workers.payload(self.tasks[number], inline, context)
            try:
                submit = partial(self.crew.submit, perform, __version__, content, home=home)
                future = self._guarded(submit)
            except self.crew.broken as error:  # between two tasks: none of them is to blame
                if not self.flying:
                    self._renew(_line(error))
                    continue
                return
            source.popleft()
            self.flying[future] = number
            future.add_done_callback(self.done.put)

    def _reply(self, future: Any) -> tuple[str, Any]:
        try:
            kind, value = self._guarded(future.result)
        except (ImportError, AttributeError) as error:  # an lgmdsl without this module, or none
            raise other_version("") from error
        return kind, value

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """A call of the crew. Raises E702 where it is lost."""
        try:
            return call()
        except self.crew.broken:
            raise
        except self.crew.lost as error:
            raise lost(self.crew.name, _line(error)) from error

    def _blame(self) -> None:
        """A worker has ended, and what was in flight next to it has come down. E701 for a task that
        has ended as many as it may while it was by itself. (A scheduler tries several times, next
        to others; once more by itself is enough to know.)"""
        first = self.suspects[0]
        if len(self.suspects) == 1:
            self.ended[first] += 1 if self.crew.shared or first in self.apart else 0
            if self.ended[first] >= (TIMES if self.crew.shared else 1):
                raise deadly(self.tasks[first].name, TIMES)
        self.apart.update(self.suspects)
        self.alone.extendleft(sorted(self.suspects, reverse=True))
        self.suspects = []

    def _renew(self, reason: str) -> None:
        self.breaks += 1
        if self.breaks > BREAKS or not self.crew.renew():
            raise broken(self.crew.name, reason)


def _outcome(kind: str, value: Any) -> Outcome:
    """What a reply says. Raises E704 for a worker with other software."""
    if kind == Answer.VERSION.value:
        raise other_version(value)
    if kind == Answer.MODULE.value:
        raise without_module(value)
    content = pickle.loads(value)
    return Outcome(content) if kind == Answer.DONE.value else Outcome(error=content)


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
