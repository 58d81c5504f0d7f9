"""Names of the language to structures and kernels: builders from evaluated arguments.

What an argument is where it is left out is declared (`vocabulary.structures`); builders
and classes have no defaults of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.catalogue import Catalogue
from lgmdsl.contract.structure import Members, Structure
from lgmdsl.errors import ModelError
from lgmdsl.structures.kernels import Kernel
from lgmdsl.vocabulary.lookup import lookup

Builder = Callable[..., Structure]


def _array(value: object) -> Array:
    return np.asarray(value, dtype=np.float64)


@dataclass(frozen=True)
class Declared:
    """The builder of a class: arguments that are left out have the values that its signature
    declares, a scale that another factor carries is 1. `make` is the class where it takes the
    arguments as they are."""

    part: type[Any]
    defaults: Mapping[str, Any] = field(compare=False)
    make: Callable[..., Any]

    @classmethod
    def of(
        cls, part: type[Structure] | type[Kernel], make: Callable[..., Any] | None = None
    ) -> Declared:
        signature = part.signature
        assert signature is not None
        arguments: dict[str, Any] = {**dict.fromkeys(signature.scales, 1.0), **signature.defaults}
        return cls(
            part,
            {
                name: value if isinstance(value, str | bool) else _array(value)
                for name, value in arguments.items()
            },
            make or part,
        )

    def __call__(self, *size: int, **arguments: Any) -> Any:
        return self.make(*size, **{**self.defaults, **arguments})


def _builder(module: str, part: str, make: str = "") -> Callable[[], Declared]:
    """A line of the catalogue: a class, and the function of its module that makes it where it is
    not called with the arguments as they are."""

    def load() -> Declared:
        imported = import_module(f"lgmdsl.structures.{module}")
        return Declared.of(getattr(imported, part), getattr(imported, make) if make else None)

    return load


def _kernel(module: str, part: str) -> Callable[[], Declared]:
    """A kernel whose arguments may be given as numbers."""

    def load() -> Declared:
        cls = getattr(import_module(f"lgmdsl.structures.{module}"), part)

        def make(**arguments: object) -> Kernel:
            kernel: Kernel = cls(**{k: _array(v) for k, v in arguments.items()})
            return kernel

        return Declared.of(cls, make)

    return load


# A new structure or kernel is its declaration, its class and a line here.
STRUCTURES: Catalogue[Builder] = Catalogue(
    {
        "normal": _builder("independent", "Normal"),
        "iid": _builder("independent", "Iid"),
        "flat": _builder("independent", "Flat"),
        "compound": _builder("compound", "Compound", "compound"),
        "dense": _builder("independent", "Dense", "dense"),
        "known": _builder("known", "Known", "known"),
        "gmrf": _builder("spatial.gmrf", "Gmrf", "gmrf"),
        "rw1": _builder("ordered.walks", "FirstOrderWalk", "rw1"),
        "rw2": _builder("ordered.walks", "SecondOrderWalk", "rw2"),
        "seasonal": _builder("ordered.seasonal", "Seasonal", "seasonal"),
        "ar1": _builder("ordered.chain", "Ar1", "ar1"),
        "ar": _builder("ordered.ar", "Ar", "ar"),
        "ou": _builder("ordered.ou", "OrnsteinUhlenbeck", "ou"),
        "toeplitz": _builder("ordered.ar", "Toeplitz", "toeplitz"),
        "besag": _builder("spatial.besag", "Besag", "besag"),
        "car": _builder("spatial.car", "Car", "car"),
        "gp": _builder("kernels", "Gp", "gp"),
        "spde": _builder("spatial.spde", "Spde", "spde"),
    }
)
KERNELS: Catalogue[Callable[..., Kernel]] = Catalogue(
    {
        "se": _kernel("stationary", "SquaredExponential"),
        "matern": _builder("stationary", "Matern", "matern"),
        "rq": _kernel("stationary", "RationalQuadratic"),
        "periodic": _kernel("stationary", "Periodic"),
        "linear": _kernel("kernels", "Linear"),
        "white": _kernel("kernels", "White"),
    }
)


def members_of(name: str) -> Members:
    """How the structure `name` takes members that a fit did not have."""
    signature = lookup("structure", name)
    if signature is not None and signature.basis is not None:
        return Members.JOINED  # positions of the basis, which stays the fit's
    part = _part(name)
    return Members.FIXED if part is None else part.members


def chained(name: str) -> bool:
    """Whether the members of the structure `name` are a Markov chain."""
    part = _part(name)
    return part is not None and part.chained


def _part(name: str) -> type[Structure] | None:
    builder = STRUCTURES.get(name)
    part = builder.part if isinstance(builder, Declared) else builder
    return part if isinstance(part, type) and issubclass(part, Structure) else None


def structure(name: str, size: int, **arguments: Any) -> Structure:
    """The structure `name` on an axis of `size`; KeyError where no structure has that name yet."""
    return STRUCTURES[name](size, **arguments)


def kernel(name: str, **arguments: Any) -> Kernel:
    """The kernel `name`; KeyError where there is none."""
    return KERNELS[name](**arguments)


def register_structure(name: str, builder: Builder) -> None:
    """Make a structure known: `builder(size, **arguments)` with float64 arrays as arguments.
    Raises ModelError E106 where the name is taken."""
    _add(STRUCTURES, "structure", name, builder)


def register_kernel(name: str, builder: Callable[..., Kernel]) -> None:
    """Make a kernel known: `builder(**arguments)` with float64 arrays as arguments.
    Raises ModelError E106 where the name is taken."""
    _add(KERNELS, "kernel", name, builder)


def _add(table: MutableMapping[str, Any], kind: str, name: str, builder: object) -> None:
    if table.setdefault(name, builder) != builder:
        raise ModelError.of(
            "E106", f"a {kind} called `{name}` exists already", help="give the new one another name"
        )
