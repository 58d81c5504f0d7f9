"""What columns of a table are for, by what they are usually called: for `lgm new`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.api.explain.table_columns import Column

# What responses are usually called.
RESPONSES = (
    *("y", "response", "outcome", "target", "count", "counts", "cases", "abundance", "deaths"),
    *("successes", "label", "resp"),
)
EXPOSURE = re.compile(
    r"(^|_)(efforts?|exposures?|pop|population|expected|e|person_?years|pyears|py|hours|days_at_risk"
    r"|at_risk|area|trap_?nights|trap_?days|duration)$",
    re.I,
)
OFFSET = re.compile(r"(^|_)offset$|^log_?(effort|exposure|pop|population|expected|area)$", re.I)
TRIALS = re.compile(r"(^|_)(n|trials?|total|size|attempts|tested|denominator)$", re.I)
EVENT = re.compile(r"(^|_)(event|status|died|dead|death|delta|failed|failure|relapse)$", re.I)
LIFETIME = re.compile(r"(^|_)(time|t|survival|lifetime|futime|followup|follow_up|tte)$", re.I)
# What is seldom a response.
COVARIATE = re.compile(
    r"(^|_)(year|yr|month|week|day|date|time|age|lat|latitude|lon|long|longitude|x|easting|northing"
    r"|elevation|altitude|depth|temp|temperature|treat|treatment|trt|recipe|stage|dose)s?$",
    re.I,
)
# Codes: whole numbers from 1, without gaps, that repeat.
MOST_CODES = 12


@dataclass(frozen=True, eq=False)
class Roles:
    """The response (`guessed`: by nothing but its place; `passed`: a column that is called like a
    response and cannot be one), and the columns that belong to it: the
    `exposure` or `offset` of counts, the `trials` of successes, the `event` of lifetimes. `unfit`:
    a column that is called like an exposure and cannot be one."""

    response: Column
    guessed: bool = False
    passed: Column | None = None
    exposure: Column | None = None
    offset: Column | None = None
    trials: Column | None = None
    event: Column | None = None
    unfit: Column | None = None

    @property
    def family(self) -> str:
        """The family of the response."""
        if self.event is not None:
            return "weibull"
        if self.trials is not None:
            return "binomial"
        kinds = {"number": "normal", "count": "poisson", "binary": "bernoulli"}
        return kinds[self.response.kind]

    @property
    def special(self) -> tuple[Column, ...]:
        """The columns that are in the model as something other than covariates."""
        known = (self.exposure, self.offset, self.trials, self.event)
        return tuple(c for c in known if c is not None)


def roles_of(candidates: Sequence[Column], columns: Sequence[Column], wanted: str = "") -> Roles:
    """The roles of columns; `wanted` is the key of the response, "" where it is to be guessed.

    `candidates` (one at least) are the columns that may be responses.
    """
    response, guessed = _response(candidates, columns, wanted)
    named = [c for name in RESPONSES for c in columns if c.key.casefold() == name]
    roles = Roles(response, guessed, named[0] if guessed and named else None)
    others = [c for c in columns if c is not response]
    if (response.kind in ("count", "number") and response.values.min() > 0) and (
        LIFETIME.search(response.key)
    ):
        event = _first(others, EVENT, ("binary",))
        if event is not None:
            return replace(roles, event=event)
    if response.kind != "count":
        return roles
    for trials in others:
        if TRIALS.search(trials.key) and _hold(trials, response):
            return replace(roles, trials=trials)
    offset = _first(others, OFFSET, ("number", "count", "binary"))
    exposure = _first(others, EXPOSURE, ("number", "count")) if offset is None else None
    if exposure is not None and exposure.values.min() <= 0:
        return replace(roles, unfit=exposure)
    return replace(roles, exposure=exposure, offset=offset)


def _response(
    candidates: Sequence[Column], columns: Sequence[Column], wanted: str
) -> tuple[Column, bool]:
    if wanted:
        return next(c for c in candidates if c.key == wanted), False
    named = [c for name in RESPONSES for c in candidates if c.key.casefold() == name]
    if named:
        return named[0], False
    if _first(columns, EVENT, ("binary",)) is not None:
        times = [c for c in candidates if c.kind != "binary" and LIFETIME.search(c.key)]
        if times:
            return times[0], True
    patterns = (EXPOSURE, OFFSET, TRIALS, COVARIATE)
    likely = [
        c for c in candidates if not any(p.search(c.key) for p in patterns) and not _is_code(c)
    ]
    return (likely or candidates)[0], True


def _first(
    columns: Sequence[Column], name: re.Pattern[str], kinds: tuple[str, ...]
) -> Column | None:
    """The first whole column of such a name and kind."""
    return next(
        (c for c in columns if name.search(c.key) and c.kind in kinds and not c.missing), None
    )


def _is_code(column: Column) -> bool:
    levels = np.unique(column.values)
    contiguous = levels[0] == 1 and levels[-1] == levels.size <= MOST_CODES
    return column.kind == "count" and bool(contiguous) and levels.size < column.values.size


def _hold(trials: Column, response: Column) -> bool:
    """Whether no response is above its number of trials."""
    whole = trials.kind == "count" and not trials.missing and not response.missing
    return whole and bool((trials.values >= response.values).all())


def notes(roles: Roles, eta: str) -> Iterator[str]:
    """What the model takes columns for by their names, and what may be meant instead."""
    y = roles.response
    if roles.exposure is not None:
        name = roles.exposure.name
        yield (
            f"Counts are taken as proportional to `{roles.exposure.key}` (exposure). For a "
            f"slope instead: declare latent b_{name} ~ normal(sd = 2.5), add b_{name} * "
            f"log({name}) to {eta}, and write poisson(log_rate = {eta})."
        )
    if roles.offset is not None:
        yield (f"`{roles.offset.key}` is added as it is: the logarithm of an exposure.")
    if roles.trials is not None:
        yield (f"`{y.key}` of `{roles.trials.key}`, by the names of the columns.")
    if roles.event is not None:
        yield (
            f"`{roles.event.key}` is 1 where the event was observed at `{y.key}`, 0 where it "
            "had not happened by then (censored)."
        )
    if roles.family == "poisson":
        yield (
            "Counts that vary more than a Poisson's: negbinomial(log_mean = "
            f"{eta}, size = r), hyper r : positive ~ lognormal(mean = 1, sd = 1). Whole "
            "numbers that are not counts: declare real, and observe normal(mean, sd)."
        )
