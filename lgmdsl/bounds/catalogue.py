"""The bounds. A new one is one file and one line here, or `register_bound`."""

from __future__ import annotations

from lgmdsl.bounds.quadrature import ExpectedByQuadrature, TiltedByQuadrature
from lgmdsl.contract.bound import Bound
from lgmdsl.errors import Diagnostic, MethodError, nearest

_BOUNDS: list[Bound] = [ExpectedByQuadrature(), TiltedByQuadrature()]


def bounds() -> tuple[Bound, ...]:
    """All bounds, in the order in which routes prefer them."""
    return tuple(_BOUNDS)


def bound(name: str, gives: type) -> Bound:
    """The bound called `name` that answers the question `gives`. Raises MethodError E103."""
    able = [b for b in _BOUNDS if b.spec.gives is gives]
    found = next((b for b in able if b.spec.name == name), None)
    if found is None:
        known = [b.spec.name for b in able]
        close = nearest(name, known)
        start = f"did you mean `{close}`? " if close else ""
        raise MethodError(
            Diagnostic(
                "E103",
                f"no bound `{name}` gives {gives.__name__}",
                help=f"{start}Bounds that do: {' '.join(known)}",
            )
        )
    return found


def register_bound(added: Bound) -> Bound:
    """Add a third party's bound. Raises MethodError E106 on a taken (name, question)."""
    for b in _BOUNDS:
        if (b.spec.name, b.spec.gives) == (added.spec.name, added.spec.gives):
            if type(b) is type(added):
                return b
            raise MethodError(
                Diagnostic("E106", f"a bound `{added.spec.name}` exists for this question already")
            )
    _BOUNDS.append(added)
    return added
