"""What to do with hyperparameters: fixed, map or integrate, and what `auto` makes of a model."""

from __future__ import annotations

from collections.abc import Mapping

from lgmdsl.canonical.hypers import HyperSpace
from lgmdsl.contract.backend import BackendSpec
from lgmdsl.errors import Diagnostic, MethodError, listed, nearest
from lgmdsl.learning.coordinates import Coordinates
from lgmdsl.learning.integrate import FEW, MOST

WAYS = ("auto", "fixed", "map", "integrate", "em", "vb")
DESIGNS = ("auto", "grid", "ccd", "gauss-hermite")
# A full product of nodes grows as their number to the power of the hyperparameters.
LARGEST = {"grid": 3, "gauss-hermite": 4}


def check_hyper(hyper: str) -> None:
    """Raise MethodError for a way that does not exist (E103) or not in this version (E501)."""
    if hyper not in WAYS:
        close = nearest(hyper, WAYS)
        raise MethodError(
            Diagnostic(
                "E103",
                f"unknown way with hyperparameters `{hyper}`",
                help=f"did you mean `{close}`?" if close else f"there are: {', '.join(WAYS)}",
            )
        )
    if hyper in ("em", "vb"):
        raise MethodError(
            Diagnostic(
                "E501",
                f"`hyper = {hyper}` is not available in this version",
                help="use map, integrate or fixed",
            )
        )


def chosen_way(
    space: HyperSpace,
    hyper: str,
    fixed: Mapping[str, object] | None,
    backend: BackendSpec,
    design: str,
) -> str:
    """fixed, map or integrate. `auto` integrates up to FEW scalars and maximises over more.

    Raises MethodError E501 where there are too many to integrate, or where the method has no
    evidence to learn by; E104 where they are too many for the design.
    """
    pinned = dict(fixed or {})
    if hyper == "fixed" or not set(space.free) - pinned.keys():
        return "fixed"
    if not backend.evidence:
        raise MethodError(
            Diagnostic(
                "E501",
                f"method `{backend.name}` has no evidence to learn hyperparameters by",
                help="pin them: --set NAME=VALUE, or take another method: --method laplace",
            )
        )
    size = Coordinates(space, pinned).size
    if hyper == "integrate" and size > MOST:
        names = listed([f"`{n}`" for n in space.free if n not in pinned])
        raise MethodError(
            Diagnostic(
                "E501",
                f"{size} hyperparameters are too many to integrate over: {names}",
                details=(f"at most {MOST}",),
                help="maximise over them (--hyper map), or pin some: --set NAME=VALUE",
            )
        )
    way = ("integrate" if size <= FEW else "map") if hyper == "auto" else hyper
    if way == "integrate" and size > LARGEST.get(design, size):
        raise MethodError(
            Diagnostic(
                "E104",
                f"`integration = {design}` is for up to {LARGEST[design]} hyperparameters",
                details=(f"there are {size}",),
                help="use integration=ccd",
            )
        )
    return way


def design_option(options: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """The design of the integration (option `integration`), and the options left for the method.

    Raises MethodError E104 for a design that does not exist.
    """
    rest = dict(options)
    design = str(rest.pop("integration", "auto"))
    if design not in DESIGNS:
        close = nearest(design, DESIGNS)
        raise MethodError(
            Diagnostic(
                "E104",
                f"option `integration` cannot be `{design}`",
                help=f"did you mean `{close}`?" if close else f"there are: {', '.join(DESIGNS)}",
            )
        )
    return design, rest
