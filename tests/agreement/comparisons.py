"""Properties that may pass without having run count how often they ran."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

ran: list[object] = []


def compared(what: object = None) -> None:
    """Say that an example was not merely refused."""
    ran.append(what)


def must_run(test: Callable[..., Any]) -> Callable[..., Any]:
    """A property that fails where none of its examples ran (above @given)."""

    @wraps(test)
    def counted(*given: Any, **named: Any) -> None:
        ran.clear()
        test(*given, **named)
        assert ran, "every example was refused: the property said nothing"

    return counted
