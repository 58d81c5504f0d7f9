"""Every part that can be combined: shipped, from entry points, or registered at run time."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lgmdsl.bounds import catalogue as bounds
from lgmdsl.errors import LgmError
from lgmdsl.inference.kinds import BackendClass as BackendClass
from lgmdsl.inference.kinds import (
    Kind,
    check_declared,
    kind_of,
    name_of,
    signature_of,
)
from lgmdsl.sites import catalogue as sites
from lgmdsl.vocabulary import lookup, plugins
from lgmdsl.vocabulary.plugins import EntryPoint, Fault
from lgmdsl_backends.catalogue import BACKENDS


@dataclass(frozen=True)
class Registered:
    """A third party's part; `point` is the entry point that it came by, None at run time."""

    kind: Kind
    name: str
    part: Any
    point: EntryPoint | None = None


_backends: MutableMapping[str, BackendClass] = BACKENDS
_registered: dict[tuple[str, str], Registered] = {}


def register(part: object, point: EntryPoint | None = None) -> None:
    """Add a third party's part: a Site, Structure, Prior, Kernel, Engine or Backend (classes), or
    a Bound (an object). Its signature makes its name known to the language.

    A class that is defined again (a notebook's cell) takes the place of the earlier one. Raises
    TypeError for anything else and for a part that lacks a declaration, ModelError or MethodError
    E106 for a name that is taken.
    """
    if _ships(part):
        return
    if point is None:
        plugins.load()  # so that a clash is reported here and not when somebody asks for a name
    kind = kind_of(part)
    check_declared(part, kind)
    key, signature = (kind.name, _key(part)), signature_of(part)
    earlier = _registered.get(key)
    if earlier is not None and earlier.part is not part and _redefined(earlier, part):
        unregister(earlier.part)
    kind.add(part)
    if signature is not None:
        try:
            lookup.register(signature)
        except LgmError:
            kind.remove(part)
            raise
    _registered.setdefault(key, Registered(kind, name_of(part), part, point))


def unregister(part: object) -> None:
    """Take a registered part out again (for tests and notebooks); an unknown one is no error."""
    kind = kind_of(part)
    known = _registered.get((kind.name, _key(part)))
    if known is None or known.part is not part:
        return
    del _registered[kind.name, _key(part)]
    kind.remove(part)
    signature = signature_of(part)
    if signature is not None and not any(signature_of(r.part) == signature for r in registered()):
        lookup.unregister(signature.category, signature.name)


def registered() -> tuple[Registered, ...]:
    """All parts of third parties."""
    return tuple(_registered.values())


def take_entry_points() -> Iterator[Fault]:
    """Register the parts that installed distributions declare; those that cannot be used are left
    out, and given back with the reason."""
    loaded = [(point, *_loaded(point)) for point in plugins.entry_points()]
    for point, part, reason in loaded:
        word = "" if reason else _word(part)
        rivals = (
            {
                q.package
                for q, other, none in loaded
                if not none
                and q.kind == point.kind
                and other is not part
                and _key(other) == _key(part)
            }
            if not reason
            else set()
        )
        if rivals:
            reason = f"`{_key(part)}` is declared by {' and by '.join(sorted(rivals))} as well"
        if not reason:
            try:
                register(part, point)
                continue
            except LgmError as error:
                reason = error.diagnostics[0].message
            except Exception as error:  # noqa: BLE001  what a stranger's class raises when asked
                reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        yield Fault(point, reason, word)


def _loaded(point: EntryPoint) -> tuple[Any, str]:
    """The part of an entry point, or why there is none."""
    try:
        part = point.load()
        kind = kind_of(part)
        if kind.name != point.kind:
            right = plugins.GROUPS[kind.name]
            return None, f"{point.value} is a {kind.words}, whose group is {right}"
        check_declared(part, kind)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a stranger's module may do anything
        return None, f"{type(error).__name__}: {error}".partition("\n")[0]
    return part, ""


def _ships(part: object) -> bool:
    name = getattr(getattr(part, "spec", None), "name", "")
    shipped = isinstance(name, str) and (
        sites.SITES.ships(name, part) or BACKENDS.ships(name, part)
    )
    return shipped or bounds.BOUNDS.ships(type(part).__name__, part)


def _key(part: Any) -> str:
    """What sets a part apart from others of its kind: bounds of one name give several questions."""
    gives = getattr(getattr(part, "spec", None), "gives", None)
    return f"{name_of(part)} for {gives.__name__}" if gives is not None else name_of(part)


def _word(part: Any) -> str:
    signature = signature_of(part)
    return signature.name if signature is not None else name_of(part)


def _redefined(earlier: Registered, part: Any) -> bool:
    """Whether a run-time part is another version of a class of the same module and name."""
    old, new = (p if isinstance(p, type) else type(p) for p in (earlier.part, part))
    same = (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
    return same and old is not new and earlier.point is None


def load_entry_points() -> None:
    """Register the parts that installed distributions declare, once."""
    plugins.load()


def backends() -> Mapping[str, BackendClass]:
    """All back ends by name."""
    load_entry_points()
    return MappingProxyType(_backends)


def packed() -> tuple[bytes, tuple[Registered, ...]]:
    """The parts registered at run time for another process (`unpack`), and those that it cannot
    have: their classes cannot be imported, having been defined in a script or in a function. No
    bytes where there are none."""
    importable: list[Registered] = []
    others: list[Registered] = []
    for entry in registered():
        if entry.point is None:
            (importable if _importable(entry.part) else others).append(entry)
    parts = pickle.dumps([entry.part for entry in importable]) if importable else b""
    return parts, tuple(others)


def unpack(parts: bytes) -> None:
    """Register the parts of another process."""
    for part in pickle.loads(parts):
        register(part)


def _importable(part: Any) -> bool:
    owner = part if isinstance(part, type) else type(part)
    if owner.__module__ == "__main__":
        return False
    try:
        pickle.dumps(part)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True
