"""Stages: those that have a reason run, in their order, and one handler ends them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from lgmdsl.inference.stages import Ran, Stage, through


@dataclass(frozen=True)
class State:
    done: str = ""
    fits: int = 0
    stopped: bool = False

    def interrupted(self) -> State:
        if not self.done:
            raise KeyboardInterrupt
        return replace(self, stopped=True)


def adding(name: str, why: str = "always", always: bool = False) -> Stage[State]:
    def run(state: State) -> State:
        return replace(state, done=state.done + name, fits=state.fits + 2)

    return Stage(name, lambda state: why, run, always)


def ctrl_c(always: bool = False) -> Stage[State]:
    def run(state: State) -> State:
        raise KeyboardInterrupt

    return Stage("c", lambda state: "always", run, always)


def test_stages_without_a_reason_or_an_effect_are_not_recorded() -> None:
    same = Stage[State]("same", lambda state: "looks", lambda state: state)
    state, ran = through((adding("a"), adding("b", ""), same, adding("d", "late")), State())
    assert state == State("ad", 4)
    assert ran == (Ran("a", "always", 2), Ran("d", "late", 2))
    assert all(r.seconds >= 0.0 for r in ran)
    assert str(replace(ran[0], seconds=0.25)) == "a (always): 2 fits, 0.25 s"


def test_an_interrupt_skips_all_but_what_runs_always() -> None:
    state, ran = through((adding("a"), ctrl_c(), adding("b"), adding("z", always=True)), State())
    assert state == State("az", 4, True)
    assert [r.name for r in ran] == ["a", "c", "z"]


@pytest.mark.parametrize("stages", [(ctrl_c(),), (adding("a"), ctrl_c(always=True))])
def test_an_interrupt_with_nothing_to_give_back_is_raised(stages: tuple[Stage[State], ...]) -> None:
    with pytest.raises(KeyboardInterrupt):
        through(stages, State())
