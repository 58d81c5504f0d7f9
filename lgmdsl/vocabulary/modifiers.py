"""Arguments that every observation family of a kind takes, third parties' families too.

Each is one mechanism, computed from what a family declares: a `weight` of each row; zeros of counts
(`zero_inflation`, `hurdle`, `truncated`) and of positive responses (`hurdle`); how a lifetime was
observed (`event`, `lower`, `upper`, `entry`). Which a family takes follows from what it observes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lgmdsl.vocabulary.parameter import Parameter

WEIGHT = Parameter(
    "weight",
    "nonnegative",
    required=False,
    default=1.0,
    known=True,
    meaning="what the log density of a row is multiplied by: 2 counts it twice, 0 leaves it out",
)
ZERO_INFLATION = Parameter(
    "zero_inflation",
    "unit",
    required=False,
    blank=0.0,
    meaning="probability that y is 0 whatever the family says: P(0) = p + (1 - p) f(0)",
)
HURDLE = Parameter(
    "hurdle",
    "unit",
    required=False,
    blank=0.0,
    meaning="probability that y is 0; the other values are those of the family above 0",
)
TRUNCATED = Parameter(
    "truncated",
    "bool",
    required=False,
    default=False,
    meaning="true where zeros are never recorded: y from 1, f(y) / (1 - f(0))",
)
EVENT = Parameter(
    "event",
    "binary",
    required=False,
    blank=1.0,
    meaning="1 where y was observed, 0 where it is right-censored at y",
)
LOWER = Parameter(
    "lower",
    "real",
    required=False,
    open=True,
    meaning="lower end of the interval of y; missing or -inf where that end is open",
)
UPPER = Parameter(
    "upper",
    "real",
    required=False,
    open=True,
    meaning="upper end of the interval of y; missing or inf where that end is open",
)
ENTRY = Parameter(
    "entry",
    "real",
    required=False,
    open=True,
    known=True,
    meaning="time from which a row was at risk (delayed entry): the density given y > entry",
)
CENSORING = (EVENT, LOWER, UPPER)


def _logit_of(parameter: Parameter) -> Parameter:
    """The predictor of a probability."""
    name = parameter.name
    return Parameter(
        f"{name}_logit",
        "latent",
        required=False,
        of=name,
        link="logit",
        meaning=f"log odds of `{name}`, with a predictor of its own",
    )


ZERO_INFLATION_LOGIT, HURDLE_LOGIT = _logit_of(ZERO_INFLATION), _logit_of(HURDLE)

# At most one of a group is given. `truncated = false` counts as not given.
HURDLES = ("hurdle", "hurdle_logit")
ZEROS = ("zero_inflation", "zero_inflation_logit", *HURDLES, "truncated")
EXCLUSIVE: tuple[tuple[str, ...], ...] = (
    ZEROS,
    *((h, name) for h in HURDLES for name in ("event", "lower", "upper", "entry")),
)
# Observed with a hurdle: zeros among what the family has above 0.
WITH_ZEROS = ("nonnegative",)


def modifiers_of(observed: Sequence[str], parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """The modifiers of a family that observes data of these types, less those of its `parameters`:
    counts and positive responses are those with one predictor a row."""
    declared = {p.name for p in parameters}
    kind = observed[0] if observed else ""
    scalar = all(p.over == "left" for p in parameters if p.type == "latent")
    out: tuple[Parameter, ...] = (WEIGHT,)
    if kind == "count" and scalar:
        out += (ZERO_INFLATION, ZERO_INFLATION_LOGIT, HURDLE, HURDLE_LOGIT, TRUNCATED)
    if kind == "positive" and scalar:
        out += (HURDLE, HURDLE_LOGIT, *CENSORING, ENTRY)
    return tuple(p for p in out if p.name not in declared)
