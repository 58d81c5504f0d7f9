"""Copies of shipped parts under another name, registered as a third party's would be.

A copy has the bases and the body of its original and is no subclass of it, so that nothing which
asks for the class or the name of the original finds it.
"""

from __future__ import annotations

import types
from dataclasses import fields, replace
from typing import Any

import numpy as np

from lgmdsl.contract.site import Site
from lgmdsl.contract.structure import Structure
from lgmdsl.structures import catalogue as structures
from lgmdsl.vocabulary.signature import Signature


def copied(cls: type[Any]) -> type[Any]:
    """A class of the same bases and body, its zero-argument `super` included."""
    cell = types.CellType()

    def own(value: Any) -> Any:
        if (
            not isinstance(value, types.FunctionType)
            or "__class__" not in value.__code__.co_freevars
        ):
            return value
        names = value.__code__.co_freevars
        closure = tuple(
            cell if name == "__class__" else old
            for name, old in zip(names, value.__closure__ or (), strict=True)
        )
        made = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, closure
        )
        made.__kwdefaults__ = value.__kwdefaults__
        return made

    body = {k: own(v) for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__", "name")}
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(f"{cls.__name__}Twin", cls.__bases__, body)
    cell.cell_contents = made
    return made


def twin_name(name: str) -> str:
    """Of the same length, so that messages break lines and mark texts alike."""
    return name[:1].upper() + name[1:]


def renamed(signature: Signature) -> Signature:
    """The declaration under the twin's name, in both forms."""
    other = None if signature.other is None else renamed(signature.other)
    return replace(signature, name=twin_name(signature.name), other=other)


def site_twin(cls: type[Site]) -> type[Site]:
    """The twin of a site; where the compiler rewrites it, to the twin's own potential."""
    made, spec = copied(cls), cls.spec
    assert spec.signature is not None
    made.spec = replace(
        spec,
        name=twin_name(spec.name),
        signature=renamed(spec.signature),
        centred=twin_name(spec.centred),
    )
    return made


def part_twin(cls: type[Any]) -> type[Any]:
    """The twin of a prior or a kernel."""
    made = copied(cls)
    made.signature = renamed(cls.signature)
    made.name = made.signature.name
    return made


def kernel_twin(cls: type[Any]) -> type[Any]:
    """The twin of a kernel, its arguments arrays as a third party's are."""
    return part_twin(cls)


def structure_twin(cls: type[Structure]) -> type[Structure]:
    """The twin of a structure, called as a third party's is: `cls(size, **arguments)`."""
    made, build, name = part_twin(cls), structures.STRUCTURES[cls.name], cls.name

    def __init__(self: Any, size: int, **arguments: Any) -> None:
        built = build(size, **arguments)
        assert built.name == name
        for field in fields(built):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, getattr(built, field.name))

    made.__init__ = __init__
    return made


def same(one: object, other: object) -> bool:
    """To the last digit."""
    return bool(np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True))
