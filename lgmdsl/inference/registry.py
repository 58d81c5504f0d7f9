"""Every part that can be combined: shipped, from entry points, or registered at run time.

Sites, bounds and structures keep their own catalogues; this module adds the back ends, reads the
entry-point groups once, and offers the single `register`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from lgmdsl.bounds import catalogue as bounds
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.site import Site
from lgmdsl.contract.structure import Structure
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.sites import catalogue as sites
from lgmdsl.structures import catalogue as structures
from lgmdsl.vocabulary import lookup
from lgmdsl_backends.catalogue import BACKENDS

BackendClass = type[Backend[Any]]

GROUPS = ("lgmdsl.backends", "lgmdsl.sites", "lgmdsl.structures", "lgmdsl.bounds")

_backends: dict[str, BackendClass] = {b.spec.name: b for b in BACKENDS}


def register(part: object) -> None:
    """Add a third-party site, back end or structure (classes) or bound (an instance).

    A site's `spec.signature` makes its family known to the language.
    Raises TypeError for anything else, ModelError or MethodError E106 for a name that is taken.
    """
    if isinstance(part, Bound):
        bounds.register_bound(part)
        return
    if not isinstance(part, type):
        raise TypeError(f"register takes a class or a bound, not {part!r}")
    if issubclass(part, Backend):
        taken = _backends.get(part.spec.name)
        if taken is not None and taken is not part:
            raise MethodError(
                Diagnostic("E106", f"a back end called `{part.spec.name}` exists already")
            )
        _backends[part.spec.name] = part
    elif issubclass(part, Site):
        if part.spec.signature is not None:
            lookup.register(part.spec.signature)
        sites.register_site(part)
    elif issubclass(part, Structure):
        structures.register_structure(part.name, part)
    else:
        raise TypeError(f"{part.__name__} is no Backend, Site or Structure")


@cache
def load_entry_points() -> None:
    """Register the parts that installed distributions declare, once."""
    for group in GROUPS:
        for point in entry_points(group=group):
            register(point.load())


def backends() -> Mapping[str, BackendClass]:
    """All back ends by name."""
    load_entry_points()
    return dict(_backends)
