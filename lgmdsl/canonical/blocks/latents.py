"""Latent statements to prior blocks: structures whose arguments are coefficients of theta."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gradient, Theta
from lgmdsl.canonical.expressions.named import NamedArray, collapse, expand
from lgmdsl.canonical.grounding.errors import located
from lgmdsl.canonical.lowering import bases, bym2
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.canonical.lowering.positions import AxisPlaces, constant
from lgmdsl.contract.linear import PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.errors import DataError, Diagnostic, MethodError
from lgmdsl.language.tree import ast
from lgmdsl.memory import TooLarge
from lgmdsl.state import FieldState
from lgmdsl.structures import catalogue
from lgmdsl.structures.kernels import Kernel
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.parameter import ArgumentType
from lgmdsl.vocabulary.signature import Signature

# Standard deviations beyond these have a variance, or a precision, of 0 or infinity.
SQUARABLE = (1e-150, 1e150)


@dataclass(frozen=True, eq=False)
class KernelTerm:
    """A kernel expression: a named kernel with arguments, or a sum or product of two."""

    name: str
    arguments: Mapping[str, Coefficient]
    parts: tuple[KernelTerm, ...] = ()

    def evaluate(self, theta: Theta) -> Kernel:
        """The kernel at theta."""
        if self.parts:
            left, right = (p.evaluate(theta) for p in self.parts)
            return left + right if self.name == "+" else left * right
        return catalogue.kernel(
            self.name, **{k: c.evaluate(theta).dense() for k, c in self.arguments.items()}
        )

    def coefficients(self, path: str = "kernel") -> dict[str, Coefficient]:
        """Every argument under its path, as the structure's pullback names it."""
        if not self.parts:
            return {f"{path}.{k}": c for k, c in self.arguments.items()}
        return {
            name: node
            for k, part in enumerate(self.parts)
            for name, node in part.coefficients(f"{path}.{k}").items()
        }

    def replaced(self, nodes: Mapping[str, Coefficient], path: str) -> KernelTerm:
        """The expression with other nodes for its `coefficients`."""
        parts = tuple(p.replaced(nodes, f"{path}.{k}") for k, p in enumerate(self.parts))
        arguments = {k: nodes[f"{path}.{k}"] for k in self.arguments}
        return KernelTerm(self.name, arguments, parts)

    def scaling(self) -> list[Coefficient]:
        """The arguments that scale a named kernel in it."""
        if self.parts:
            return [node for part in self.parts for node in part.scaling()]
        known = lookup("kernel", self.name)
        names = () if known is None else known.scales
        return [self.arguments[n] for n in names if n in self.arguments]


Argument: TypeAlias = Coefficient | KernelTerm | str | bool


@dataclass(frozen=True, eq=False)
class FactorSpec:
    """One structure of a block over `dims` (one axis, or all of them for normal and flat).

    `factor` is its text, `labels` those of its axis (None for several): errors name them. Where
    its members lie on a line, `places` says where; tied ones share an entry of the block.
    """

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    arguments: Mapping[str, Argument]
    factor: ast.Dist
    labels: AnyArray | None
    places: AxisPlaces | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64)) if self.sizes else 1

    def build(self, theta: Theta) -> Structure:
        """The structure at theta. Raises ModelError or DataError for what it refuses."""
        values = {k: self._value(a, theta) for k, a in self.arguments.items()}
        try:
            return catalogue.structure(self.name, self.size, **values)
        except Refused as refused:
            raise located(refused, self.factor, self.dims, self.labels) from None

    def _value(self, argument: Argument, theta: Theta) -> object:
        if isinstance(argument, str | bool):
            return argument
        if isinstance(argument, KernelTerm):
            return argument.evaluate(theta)
        named = argument.evaluate(theta)
        if named.sparse:
            return named.values
        if self._elementwise:
            sizes = dict(zip(self.dims, self.sizes, strict=True))
            full = named.dense() if not named.dims else expand(named, self.dims, sizes).reshape(-1)
            return np.asarray(full, dtype=np.float64)
        return named.dense()

    @property
    def declared(self) -> Signature:
        """The declaration of its structure."""
        known = lookup("structure", self.name)
        assert known is not None, "the checker lets no other structure through"
        return known

    @property
    def _elementwise(self) -> bool:
        """Arguments run over the block's own indices, not over a matrix's axes."""
        return self.declared.whole

    def coefficients(self) -> dict[str, Coefficient]:
        """Every argument that is a coefficient, kernels' ones under their paths."""
        nodes: dict[str, Coefficient] = {}
        for name, argument in self.arguments.items():
            if isinstance(argument, KernelTerm):
                nodes.update(argument.coefficients(name))
            elif isinstance(argument, Coefficient):
                nodes[name] = argument
        return nodes

    @property
    def scales(self) -> tuple[str, ...]:
        """The arguments of which each number is the scale of independent Gaussians: not those that
        scale members that are correlated."""
        nodes = self.coefficients()
        given = (n for n in self.declared.scales if n in nodes)
        return tuple(n for n in given if self._elementwise or not nodes[n].dims)

    def scaling(self) -> list[Coefficient]:
        """Every argument that scales the structure, or a kernel in it."""
        nodes: list[Coefficient] = []
        for name, argument in self.arguments.items():
            if isinstance(argument, KernelTerm):
                nodes += argument.scaling()
            elif isinstance(argument, Coefficient) and name in self.declared.scales:
                nodes.append(argument)
        return nodes

    def pull(self, adjoints: Mapping[str, Array], theta: Theta, out: Gradient) -> None:
        """Add dF/dtheta from dF/dargument, keyed as the structure's pullback names them."""
        nodes = self.coefficients()
        for name, adjoint in adjoints.items():
            node = nodes.get(name)  # absent where the argument has its default
            if node is not None and node.depends:
                node.pull(self.collapsed(node, adjoint), theta, out)

    def collapsed(self, node: Coefficient, adjoint: Array) -> Array:
        """dF/dnode of an argument from dF/dargument, as the structure's pullback gives it."""
        if self._elementwise and node.dims:
            return collapse(np.asarray(adjoint).reshape(self.sizes), self.dims, node.dims)
        return np.asarray(adjoint)

    def at(self, values: Mapping[str, NamedArray]) -> Structure:
        """The structure where its `coefficients` have these values."""
        known = {path: co.Constant(v.dims, v.values) for path, v in values.items()}
        arguments: dict[str, Argument] = {}
        for name, argument in self.arguments.items():
            if isinstance(argument, KernelTerm):
                arguments[name] = argument.replaced(known, name)
            else:
                arguments[name] = known[name] if isinstance(argument, Coefficient) else argument
        return replace(self, arguments=arguments).build({})


@dataclass(frozen=True, eq=False)
class LatentBlock(FieldState):
    """One latent: its indices, and one factor for each axis (or one for all)."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    factors: tuple[FactorSpec, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64)) if self.sizes else 1

    def at(self, theta: Theta) -> PriorBlock:
        """The prior block at theta, the same object where no argument has a hyper. Raises
        DataError E303 for an argument out of range."""
        return self._made(theta) if self.depends else self._still

    @cached_property
    def depends(self) -> bool:
        """Whether an argument has a hyper."""
        return any(c.depends for f in self.factors for c in f.coefficients().values())

    @cached_property
    def _still(self) -> PriorBlock:
        return self._made({})

    def _made(self, theta: Theta) -> PriorBlock:
        for factor in self.factors:
            for path, node in factor.coefficients().items():
                self._check(path, node, theta)
        try:
            factors = tuple(f.build(theta) for f in self.factors)
        except TooLarge as large:
            raise large.named(f"the prior of `{self.name}`", self.factors[0].factor.span) from None
        mean = factors[0].mean() if len(factors) == 1 else None
        return PriorBlock(self.name, factors, np.zeros(self.size) if mean is None else mean)

    def _check(self, path: str, node: Coefficient, theta: Theta) -> None:
        values = node.evaluate(theta).values
        entries = np.asarray(values if isinstance(values, np.ndarray | np.generic) else values.data)
        name = path.rpartition(".")[2]
        fine = bool(np.isfinite(entries).all())
        if fine and name == "sd":
            size = np.abs(entries[entries != 0])
            fine = bool(((size > SQUARABLE[0]) & (size < SQUARABLE[1])).all())
        if not fine:
            low, high = SQUARABLE
            wanted = (
                f"wanted {low:g} to {high:g}, whose squares do not under- or overflow"
                if name == "sd"
                else ""
            )
            raise DataError.of(
                "E303",
                f"`{name}` of the prior of `{self.name}` is not finite, or out of range",
                details=(wanted,) if wanted else (),
                help="change the units of the data",
            )


NOTHING = "(nothing)"


def _nothing() -> LatentBlock:
    """A standard normal that no site sees, of a model without latents: its evidence is that of the
    hypers alone. Its name is none of the language, and it is not reported."""
    unit = ast.Dist(ast.Name("normal"), (ast.Argument("sd", ast.Number(1.0)),))
    arguments: dict[str, Argument] = {"sd": co.number(1.0)}
    return LatentBlock(NOTHING, (), (), (FactorSpec("normal", (), (), arguments, unit, None),))


def without_residuals(
    blocks: tuple[LatentBlock, ...], names: Collection[str]
) -> tuple[LatentBlock, ...]:
    """The blocks of the latents that are to be inferred: not those that are residuals, which y and
    its mean determine. A model without one has a block that nothing depends on."""
    return tuple(b for b in blocks if bym2.owner(b.name) not in names) or (_nothing(),)


def latent_blocks(lowering: Lowering) -> tuple[LatentBlock, ...]:
    """Lower every latent statement.

    Raises MethodError E501 for structures that no engine takes yet, all of them in one pass.
    """
    blocks: list[LatentBlock] = []
    refused: list[Diagnostic] = []
    indices = lowering.grounded.indices
    for symbol in lowering.grounded.declared("latent"):
        statement = symbol.statement
        assert isinstance(statement, ast.Latent)
        basis = bases.basis_factor(symbol)
        if basis is not None:
            try:
                blocks += _coefficients(basis, lowering)
            except MethodError as error:
                refused += error.diagnostics
            continue
        ties, places = lowering.axes.ties(symbol), lowering.axes.places(symbol)
        sizes = tuple(lowering.sizes[d] for d in ties.dims)
        mixed = bym2.mixed_factor(symbol)
        parts = ("",) if mixed is None else mixed.parts
        for part in parts:
            factors = []
            whole = len(statement.factors) == 1
            for k, factor in enumerate(statement.factors):
                name, named = factor.name.id, factor.arguments
                if mixed is not None and factor is mixed.factor:
                    name, named = part, mixed.arguments(part)
                if name not in catalogue.STRUCTURES:
                    if part == parts[0]:
                        second = mixed is not None and name == mixed.signature.name
                        refused.append(_second(factor) if second else _unsupported(factor))
                    continue
                axes = slice(None) if whole else slice(k, k + 1)
                signature = lookup("structure", factor.name.id)
                parameters = signature.parameters if signature else ()
                types = {p.name: p.type for p in parameters}
                arguments = {a.name: _argument(a.value, lowering, types[a.name]) for a in named}
                dims, axis_places = ties.dims[axes], None
                labels = indices[symbol.dims[axes][0]].labels if len(dims) == 1 else None
                if len(dims) == 1 and (axis_places := places[axes][0]) is not None:
                    if axis_places.tied:
                        labels = axis_places.labels
                        _check_one_for_all(arguments, symbol.dims[axes][0], factor, axis_places)
                    if axis_places.tied or (
                        axis_places.argument not in arguments and not axis_places.regular
                    ):
                        arguments[axis_places.argument] = constant(
                            axis_places, dims[0], not axis_places.tied
                        )
                spec = FactorSpec(name, dims, sizes[axes], arguments, factor, labels, axis_places)
                factors.append(spec)
            block = bym2.part_name(symbol.name, part) if part else lowering.axes.block_name(symbol)
            blocks.append(LatentBlock(block, ties.dims, sizes, tuple(factors)))
    if refused:
        raise MethodError(refused)
    return tuple(blocks)


def _coefficients(factor: bases.BasisFactor, lowering: Lowering) -> list[LatentBlock]:
    """The blocks of the coefficients of a basis: of density 1, and normal with its scale."""
    made = lowering.smooth(factor)
    structures: dict[str, tuple[str, Mapping[str, Argument]]] = {
        bases.FREE: ("flat", {}),
        bases.CURVE: ("normal", factor.scales(made, lowering.coefficient)),
    }
    out = []
    for part, size in factor.blocks(made).items():
        block, (name, arguments) = bym2.part_name(factor.symbol.name, part), structures[part]
        lowering.sizes[block] = size
        dims = (*factor.others, block)
        sizes = tuple(lowering.sizes[d] for d in dims)
        spec = FactorSpec(name, dims, sizes, arguments, factor.factor, None)
        out.append(LatentBlock(block, dims, sizes, (spec,)))
    return out


def _argument(value: ast.Value, lowering: Lowering, type: ArgumentType) -> Argument:
    if type == "kernel":
        return _kernel(value, lowering)
    if isinstance(value, ast.String | ast.Bool):
        return value.value
    if type in ("covariance", "matrix") and isinstance(value, ast.Indexed):
        return lowering.matrix(value)
    return lowering.coefficient(value)


def _check_one_for_all(
    arguments: Mapping[str, Argument], dim: str, factor: ast.Dist, places: AxisPlaces
) -> None:
    """Raise DataError E303 for an argument with a value for each member, where members share a
    place and so a value of the latent."""
    for name, argument in arguments.items():
        each = isinstance(argument, Coefficient) and dim in argument.dims
        if each and name != places.argument:
            raise DataError.of(
                "E303",
                f"`{name}` of `{factor.name.id}` has a value for each member of `{dim}`, and "
                "some members share a position",
                factor.span,
                "members at one position share one value, which has one scale",
                help=f"give `{name}` as one number",
            )


def _kernel(value: ast.Value, lowering: Lowering) -> KernelTerm:
    if isinstance(value, ast.Binary):
        parts = (_kernel(value.left, lowering), _kernel(value.right, lowering))
        return KernelTerm(value.op, {}, parts)
    if isinstance(value, ast.Name):  # without arguments
        return KernelTerm(value.id, {})
    assert isinstance(value, ast.Call)
    arguments = {a.name: lowering.coefficient(a.value) for a in value.named}
    return KernelTerm(value.function.id, arguments)


def _second(factor: ast.Dist) -> Diagnostic:
    name = factor.name.id
    return Diagnostic(
        "E501",
        f"a product takes one `{name}`, and this is the second",
        factor.span,
        "each stands for two blocks, and their product for four",
        help="write this factor as besag or iid",
    )


def _unsupported(factor: ast.Dist) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"no engine takes the structure `{factor.name.id}` yet",
        factor.span,
        "it is parsed and checked, but this version cannot fit it",
        help=f"structures that can: {', '.join(catalogue.STRUCTURES)}",
    )
