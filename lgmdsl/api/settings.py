"""Settings that are numbers: a seed, a tolerance, a limit of steps."""

from __future__ import annotations

import numpy as np

from lgmdsl.errors import Diagnostic, MethodError


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
            told = f"`{name}` must be {wanted} not below 0"
            raise MethodError(Diagnostic("E108", told, details=(f"got {value!r}",)))
