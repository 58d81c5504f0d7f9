"""The family that a model's modifiers make of the one it names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.combined import CombinedSite
from lgmdsl.sites.combined.entered import entered
from lgmdsl.sites.combined.hurdle import hurdle
from lgmdsl.sites.combined.interval import interval
from lgmdsl.sites.combined.truncated import truncated
from lgmdsl.sites.combined.zero_inflated import zero_inflated
from lgmdsl.sites.tails import Tails

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


def seen_as(sites: Sequence[type[Site]], given: Collection[str]) -> list[type[Site]]:
    """The families that may take the arguments on how a row was observed: `sites`, those that give
    their tails with an interval for each row, and given a late entry."""
    out = [*sites, *(interval(s) for s in sites if issubclass(s, Tails))]
    if "entry" in given:
        out = [
            s if "entry" in s.spec.parameters else entered(s)
            for s in out
            if "event" in s.spec.parameters
        ]
    return out


def written(site: type[Site]) -> str:
    """A family as a model writes it, with the modifiers it was made by: `` `poisson` with
    `truncated` ``."""
    names: list[str] = []
    base = site
    while issubclass(base, CombinedSite):
        names += [name for name, factory in BY_ARGUMENT.items() if factory is base.recipe[0]]
        names += ["entry"] if base.recipe[0] is entered else []
        base = base.base
    given = " and ".join(f"`{name}`" for name in reversed(names))
    return f"`{site.spec.family}` with {given}" if given else f"`{site.spec.family}`"
