"""How hyperparameters are treated: fixed, map, em, integrate, vb; the choice of `auto`."""

from __future__ import annotations

from collections.abc import Mapping

from lgmdsl.api.settings import one_of
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.contract.backend import BackendSpec
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates, sparse
from lgmdsl.learning.em.closed_steps import closed_steps
from lgmdsl.learning.em.em import ACCELERATIONS
from lgmdsl.learning.em.simplices import probabilities
from lgmdsl.learning.integration.integrate import FEW, MOST
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.remedies import pin, setting

WAYS = ("auto", "fixed", "map", "integrate", "em", "vb")
DESIGNS = ("auto", "grid", "ccd", "gauss-hermite")
EPOCHS = 3
MOST_STEPS = 200
# A full product of nodes grows as their number to the power of the hyperparameters.
LARGEST = {"grid": 3, "gauss-hermite": 4}


def check_hyper(hyper: str) -> None:
    """Raise MethodError E103 for a way that does not exist."""
    if hyper not in WAYS:
        raise MethodError(
            Diagnostic(
                "E103",
                f"unknown treatment of hyperparameters `{hyper}`",
                help=suggestion(hyper, WAYS, f"there are: {', '.join(WAYS)}"),
            )
        )


def chosen_way(
    canonical: CanonicalModel, settings: FitSettings, backend: BackendSpec, design: str
) -> str:
    """fixed, map, em, integrate or vb. `auto` takes em where loadings multiply a latent and where
    words are drawn from topics; it integrates up to FEW scalars and maximises over more. em is map
    where it has no step in closed form.

    Raises MethodError E501 where there are too many to integrate, or where the method has no
    evidence to learn by; E104 where they are too many for the design.
    """
    hyper, pinned, space = settings.hyper, settings.fixed, canonical.hypers
    if hyper == "fixed" or not set(space.free) - pinned.keys():
        return "fixed"
    if not backend.evidence:
        raise MethodError(
            Diagnostic(
                "E501",
                f"method `{backend.name}` has no evidence to learn hyperparameters by",
                help=f"pin them: {pin('NAME')}, or take another method: "
                f"{setting('method', 'laplace')}",
            )
        )
    size = Coordinates(space, pinned).size
    kinked = next((b for b in space.unpinned(pinned) if sparse(b)), None)
    if hyper == "integrate" and kinked is not None:
        raise MethodError(_corners(kinked))
    if hyper == "integrate" and size > MOST:
        names = listed([f"`{n}`" for n in space.free if n not in pinned])
        raise MethodError(
            Diagnostic(
                "E501",
                f"{size} hyperparameters are too many to integrate over: {names}",
                details=(f"at most {MOST}",),
                help=f"maximise over them ({setting('hyper', 'map')}), or pin some: {pin('NAME')}",
            )
        )
    way = hyper
    if hyper in ("auto", "em"):
        theta = space.start(pinned)
        linear = linear_hypers(canonical, theta, pinned)
        if hyper == "auto":
            words = probabilities(canonical, Coordinates(space, pinned))
            em = linear.loadings or kinked is not None or bool(words)
            way = "em" if em else "integrate" if size <= FEW else "map"
        elif not linear.names and not closed_steps(canonical, Coordinates(space, pinned), theta):
            way = "map"
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


# Fits for each learned coordinate: of a scale and a level of counts 14 and 24, of three scales of
# normal observations 39 and 115.
FITS = {"map": 13, "em": 13, "vb": 13, "integrate": 30}


def expected_fits(canonical: CanonicalModel, fixed: Mapping[str, object] | None, way: str) -> float:
    """About how many fits a way takes."""
    if way == "fixed":
        return 1.0
    return float(max(1, FITS[way] * Coordinates(canonical.hypers, dict(fixed or {})).size))


# Options about learning, and the ways with hyperparameters that they are for.
OPTIONS = {
    "integration": ("integrate",), "acceleration": ("em", "map"), "batch": ("em", "map"),
    "epochs": ("em", "map"),
}  # fmt: skip


def check_learning(settings: FitSettings, way: str) -> None:
    """Raise MethodError E104 for an option about learning that this way does not have. (What
    em cannot do in closed form is map, with its options.)"""
    options, hyper = settings.options, settings.hyper
    for name, ways in OPTIONS.items():
        other = hyper == "map" and "em" in ways  # as requested, not the way that em was replaced by
        if name in options and (other or way not in (*ways, "fixed")):
            used = f"`hyper = {way}`" + (", which auto chose" if hyper == "auto" else "")
            message = f"`{name}` is an option of `hyper = {ways[0]}`, not of {used}"
            help = f"leave it out, or take {setting('hyper', ways[0])}"
            raise MethodError(Diagnostic("E104", message, help=help))


def _corners(block: HyperBlock) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"hyper `{block.name}` cannot be integrated over",
        block.span,
        "a graphical lasso has corners, and no known constant",
        help=f"maximise ({setting('hyper', 'em')}), or pin it: {pin(block.name)}",
    )


def learning_options(
    options: Mapping[str, object],
) -> tuple[LearningOptions, dict[str, object]]:
    """The options `integration`, `acceleration`, `batch`, `epochs` and `learning_steps`, and those
    left for the method.

    Raises MethodError E104 for a value that does not exist.
    """
    rest = dict(options)
    design = one_of(rest, "integration", DESIGNS)
    acceleration = one_of(rest, "acceleration", ACCELERATIONS)
    rows = _count(rest, "batch", 1000) if "batch" in rest else 0
    epochs = _count(rest, "epochs", EPOCHS)
    steps = _count(rest, "learning_steps", MOST_STEPS) if "learning_steps" in rest else None
    return LearningOptions(design, acceleration, (rows, epochs) if rows else None, steps), rest


def _count(options: dict[str, object], name: str, default: int) -> int:
    """The value of an option that is a number of things, taken out."""
    entered = options.pop(name, default)
    try:
        value = int(str(entered))
    except ValueError:
        value = -1
    if value <= 0:
        raise MethodError(
            Diagnostic(
                "E104",
                f"option `{name}` cannot be `{entered}`",
                help=f"it is a whole number above 0, as in {name}={default}",
            )
        )
    return value
