"""What columns of a table are for, by what they are usually called: for `lgm new`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from lgmdsl.api.explain.events import (
    ENTRY,
    EVENT,
    LIFETIME,
    other_outcomes,
    pairs_of,
    unclear_events,
)
from lgmdsl.api.explain.nearly import in_rows, mostly, negative, unknown
from lgmdsl.api.explain.table_columns import Column
from lgmdsl.arrays import BoolArray
from lgmdsl.contract.censoring import within

# What responses are usually called.
RESPONSES = (
    *("y", "response", "outcome", "target", "count", "counts", "cases", "abundance", "deaths"),
    *("successes", "label", "resp"),
)
EXPOSURE = re.compile(
    r"(^|_)(efforts?|exposures?|pop|population|expected|e|person_?(years|days|time)|pyears|pyr|py"
    r"|hours|days_at_risk|at_risk|area|trap_?nights|trap_?days|duration|holders|insured)$",
    re.I,
)
OFFSET = re.compile(r"(^|_)offset$|^log_?(effort|exposure|pop|population|expected|area)$", re.I)
TRIALS = re.compile(r"(^|_)(n|trials?|total|size|attempts|tested|denominator)$", re.I)
# What is seldom a response.
COVARIATE = re.compile(
    r"(^|_)(year|yr|month|week|day|date|time|age|lat|latitude|lon|long|longitude|x|easting|northing"
    r"|elevation|altitude|depth|temp|temperature|treat|treatment|trt|recipe|stage|dose|sex|gender"
    r"|male|female|race_?\w*|black|white|ethnic|ethnicity|smoke|smoker|smoking|educ|education|bmi"
    r"|rx|arm|baseline|base|visit|wave|period|trial|session|order|position|run|rep|sample"
    r"|replicate|const|intercept|level|brood_?size)s?$",
    re.I,
)
# What responses are called too, less surely.
LIKELY = re.compile(
    r"(^|_)(yield|reaction|rt|reaction_?time|response_?time|acuity|strength|diameter|growth|biomass"
    r"|richness|seizures|claims|ticks|incidence|incidents|accidents|visits|bites|eggs|switched|vote"
    r"|infected|present|presence|success|correct|accuracy|survived|passed|bought|default|cured"
    r"|recovered|disease[ds]?|catch|number|freq|frequency|height|weight|wear|mortality|prevalence|earn"
    r"|earnings|income|wage|salary|price|loss(es)?|paid|incurred|severity|claim_?(size|cost)s?)$"
    r"|(^|_)claims?_?(nb|no|count|number|amount|paid|total|cost|size|frequency|severity)s?$"
    r"|^(n|nb|num|number)_\w+|\w_counts?$",
    re.I,
)
# Whole numbers that are counts; those that are amounts.
COUNTED = re.compile(
    r"(^|_)(n|nb|num|number|counts?|cases|deaths|events|claims|accidents|abundance|total|freq"
    r"|frequency|ticks|seizures|eggs|offspring|incidence|visits)(_|$)",
    re.I,
)
AMOUNT = re.compile(
    r"(^|_)(weight|height|length|width|diameter|yield|score|iq|income|earn|earnings|salary|wage"
    r"|price|cost|angle|pressure|bp|sbp|dbp|reaction|rt|strength|wear|acuity|mass|bmi|chol"
    r"|cholesterol|glucose|distance|area|volume|confidence|vas|slider|percent|rating)s?$|_(ms|mg|kg|cm|mm|ml)$",
    re.I,
)
SMALLEST_AMOUNT, MEAN_AMOUNT, ROUND = 20.0, 1000.0, 10.0
# Codes: whole numbers from 1, without gaps, that repeat.
MOST_CODES = 12
# What ratings are called; and what may be ratings or counts, which would have some zeros.
RATING = re.compile(
    r"(^|_)(rating|score|likert|grade|satisfaction|agreement|agree|star|severity|pain|opinion"
    r"|quality|preference|item_?\d+|q\d*|health|happiness)s?$",
    re.I,
)
EITHER = re.compile(r"^(y|response|resp|outcome|target|label)$", re.I)
ZEROS_OF_COUNTS = 7.0  # so many are expected where none is below 1 in 1,000
MOST_RATINGS = 10
ROWS_PER_RATING = 3
# The ends of an interval, as they are called, behind or before the same word.
ENDS = (
    *(("lower", "upper"), ("left", "right"), ("low", "high"), ("lo", "hi"), ("l", "u"), ("l", "r")),
    *(("start", "stop"), ("start", "end"), ("begin", "end"), ("tstart", "tstop")),
    *(("enter", "exit"), ("entry", "exit")),
)
FORMS = (r"{}", r"{}[_ .](\w+)", r"(\w+)[_ .]{}")
# Ends that are a time at risk, where there is an event too.
SPELL = ("start", "begin", "tstart", "enter", "entry")
# Zeros among amounts, and their skewness.
MIN_ZEROS = 2
SKEWED = 0.5

# A fault, the rows that have it, and the columns whose entries show it.
Fault: TypeAlias = tuple[str, BoolArray, tuple[Column, ...]]


@dataclass(frozen=True, eq=False)
class Roles:
    """The response (`guessed`: by nothing but its place; `passed`: a column that is called like a
    response and cannot be one), and the columns that belong to it: the
    `exposure` or `offset` of counts, the `trials` of successes, the `event` and the `entry` of
    lifetimes, the ends `lower` and `upper` of intervals (`absent`: of a response that has no
    column). `unfit`: a column that is called like an exposure and cannot be one; `outcomes`:
    other events, or times to them; `unclear`: a column that says by more than two labels which
    times are those of an event; `amounts`: whether whole numbers are taken as such; `doubts`: what
    holds in all rows but a few, and why a column is not what it nearly is, with the first of the
    rows that speak against it."""

    response: Column
    guessed: bool = False
    passed: Column | None = None
    exposure: Column | None = None
    offset: Column | None = None
    trials: Column | None = None
    event: Column | None = None
    entry: Column | None = None
    lower: Column | None = None
    upper: Column | None = None
    absent: bool = False
    unfit: Column | None = None
    outcomes: tuple[Column, ...] = ()
    unclear: Column | None = None
    amounts: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The family of the response."""
        if self.event is not None or self.unclear is not None:
            # A Weibull has no density at 0; a Pareto's hazard falls from its own at 0.
            return "generalized_pareto" if (self.response.values == 0.0).any() else "weibull"
        if self.lower is not None:
            return "weibull" if self.response.values.min() > 0 else "normal"
        if self.trials is not None:
            return "binomial"
        if self.ordered:
            return "ordinal"
        if self.zeros:
            return "gamma"
        kinds = {"number": "normal", "count": "poisson", "binary": "bernoulli"}
        return kinds[self.response.kind]

    @property
    def ordered(self) -> bool:
        """Whether the response holds ratings: 1 to K, called so or too many for counts without
        zeros."""
        y = self.response
        few = 2 < y.levels <= MOST_RATINGS and ROWS_PER_RATING * y.levels <= y.values.size
        if not (y.contiguous and few):
            return False
        zeros = y.values.size * np.exp(-y.values.mean())  # of a Poisson's counts
        either = EITHER.search(y.called) is not None and zeros > ZEROS_OF_COUNTS
        return RATING.search(y.called) is not None or bool(either)

    @property
    def zeros(self) -> int:
        """How many zeros a skewed response of amounts has; 0 where it is none."""
        y = self.response.values
        zeros = int((y == 0.0).sum())
        if self.response.kind != "number" or self.response.levels < MIN_ZEROS + 1 or y.min() < 0.0:
            return 0
        skewness = float((((y - y.mean()) / y.std()) ** 3).mean())
        return zeros if zeros >= MIN_ZEROS and skewness > SKEWED else 0

    @property
    def special(self) -> tuple[Column, ...]:
        """The columns that are in the model as something other than covariates."""
        known = (
            *(self.exposure, self.offset, self.trials, self.event),
            *(self.entry, self.lower, self.upper),
        )
        return tuple(c for c in known if c is not None)


def roles_of(candidates: Sequence[Column], columns: Sequence[Column], wanted: str = "") -> Roles:
    """The roles of columns; `wanted` is the key of the response, "" where it is to be guessed.

    `candidates` (one at least) are the columns that may be responses.
    """
    bounded = between_ends(columns, wanted)
    if bounded is not None:
        return bounded
    lifetimes = None if _named(candidates) and not wanted else _lifetimes(columns, wanted)
    if lifetimes is not None:
        return lifetimes
    response, guessed = _response(candidates, columns, wanted)
    named = _named(columns)
    odd = _no_count(response)
    counted = COUNTED.search(response.called) is not None
    if response.kind == "number" and counted and odd.any() and mostly(~odd):
        response = replace(response, kind="count")
        about = _faults((f"`{response.key}` is no count", odd, (response,)))
    else:
        about = () if counted else _nearly(response)
    doubts = (*no_lifetimes(columns, response), *about)
    roles = Roles(response, guessed, named[0] if guessed and named else None, doubts=doubts)
    others = [c for c in columns if c.key != response.key]
    whole = response.kind == "count" or (response.kind == "number" and response.whole)
    if whole:
        for trials in others:
            if TRIALS.search(trials.called) and _hold(trials, response):
                above = response.entries > trials.entries
                fault = f"`{response.key}` is above `{trials.key}`"
                return replace(
                    roles, trials=trials, doubts=_faults((fault, above, (response, trials)))
                )
    if response.kind != "count":
        return roles
    offset = _first(others, OFFSET, ("number", "count", "binary"))
    exposure = _first(others, EXPOSURE, ("number", "count")) if offset is None else None
    if offset is None and exposure is None and _is_amount(response):
        amounts = replace(response, kind="number")
        return replace(roles, response=amounts, amounts=True)
    if exposure is not None:
        none = exposure.entries <= 0.0
        if not mostly(~none):
            return replace(roles, unfit=exposure)
        faults = _faults((f"`{exposure.key}` (exposure) is not above 0", none, (exposure,)))
        roles = replace(roles, doubts=(*roles.doubts, *faults))
    return replace(roles, exposure=exposure, offset=offset)


def _named(columns: Sequence[Column]) -> list[Column]:
    """Columns that are called like a response, in the order of these names."""
    return [c for name in RESPONSES for c in columns if c.key.casefold() == name]


def _lifetimes(columns: Sequence[Column], wanted: str) -> Roles | None:
    """The roles where a time stands beside its event; None where none does."""
    pair = next(pairs_of(columns, wanted), None)
    if pair is not None:
        time, event = pair
        called = [c for c in columns if ENTRY.search(c.called) and c.kind in ("number", "count")]
        called = [c for c in called if c is not time]
        entry = next((c for c in called if mostly(_enters(c, time))), None)
        known = [c for c in (time, event, entry) if c is not None]
        others = other_outcomes(columns, known)
        doubts = _of_lifetimes(time, event, entry)
        if entry is None and called:
            late = ~_enters(called[0], time)
            doubts += (
                f"`{called[0].key}` is called like a time from which a row was at risk (delayed "
                f"entry), and is not taken as one: it is not before `{time.key}` "
                f"{in_rows(late, called[0], time)}.",
            )
        return Roles(time, not wanted, event=event, entry=entry, outcomes=others, doubts=doubts)
    times = [c for c in columns if LIFETIME.search(c.called) and c.kind in ("number", "count")]
    times = [c for c in times if mostly(~negative(c)) and c.key == (wanted or c.key)]
    unclear = unclear_events(columns)
    if times and unclear:
        doubts = _of_lifetimes(times[0])
        return Roles(
            times[0], not wanted, unclear=unclear[0], outcomes=(unclear[0],), doubts=doubts
        )
    return None


def _enters(entry: Column, time: Column) -> BoolArray:
    """The rows that were at risk before their time; a time that is missing says nothing."""
    return np.asarray((entry.entries < time.entries) | unknown(time) & ~unknown(entry))


def _of_lifetimes(
    time: Column, event: Column | None = None, entry: Column | None = None
) -> tuple[str, ...]:
    """What of lifetimes has to be corrected before they are fitted."""
    faults: list[Fault] = [(f"`{time.key}` is below 0", negative(time), (time,))]
    if event is not None:
        faults.append((f"`{event.key}` is missing", unknown(event), (time,)))
    if entry is not None:
        late = ~_enters(entry, time)
        faults.append((f"`{entry.key}` is not before `{time.key}`", late, (entry, time)))
    return _faults(*faults)


def no_lifetimes(columns: Sequence[Column], response: Column) -> tuple[str, ...]:
    """Why a time and an event, called so, are not taken as a lifetime."""
    numbers = [c for c in columns if c.kind in ("number", "count")]
    times = [c for c in numbers if LIFETIME.search(c.called)]
    events = [c for c in columns if c.kind == "binary" and EVENT.search(c.called)]
    if not times or not events or any(c.key.casefold() in RESPONSES for c in (response,)):
        return ()
    time, event = times[0], events[0]
    faults = (
        (f"`{time.key}` is below 0", negative(time), (time,)),
        (f"`{event.key}` is missing", unknown(event), (time,)),
    )
    return tuple(
        f"`{time.key}` and `{event.key}` are called like a time and its event, and are not taken "
        f"as a lifetime: {fault} {in_rows(wrong, *shown)}."
        for fault, wrong, shown in faults
        if wrong.any() and not mostly(~wrong)
    )


def _faults(*faults: Fault) -> tuple[str, ...]:
    """Which rows have to be corrected."""
    return tuple(
        f"{fault} {in_rows(wrong, *shown)}: correct these rows or leave them out, as the model "
        "does not take them."
        for fault, wrong, shown in faults
        if wrong.any()
    )


def _no_count(response: Column) -> BoolArray:
    """The rows that hold something else than 0, 1, 2 ... or nothing."""
    y = response.entries
    return np.asarray(~unknown(response) & ((y != np.round(y)) | (y < 0.0)))


def _nearly(response: Column) -> tuple[str, ...]:
    """What a response would be but for a few rows."""
    y = response.entries
    if response.kind not in ("number", "count") or response.values.size < MOST_CODES:
        return ()
    known = ~unknown(response)
    for holds, kind, model in (
        ((y == 0.0) | (y == 1.0), "0 or 1", "binary, and observe bernoulli(logit)"),
        (~_no_count(response), "a count", "count, and observe poisson(log_rate)"),
    ):
        wrong = known & ~holds
        repeats = 2 * np.unique(y[holds]).size <= int(holds.sum())
        if wrong.any() and mostly(~wrong) and repeats:
            return (
                f"`{response.key}` is {kind} but {in_rows(wrong, response)}. If these are mistakes "
                f"or codes of missing entries, correct them, and declare {model}.",
            )
    return ()


def _is_amount(response: Column) -> bool:
    """Whether whole numbers are amounts: called so, or not called counts and all large or round."""
    y = response.values
    rated = RATING.search(response.called) and response.contiguous
    if rated or COUNTED.search(response.called):
        return False
    large = y.min() >= SMALLEST_AMOUNT or y.mean() > MEAN_AMOUNT
    return AMOUNT.search(response.called) is not None or large or bool((y % ROUND == 0.0).all())


def between_ends(columns: Sequence[Column], wanted: str = "") -> Roles | None:
    """The roles where two columns are the ends of intervals; None where none are."""
    ends = _ends(columns, wanted)
    return None if ends is None else _between(*ends, columns, wanted)


def _ends(columns: Sequence[Column], wanted: str) -> tuple[Column, Column] | None:
    """Two columns that are called like the ends of an interval, and are; not where one is
    `wanted` as the response."""
    numbers = [c for c in columns if c.kind in ("number", "count") and c.key != wanted]
    lows = numbers + [c for c in columns if c.open < 0.0]
    highs = numbers + [c for c in columns if c.open > 0.0]
    for first, last in ENDS:
        for low in lows:
            for high in highs:
                if _called_ends(low.called, high.called, first, last) and _are_ends(low, high):
                    return low, high
    return None


def _called_ends(low: str, high: str, first: str, last: str) -> bool:
    """Whether two keys are one word but for the names of the ends: time_lower, time_upper."""
    for form in FORMS:
        a = re.fullmatch(form.format(first), low, re.I)
        b = re.fullmatch(form.format(last), high, re.I)
        if a and b and [g.casefold() for g in a.groups()] == [g.casefold() for g in b.groups()]:
            return not any(COVARIATE.search(g) and not LIFETIME.search(g) for g in a.groups())
    return False


def _are_ends(low: Column, high: Column) -> bool:
    both = ~unknown(low) & ~unknown(high)
    a, b = low.entries[both], high.entries[both]
    return mostly(a <= b) and bool((a < b).any() or not both.any())


def _between(low: Column, high: Column, columns: Sequence[Column], wanted: str) -> Roles | None:
    """The roles where a response lies between two columns: of a column that is called like one and
    does, or of none; where there is an event, the first end is when its row came under
    observation. None where another column is called like a response."""
    others = [c for c in columns if c is not low and c is not high]
    events = [c for c in others if EVENT.search(c.called) and c.kind == "binary"]
    event = next((c for c in events if mostly(~unknown(c))), None)
    spell = low.called.casefold().startswith(SPELL)
    spell = spell and not high.open and mostly(~unknown(low)) and mostly(~unknown(high))
    if event is not None and spell and not wanted:
        return Roles(high, event=event, entry=low, doubts=_of_lifetimes(high, event, low))
    if spell:
        return None
    doubts = _faults(
        (f"`{low.key}` is above `{high.key}`", low.entries > high.entries, (low, high))
    )
    called = [c for c in others if c.key == (wanted or c.key) and c.kind in ("number", "count")]
    named = [
        c for c in called if wanted or c.key.casefold() in RESPONSES or LIFETIME.search(c.called)
    ]
    for response in named:
        if not ((response.entries < low.entries) | (response.entries > high.entries)).any():
            return Roles(response, lower=low, upper=high, doubts=doubts)
    if wanted or any(c.key.casefold() in RESPONSES for c in others):
        return None
    positive = min(low.values.min(), high.values.min()) >= 0.0
    ends = {"lower": low.entries, "upper": high.entries}
    known = Column("", "", "number", entries=within(ends, bool(positive)))
    return Roles(known, guessed=False, lower=low, upper=high, absent=True, doubts=doubts)


def _response(
    candidates: Sequence[Column], columns: Sequence[Column], wanted: str
) -> tuple[Column, bool]:
    if wanted:
        return next(c for c in candidates if c.key == wanted), False
    named = _named(candidates)
    if named:
        return named[0], False
    events = [c for c in candidates if c.kind == "binary" and EVENT.search(c.called)]
    if events:
        return events[0], True
    patterns = (EXPOSURE, OFFSET, COVARIATE)
    plain = [c for c in candidates if not any(p.search(c.called) for p in patterns)]
    successes = [c for c in plain if c.kind == "count" and any(_above(c, o) for o in columns)]
    likely = [
        c
        for c in plain
        if not TRIALS.search(c.called)
        and (RATING.search(c.called) or not (_is_code(c) or c.codes))
        and not (c.kind == "number" and c.levels == len(c.pair))
    ]
    named = [c for c in likely if LIKELY.search(c.called) or RATING.search(c.called) or c.base]
    many = [c for c in likely if (c is columns[0] and c.kind == "binary") or not c.few]
    rest = [c for c in plain if not (c.codes or TRIALS.search(c.called)) and c.levels > len(c.pair)]
    return (named or successes or many or likely or rest or candidates)[0], True


def _above(column: Column, other: Column) -> bool:
    """Whether another column is the number of trials of this one."""
    trials = other is not column and TRIALS.search(other.called)
    return bool(trials) and _hold(other, column)


def _first(
    columns: Sequence[Column], name: re.Pattern[str], kinds: tuple[str, ...]
) -> Column | None:
    """The first whole column of such a name and kind."""
    return next(
        (c for c in columns if name.search(c.called) and c.kind in kinds and not c.missing), None
    )


def _is_code(column: Column) -> bool:
    few = column.levels <= MOST_CODES and column.levels < column.values.size
    return column.kind == "count" and column.contiguous and few


def _hold(trials: Column, response: Column) -> bool:
    """Whether no response is above its number of trials."""
    whole = trials.whole and not trials.missing and not response.missing
    # 1 at most of 1 is no number of successes.
    several = trials.entries.size == response.entries.size and trials.values.max(initial=0.0) > 1.0
    return whole and several and mostly(~(response.entries > trials.entries))


def notes(roles: Roles, eta: str) -> Iterator[str]:
    """What the model takes columns for by their names, and what may be meant instead."""
    y = roles.response
    yield from roles.doubts
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
    event = roles.event
    if event is not None and not event.pair:
        yield (
            f"`{event.key}` is 1 where the event was observed at `{y.key}`, 0 where it "
            "had not happened by then (censored)."
        )
    elif event is not None:
        low = event.base or event.pair[0]
        high = next(label for label in event.pair if label != low)
        yield (
            f"The event was observed at `{y.key}` where `{event.key}` is {high}, and had not "
            f"happened by then (censored) where it is {low}. If it is the other way: "
            f'--map "{event.name}=contrasts({event.key}, base={high})".'
        )
    if roles.unclear is not None:
        yield (
            f"All times are taken as those of an event, as `{roles.unclear.key}` has "
            f"{roles.unclear.levels} labels. Make a column of it that is 1 where the event of "
            f"interest was observed and 0 elsewhere; then: data event[...] : binary, and event = "
            f"event beside log_scale = {eta}."
        )
    if roles.family == "generalized_pareto":
        yield (
            f"{int((y.values == 0.0).sum())} of `{y.key}` are 0, which a Weibull has not: its "
            "density at 0 is 0 or infinite. Half a unit added to them would allow "
            f"weibull(log_scale = {eta}, shape = shape)."
        )
    if y.base:
        high = next(label for label in y.pair if label != y.base)
        yield f"`{y.key}` is 1 where it is {high}, 0 where it is {y.base}."
    if roles.entry is not None:
        yield f"`{roles.entry.key}` is the time from which a row was at risk (delayed entry)."
    if roles.lower is not None and roles.upper is not None:
        yield (
            f"`{y.key}` lies between `{roles.lower.key}` and `{roles.upper.key}`, by the names of "
            "the columns; an end that is missing or infinite is open."
        )
    if roles.family == "ordinal":
        yield (
            f"`{y.key}` holds 1 to {y.levels}, taken as ratings. If they are counts: declare "
            f"count, and observe poisson(log_rate = {eta}), with a level added to {eta}; if "
            "amounts: declare real, and observe normal(mean, sd)."
        )
    if roles.amounts:
        yield (
            f"`{y.key}` holds whole numbers, {y.values.min():g} to {y.values.max():g}, taken as "
            f"amounts. If they are counts: declare count, observe poisson(log_rate = {eta}), and "
            "give priors with sd = 2.5 to the latents, which are then on a log scale."
        )
    if roles.family == "gamma":
        yield (
            f"{roles.zeros} of `{y.key}` are 0, the others skewed: 0 with a probability of its own "
            "(hurdle). For sums of a random number of amounts instead: hyper phi : positive ~ "
            "lognormal(mean = 0, sd = 1), "
            f"tweedie(log_mean = {eta}, dispersion = phi, power = 1.5)."
        )
    if roles.family == "poisson":
        yield (
            "Counts that vary more than a Poisson's: negbinomial(log_mean = "
            f"{eta}, size = r), hyper r : positive ~ lognormal(mean = 1, sd = 1). Whole "
            "numbers that are not counts: declare real, and observe normal(mean, sd)."
        )
