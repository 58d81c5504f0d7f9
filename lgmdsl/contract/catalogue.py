"""Parts by name; a part that ships is imported when it is first asked for.

A fit uses a handful of some hundred parts, and importing them all was a tenth of the start of a
process. A catalogue therefore lists a part by name, module and attribute; its keys cost nothing,
its values import. (`tests/architecture/test_catalogues.py` imports every line.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def part(module: str, attribute: str) -> Callable[[], Any]:
    """A line of a catalogue: what imports `attribute` of `module`."""
    return lambda: getattr(import_module(module), attribute)


class Catalogue(MutableMapping[str, T], Generic[T]):
    """Parts by name, the shipped ones first and in the order of `shipped`; others are added and
    removed as in a dictionary."""

    def __init__(self, shipped: Mapping[str, Callable[[], T]]) -> None:
        self._shipped = dict(shipped)
        self._parts: dict[str, T | None] = dict.fromkeys(shipped)  # None: not imported yet

    def __getitem__(self, name: str) -> T:
        part = self._parts[name]
        if part is None:
            part = self._parts[name] = self._shipped[name]()
        return part

    def __setitem__(self, name: str, part: T) -> None:
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def shipped(self) -> tuple[T, ...]:
        """The parts that ship."""
        return tuple(self[name] for name in self._shipped if name in self._parts)

    def ships(self, name: str, part: object) -> bool:
        """Whether `part` is the shipped one of that name."""
        return name in self._shipped and self.get(name) is part
