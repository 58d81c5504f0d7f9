"""What follows from other optima: a higher one is taken, and modes that matter are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lgmdsl.api.fit.other_optima import GAIN, OtherOptima, other_optima, value
from lgmdsl.api.fit.solved import Solved, solve
from lgmdsl.assess.modes.search import Modes
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.other_starts import started
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.search.learning_record import LearningOptions

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit

AUTO = "auto"  # the method that goes where the evidence is highest; a named one keeps its start
ROUNDS = 2


def highest(
    planned: Plan,
    way: str,
    settings: FitSettings,
    learning: LearningOptions,
    solved: Solved,
    on_step: Callable[[TraceEntry], None] | None,
) -> tuple[Solved, OtherOptima | None]:
    """The fit, and what is known of its other optima. Under `auto`, where one of them is higher,
    the fit from there, hyperparameters and all, if that is higher too."""
    optima = other_optima(planned, solved, settings)
    for _ in range(ROUNDS if settings.method == AUTO and way != "vb" else 0):
        if optima is None or optima.better is None:
            break
        again = solve(planned, way, settings, learning, optima.better, on_step, solved.theta)
        pinned = settings.fixed.keys()
        gain = value(planned.canonical, again, pinned) - value(planned.canonical, solved, pinned)
        if not gain > GAIN:
            break
        begun = started("another optimum", again.run)
        solved = replace(again, starts=(*solved.starts, begun) if solved.starts else ())
        optima = other_optima(planned, solved, settings)
    return solved, optima


def modes_of(optima: OtherOptima | None) -> Modes | None:
    """The modes to draw from, where importance sampling reaches the whole posterior."""
    return None if optima is None or optima.whole is None else optima.modes


def drawn_from_modes(fit: Fit, optima: OtherOptima | None) -> bool:
    """Whether what is reported is made of draws from all modes."""
    return fit.drawn is not None and modes_of(optima) is not None
