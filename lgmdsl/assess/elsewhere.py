"""Independent computations, in this process or on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Elsewhere(Protocol):
    """`call(this, *common, *some)` for each `some` of the arguments, on workers that have an equal
    of `this` (a bench, refits): the results in the order of the arguments, as they come. `call` can
    be imported; `common` is sent once to each worker."""

    def __call__(
        self,
        call: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        common: tuple[Any, ...] = (),
    ) -> Iterator[Any]: ...
