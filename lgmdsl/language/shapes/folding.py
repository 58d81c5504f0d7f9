"""Arithmetic on the literal numbers of a model file."""

from __future__ import annotations

import math


def folded(op: str, left: float, right: float) -> float | None:
    """The value of `left op right`, or None where it is not a finite real number."""
    try:
        match op:
            case "+":
                value: complex = left + right
            case "-":
                value = left - right
            case "*":
                value = left * right
            case "/":
                value = left / right
            case "^":
                value = left**right
            case _:
                return None
    except (ZeroDivisionError, OverflowError):
        return None
    return value if isinstance(value, float) and math.isfinite(value) else None


def applied(function: str, value: float) -> float | None:
    """The value of a function of a number, or None where it is not a finite real number."""
    try:
        match function:
            case "log":
                return math.log(value)
            case "exp":
                return math.exp(value)
            case "sqrt":
                return math.sqrt(value)
    except (ValueError, OverflowError):
        return None
    return None


def type_of(value: float) -> str:
    """The narrowest type name that suits a literal."""
    return "positive" if value > 0 else "real"
