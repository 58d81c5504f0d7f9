"""How a question to a result is computed: with as many BLAS threads as its fit, so that the digits
are the fit's own whoever asks, and naming what memory ran out of."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from lgmdsl.memory import during
from lgmdsl.numerics.blas_threads import one_thread


class Costed(Protocol):
    """A result; `flops`: those of one conditioning of its model, 0 where they are not known."""

    @property
    def flops(self) -> float: ...


P = ParamSpec("P")
T = TypeVar("T")
Self = TypeVar("Self", bound=Costed)
Method = Callable[Concatenate[Self, P], T]


def answering(doing: str) -> Callable[[Method[Self, P, T]], Method[Self, P, T]]:
    """A method that answers a question; `doing` is what memory runs out of."""

    def decorated(method: Method[Self, P, T]) -> Method[Self, P, T]:
        @wraps(method)
        def answer(self: Self, /, *args: P.args, **options: P.kwargs) -> T:
            with during(doing), one_thread() as known_flops:
                known_flops(self.flops)
                return method(self, *args, **options)

        return answer

    return decorated
