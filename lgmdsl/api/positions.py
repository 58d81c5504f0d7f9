"""Where the members of an index set lie: along a line, or at places on a map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.latents import FactorSpec
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.lowering.bases import BasisFactor, basis_factor
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast

# Names that two data over one index have where they are coordinates, the first to the right.
PAIRS = (
    ("lon", "lat"), ("long", "lat"), ("longitude", "latitude"), ("x", "y"), ("xcoord", "ycoord"),
    ("x_coord", "y_coord"), ("coord_x", "coord_y"), ("east", "north"), ("easting", "northing"),
    ("eastings", "northings"),
)  # fmt: skip
DEGREES = ("lon", "long", "longitude")


@dataclass(frozen=True, eq=False)
class LinePositions:
    """Members of an index along a line: x (n,), what x is, and labels where x only numbers them."""

    x: Array
    axis: str
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class MapPositions:
    """Members of an index on a map: places (n, 2), what the coordinates are, the length of one
    unit of the second over one of the first, and whether there are values between the places, as of
    a Gaussian process."""

    places: Array
    axes: tuple[str, str]
    ratio: float = 1.0
    between: bool = False


def line(canonical: CanonicalModel, dim: str, name: str = "") -> LinePositions | None:
    """The index as a line, where a structure goes along it or the model counts it from one number
    to another; None where its members have no order. `name`: of a quantity over it, whose curve may
    have a line of its own."""
    curve = _curve_of(canonical, dim, name)
    if curve is not None:
        positions = canonical.positions[curve]
        if positions.shape[1] == 1:
            title = _axis_title(canonical, _basis(canonical, curve).factor, dim)
            return LinePositions(positions[:, 0], title)
        if curve == name:
            return None
    index = canonical.grounded.indices[dim]
    statement = canonical.grounded.model.symbols[dim].statement
    # Other labels have places too, dates those that count from 1970: they are drawn as they read.
    numbered = index.labels.dtype.kind in "iuf"
    chained = isinstance(statement, ast.Index) and isinstance(statement.definition, ast.Range)
    for factor in _factors(canonical, dim):
        inputs = _inputs(canonical, factor) if _given(factor) or numbered else None
        if inputs is not None and inputs.shape[1] == 1:
            return LinePositions(inputs[:, 0], _axis_title(canonical, factor.factor, dim))
        chained |= factor.declared.ordered_axis
    if not chained:
        return None
    if numbered:
        return LinePositions(
            index.labels.astype(np.float64), described(canonical.grounded.model, dim)
        )
    labels = tuple(map(str, index.labels.tolist()))
    x = np.arange(index.size, dtype=np.float64) if index.places is None else index.places
    return LinePositions(x, described(canonical.grounded.model, dim), labels)


def places(canonical: CanonicalModel, dim: str, name: str = "") -> MapPositions | None:
    """The index on a map: inputs of two columns that a Gaussian process over it has, or a spline,
    or two data over it that are named as coordinates are (PAIRS). `name` as for `line`."""
    grounded, curve = canonical.grounded, _curve_of(canonical, dim, name)
    if curve is not None and canonical.positions[curve].shape[1] == 2:
        return _surface(canonical, canonical.positions[curve], _basis(canonical, curve).factor)
    if curve is not None and curve == name:
        return None
    for factor in _factors(canonical, dim):
        inputs = _inputs(canonical, factor)
        if inputs is not None and inputs.shape[1] == 2:
            return _surface(canonical, inputs, factor.factor)
    pair = coordinate_pairs(grounded.graph).get(dim)
    if pair is None or any(name not in grounded.values for name in pair):
        return None
    coordinates = np.stack([np.asarray(grounded.values[n], dtype=np.float64) for n in pair], axis=1)
    ratio = 1.0
    if pair[0].lower() in DEGREES and np.abs(coordinates[:, 1]).max() < 89.0:
        ratio = float(1.0 / np.cos(np.radians(coordinates[:, 1].mean())))
    axes = tuple(described(grounded.model, n) for n in pair)
    return MapPositions(coordinates, (axes[0], axes[1]), ratio)


def _surface(canonical: CanonicalModel, inputs: Array, factor: ast.Dist) -> MapPositions:
    """Inputs of two columns (n, 2), named as the datum behind them is."""
    grounded, name = canonical.grounded, _datum(factor)
    columns = grounded.model.symbols[name].dims[1:] if name else ()
    labels = grounded.indices[columns[0]].labels.tolist() if columns else [1, 2]
    named = [str(v) for v in labels]
    if columns and all(v.isdecimal() for v in named):
        unit = described(grounded.model, name).removeprefix(name)
        named = [f"{name}[{v}]{unit}" for v in named]
    return MapPositions(inputs, (named[0], named[1]), between=True)


def _curve_of(canonical: CanonicalModel, dim: str, name: str) -> str | None:
    """The latent whose curve says where the members of an index lie: the quantity itself, or the
    only one over that index."""
    if name in canonical.positions and _basis(canonical, name).axis == dim:
        return name
    over = [n for n in canonical.positions if canonical.grounded.dims(n) == (dim,)]
    return over[0] if len(over) == 1 else None


def _basis(canonical: CanonicalModel, name: str) -> BasisFactor:
    factor = basis_factor(canonical.grounded.model.symbols[name])
    assert factor is not None, "a latent with positions of its own is made of a basis"
    return factor


def coordinate_pairs(graph: ModelGraph) -> dict[str, tuple[str, str]]:
    """For each index, the two data over it that are named as coordinates are."""
    pairs: dict[str, tuple[str, str]] = {}
    named: dict[tuple[str, str], str] = {}
    for symbol in graph.model.of_kind("data"):
        covariate = symbol.target is None and symbol.name not in graph.observed
        if len(symbol.dims) == 1 and covariate:
            named[symbol.dims[0], symbol.name.lower()] = symbol.name
    for dim, _ in named:
        for first, second in PAIRS:
            if (dim, first) in named and (dim, second) in named:
                pairs.setdefault(dim, (named[dim, first], named[dim, second]))
    return pairs


def described(model: CheckedModel, name: str) -> str:
    """A name with its description: `t: years since 1906.5`."""
    statement = model.symbols[name].statement
    doc = getattr(statement, "doc", None)
    return f"{name}: {doc}" if doc else name


def _factors(canonical: CanonicalModel, dim: str) -> Iterator[FactorSpec]:
    for block in canonical.latents:
        for factor in block.factors:
            if factor.dims == (dim,):
                yield factor


def _inputs(canonical: CanonicalModel, factor: FactorSpec) -> Array | None:
    """(n, k) the `at` of a factor, where it is data and finite."""
    inputs = factor.arguments.get("at")
    if not isinstance(inputs, Coefficient) or inputs.depends:
        return None
    values = np.asarray(inputs.evaluate({}).dense(), dtype=np.float64)
    values = values.reshape(len(values), -1) if values.ndim else values.reshape(0, 0)
    return values if len(values) == factor.size and np.isfinite(values).all() else None


def _given(factor: FactorSpec) -> bool:
    """Whether the model says where the members lie; else their labels do."""
    return any(argument.name == "at" for argument in factor.factor.arguments)


def _datum(factor: ast.Dist) -> str:
    """The name of the datum that is the `at` of a factor; empty for an expression."""
    for argument in factor.arguments:
        if argument.name == "at" and isinstance(argument.value, ast.Name):
            return argument.value.id
    return ""


def _axis_title(canonical: CanonicalModel, factor: ast.Dist, dim: str) -> str:
    name = _datum(factor)
    return described(canonical.grounded.model, name) if name else dim
