"""Structures declared as coefficients of a basis (`vocabulary.signature.Basis`): blocks of
coefficients and a map from them to the members.

Of the language's own that is spline (Wood 2017, section 5.8):

    f[members] = N f.free + Z f.curve,    f.free ~ flat,    f.curve ~ normal(sd),

N what the penalty leaves free and Z the rest, dense in members and coefficients. Next to iid there
are as many coefficients for each member of the other axes, and the same N and Z. A basis is made of
the positions of the members that were fitted, and new data are looked up in it: it is theirs that
is lowered (`GroundedModel.basis`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.grounding.errors import located
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.lowering.bym2 import part_name
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Basis, Signature, Trait

if TYPE_CHECKING:
    from lgmdsl.structures.splines import Smooth

FREE, CURVE = "free", "curve"

Lower = Callable[[ast.Value], Coefficient]


@dataclass(frozen=True)
class BasisFactor:
    """The structure of a latent that stands for coefficients, as its signature declares."""

    symbol: Symbol
    factor: ast.Dist
    signature: Signature
    basis: Basis

    def made(self, lower: Lower, grounded: GroundedModel) -> Smooth:
        """The basis over the members of `grounded`, whose expressions `lower` lowers. Raises
        DataError and ModelError for positions and sizes that it cannot take, MethodError E501 in
        a product with another structure than iid."""
        from lgmdsl.structures.splines import smooth, tensor_smooth

        if not self._alone:
            raise MethodError(self._in_product())
        positions, values = self.positions(lower), self.signature.defaults
        size = self.factor.get(self.basis.size)
        count = np.asarray(values[self.basis.size] if size is None else _number(lower(size)))
        try:
            if self.basis.kind:
                kind = self.factor.get(self.basis.kind)
                chosen = str(values[self.basis.kind])
                chosen = kind.value if isinstance(kind, ast.String) else chosen
                period = self.factor.get(self.basis.period)
                length = None if period is None else float(_number(lower(period)))
                shrink = self._flag(self.basis.shrink)
                return smooth(positions, chosen, int(count), shrink, length)
            sizes = np.broadcast_to(count, positions.shape[1:])
            return tensor_smooth(positions, sizes, self._flag(self.basis.centred))
        except Refused as refused:
            labels = grounded.indices[self.axis].labels
            raise located(refused, self.factor, (self.axis,), labels) from None

    @property
    def _statement(self) -> ast.Latent:
        assert isinstance(self.symbol.statement, ast.Latent)
        return self.symbol.statement

    @property
    def axis(self) -> str:
        """The index along which the latent is a curve."""
        factors = self._statement.factors
        return self.symbol.dims[next(k for k, f in enumerate(factors) if f is self.factor)]

    @property
    def others(self) -> tuple[str, ...]:
        """The indices each of whose members has a curve."""
        return tuple(d for d in self.symbol.dims if d != self.axis)

    @property
    def _alone(self) -> bool:
        """Whether all other factors are the identity, and no index occurs twice."""
        others = [lookup("structure", f.name.id) for f in self._statement.factors]
        plain = (s is self.signature or Trait.IDENTITY in s.traits for s in others if s is not None)
        bases = sum(f.name.id == self.factor.name.id for f in self._statement.factors)
        return all(plain) and bases == 1 and len(set(self.symbol.dims)) == len(self.symbol.dims)

    def positions(self, lower: Lower) -> Array:
        """(n, d) where the members lie."""
        at = self.factor.get(self.basis.at)
        assert at is not None, "the checker lets no structure through without it"
        values = np.asarray(lower(at).evaluate({}).dense(), dtype=np.float64)
        return values.reshape(len(values), -1)

    def _flag(self, name: str) -> bool:
        value = self.factor.get(name)
        return isinstance(value, ast.Bool) and value.value

    def blocks(self, made: Smooth) -> dict[str, int]:
        """The parts that have coefficients, and how many."""
        parts = {FREE: made.free, CURVE: made.penalised}
        return {part: size for part, size in parts.items() if size}

    def scales(self, made: Smooth, lower: Lower) -> dict[str, Coefficient]:
        """The scale of the penalised coefficients, under its name: one for all, or, of several
        penalties, (sum_j penalties_j / sd_j^2)^(-1/2) of each."""
        given = {n: self.factor.get(n) for n in self.signature.scales}
        out = {n: co.number(1.0) if v is None else lower(v) for n, v in given.items()}
        if made.penalties is None:
            return out
        block = part_name(self.symbol.name, CURVE)
        for name, scale in out.items():
            if scale.dims:
                penalties = co.Constant((block, *scale.dims), made.penalties)
                inverse = co.Power(scale.dims, scale, co.number(-2.0))
                total = co.Contraction((block,), (penalties, inverse))
                out[name] = co.Power((block,), total, co.number(-0.5))
            else:
                sizes = co.Constant((block,), made.penalties.sum(axis=1) ** -0.5)
                out[name] = co.multiply(sizes, scale)
        return out

    def map(self, made: Smooth, lower: Lower, sizes: Mapping[str, int]) -> Affine:
        """The latent as an affine form in its coefficients."""
        columns = dict(zip((FREE, CURVE), made.columns(self.positions(lower)), strict=True))
        terms = []
        for part, size in self.blocks(made).items():
            name = part_name(self.symbol.name, part)
            form = af.latent(name, (*self.others, name), {**sizes, name: size})
            weights = co.Constant((self.axis, name), columns[part])
            terms.append(af.total(af.scale(form, weights), name))
        return af.add(tuple(terms))

    def described(self, made: Smooth) -> str:
        """A description of the rewrite."""
        name, parts = self.symbol.name, self.blocks(made)
        sizes = " + ".join(f"{n} of {part_name(name, part)}" for part, n in parts.items())
        each = f" for each {' and '.join(self.others)}" if self.others else ""
        return f"{self.signature.name} to coefficients of its basis and a map: {sizes}{each}"

    def _in_product(self) -> Diagnostic:
        name, shown = self.signature.name, ", ".join(self.symbol.dims)
        return Diagnostic(
            "E501",
            f"no engine takes `{name}` next to another structure than iid yet",
            self.factor.span,
            f"`{self.symbol.name}` is over [{shown}]",
            help=f"independent curves, one for each member: iid * {name}(...); curves that are "
            "like one another along an order: rw2(...) * ar1(...)",
        )


def basis_factor(symbol: Symbol) -> BasisFactor | None:
    """The structure of a latent that stands for coefficients; None where it has none."""
    statement = symbol.statement
    for factor in statement.factors if isinstance(statement, ast.Latent) else ():
        signature = lookup("structure", factor.name.id)
        if signature is not None and signature.basis is not None:
            return BasisFactor(symbol, factor, signature, signature.basis)
    return None


def _number(node: Coefficient) -> Array:
    return np.asarray(node.evaluate({}).dense())
