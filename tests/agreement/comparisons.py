"""Properties that may pass without having run count how often they ran, and how often what they
compare had converged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

ran: list[object] = []
tried: Counter[str] = Counter()
converged: Counter[str] = Counter()


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


def ended(name: str, well: bool) -> None:
    """Say that a solver ended, and whether it had converged."""
    tried[name] += 1
    converged[name] += well


def mostly_converged(shares: Mapping[str, float]) -> Callable[..., Callable[..., None]]:
    """A property that fails where some solver converged less often than it is known to, by more
    than three standard errors (above @given)."""

    def decorated(test: Callable[..., Any]) -> Callable[..., None]:
        @wraps(test)
        def counted(*given: Any, **named: Any) -> None:
            tried.clear()
            converged.clear()
            test(*given, **named)
            for name, share in shares.items():
                count = tried[name]
                least = share * count - 3.0 * (count * share * (1.0 - share)) ** 0.5
                assert converged[name] >= least, f"{name}: {converged[name]} of {count} converged"

        return counted

    return decorated
