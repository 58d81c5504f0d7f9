"""Warnings of a search for hyperparameters: W601, W604 to W608."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.contract.status import Status
from lgmdsl.errors import Diagnostic, listed
from lgmdsl.learning.integration.integrate import ROUGH
from lgmdsl.learning.integration.other_modes import OtherMode
from lgmdsl.learning.learned import ERRORS, Learned
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.weakly_determined import Finding, findings
from lgmdsl.remedies import either, number, option, pin, setting, start

if TYPE_CHECKING:
    from lgmdsl.learning.mean_field.mean_field import MeanField

SHOWN = 6  # names in a headline
CLOSE = 3.0  # nats below a maximum, down to which another one is reported

START_FROM = either("--start-from FIT", "start_from=fit")
GO_ON = f"let it go on: {START_FROM}"


def learning_warnings(learned: Learned) -> tuple[Diagnostic, ...]:
    """W601 for a search that stopped early, W604 and W605 for what the data do not determine, W606
    for an inaccurate average over hyperparameters, W607 for one around one of two modes, W608 for
    loadings that vanished."""
    out = []
    if learned.maximum.exact is not None:
        out.append(
            _warning(
                "W601",
                learned.maximum.exact.cause,
                learned.maximum.reason,
                "predictions are the exact fit; sds are as small as the search made them",
                "data without noise, such as a constant response, do not determine it",
                help=learned.maximum.remedy,
            )
        )
    elif learned.maximum.status is not Status.converged:
        last = learned.maximum.steps[-1]
        out.append(
            _warning(
                "W601",
                "the search for the hyperparameters' mode stopped early",
                f"{learned.maximum.reason or 'at its limit'}, step {last.step}; "
                "expected gain of another step: "
                f"{_nats(last.gain)}",
                help=_further(learned),
            )
        )
    elif learned.cut_short == ERRORS:
        out.append(
            _warning(
                "W601",
                "interrupted after the hyperparameters' mode was found",
                "latents, predictions and log evidence are those at the mode; sds of the "
                "hyperparameters may be missing",
                help=GO_ON,
            )
        )
    elif learned.cut_short:
        out.append(
            _warning(
                "W601",
                "the integration over the hyperparameters was interrupted",
                "latents, predictions and log evidence are those at the mode, which was found",
                help=f"{GO_ON}, or take the mode alone: {setting('hyper', 'map')}",
            )
        )
    for finding in findings(learned):
        names = listed([f"`{n}`" for n in finding.names])
        if finding.kind == "flat":
            out.append(
                _warning(
                    "W604",
                    f"data and priors hardly determine {names}",
                    "their posterior is nearly flat within 5 units of the mode (of the log of a "
                    "scale, the logit of a share)",
                    help=f"give a narrower prior, or pin it: {pin(finding.names[0])}",
                )
            )
        elif finding.kind == "bound":
            out.append(at_bound(finding, learned.integrated is not None))
        else:
            out.append(
                _warning(
                    "W605",
                    f"{names} {_is(finding.names)} at the edge of the range",
                    "their density increases up to the edge: there is no mode inside",
                    help="leave the term out, or give a prior that is low at the edge",
                )
            )
    if learned.idle:
        names = listed([f"`{n}`" for n in learned.idle])
        out.append(
            _warning(
                "W608",
                f"{names} {_is(learned.idle)} 0 throughout: what it multiplies has no effect",
                "0 is a maximum: the responses do not vary together, or the method does not see it",
                help=f"compare with another method ({setting('method', 'natural-gradient')}, "
                "laplace), "
                "or leave the term out",
            )
        )
    integrated = learned.integrated
    if integrated is None:
        out += [
            _another_maximum(learned, other)
            for other in learned.others[:1]
            if learned.mode.value - other.value < CLOSE
        ]
    if learned.alone:
        out.append(_no_two_alike(learned))
    if integrated is not None:
        wrong, flat = [], _without_mass(learned, integrated.unbounded)
        if integrated.unbounded:
            names = listed([f"`{n}`" for n in integrated.unbounded])
            wrong.append(f"their density is still high where the search along {names} ended")
        slow = tuple(n for n in integrated.slow if n not in integrated.unbounded)
        if slow:
            names = listed([f"`{n}`" for n in slow])
            wrong.append(f"the density of {names} falls off too slowly for a finite sd")
        if flat:
            names = listed([f"`{n}`" for n in flat])
            wrong.append(f"the prior of {names} has no finite mass: the posterior may have none")
        if integrated.lost:
            wrong.append(f"{integrated.lost} of the fits at other values failed")
        if integrated.unfinished:
            wrong.append(f"{integrated.unfinished} of the fits at other values did not converge")
        if not integrated.holds and integrated.uncertain > ROUGH:
            share = f"{integrated.uncertain:.0%}" if integrated.uncertain < 1.0 else "all"
            wrong.append(f"{share} of their posterior is uncertain")
        if integrated.doubtful:
            wrong.append(integrated.doubtful)
        if wrong:
            headline = "is inaccurate" if integrated.holds else "failed: do not use its results"
            out.append(
                _warning(
                    "W606",
                    f"the average over the hyperparameters {headline}",
                    *wrong,
                    help=f"give {listed([f'`{n}`' for n in flat or slow]) or 'hyperparameters'} "
                    f"{'a prior that falls off' if flat or slow else 'tighter priors'}, or use "
                    f"{setting('hyper', 'map')}, which fits at one value",
                )
            )
        if integrated.other is not None:
            out.append(_another_mode(integrated.other))
    return tuple(out)


def _without_mass(learned: Learned, names: Collection[str]) -> tuple[str, ...]:
    """The names, of these coordinates, whose hyperparameters have an improper prior."""
    coordinates = learned.coordinates
    improper = [b.name for b in coordinates.blocks if b.prior is not None and not b.prior.draws]
    own = {n for block in improper for n in coordinates.names[coordinates.slices[block]]}
    return tuple(n for n in names if n in own)


def at_bound(found: Finding, integrated: bool = True) -> Diagnostic:
    """W605 for a bound that a prior sets."""
    (name,), (end,) = found.names, found.values
    verb, detail = (
        "is highest",
        "its density increases up to the bound: there is no mode inside, and no sd",
    )
    if integrated:
        verb = "piles up"
        detail = "the density is highest at the bound: mean, sd and quantiles are set by the prior"
    return _warning(
        "W605",
        f"the posterior of `{name}` {verb} at the bound {end:.6g} of its prior",
        detail,
        help="give it a wider prior, whose bound is beyond what the data say",
    )


def _further(learned: Learned) -> str:
    if learned.maximum.status is Status.interrupted:
        return GO_ON
    if learned.maximum.status is Status.iteration_limit:
        more = 2 * max(learned.maximum.steps[-1].step, 100)
        return f"{option('learning_steps', more)}, or {START_FROM}"
    if learned.maximum.remedy:
        return learned.maximum.remedy
    return f"start from other values: {start('NAME')}, or pin what the data do not determine"


def mean_field_warnings(mean_field: MeanField) -> tuple[Diagnostic, ...]:
    """W601 for rounds that stopped early."""
    if mean_field.status is Status.converged:
        return ()
    last = mean_field.steps[-1]
    return (
        _warning(
            "W601",
            "the rounds over the factors of the hyperparameters stopped early",
            f"{mean_field.reason or 'at their limit'}, round {last.step}, "
            f"{mean_field.iterations} steps in all; {_nats(last.gain)} of the bound are left to "
            "gain",
            help=f"{number('max-steps', 2 * max(mean_field.iterations, 1))}, a larger "
            f"{either('--tol', 'tol')}, or {setting('hyper', 'map')}",
        ),
    )


def _another_mode(other: OtherMode) -> Diagnostic:
    """W607: there is more of the posterior than was integrated."""
    names = listed([f"`{n}`" for n in other.names[:SHOWN]])
    away = "as high as this one" if other.below < 0.1 else f"{other.below:.1f} nats lower"
    if other.below < -0.1:
        away = f"{-other.below:.1f} nats higher"
    where = ", ".join(
        f"{n} = {np.array2string(np.asarray(v), precision=3, threshold=6)}"
        for n, v in other.theta.items()
        if any(name.partition("[")[0] == n for name in other.names)
    )
    help = {
        "mirrored": "give one loading a sign: a positive hyper, or 1 in its place; means, sds and "
        "draws are of this mode, and log evidence lacks the other's share",
        "exchanged": "give the two priors that distinguish them, or put them in order (an ordered "
        "hyper); means, sds and draws are of this mode, and log evidence lacks the other's share",
        "apart": f"fit again with {pin('NAME')} near the other mode, compare the log evidences, "
        "and give priors that select one",
    }[other.kind]
    return _warning(
        "W607",
        f"the posterior of {names} has another mode, {away}",
        f"it is at {where}",
        {
            "mirrored": "with their signs changed they explain the data equally well",
            "exchanged": "with their values exchanged they explain the data equally well",
            "apart": "the average is taken around one of the two",
        }[other.kind],
        help=help,
    )


def _another_maximum(learned: Learned, other: Evaluation) -> Diagnostic:
    """W607: the highest maximum is not the only one that matters."""
    differs = np.abs(other.x - learned.mode.x) > 1.0
    names = tuple(n for n, m in zip(learned.coordinates.names, differs, strict=True) if m)
    below = learned.mode.value - other.value
    where = ", ".join(
        f"{n} = {np.array2string(np.asarray(v), precision=3, threshold=6)}"
        for n, v in other.theta.items()
        if any(name.partition("[")[0] == n for name in names)
    )
    shown = listed([f"`{n}`" for n in names[:SHOWN]])
    return _warning(
        "W607",
        f"the posterior of {shown} has another maximum, {below:.1f} nats lower",
        f"it is at {where}",
        "the higher of the two is reported",
        help=f"integrate over both: {setting('hyper', 'integrate')}, or give priors that "
        "select one",
    )


def _no_two_alike(learned: Learned) -> Diagnostic:
    """W607: priors and data contradict each other, and no two searches end at the same height."""
    names = listed([f"`{n}`" for n in learned.conflict[:SHOWN]])
    least, most = learned.alone[0], learned.alone[-1]
    lower = f"{least:.1f}" if most - least < 0.1 else f"{least:.1f} to {most:.1f}"
    return _warning(
        "W607",
        f"data and priors contradict each other in {names}, and the posterior of the "
        "hyperparameters may have a higher maximum than the one reported",
        f"searches from other starts ended {lower} nats lower",
        f"{names} {_is(learned.conflict[:SHOWN])} far out in the prior",
        help="give offsets, latents and noise sds priors on the scale of the data, or subtract a "
        "constant from the data",
    )


def _nats(gain: float) -> str:
    """An expected gain; a search of one step knows none."""
    return f"about {gain:.1e} nats" if math.isfinite(gain) else "an unknown number of nats"


def _is(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


def _warning(code: str, message: str, *details: str, help: str) -> Diagnostic:
    return Diagnostic(code, message, details=details, help=help, severity="warning")
