"""The family that a model's modifiers make of the one it names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.hurdle import hurdle
from lgmdsl.sites.combined.truncated import truncated
from lgmdsl.sites.combined.zero_inflated import zero_inflated

BY_ARGUMENT: Mapping[str, Callable[[type[Site]], type[Site]]] = {
    "zero_inflation": zero_inflated,
    "hurdle": hurdle,
    "truncated": truncated,
}


def modified(base: type[Site], given: Collection[str]) -> type[Site]:
    """`base` with the modifiers among the arguments that are given."""
    for name, factory in BY_ARGUMENT.items():
        if name in given:
            base = factory(base)
    return base
