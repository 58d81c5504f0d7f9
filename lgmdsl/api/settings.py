"""Settings of fits: numbers (a seed, a tolerance, a limit of steps), and values by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from lgmdsl.errors import MethodError, suggestion
from lgmdsl.remedies import number, setting


def check_numbers(seed: object, tol: object = None, max_steps: object = None) -> None:
    """Raise MethodError E108 for settings that are not numbers, or out of range."""
    whole = (int, np.integer)
    real = (float, np.floating, *whole)
    steps = max_steps is None or (isinstance(max_steps, whole) and max_steps >= 0)
    for name, value, good, wanted in (
        ("seed", seed, isinstance(seed, whole) and 0 <= seed < 2**63, "a whole number"),
        ("max_steps", max_steps, steps, "a whole number"),
        ("tol", tol, tol is None or (isinstance(tol, real) and tol >= 0), "a number"),
    ):
        if not good or isinstance(value, bool):
            message = f"`{name}` must be {wanted} not below 0"
            example = {"seed": "1", "max_steps": "200", "tol": "1e-5"}[name]
            raise MethodError.of(
                "E108",
                message,
                details=(f"got {value!r}",),
                help=f"as in {number(name.replace('_', '-'), example)}, or leave it out",
            )


def check_word(value: object, name: str, known: str) -> None:
    """Raise MethodError E108 for a setting that is no word; `known` is an example."""
    if not isinstance(value, str):
        message = f"`{name}` is a word"
        help = f"as in {setting(name, known)}"
        raise MethodError.of("E108", message, details=(f"got {value!r}",), help=help)


def check_named(values: object, setting: str, example: str) -> dict[str, object]:
    """Values by name, empty for None. Raises MethodError E108 for anything else, with the
    `example`."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        message = f"`{setting}` are values by name"
        raise MethodError.of(
            "E108", message, details=(f"got {values!r}",), help=f"as in {setting}={example}"
        )
    return dict(values)


def check_options(options: object) -> dict[str, object]:
    """The options of a method."""
    return check_named(options, "options", '{"integration": "grid"}')


def check_fixed(fixed: object) -> dict[str, object]:
    """Values that hyperparameters are pinned at."""
    return check_named(fixed, "fixed", '{"s": 0.5}')


def one_of(options: dict[str, object], name: str, known: tuple[str, ...]) -> str:
    """The value of an option, taken out; the first of those known by default."""
    value = str(options.pop(name, known[0]))
    if value not in known:
        raise MethodError.of(
            "E104",
            f"option `{name}` cannot be `{value}`",
            help=suggestion(value, known, f"there are: {', '.join(known)}"),
        )
    return value


def several(entered: object) -> tuple[str, ...]:
    """Names that are given one by one, or as a text with commas between them, those in brackets
    aside."""
    if isinstance(entered, str):
        entered = re.split(r",(?![^\[]*\])", entered)
    elif not isinstance(entered, Sequence):
        entered = (entered,)
    return tuple(str(one).strip() for one in entered)
