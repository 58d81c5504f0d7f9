"""Following the help of data that are refused leads on, and never back to where it began."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from lgmdsl.errors import Diagnostic, LgmError
from tests.data.models import bind
from tests.language.followed import followed

HEAD = (
    "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : {kind}\ndata z[obs] : {other}\n"
    "latent b ~ normal(sd = 1)\n"
)
SITES = {
    "binary": "bernoulli(logit = x * b)",
    "count": "poisson(log_rate = x * b)",
    "positive": "gamma(log_mean = x * b, shape = 2)",
    "unit": "beta(logit_mean = x * b, concentration = 3)",
    "nonnegative": "tweedie(log_mean = x * b, dispersion = 1, power = 1.5)",
    "real": "normal(mean = x * b, sd = 1)",
    "integer": "normal(mean = x * b, sd = 1)",
}
# The types that arguments of a family want.
ARGUMENTS = {
    "exposure": ("positive", "count", "poisson(log_rate = x * b, exposure = z)"),
    "n": ("count", "count", "binomial(n = z, logit = x * b)"),
    "weight": ("nonnegative", "real", "normal(mean = x * b, sd = 1, weight = z)"),
    "event": ("binary", "positive", "weibull(log_scale = x * b, shape = 2, event = z)"),
    "sd": ("positive", "real", "normal(mean = x * b, sd = z)"),
    "predictor": ("positive", "real", "normal(mean = x * b + z * b, sd = 1)"),
}
WRONG = [
    [1.0, 2.0, 1.0], [-1.0, 1.0, 1.0], [0.0, 255.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 0.5],
    [1.0, -2.0, 3.0], [1.0, 2.5, 0.0], [0.0, 1.0, 2.0], [-3.0, 1.0, 2.0], [20.0, 80.0, 5.0],
    [1.0, np.nan, 0.5], [np.nan, 0.0, 1.0], [0.5, np.inf, 0.2], [0.0, 0.5, 0.25], [1e3, 7.0, -0.5],
]  # fmt: skip
FAMILY = re.compile(r"declare `y : \w+` and observe it with a family of (\w+) data: (\w+)")
EXPRESSION = re.compile(r"^(?:.*?: )?([^:]*\b[yz]\b[^:]*?)(?:, (?:or|and|then) .*)?$")


def refusal(text: str, data: Mapping[str, Any]) -> Diagnostic | None:
    """The first thing that is wrong with a model or its data."""
    try:
        bind(text, dict(data))
    except LgmError as error:
        return error.diagnostics[0]
    return None


def ways_on(
    text: str, data: Mapping[str, Any], found: Diagnostic
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The texts and data that the help proposes."""
    family = FAMILY.search(found.help)
    for new in followed(text, found):
        if family:
            new = re.sub(r"observe y ~ .*", f"observe y ~ {SITES[family[1]]}", new)
        if new != text:
            yield new, dict(data)
    for part in re.split(r", or |; or |, and ", found.help):
        expression = EXPRESSION.match(part)
        try:
            value = eval(expression[1], {"np": np, **data}) if expression else None
        except (SyntaxError, NameError, TypeError, AttributeError):
            continue
        if expression and isinstance(value, np.ndarray):
            name = "y" if re.search(r"\by\b", expression[1]) else "z"
            yield text, {**data, name: value}


def walk(text: str, data: Mapping[str, Any], seen: tuple[str, ...], path: tuple[str, ...]) -> int:
    """Follow every way on; how many of them ended in a model. Fails where one goes in a circle."""
    found = refusal(text, data)
    if found is None:
        return 1
    here = f"{text}\n{data}"
    path = (*path, f"{found.message}: {found.help}")
    assert here not in seen, path
    ends = 0
    for new, values in ways_on(text, data, found):
        after = refusal(new, values)
        if after is None or (after.code, after.message) != (found.code, found.message):
            ends += walk(new, values, (*seen, here), path)
    return ends


@pytest.mark.parametrize("kind", SITES)
def test_no_help_for_a_response_leads_in_a_circle(kind: str) -> None:
    text = HEAD.format(kind=kind, other="real") + f"observe y ~ {SITES[kind]}\n"
    ends = 0
    for values in WRONG:
        data = {"x": np.ones(3), "y": np.array(values), "z": np.zeros(3)}
        ends += walk(text, data, (), ())
    assert ends >= 6


@pytest.mark.parametrize("name", ARGUMENTS)
def test_no_help_for_an_argument_leads_in_a_circle(name: str) -> None:
    other, kind, family = ARGUMENTS[name]
    text = HEAD.format(kind=kind, other=other) + f"observe y ~ {family}\n"
    for values in WRONG:
        walk(text, {"x": np.ones(3), "y": np.ones(3), "z": np.array(values)}, (), ())
