"""Plug-ins: the entry points by which installed distributions declare parts. No numpy here.

They are looked for once in a process, when a name is asked for that the language does not have, or
all names are: a model of the language's own words never waits for them. What they declare is taken
by the registry (`lgmdsl.inference.registry`), which is imported by its name and only where there is
an entry point.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from lgmdsl.errors import Diagnostic

# The entry-point group of each kind of part.
GROUPS = {
    "site": "lgmdsl.sites",
    "bound": "lgmdsl.bounds",
    "structure": "lgmdsl.structures",
    "prior": "lgmdsl.priors",
    "kernel": "lgmdsl.kernels",
    "engine": "lgmdsl.engines",
    "backend": "lgmdsl.backends",
}
REGISTRY = "lgmdsl.inference.registry"


@dataclass(frozen=True)
class EntryPoint:
    """One entry point: which kind it declares, its name, and the distribution that has it."""

    kind: str
    name: str
    value: str
    distribution: str
    version: str
    load: Callable[[], object]

    @property
    def package(self) -> str:
        """`acme-lgm 1.2`."""
        return f"{self.distribution} {self.version}".strip()

    def __str__(self) -> str:
        return f"entry point `{self.name}` ({GROUPS[self.kind]}) of {self.package}"


@dataclass(frozen=True)
class Fault:
    """Why an entry point cannot be used; `word` is the name that it would add, where known."""

    point: EntryPoint
    reason: str
    word: str = ""

    def diagnostic(self) -> Diagnostic:
        """W106, with the remedy."""
        return Diagnostic(
            "W106",
            f"the {self.point} is left out",
            details=(self.reason,),
            severity="warning",
            help=f"repair, update or uninstall {self.point.distribution}",
        )


class PluginWarning(UserWarning):
    """Issued once for each entry point that is left out."""


@cache
def entry_points() -> tuple[EntryPoint, ...]:
    """The entry points of all groups, in the order of distributions and names."""
    from importlib import metadata  # 50 ms where nobody else has imported it

    installed = metadata.entry_points()
    points = [
        EntryPoint(
            kind,
            point.name,
            point.value,
            point.dist.name if point.dist else "an unknown distribution",
            point.dist.version if point.dist else "",
            point.load,
        )
        for kind, group in GROUPS.items()
        for point in installed.select(group=group)
    ]
    return tuple(sorted(points, key=lambda p: (p.distribution, p.version, p.kind, p.name)))


class _Loading:
    """The state of the entry points in this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.begun = self.done = False
        self.faults: tuple[Fault, ...] = ()


_loading = _Loading()


def load() -> None:
    """Register the parts of installed plug-ins, once; other threads wait until they are there.

    Entry points that cannot be used are left out with a PluginWarning each.
    """
    if _loading.done:
        return
    with _loading.lock:
        if _loading.begun:  # a plug-in that asks for names while it is imported
            return
        _loading.begun = True
        try:
            if entry_points():
                take: Callable[[], Iterable[Fault]] = import_module(REGISTRY).take_entry_points
                _loading.faults = tuple(take())
        finally:
            _loading.done = True
    for fault in _loading.faults:  # when all the others are there: a warning may be an error
        warnings.warn(fault.diagnostic().render(), PluginWarning, stacklevel=3)


def faults() -> tuple[Fault, ...]:
    """The entry points that were left out."""
    return _loading.faults


def fault_of(word: str) -> Fault | None:
    """The entry point that would have added a word: by what it declares, or by its own name."""
    return next((f for f in _loading.faults if word in (f.word, f.point.name)), None)
