"""The bounds. A new one is one file and one line here; from outside `lgm.register`."""

from __future__ import annotations

from functools import partial
from typing import Literal

from lgmdsl.bounds.logistic import Bohning, Jaakkola
from lgmdsl.bounds.piecewise import FEWEST, MOST, Piecewise
from lgmdsl.bounds.product_of_sigmoids import NAME as PRODUCT
from lgmdsl.bounds.product_of_sigmoids import ProductOfSigmoids
from lgmdsl.bounds.quadrature import (
    BoundSeries,
    ExpectedByQuadrature,
    ExpectedSlopesByQuadrature,
    SlopesByQuadrature,
    TiltedByQuadrature,
)
from lgmdsl.bounds.several_predictors import SeveralByQuadrature
from lgmdsl.bounds.softmax import BohningMultinomial, Delta, LogBound, SoftmaxByQuadrature
from lgmdsl.bounds.tilted import TiltedBound
from lgmdsl.bounds.vector_quadrature import VectorByQuadrature
from lgmdsl.bounds.vector_tilted import VectorTilted, VectorTiltedSlopes
from lgmdsl.bounds.weighted import reaching
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError, suggestion
from lgmdsl.vocabulary import plugins

BUILT_IN: tuple[Bound, ...] = (
    ExpectedByQuadrature(),
    TiltedByQuadrature(),
    SlopesByQuadrature(),
    ExpectedSlopesByQuadrature(),
    Jaakkola(),
    Bohning(),
    SoftmaxByQuadrature(),
    TiltedBound(),
    LogBound(),
    BohningMultinomial(),
    ProductOfSigmoids(),
    Delta(),
    VectorByQuadrature(),
    VectorTilted(),
    VectorTiltedSlopes(),
    SeveralByQuadrature(),
)
_BOUNDS: list[Bound] = [*BUILT_IN]


def _product(shape: Literal["linear", "quadratic"], pieces: int) -> ProductOfSigmoids:
    return ProductOfSigmoids(Piecewise(shape, pieces))


SERIES: tuple[BoundSeries, ...] = (
    BoundSeries("piecewise-linear", FEWEST, MOST, partial(Piecewise, "linear")),
    BoundSeries("piecewise-quadratic", FEWEST, MOST, partial(Piecewise, "quadratic")),
    *(
        BoundSeries(f"{PRODUCT}-piecewise-{shape}", FEWEST, MOST, partial(_product, shape))
        for shape in ("linear", "quadratic")
    ),
)


def bounds() -> tuple[Bound, ...]:
    """All bounds but the series, in the order in which routes prefer them."""
    plugins.load()
    return tuple(_BOUNDS)


def named(name: str) -> tuple[Bound, ...]:
    """The bounds of that name, one for each question it gives; none where it is unknown."""
    matches = tuple(b for b in bounds() if b.spec.name == name)
    return matches or tuple(b for s in SERIES if (b := s.member(name)) is not None)


def applicable(site: type[Site], gives: type) -> tuple[str, ...]:
    """The names of the bounds that lift a site to a question; `stem-R` for a series."""
    able = [
        b.spec.name
        for b in bounds()
        if b.spec.gives is gives and not reaching(b, site).applies_to(site)
    ]
    able += [
        f"{s.stem}-R"
        for s in SERIES
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
    series = [s for s in SERIES if gives is None or s.example.spec.gives is gives]
    listed = [*dict.fromkeys(known), *map(str, series)]
    message = f"no bound `{name}` gives {gives.__name__}" if gives else f"unknown bound `{name}`"
    inside = next((s for s in series if name.startswith(s.stem)), None)
    if inside is not None:
        return Diagnostic("E103", message, help=f"there is {inside}")
    stems = [*known, *(s.stem for s in series)]
    return Diagnostic(
        "E103", message, help=suggestion(name, stems, then=f"Bounds: {', '.join(listed)}")
    )


def register_bound(added: Bound) -> Bound:
    """Add a third party's bound. Raises MethodError E106 on a taken (name, question)."""
    name = added.spec.name
    for b in [*_BOUNDS, *(m for s in SERIES if (m := s.member(name)) is not None)]:
        if (b.spec.name, b.spec.gives) == (name, added.spec.gives):
            if type(b) is type(added):
                return b
            raise MethodError(
                Diagnostic("E106", f"a bound `{name}` exists for this question already")
            )
    _BOUNDS.append(added)
    return added


def unregister_bound(bound: Bound) -> None:
    """Take a registered bound out again; an unknown one is no error."""
    _BOUNDS[:] = [b for b in _BOUNDS if b is not bound]
