"""Checked expressions over grounded data, to coefficients (latent-free) or affine forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Axis, Pick, Slot, Through, slot_dims
from lgmdsl.canonical.expressions.operators import Transformed
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.canonical.lowering import bases, bym2
from lgmdsl.canonical.lowering.positions import LatentAxes
from lgmdsl.errors import DataError, Diagnostic, MethodError, Span, nearest
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary.operators import ELEMENTWISE

if TYPE_CHECKING:
    from lgmdsl.structures.splines import Smooth

Lowered = Coefficient | Affine


@dataclass
class Lowering:
    """Lowers expressions of one grounded model; lets are lowered once, in order."""

    grounded: GroundedModel
    sizes: dict[str, int] = field(init=False)
    axes: LatentAxes = field(init=False)
    lets: dict[str, Lowered] = field(default_factory=dict)
    leaves: dict[str, Coefficient] = field(default_factory=dict)  # data and hypers
    gathered: dict[ast.Indexed, Lowered] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)  # lets that cannot be lowered, reported once
    smooths: dict[str, Smooth] = field(default_factory=dict)  # bases by latent
    curves: dict[str, Affine] = field(default_factory=dict)  # and their maps, which are dense

    def __post_init__(self) -> None:
        self.sizes = {name: i.size for name, i in self.grounded.indices.items()}
        grounded = self.grounded
        self.axes = LatentAxes(grounded.indices, self.coefficient, self.sizes, grounded.untied)

    def __call__(self, expr: ast.Value) -> Lowered:
        """The lowered expression; raises MethodError (E501) for operators no engine takes yet."""
        match expr:
            case ast.Number():
                return co.number(expr.value)
            case ast.Name():
                return self.name(expr)
            case ast.Indexed():
                return self.indexed(expr)
            case ast.Unary():
                return _scale(self(expr.operand), co.number(-1.0))
            case ast.Binary(op="+" | "-"):
                return self.sum_chain(expr)
            case ast.Binary():
                return self.binary(expr)
            case ast.Call():
                return self.call(expr)
        raise _unsupported(expr.span, "a value of this kind")

    def coefficient(self, expr: ast.Value) -> Coefficient:
        """An expression that the checker found free of latents."""
        lowered = self(expr)
        assert isinstance(lowered, Coefficient), "the checker lets no latent through here"
        return lowered

    def affine(self, expr: ast.Value) -> Affine:
        """An expression as an affine form (possibly without latents)."""
        return as_affine(self(expr), self.sizes)

    def declare(self, symbol: Symbol, value: Lowered) -> Lowered:
        """Keep a let (or report) for later use, constant along declared indices that it lacks."""
        lacking = tuple(d for d in symbol.dims if d not in value.dims and d in self.sizes)
        if lacking:
            sizes = tuple(self.sizes[d] for d in lacking)
            if isinstance(value, Affine):
                zeros = Affine((), co.Constant(lacking, np.zeros(sizes)), self.sizes)
                value = af.add((value, zeros))
            else:
                value = co.multiply(*co.factors_of(value), co.Constant(lacking, np.ones(sizes)))
        self.lets[symbol.name] = value
        return value

    # ---- the cases -------------------------------------------------------------------------

    def name(self, expr: ast.Name) -> Lowered:
        symbol = self.grounded.model.symbols[expr.id]
        if symbol.kind in ("data", "hyper"):
            return self.leaves.setdefault(expr.id, self.leaf(symbol))
        if symbol.kind == "latent":
            return self.latent(symbol)
        if expr.id in self.refused:
            raise MethodError(())  # the reason has been reported at the let statement
        return self.lets[expr.id]

    def leaf(self, symbol: Symbol) -> Coefficient:
        dims = distinct(symbol.dims)
        if symbol.kind == "hyper":
            return co.HyperValue(dims, symbol.name)
        return co.Constant(dims, self.grounded.values[symbol.name])

    def latent(self, symbol: Symbol) -> Affine:
        """A latent as an affine form: itself, the map of the blocks that its structure declares, or
        the map of members to the places that they share."""
        basis = bases.basis_factor(symbol)
        if basis is not None:
            if symbol.name not in self.curves:
                form = basis.map(self.smooth(basis), self.coefficient, self.sizes)
                self.curves[symbol.name] = form
            return self.curves[symbol.name]
        ties, factor = self.axes.ties(symbol), bym2.mixed_factor(symbol)

        def block(name: str) -> Affine:
            form = af.latent(name, ties.dims, self.sizes)
            return af.gather(form, ties.dims, ties.slots) if ties.places else form

        if factor is None:
            return block(self.axes.block_name(symbol))
        return factor.map(symbol.name, self.coefficient, block)

    def smooth(self, factor: bases.BasisFactor) -> Smooth:
        """The basis of a latent, over the members of the fit where the data are new."""
        name = factor.symbol.name
        if name not in self.smooths:
            fitted = self.grounded.basis
            own = self if fitted is None else Lowering(fitted)
            self.smooths[name] = factor.made(own.coefficient, own.grounded)
        return self.smooths[name]

    def indexed(self, expr: ast.Indexed) -> Lowered:
        """A gathered value, made once however often it is written."""
        if expr not in self.gathered:
            self.gathered[expr] = self.gather(expr)
        return self.gathered[expr]

    def gather(self, expr: ast.Indexed) -> Lowered:
        symbol = self.grounded.model.symbols[expr.base.id]
        base, slots = self.name(expr.base), self._slots(expr)
        if isinstance(base, Affine):
            return af.gather(base, symbol.dims, slots)
        return self._gathered(base, distinct(symbol.dims), slots, self.sizes)

    def matrix(self, expr: ast.Indexed) -> Coefficient:
        """A matrix among others, `S["p", term, term]`, its rows and columns apart: elsewhere an
        index that is named twice takes the diagonal."""
        base, slots = self.coefficient(expr.base), self._slots(expr)
        names = iter(distinct(tuple(s.dim for s in slots if isinstance(s, Axis))))
        apart = tuple(Axis(next(names)) if isinstance(s, Axis) else s for s in slots)
        dims = distinct(self.grounded.model.symbols[expr.base.id].dims)
        sizes = {d: self.sizes[d.removesuffix("_2")] for d in dims if d not in self.sizes}
        return self._gathered(base, dims, apart, {**self.sizes, **sizes})

    def _slots(self, expr: ast.Indexed) -> tuple[Slot, ...]:
        dims = self.grounded.model.symbols[expr.base.id].dims
        return tuple(self.slot(slot, axis) for slot, axis in zip(expr.slots, dims, strict=True))

    def _gathered(
        self,
        base: Coefficient,
        dims: tuple[str, ...],
        slots: tuple[Slot, ...],
        sizes: Mapping[str, int],
    ) -> Coefficient:
        places = dict(zip(dims, slots, strict=True))
        if all(slot == Axis(d) for d, slot in places.items()):
            return base
        return co.gather(base, tuple(places[d] for d in base.dims), sizes)

    def slot(self, slot: ast.Slot, axis: str) -> Slot:
        if isinstance(slot, ast.Name):
            symbol = self.grounded.model.symbols[slot.id]
            if symbol.kind == "index":
                return Axis(slot.id)
            positions = np.asarray(self.grounded.values[slot.id], dtype=np.int64)
            if slot.id in self.grounded.missing:
                raise DataError(_missing_map(slot))
            if not symbol.dims:
                return Pick(int(positions))
            return Through(positions, symbol.dims)
        label: str | int = slot.value if isinstance(slot, ast.String) else int(slot.value)
        return Pick(self.position(label, axis, slot.span))

    def position(self, label: str | int, axis: str, span: Span) -> int:
        labels = self.grounded.indices[axis].labels
        matches = np.flatnonzero(np.asarray(labels).astype(str) == str(label))
        if len(matches) != 1:
            raise DataError(_unknown_label(label, axis, [str(x) for x in labels[:8]], span))
        return int(matches[0])

    def sum_chain(self, expr: ast.Binary) -> Lowered:
        """a + b - c ..., however long, without nesting."""
        parts: list[Lowered] = []
        node: ast.Expr = expr
        while isinstance(node, ast.Binary) and node.op in "+-":
            right = self(node.right)
            parts.append(right if node.op == "+" else _scale(right, co.number(-1.0)))
            node = node.left
        parts.append(self(node))
        parts.reverse()
        coefficients = [p for p in parts if isinstance(p, Coefficient)]
        if len(coefficients) == len(parts):
            return co.add(*coefficients)
        return af.add(tuple(as_affine(p, self.sizes) for p in parts))

    def binary(self, expr: ast.Binary) -> Lowered:
        left, right = self(expr.left), self(expr.right)
        if expr.op == "^":
            assert isinstance(left, Coefficient) and isinstance(right, Coefficient)
            return _power(left, right)
        if expr.op == "/":
            assert isinstance(right, Coefficient)
            return _scale(left, _power(right, co.number(-1.0)))
        if isinstance(right, Coefficient):
            product = _scale(left, right)
        else:
            assert isinstance(left, Coefficient)
            product = _scale(right, left)
        if expr.op == "*":
            return product
        shared = [d for d in left.dims if d in right.dims]
        return self.summed(product, shared[0])

    def call(self, expr: ast.Call) -> Lowered:
        name = expr.function.id
        if name == "sum":
            over = expr.positional[1]
            assert isinstance(over, ast.Name)
            return self.summed(self(expr.positional[0]), over.id)
        if name in ELEMENTWISE:
            operand = self.coefficient(expr.positional[0])
            return co.Elementwise(operand.dims, name, operand)
        from lgmdsl.canonical.expressions import operators

        if name == "mask":
            by_name = operators.arguments(expr)
            return _scale(self(by_name["expr"]), self.coefficient(by_name["keep"]))
        if name in operators.TRANSFORMS:
            return self.transformed(expr)
        raise _unsupported(expr.span, f"the operator `{name}`")

    def transformed(self, expr: ast.Call) -> Lowered:
        """An operator on all axes of its operand, in the order in which the text gives them."""
        from lgmdsl.canonical.expressions import operators

        by_name = operators.arguments(expr)
        operand = self(by_name["expr"])
        sizes = {**self.sizes, **(operand.sizes if isinstance(operand, Affine) else {})}
        psf = self.kernel(by_name["psf"]) if "psf" in by_name else None
        order = self.order(by_name["expr"])
        dims = tuple(sorted(operand.dims, key=lambda d: order.index(d) if d in order else -1))
        transform = operators.transform(expr, dims, sizes, psf)
        if isinstance(operand, Affine):
            return af.apply(operand, transform)
        return Transformed(transform.after, transform, operand)

    def kernel(self, expr: ast.Value) -> Array:
        """The kernel of a convolution, its axes as in the text; E501 where it is not data."""
        from lgmdsl.canonical.expressions import operators

        node = self.coefficient(expr)
        if node.depends:
            name = min(node.depends)
            raise _unsupported(expr.span, f"a kernel that depends on the hyper `{name}`")
        return operators.kernel(node.evaluate({}).dense(), node.dims, self.order(expr))

    def order(self, expr: ast.Value) -> tuple[str, ...]:
        """Index names of an expression as they come in its text (more than it has, at times)."""
        match expr:
            case ast.Name():
                return distinct(self.grounded.model.symbols[expr.id].dims)
            case ast.Indexed():
                dims = self.grounded.model.symbols[expr.base.id].dims
                pairs = zip(expr.slots, dims, strict=True)
                return slot_dims(tuple(self.slot(s, d) for s, d in pairs))
            case ast.Unary():
                return self.order(expr.operand)
            case ast.Binary():
                return co.union(self.order(expr.left), self.order(expr.right))
            case ast.Call():
                return co.union(*(self.order(e) for e in expr.positional[:1]))
        return ()

    def summed(self, value: Lowered, over: str) -> Lowered:
        if isinstance(value, Affine):
            return af.total(value, over)
        if over not in value.dims:
            return co.multiply(co.number(self.sizes[over]), value)
        factors = co.factors_of(value)
        return co.Contraction(tuple(d for d in value.dims if d != over), factors)


def as_affine(value: Lowered, sizes: Mapping[str, int]) -> Affine:
    """A coefficient is an affine form without terms."""
    return value if isinstance(value, Affine) else Affine((), value, sizes)


def distinct(dims: tuple[str, ...]) -> tuple[str, ...]:
    """Repeated index names made distinct: S[term, term] has axes term and term_2."""
    return tuple(d if d not in dims[:i] else f"{d}_2" for i, d in enumerate(dims))


def _scale(value: Lowered, by: Coefficient) -> Lowered:
    if isinstance(value, Affine):
        return af.scale(value, by)
    return co.multiply(*co.factors_of(value), *co.factors_of(by))


def _power(base: Coefficient, exponent: Coefficient) -> Coefficient:
    return co.Power(co.union(base.dims, exponent.dims), base, exponent)


def _unsupported(span: Span, feature: str) -> MethodError:
    return MethodError.of(
        "E501",
        f"no engine or back end takes {feature} yet",
        span,
        "it is parsed and checked, but this version cannot fit it",
        help="`lgm explain` lists what this version can run",
    )


def _missing_map(slot: ast.Name) -> Diagnostic:
    return Diagnostic(
        "E304",
        f"map `{slot.id}` has missing entries, and a latent cannot be gathered at them",
        slot.span,
        help=f"drop those rows: data[data.{slot.id}.notna()] in pandas",
    )


def _unknown_label(label: str | int, axis: str, known: list[str], span: Span) -> Diagnostic:
    shown = f"`{axis}` has: {', '.join(known)}"
    near = nearest(str(label), known)
    help = f"did you mean `{near}`?" if near else f"one of them: {known[0]}" if known else ""
    return Diagnostic("E302", f"index `{axis}` has no label `{label}`", span, shown, help=help)
