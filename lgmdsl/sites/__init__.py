"""Site families: densities of what is observed, and potentials. One file for each family.

`lgmdsl.sites.expected` and `lgmdsl.sites.tilted` are the public questions. They live above this
package (they choose among bounds, which use sites), so they are looked up when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = ("expected", "tilted")


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module("lgmdsl.site_questions"), name)
    raise AttributeError(f"module `lgmdsl.sites` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
