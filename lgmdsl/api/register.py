"""Third-party parts at run time: `lgm.register(part)`."""

from __future__ import annotations

from typing import TypeVar

from lgmdsl.inference import registry

Part = TypeVar("Part")


def register(part: Part) -> Part:
    """Add a third party's part: a Site, Structure, Prior, Kernel, Engine or Backend (classes), or a
    Bound (an object); `lgmdsl.extend` has the base classes.

    Usable as a class decorator. The part's signature makes its name a word of the language: models
    use it, `lgm.NAME` builds it, messages propose it. Worker processes know it where its class can
    be imported. Raises TypeError for anything else and for a part that lacks a declaration (one
    sentence says which), ModelError or MethodError E106 for a name that is taken.
    """
    registry.register(part)
    return part
