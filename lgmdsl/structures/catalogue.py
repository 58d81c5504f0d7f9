"""Names of the language to structures and kernels: builders from evaluated arguments.

What an argument is where it is left out is declared (`vocabulary.structures`, `.kernels`); builders
and classes have no defaults of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Members, Structure
from lgmdsl.errors import Diagnostic, ModelError
from lgmdsl.structures.independent import Dense, Flat, Iid, Normal
from lgmdsl.structures.kernels.gp import Gp
from lgmdsl.structures.kernels.kernels import Kernel, Linear, White
from lgmdsl.structures.kernels.stationary import (
    Matern,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
)
from lgmdsl.structures.ordered.ar import Ar, ar
from lgmdsl.structures.ordered.ar1 import Ar1, ar1
from lgmdsl.structures.ordered.ou import OrnsteinUhlenbeck, ou
from lgmdsl.structures.ordered.seasonal import Seasonal, seasonal
from lgmdsl.structures.ordered.walks import FirstOrderWalk, SecondOrderWalk, rw1, rw2
from lgmdsl.structures.spatial.besag import Besag, besag
from lgmdsl.structures.spatial.car import Car, car
from lgmdsl.structures.spatial.gmrf import Gmrf, gmrf
from lgmdsl.structures.spatial.spde import Spde, spde

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


def _table(*builders: Declared) -> dict[str, Declared]:
    return {b.part.name: b for b in builders}


def _dense(size: int, cov: object) -> Structure:
    return Dense(np.ascontiguousarray(_array(cov)))


def _gp(size: int, at: object, kernel: Kernel) -> Structure:
    inputs = _array(at)
    return Gp(np.ascontiguousarray(inputs.reshape(size, -1)), kernel)


def _kernel(cls: type[Kernel]) -> Declared:
    """A kernel whose arguments may be given as numbers."""
    return Declared.of(cls, lambda **arguments: cls(**{k: _array(v) for k, v in arguments.items()}))


def _matern(sd: object, length: object, smoothness: Any) -> Kernel:
    return Matern(_array(sd), _array(length), float(smoothness))


# A new structure or kernel is its declaration, its class and a line here.
STRUCTURES: dict[str, Builder] = {
    **_table(
        Declared.of(Normal),
        Declared.of(Iid),
        Declared.of(Flat),
        Declared.of(Dense, _dense),
        Declared.of(Gmrf, gmrf),
        Declared.of(FirstOrderWalk, rw1),
        Declared.of(SecondOrderWalk, rw2),
        Declared.of(Seasonal, seasonal),
        Declared.of(Ar1, ar1),
        Declared.of(Ar, ar),
        Declared.of(OrnsteinUhlenbeck, ou),
        Declared.of(Besag, besag),
        Declared.of(Car, car),
        Declared.of(Gp, _gp),
        Declared.of(Spde, spde),
    )
}
KERNELS: dict[str, Callable[..., Kernel]] = {
    **_table(
        _kernel(SquaredExponential),
        Declared.of(Matern, _matern),
        _kernel(RationalQuadratic),
        _kernel(Periodic),
        _kernel(Linear),
        _kernel(White),
    )
}


def members_of(name: str) -> Members:
    """How the structure `name` takes members that a fit did not have."""
    builder = STRUCTURES.get(name)
    part = builder.part if isinstance(builder, Declared) else builder
    if isinstance(part, type) and issubclass(part, Structure):
        return part.members
    return Members.FIXED


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


def _add(table: dict[str, Any], kind: str, name: str, builder: object) -> None:
    if table.setdefault(name, builder) != builder:
        raise ModelError(
            Diagnostic(
                "E106",
                f"a {kind} called `{name}` exists already",
                help="give the new one another name",
            )
        )
