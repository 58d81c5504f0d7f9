"""How a question to a result is computed: with as many BLAS threads as its fit, so that the digits
are the fit's own whoever asks, and naming what memory ran out of. Arguments that are one name may
be given as a list of one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from lgmdsl.errors import MethodError
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


def one_name(value: object, argument: str) -> str:
    """A name, also where it is the only one of a list or tuple. Raises MethodError E108 for
    anything else."""
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list | tuple | set | frozenset | np.ndarray):
        alone = [str(name) for name in names if isinstance(name, str)]
        if len(alone) == len(names) == 1:
            return alone[0]
    several = isinstance(names, list | tuple | set | frozenset | np.ndarray)
    help = f"ask for each by itself, {argument}=NAME" if several else f'as in {argument}="NAME"'
    message = f"`{argument}` is one name"
    raise MethodError.of("E108", message, details=(f"got {value!r}",), help=help)


def _named(method: Callable[..., object]) -> dict[str, bool]:
    """The parameters of a method after `self`, and whether each is a name."""
    parameters = [*signature(method).parameters.values()][1:]
    return {p.name: p.annotation in ("str", "str | None") for p in parameters}


def answering(doing: str) -> Callable[[Method[Self, P, T]], Method[Self, P, T]]:
    """A method that answers a question; `doing` is what memory runs out of."""

    def decorated(method: Method[Self, P, T]) -> Method[Self, P, T]:
        named = _named(method)

        @wraps(method)
        def answer(self: Self, /, *args: P.args, **options: P.kwargs) -> T:
            given = {**dict(zip(named, args, strict=False)), **options}
            wrong = {
                name: one_name(given[name], name)
                for name, is_name in named.items()
                if is_name and not isinstance(given.get(name), str | None)
            }
            if wrong:
                values = [wrong.get(k, v) for k, v in zip(named, args, strict=False)]
                rest = {k: wrong.get(k, v) for k, v in options.items()}
                return answer(self, *values, **rest)  # type: ignore[arg-type]
            with during(doing), one_thread() as known_flops:
                known_flops(self.flops)
                return method(self, *args, **options)

        return answer

    return decorated
