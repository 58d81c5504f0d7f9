"""Modules of numpy and scipy that the process of `lgm` runs when first used, not when imported.

scipy's array layer imports all parts of numpy by name, `numpy.f2py` and `numpy.testing` among them,
and `scipy.special` writes the docstrings of its functions as it is imported: 0.1 s of each start,
for what many commands never touch. Only the command line does so; a program that imports lgmdsl
is not affected. (`importlib.util.LazyLoader` would do, but before Python 3.11.9 and 3.12.3 a
second thread could see a module half run.)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # slow to import

DEFERRED = frozenset({"numpy.f2py", "numpy.testing", "scipy.special"})

_lock = RLock()


class DeferredModule(ModuleType):
    """A module executed on first access to one of its attributes; other threads wait."""

    def __getattribute__(self, name: str) -> Any:
        if name not in ("__class__", "__dict__", "__spec__"):
            with _lock:
                spec = self.__dict__["__spec__"]
                if self.__class__ is DeferredModule and not spec.loader.running:
                    spec.loader.run(self)
        return ModuleType.__getattribute__(self, name)


class DeferredLoader:
    """Makes a `DeferredModule` from a spec and runs it later with the original loader."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.running = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module, before it runs."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Postpones execution until the first access."""
        module.__class__ = DeferredModule

    def run(self, module: ModuleType) -> None:
        """Execute it; a module that raises stays deferred, as a failed import can be repeated."""
        self.running = True
        try:
            self.loader.exec_module(module)
            module.__class__ = ModuleType
        finally:
            self.running = False


class DeferringFinder:
    """A finder that gives the modules in `DEFERRED` a deferred loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec with its loader deferred; None for all other modules."""
        if fullname not in DEFERRED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", DeferredLoader(spec.loader))
        return spec


def defer() -> None:
    """Defer the modules in `DEFERRED` that are not imported yet, in this process."""
    if not any(isinstance(finder, DeferringFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, DeferringFinder())
