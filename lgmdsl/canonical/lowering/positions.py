"""Where the members of an ordered axis lie on a line: by an argument (`at`), or by their labels.

Members at one position share one value. A latent with such members becomes a block over the
distinct places, sorted, and a map from members to places:

    f[members] = f.places[of[members]],    f.places ~ the structure over the places

so scale, sum to zero and null space are those of the distinct places, by any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Axis, Slot, Through
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.grounding.order import spacing_of
from lgmdsl.canonical.lowering import bases, bym2
from lgmdsl.dataset.entries import texts_of
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary.lookup import lookup

PLACES = "places"


@dataclass(frozen=True, eq=False)
class AxisPlaces:
    """`values` (m,) are the distinct places, sorted; `of` (n,) is the place of each member;
    `argument` is the structure's argument that takes the values."""

    values: Array
    of: IntArray
    argument: str

    @property
    def tied(self) -> bool:
        """Whether two members share a place."""
        return len(self.values) < len(self.of)

    @property
    def regular(self) -> bool:
        """Whether the members lie at 0, 1, 2 ... in their order, as without positions."""
        return not self.tied and np.array_equal(self.values[self.of], np.arange(len(self.of)))

    @cached_property
    def labels(self) -> AnyArray:
        """The places as text."""
        return texts_of(self.values)


def places_of(positions: Array, argument: str = "at") -> AxisPlaces:
    """Positions of members (n,), equal ones at one place."""
    values, of = np.unique(np.asarray(positions, dtype=np.float64), return_inverse=True)
    return AxisPlaces(values, np.asarray(of, dtype=np.int64).reshape(-1), argument)


def given_places(
    factor: ast.Dist, argument: Coefficient | None, index: IndexSet
) -> AxisPlaces | None:
    """The places of one factor's axis; `argument` is its argument for positions, lowered.

    None where the structure takes no positions, where members are equal steps in their order, and
    where the positions depend on hyperparameters or are not finite.
    """
    signature = lookup("structure", factor.name.id)
    if signature is None or not signature.spacing.at:
        return None
    if argument is not None:
        if argument.depends or argument.dims != (index.name,):
            return None
        values = argument.evaluate({}).dense()
        return places_of(values, signature.spacing.at) if np.isfinite(values).all() else None
    spaced = spacing_of(factor)
    if spaced is None or spaced[1] != "positions" or index.places is None or index.counted:
        return None
    return places_of(index.places, signature.spacing.at)


def position_argument(factor: ast.Dist) -> ast.Value | None:
    """The expression of a factor that gives its members' positions, or None."""
    signature = lookup("structure", factor.name.id)
    name = signature.spacing.at if signature is not None else ""
    return factor.get(name) if name else None


@dataclass(frozen=True, eq=False)
class TiedAxes:
    """Axes of a latent some of whose members share a place, by the latent's own index names."""

    symbol: Symbol
    places: Mapping[str, AxisPlaces]

    @property
    def dims(self) -> tuple[str, ...]:
        """The indices of the block: `f.age` in place of a tied `age`; no user's index can have
        such a name."""
        return tuple(self.hidden(d) if d in self.places else d for d in self.symbol.dims)

    def hidden(self, dim: str) -> str:
        """The name of the places of an index."""
        return f"{self.symbol.name}.{dim}"

    @property
    def sizes(self) -> dict[str, int]:
        """How many places each tied axis has."""
        return {self.hidden(d): len(p.values) for d, p in self.places.items()}

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The map from members to the block's places, axis by axis."""
        return tuple(
            Through(self.places[d].of, (d,)) if d in self.places else Axis(d)
            for d in self.symbol.dims
        )

    def described(self) -> str:
        """A description of the rewrite."""
        axes = "; ".join(
            f"{len(p.of)} members of {d} at {len(p.values)} places" for d, p in self.places.items()
        )
        return f"members at one position share one value: {axes}, and a map"


def constant(places: AxisPlaces, dim: str, members: bool) -> Coefficient:
    """The argument for positions: of the distinct places, or of each member."""
    values = places.values[places.of] if members else places.values
    return co.Constant((dim,), values)


@dataclass(frozen=True, eq=False)
class LatentAxes:
    """Axes of the latents of one model: where members lie, and what becomes of those that share a
    place. `lower` makes a coefficient of an expression; the sizes of places go to `sizes`.
    `untied`: every member has an entry of its own, wherever it lies."""

    indices: Mapping[str, IndexSet]
    lower: Callable[[ast.Value], Coefficient]
    sizes: dict[str, int]
    untied: bool = False
    _ties: dict[str, TiedAxes] = field(default_factory=dict)

    def places(self, symbol: Symbol) -> tuple[AxisPlaces | None, ...]:
        """For each axis of a latent where its members lie on a line; None where they do not."""
        statement = symbol.statement
        assert isinstance(statement, ast.Latent)
        if self.untied or len(statement.factors) != len(symbol.dims):
            return (None,) * len(symbol.dims)
        places = []
        for dim, factor in zip(symbol.dims, statement.factors, strict=True):
            argument = position_argument(factor)
            lowered = None if argument is None else self.lower(argument)
            places.append(given_places(factor, lowered, self.indices[dim]))
        return tuple(places)

    def ties(self, symbol: Symbol) -> TiedAxes:
        """The axes of a latent some of whose members share a place."""
        if symbol.name not in self._ties:
            pairs = zip(symbol.dims, self.places(symbol), strict=True)
            ties = TiedAxes(symbol, {d: p for d, p in pairs if p is not None and p.tied})
            self._ties[symbol.name] = ties
            self.sizes.update(ties.sizes)
        return self._ties[symbol.name]

    def block_name(self, symbol: Symbol) -> str:
        """The name of the block of a latent that is not split: its own, unless it is a map."""
        return bym2.part_name(symbol.name, PLACES) if self.ties(symbol).places else symbol.name

    def maps(self, symbol: Symbol) -> bool:
        """Whether a latent is a map of blocks."""
        if symbol.kind != "latent":
            return False
        rewritten = bym2.mixed_factor(symbol) or bases.basis_factor(symbol)
        return rewritten is not None or bool(self.ties(symbol).places)
