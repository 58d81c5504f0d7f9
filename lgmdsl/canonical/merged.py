"""A model whose rows that are alike are one row with their number as its weight.

    sum_i w_i l_i(s_i) = sum_g (sum_{i in g} w_i) l_g(s_g),   l_i = l_g and s_i = s_g for all i in g

as functions of the latents and the hyperparameters, so that evidence, posterior and gradients are
the same. Of a block with a rewrite (several sites of a datum) the sites are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.alike import Alike, alike
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.row_source import Folding, Remade
from lgmdsl.contract.rows import Rows
from lgmdsl.contract.site import Site
from lgmdsl.engines.shared.other_rows import OtherRows
from lgmdsl.errors import DataError
from lgmdsl.sites.combined.weighted import weighted


@dataclass(frozen=True, eq=False)
class Merged(Folding):
    """Rows that are alike as one. `kinds`: of each site block its kinds of rows, None where all are
    kept. What rows would be refused is said of all of them."""

    entry, left = "merged", "the distinct rows"
    kinds: tuple[Alike | None, ...]

    def remade(self, model: CanonicalModel) -> Remade:
        return _with_kinds, (self.whole, self.kinds)

    def observed(self, model: CanonicalModel, k: int, theta: Theta) -> Predictor:
        try:
            return model.own_predictor(k, theta)
        except DataError:
            self.whole.observed(k, theta)
            raise

    def bound(self, model: CanonicalModel, k: int, theta: Theta) -> Site:
        try:
            return model.own_sites(k, theta)
        except DataError:
            self.whole.bound(k, theta)
            raise

    @property
    def note(self) -> str:
        sizes = ((name, len(k.place), len(k.kept)) for name, _, k in self._merged)
        return "; ".join(f"{name}: {n:,} rows, {kept:,} distinct" for name, n, kept in sizes)

    @property
    def descriptions(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (
                name,
                f"{len(kind.place):,} {unit}, {len(kind.kept):,} of them distinct: fitted as these "
                "with their counts as weights",
            )
            for name, unit, kind in self._merged
        )

    @property
    def _merged(self) -> Iterator[tuple[str, str, Alike]]:
        """The blocks whose rows were merged: name, what its rows are, kinds of these."""
        for block, kind in zip(self.whole.blocks, self.kinds, strict=True):
            if kind is not None:
                yield block.name, "rows" if block.whole is None else "sites", kind

    def unfolded(
        self,
        theta: Theta,
        weight: Rows,
        shift: Rows,
        condition: Callable[[], Conditioned],
        question: type,
        answers: Sequence[Callable[[Any], Any]],
    ) -> tuple[Rows, Rows]:
        return self._shared_out(weight), self._shared_out(shift)

    def summed(self, theta: Theta, weight: Rows, shift: Rows) -> tuple[Rows, Rows]:
        return self._sums(weight), self._sums(shift)

    def seen(self, theta: Theta, q: Conditioned, weight: Rows, shift: Rows) -> Conditioned:
        return OtherRows(q, weight, shift, self._spread, self._sums)

    def _spread(self, values: Rows) -> Rows:
        """What is the same for all rows of a kind, at all rows."""
        pairs = zip(values, self.kinds, strict=True)
        return tuple(v if kind is None else v[kind.place] for v, kind in pairs)

    def _shared_out(self, values: Rows) -> Rows:
        """The sum over the rows of a kind, as the shares of all rows by their weights."""
        out = []
        for v, kind, block in zip(values, self.kinds, self.whole.blocks, strict=True):
            if kind is None:
                out.append(v)
                continue
            weight = block.row_weights
            share = weight / np.bincount(kind.place, weight)[kind.place]
            out.append(share.reshape(-1, *(1,) * (v.ndim - 1)) * v[kind.place])
        return tuple(out)

    def _sums(self, values: Rows) -> Rows:
        """The sums over the rows of each kind."""
        pairs = zip(values, self.kinds, strict=True)
        return tuple(v if kind is None else _sums(v, kind) for v, kind in pairs)


def _sums(values: Array, kind: Alike) -> Array:
    size = len(kind.kept)
    columns = values.reshape(len(values), -1).T
    sums = np.array([np.bincount(kind.place, column, size) for column in columns])
    return np.asarray(sums.T.reshape(size, *values.shape[1:]), dtype=np.float64)


def merged(canonical: CanonicalModel, predictors_only: bool = False) -> CanonicalModel | None:
    """The model with the rows that are alike merged, in the blocks where that pays; None where it
    pays in none. `predictors_only`: for Gaussian sites that are given, whatever was observed."""
    kinds = tuple(alike(block, predictors_only) for block in canonical.blocks)
    return _with_kinds(canonical, kinds) if any(kind is not None for kind in kinds) else None


def _with_kinds(canonical: CanonicalModel, kinds: tuple[Alike | None, ...]) -> CanonicalModel:
    pairs = zip(canonical.blocks, kinds, strict=True)
    blocks = tuple(b if kind is None else _merged_block(b, kind) for b, kind in pairs)
    return replace(canonical, blocks=blocks, rows=Merged(canonical, merged, kinds))


def _merged_block(block: SiteBlock, kind: Alike) -> SiteBlock:
    kept = kind.kept
    weight = np.zeros(block.shape).reshape(-1)
    weight[block.rows[kept]] = np.bincount(kind.place, block.row_weights)
    whole = block.whole
    return replace(
        block,
        site=block.site if block.weight is not None else weighted(block.site),
        rows=block.rows[kept],
        y=None if block.y is None else block.y[kept],
        given=block.given and {name: value[kept] for name, value in block.given.items()},
        whole=None if whole is None else replace(whole, owner=whole.owner[kept]),
        weight=co.Constant(block.dims, weight.reshape(block.shape)),
    )
