"""Names of the language to structures and kernels: builders from evaluated arguments."""

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
from lgmdsl.structures.spatial.besag import besag
from lgmdsl.structures.spatial.car import car
from lgmdsl.structures.spatial.gmrf import gmrf
from lgmdsl.structures.spatial.spde import spde

Builder = Callable[..., Structure]


def _array(value: object) -> Array:
    return np.asarray(value, dtype=np.float64)


def _gp(size: int, at: object, kernel: Kernel) -> Structure:
    inputs = _array(at)
    return Gp(np.ascontiguousarray(inputs.reshape(size, -1)), kernel)


STRUCTURES: dict[str, Builder] = {
    "normal": lambda size, mean=0.0, sd=1.0: Normal(size, mean, sd),
    "iid": lambda size: Iid(size),
    "flat": lambda size: Flat(size),
    "dense": lambda size, cov: Dense(np.ascontiguousarray(_array(cov))),
    "gmrf": gmrf,
    "rw1": rw1,
    "rw2": rw2,
    "seasonal": seasonal,
    "ar1": ar1,
    "ar": ar,
    "ou": ou,
    "besag": besag,
    "car": car,
    "gp": _gp,
    "spde": spde,
}

MEMBERS: dict[str, Members] = {
    cls.name: cls.members
    for cls in (
        Normal, Iid, Flat, Gp, Ar, Ar1, FirstOrderWalk, SecondOrderWalk, OrnsteinUhlenbeck, Seasonal
    )
}  # fmt: skip

# In a product of kernels all but one may leave out their sd.
KERNELS: dict[str, Callable[..., Kernel]] = {
    "se": lambda length, sd=1.0: SquaredExponential(_array(sd), _array(length)),
    "matern": lambda length, sd=1.0, smoothness=1.5: Matern(
        _array(sd), _array(length), float(smoothness)
    ),
    "rq": lambda length, alpha, sd=1.0: RationalQuadratic(
        _array(sd), _array(length), _array(alpha)
    ),
    "periodic": lambda length, period, sd=1.0: Periodic(_array(sd), _array(length), _array(period)),
    "linear": lambda sd=1.0: Linear(_array(sd)),
    "white": lambda sd=1.0: White(_array(sd)),
}


def members_of(name: str) -> Members:
    """How the structure `name` takes members that a fit did not have."""
    return MEMBERS.get(name, Members.FIXED)


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
    part = builder.part if isinstance(builder, Declared) else builder
    if isinstance(part, type) and issubclass(part, Structure):
        MEMBERS[name] = part.members


def register_kernel(name: str, builder: Callable[..., Kernel]) -> None:
    """Make a kernel known: `builder(**arguments)` with float64 arrays as arguments.
    Raises ModelError E106 where the name is taken."""
    _add(KERNELS, "kernel", name, builder)


def _add(table: dict[str, Any], what: str, name: str, builder: object) -> None:
    if table.setdefault(name, builder) != builder:
        raise ModelError(
            Diagnostic("E106", f"a {what} called `{name}` exists already",
                       help="give the new one another name")
        )  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """The builder of a third party's class: arguments that are left out have the values that its
    signature declares, a scale that another factor carries is 1."""

    part: type[Any]
    defaults: Mapping[str, Any] = field(compare=False)

    @classmethod
    def of(cls, part: type[Structure] | type[Kernel]) -> Declared:
        signature = part.signature
        assert signature is not None
        given: dict[str, Any] = {
            p.name: 1.0 for p in signature.parameters
            if p.name in signature.carries_scale and p.type == "positive"
        }  # fmt: skip
        given |= signature.defaults
        return cls(part, {
            name: value if isinstance(value, str | bool) else _array(value)
            for name, value in given.items()
        })  # fmt: skip

    def __call__(self, *size: int, **arguments: Any) -> Any:
        return self.part(*size, **{**self.defaults, **arguments})
