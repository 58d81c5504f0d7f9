"""What follows from other optima: a higher one is taken, and modes that matter are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.fit.optima.other_optima import other_optima, value
from lgmdsl.api.fit.optima.other_runs import GAIN, Other, OtherOptima, changed, share_of
from lgmdsl.api.solve.solved import Solved, solve
from lgmdsl.assess.modes.search import Modes
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.other_starts import started
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.objective.elsewhere import WorkersOfFits
from lgmdsl.learning.search.learning_record import LearningOptions

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

AUTO = "auto"  # the method that goes where the evidence is highest; a named one keeps its start
ROUNDS = 2
CLOSE = 3.0  # nats below, down to which a lower optimum is reported


def highest(
    planned: Plan,
    way: str,
    settings: FitSettings,
    learning: LearningOptions,
    solved: Solved,
    on_step: Callable[[TraceEntry], None] | None,
    elsewhere: WorkersOfFits | None = None,
) -> tuple[Solved, OtherOptima | None]:
    """The fit, and what is known of its other optima. Under `auto`, where one of them is higher,
    the fit from there, hyperparameters and all, if that is higher too."""
    optima = other_optima(planned, solved, settings)
    if settings.method != AUTO or way == "vb":
        return solved, optima
    for _ in range(ROUNDS):
        begin, theta = _beginning(solved, optima)
        if optima is None or begin is None:
            break
        again = solve(planned, way, settings, learning, begin, on_step, theta, elsewhere=elsewhere)
        gain = _height(planned, again, settings) - _height(planned, solved, settings)
        if gain > GAIN:
            end = started("another optimum", again.run)
            solved = replace(again, starts=(*solved.starts, end) if solved.starts else ())
            optima = other_optima(planned, solved, settings)
        else:
            optima = replace(optima, better=None, elsewhere=None)
            if optima.other is None and again.run.posterior is not None and gain > -CLOSE:
                optima = replace(optima, other=_lower(solved, again, gain))
            break
    return solved, optima


def _beginning(
    solved: Solved, optima: OtherOptima | None
) -> tuple[GaussianPosterior | None, Theta]:
    """Where another fit should start: a higher optimum, here or at other hyperparameters."""
    if optima is not None and optima.better is not None:
        return optima.better, solved.theta
    if optima is not None and optima.elsewhere is not None:
        return optima.elsewhere.posterior, optima.elsewhere.theta
    return None, solved.theta


def _height(planned: Plan, solved: Solved, settings: FitSettings) -> float:
    """The integrated evidence; without one, what was maximised."""
    learned = solved.learned
    if learned is not None and learned.points:
        q = solved.posterior
        return learned.evidence(q.log_evidence, q.guarantee)[0]
    return value(planned.canonical, solved, settings.fixed.keys())


def _lower(solved: Solved, again: Solved, gain: float) -> Other | None:
    """The optimum of another fit, if it is another one."""
    mean = again.posterior.conditioned.latent_mean
    q = solved.posterior.conditioned
    sd = np.sqrt(np.maximum(q.latent_variance, again.posterior.conditioned.latent_variance))
    share = share_of(gain)
    return Other(mean, share, gain) if changed(q.latent_mean, sd, mean, share) else None


def modes_of(optima: OtherOptima | None) -> Modes | None:
    """The modes to draw from, of small posteriors that are not log-concave."""
    return None if optima is None else optima.modes


def drawn_from_modes(fit: FitRecord, optima: OtherOptima | None) -> bool:
    """Whether what is reported is made of draws from all modes."""
    return fit.drawn is not None and not fit.drawn.of_chains and modes_of(optima) is not None
