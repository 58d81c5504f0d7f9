"""Third-party parts at run time: `lgm.register(part)`."""

from __future__ import annotations

from typing import TypeVar

from lgmdsl.inference import registry

Part = TypeVar("Part")


def register(part: Part) -> Part:
    """Add a third-party site, back end or structure (classes) or bound (an instance).

    Usable as a class decorator. A site's `spec.signature` makes its family known to the language.
    Raises TypeError for anything else, ModelError or MethodError E106 for a name that is taken.
    """
    registry.register(part)
    return part
