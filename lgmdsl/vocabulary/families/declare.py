"""What the declarations of families share: arguments, types of data, wording."""

from __future__ import annotations

from dataclasses import replace

from lgmdsl.vocabulary.modifiers import CENSORING as CENSORING
from lgmdsl.vocabulary.signature import Alias, Over, Parameter, Signature

# Data of a narrower type may be observed where a wider one is expected.
REAL = ("real", "positive", "nonnegative", "unit", "integer", "count")
POSITIVE = ("positive", "unit")
NONNEGATIVE = ("nonnegative", *POSITIVE, "count")


def latent(name: str, meaning: str, one_of: str = "", over: Over = "left") -> Parameter:
    """An argument that is affine in the latents."""
    return Parameter(name, "latent", one_of=one_of, over=over, meaning=meaning)


def or_predictor(parameter: Parameter) -> tuple[Parameter, Parameter]:
    """A positive parameter, and in its place a predictor of its logarithm: `sd | log_sd`."""
    name = parameter.name
    meaning = f"logarithm of `{name}`, with a predictor of its own"
    predictor = Parameter(
        f"log_{name}", "latent", one_of=name, of=name, link="log", meaning=meaning
    )
    return replace(parameter, one_of=name), predictor


def family(
    name: str,
    observed: tuple[str, ...],
    *parameters: Parameter,
    summary: str,
    formulas: dict[str, str],
    support: str,
    scale: str = "",
    example: str = "",
    see_also: tuple[str, ...] = (),
    also_called: tuple[Alias, ...] = (),
    source: str = "",
    other: Signature | None = None,
    ordered: bool = False,
) -> Signature:
    """A family with all that its page says."""
    return Signature(
        name,
        "family",
        parameters,
        observed=observed,
        summary=summary,
        other=other,
        ordered_axis=ordered,
        formulas=tuple(formulas.items()),
        support=support,
        scale=scale,
        example=example,
        see_also=see_also,
        also_called=also_called,
        source=source,
    )


SD_OF_Y = Parameter("sd", "positive", meaning="standard deviation of y")
TRIALS = "number of trials"
SHAPE = "hyper k : positive ~ lognormal(mean = 0, sd = 1)"
GLM = "McCullagh and Nelder 1989"
CENSORED = "; event, lower and upper censor y"
CLASSES = ('index class = {"bus", "car", "train"}', "data y[obs] : class")
