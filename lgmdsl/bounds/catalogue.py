"""The bounds. A new one is one file and one line here; from outside `lgm.register`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from lgmdsl.bounds.weighted import reaching
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.catalogue import Catalogue, part
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError, suggestion
from lgmdsl.vocabulary import plugins

if TYPE_CHECKING:
    from lgmdsl.bounds.quadrature import BoundSeries


def _made(module: str, name: str) -> Callable[[], Bound]:
    """A line of the catalogue: what imports a class, and makes it."""
    of = part(f"lgmdsl.bounds.{module}", name)
    return lambda: of()()


# By class, in the order in which routes prefer them.
BOUNDS: Catalogue[Bound] = Catalogue(
    {
        name: _made(module, name)
        for module, name in (
            ("quadrature", "ExpectedByQuadrature"),
            ("quadrature", "TiltedByQuadrature"),
            ("quadrature", "SlopesByQuadrature"),
            ("quadrature", "ExpectedSlopesByQuadrature"),
            ("logistic", "Jaakkola"),
            ("logistic", "Bohning"),
            ("softmax", "SoftmaxByQuadrature"),
            ("tilted", "TiltedBound"),
            ("softmax", "LogBound"),
            ("softmax", "BohningMultinomial"),
            ("softmax", "ProductOfSigmoids"),
            ("softmax", "Delta"),
            ("vector_quadrature", "VectorByQuadrature"),
            ("vector_tilted", "VectorTilted"),
            ("vector_tilted", "VectorTiltedSlopes"),
            ("several_predictors", "SeveralByQuadrature"),
        )
    }
)


@cache
def series() -> tuple[BoundSeries, ...]:
    """The series of bounds, one bound for each number of pieces."""
    from lgmdsl.bounds.piecewise import FEWEST, MOST, Piecewise
    from lgmdsl.bounds.quadrature import BoundSeries
    from lgmdsl.bounds.softmax import NAME, ProductOfSigmoids

    shapes: tuple[Literal["linear", "quadratic"], ...] = ("linear", "quadratic")
    alone = (BoundSeries(f"piecewise-{s}", FEWEST, MOST, partial(Piecewise, s)) for s in shapes)

    def product(shape: Literal["linear", "quadratic"], pieces: int) -> Bound:
        return ProductOfSigmoids(Piecewise(shape, pieces))

    inside = (
        BoundSeries(f"{NAME}-piecewise-{s}", FEWEST, MOST, partial(product, s)) for s in shapes
    )
    return (*alone, *inside)


def bounds() -> Iterator[Bound]:
    """All bounds but the series, in the order in which routes prefer them; each is imported when it
    is come to."""
    plugins.load()
    return (BOUNDS[key] for key in tuple(BOUNDS))


def named(name: str) -> tuple[Bound, ...]:
    """The bounds of that name, one for each question it gives; none where it is unknown."""
    matches = tuple(b for b in bounds() if b.spec.name == name)
    return matches or tuple(b for s in series() if (b := s.member(name)) is not None)


def applicable(site: type[Site], gives: type) -> tuple[str, ...]:
    """The names of the bounds that lift a site to a question; `stem-R` for a series."""
    able = [
        b.spec.name
        for b in bounds()
        if b.spec.gives is gives and not reaching(b, site).applies_to(site)
    ]
    able += [
        f"{s.stem}-R"
        for s in series()
        if s.example.spec.gives is gives and not reaching(s.example, site).applies_to(site)
    ]
    return tuple(able)


def bound(name: str, gives: type, site: type[Site] | None = None) -> Bound:
    """The bound called `name` that answers the question `gives`, e.g. ("jaakkola", Expected) or
    ("piecewise-quadratic-12", Expected); of several the one that applies to `site`, if any does.
    Raises MethodError E103."""
    candidates = [b for b in named(name) if b.spec.gives is gives]
    if not candidates:
        raise MethodError(unknown(name, gives))
    fitting = (b for b in candidates if site is not None and not b.applies_to(site))
    return next(fitting, candidates[0])


def unknown(name: str, gives: type | None = None) -> Diagnostic:
    """E103 for a name that no bound has, or none that gives the question."""
    known = [b.spec.name for b in bounds() if gives is None or b.spec.gives is gives]
    able = [s for s in series() if gives is None or s.example.spec.gives is gives]
    listed = [*dict.fromkeys(known), *map(str, able)]
    message = f"no bound `{name}` gives {gives.__name__}" if gives else f"unknown bound `{name}`"
    inside = next((s for s in able if name.startswith(s.stem)), None)
    if inside is not None:
        return Diagnostic("E103", message, help=f"there is {inside}")
    stems = [*known, *(s.stem for s in able)]
    return Diagnostic(
        "E103", message, help=suggestion(name, stems, then=f"Bounds: {', '.join(listed)}")
    )


def register_bound(added: Bound) -> Bound:
    """Add a third party's bound. Raises MethodError E106 on a taken (name, question)."""
    name = added.spec.name
    known = (*BOUNDS.values(), *(m for s in series() if (m := s.member(name)) is not None))
    for b in known:
        if (b.spec.name, b.spec.gives) == (name, added.spec.gives):
            if type(b) is type(added):
                return b
            raise MethodError.of("E106", f"a bound `{name}` exists for this question already")
    BOUNDS[f"{name} for {added.spec.gives.__name__}"] = added
    return added


def unregister_bound(bound: Bound) -> None:
    """Take a registered bound out again; an unknown one is no error."""
    for key in [key for key, known in BOUNDS.items() if known is bound]:
        del BOUNDS[key]
