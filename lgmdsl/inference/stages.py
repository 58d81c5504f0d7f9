"""A computation as a list of stages: what runs, why it runs, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar


class Interruptible(Protocol):
    """A state that stages go through. `stopped`: whether an interrupt ended it; `fits`: how many
    were made so far."""

    @property
    def stopped(self) -> bool: ...

    @property
    def fits(self) -> int: ...

    def interrupted(self) -> Self:
        """The state as it is where an interrupt ends it; raises KeyboardInterrupt where there is
        nothing yet to give back."""
        ...


S = TypeVar("S", bound=Interruptible)


@dataclass(frozen=True)
class Ran:
    """A stage that ran: its name, the reason why, the number of fits that it made, and the seconds
    that it took."""

    name: str
    reason: str
    fits: int
    seconds: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        fits = f"{self.fits} fit{'' if self.fits == 1 else 's'}"
        return f"{self.name} ({self.reason}): {fits}, {self.seconds:.2g} s"


@dataclass(frozen=True, eq=False)
class Stage(Generic[S]):
    """`why`: the reason to run in a state, "" where there is none; `run`: the state after it;
    `always`: whether it runs after an interrupt as well."""

    name: str
    why: Callable[[S], str]
    run: Callable[[S], S]
    always: bool = False


def without(ran: Sequence[Ran], within: Sequence[Ran]) -> tuple[Ran, ...]:
    """Stages whose last one had others within it: what it did and took by itself, so that the sum
    over all of them counts nothing twice."""
    *before, outer = ran
    fits = outer.fits - sum(stage.fits for stage in within)
    seconds = outer.seconds - sum(stage.seconds for stage in within)
    return (*before, replace(outer, fits=fits, seconds=max(seconds, 0.0)))


def through(stages: Iterable[Stage[S]], state: S) -> tuple[S, tuple[Ran, ...]]:
    """The state after the stages, in their order, and those that changed it. An interrupt leaves
    the state from before the stage that it met; one in a stage that runs always is raised."""
    ran = []
    for stage in stages:
        if state.stopped and not stage.always:
            continue
        before, fits, began, reason = state, state.fits, time.perf_counter(), ""
        try:
            reason = stage.why(state)
            state = stage.run(state) if reason else state
        except KeyboardInterrupt:
            if stage.always:
                raise
            state = state.interrupted()
        if state is not before:
            seconds = time.perf_counter() - began
            ran.append(Ran(stage.name, reason, state.fits - fits, seconds))
    return state, tuple(ran)
