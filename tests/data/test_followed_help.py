"""Following the help of data that are refused leads on, and never back to where it began."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from lgmdsl.contract.censoring import OBSERVING
from lgmdsl.errors import Diagnostic, LgmError
from lgmdsl.vocabulary.lookup import lookup, signatures
from tests.data.models import bind
from tests.language.followed import followed, retyped

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


NUMBERS = {"positive": "2", "real": "0.5", "count": "9", "unit": "0.5"}
SEEN = ("", "event = z", "lower = 1", "entry = z", "weight = 2", "hurdle = 0.5", "truncated = true")


def families() -> Iterator[tuple[str, str, str]]:
    """The observation families of one predictor: name, a call, the type of data."""
    for s in signatures("family"):
        needed = [p for p in s.parameters if p.required and p.type != "latent"]
        (latent, *_) = (p for p in s.parameters if p.type == "latent")
        if {p.over for p in (*needed, latent)} != {"left"} or s.observed[0] == "index":
            continue
        values = [f"{p.name} = {'1.5' if p.name == 'power' else NUMBERS[p.type]}" for p in needed]
        yield s.name, ", ".join([f"{latent.name} = x * b", *values]), s.observed[0]


@pytest.mark.parametrize("name", [name for name, _, _ in families()])
def test_a_recommended_hurdle_or_family_is_one_that_can_be(name: str) -> None:
    """Over all families, whatever says how the response was seen, whatever it is declared as."""
    call, observed = next((c, o) for n, c, o in families() if n == name)
    signature = lookup("family", name)
    assert signature is not None
    hurdles = 0
    for seen in SEEN:
        if seen and signature.parameter(seen.split(" = ")[0]) is None:
            continue
        for kind in dict.fromkeys((observed, "nonnegative", "positive", "count", "unit")):
            head = HEAD.format(kind=kind, other="real").replace("z[obs] : real", "z[obs] : binary")
            written = f"{name}({', '.join(filter(None, [call, seen]))})"
            text = head + f"observe y ~ {written}\n"
            for y in ([0.0, 1.0, 2.0], [0.0, 0.5, 0.25], [-1.0, 2.0, 3.0], [0.0, 0.0, 0.0]):
                data = {"x": np.ones(3), "z": np.zeros(3), "y": np.array(y)}
                found = refusal(text, data)
                if found is None:
                    continue
                if "hurdle = p" in found.help:
                    hurdles += 1
                    hurdle = written.replace(", truncated = true", "")[:-1] + ", hurdle = p)"
                    new = head + f"hyper p : unit ~ beta(a = 1, b = 1)\nobserve y ~ {hurdle}\n"
                    if "declare `y : nonnegative`" in found.help:
                        new = retyped(new, "y", "nonnegative")
                    after = refusal(new, data)
                    assert after is None or (min(y) < 0.0 and after.code == "E303"), (text, found)
                elif family := FAMILY.search(found.help):
                    for other in found.help[family.start(2) :].split(" "):
                        taken = lookup("family", other)
                        assert taken is not None and family[1] in taken.observed
                        if seen and seen.split(" = ")[0] in OBSERVING:
                            assert taken.parameter(seen.split(" = ")[0]) is not None, (text, found)
    assert hurdles or observed != "positive"
