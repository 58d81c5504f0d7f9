"""A model whose rows are read by batches: canonical, but its site blocks over the streamed index
stand for rows by the latents that these share."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.folding import ROWS_A_PLACE, Folding
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.site import Site
from lgmdsl.dataset import Dataset
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse
from lgmdsl.streams.collective import Places, spec_of
from lgmdsl.streams.multipliers import ONE, Multipliers
from lgmdsl.streams.rows import BoundRows, PackedRows, Reduction

# Of a sample of places: at least so many rows and places in it, every so-manieth place.
LEAST_ROWS, LEAST_PLACES, LEAST_STEP, LARGEST_STEP = 50_000, 400, 8, 64


@dataclass(frozen=True, eq=False)
class Gather:
    """The places of a block's rows: `latents`, K names; `touched`, (G, K), the entry of each that
    all rows of a place touch; `count` rows, `rows` with their coefficients by `reduction` and what
    hyperparameters in the predictor multiply these with (`multipliers`, None: nothing), None where
    they are not at hand (a stored fit); `order`, (count,): where the rows of the table are among
    the packed ones, None where nobody asked for that."""

    latents: tuple[str, ...]
    touched: IntArray
    count: int
    rows: PackedRows | None = None
    reduction: Reduction | None = None
    multipliers: Multipliers | None = None
    order: IntArray | None = None

    @property
    def places(self) -> int:
        return len(self.touched)

    @property
    def weight(self) -> float:
        """The sum of the weights of the rows: their number, where they have none."""
        known = {} if self.rows is None else self.rows.fields
        return float(known["weight"].total) if "weight" in known else float(self.count)

    def at_places(self, some: IntArray) -> Gather:
        """Some of the places, (g,), with their rows."""
        assert self.rows is not None, "a stored fit has no rows to take"
        rows = self.rows.at_places(some)
        factors = None if self.multipliers is None else self.multipliers.at_places(some)
        touched = self.touched[some]
        return Gather(self.latents, touched, len(rows), rows, self.reduction, factors)

    def predictor(self, sizes: Mapping[str, int]) -> Predictor:
        """z of each place, as the predictors of vector sites; `sizes` of the latents. That which
        is 1 (`multipliers.ONE`) is an offset."""
        places, count = self.touched.shape
        columns: dict[str, Operator] = {}
        for name in dict.fromkeys(n for n in self.latents if n != ONE):
            own = np.array([k for k, n in enumerate(self.latents) if n == name])
            counts = np.zeros((places, count), dtype=np.int64)
            counts[:, own] = 1
            indptr = np.concatenate([[0], np.cumsum(counts.reshape(-1))])
            entries = self.touched[:, own].reshape(-1)
            csr = sp.csr_array(
                (np.ones(len(entries)), entries, indptr), shape=(places * count, sizes[name])
            )
            columns[name] = Sparse(csr)
        offset = np.tile([float(n == ONE) for n in self.latents], places)
        return Predictor(columns, offset, count)


@dataclass(frozen=True, eq=False)
class StreamedModel(CanonicalModel):
    """`gathers`: of each site block, None where its rows are in memory. The blocks of the others
    hold a sample of the rows, which tells their sizes and no more. `index`: the streamed one;
    `hashes`: of the data over it, as `GroundedModel.hashes` has them; `folding`: how the rows of a
    model in memory came to be here (`folded.py`), None of rows that were read by batches;
    `read_from`: where these can be had again, None in other processes."""

    gathers: tuple[Gather | None, ...]
    index: str
    hashes: Mapping[str, str] = field(default_factory=dict)
    folding: Folding | None = None
    read_from: Dataset | None = None

    @property
    def streamed(self) -> tuple[str, ...]:
        return (self.index,)

    @property
    def observations(self) -> int:
        pairs = zip(self.blocks, self.gathers, strict=True)
        kept = (len(b.data.rows) for b, g in pairs if g is None and not b.family.spec.potential)
        return self.count + sum(kept)

    @property
    def total_weight(self) -> float:
        pairs = zip(self.blocks, self.gathers, strict=True)
        return sum(float(b.row_weights.sum()) if g is None else g.weight for b, g in pairs)

    @property
    def count(self) -> int:
        """Rows that are streamed."""
        return sum(g.count for g in self.gathers if g is not None)

    @property
    def said_of_rows(self) -> dict[str, str]:
        hashes = {f"sha256_{name}": digest for name, digest in self.hashes.items()}
        return {"streamed": self.note, **hashes}

    @property
    def note(self) -> str:
        """What lies at which places, for the provenance: `y: 5,000,000 rows at 1,000 places`."""
        pairs = zip(self.blocks, self.gathers, strict=True)
        sizes = ((b.name, g.count, g.places) for b, g in pairs if g is not None)
        return "; ".join(f"{name}: {n:,} rows at {places:,} places" for name, n, places in sizes)

    def sampled(self) -> StreamedModel | None:
        """The model of every so-manieth place, on the same latents; None where that is not much
        cheaper: few rows, few places, or few rows at each, which then are not what costs."""
        step = LARGEST_STEP
        for g in self.gathers:
            if g is not None:
                few = g.count < ROWS_A_PLACE * g.places
                step = min(step, 0 if few else min(g.count // LEAST_ROWS, g.places // LEAST_PLACES))
        if step < LEAST_STEP:
            return None
        return self.thinned(step)

    def thinned(self, step: int) -> StreamedModel:
        """The model of every so-manieth place, on the same latents."""
        some = tuple(
            None if g is None else g.at_places(np.arange(step // 2, g.places, step))
            for g in self.gathers
        )
        return streamed_model(self, some, self.index, self.hashes)

    @cached_property
    def _predictors(self) -> tuple[Predictor | None, ...]:
        sizes = {b.name: b.size for b in self.latents}
        return tuple(None if g is None else g.predictor(sizes) for g in self.gathers)

    def observed(self, k: int, theta: Theta) -> Predictor:
        known = self._predictors[k]
        return super().observed(k, theta) if known is None else known

    def bound(self, k: int, theta: Theta) -> Site:
        gather, known = self.gathers[k], self._sites.get(k)
        if gather is None:
            return super().bound(k, theta)
        if known is None:
            known = self._of_rows(k, gather, theta)
        if gather.multipliers is None:
            return known
        assert isinstance(known, Places), "sites of places"
        return replace(known, multipliers=gather.multipliers.at(theta))

    def _of_rows(self, k: int, gather: Gather, theta: Theta) -> Places:
        """The sites of places, without what hyperparameters multiply coefficients with."""
        assert gather.rows is not None, "a stored fit has no rows to bind"
        assert gather.reduction is not None, "rows come with one"
        family, own = self.blocks[k].site, self._own(k, theta)
        rows = BoundRows(gather.rows, family, own, gather.reduction)
        known = Places(spec_of(family), rows, _itself)
        if not own:
            self._sites[k] = known
        return known

    def _own(self, k: int, theta: Theta) -> dict[str, Array]:
        """The fields of the sites that depend on hyperparameters, without an axis of rows."""
        block, out = self.blocks[k], {}
        for name, node in block.parameters.items():
            if node.depends:
                dims = block.dims_of(name)[len(block.family_dims) :]
                out[name] = np.asarray(expand(node.evaluate(theta), dims, self.sizes), np.float64)
        return out


def _itself(site: Site) -> Site:
    return site


def streamed_model(
    canonical: CanonicalModel,
    gathers: tuple[Gather | None, ...],
    index: str,
    hashes: Mapping[str, str] = MappingProxyType({}),
) -> StreamedModel:
    """The model with these places. Lets over the streamed index are left out: nobody holds them."""
    own: dict[str, Any] = {f.name: getattr(canonical, f.name) for f in fields(CanonicalModel)}
    pairs = zip(canonical.blocks, gathers, strict=True)
    own["blocks"] = tuple(b if g is None else replace(b, slopes="sums") for b, g in pairs)
    own["named"] = {n: (d, tree) for n, (d, tree) in canonical.named.items() if index not in d}
    return StreamedModel(**own, gathers=gathers, index=index, hashes=dict(hashes))


def _reduced(model: StreamedModel) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if model.folding is not None:
        return model.folding.again, (model.folding.whole,)
    own: dict[str, Any] = {f.name: getattr(model, f.name) for f in fields(CanonicalModel)}
    own["blocks"] = tuple(replace(b, slopes="sites") for b in model.blocks)
    gathers = tuple(
        None if g is None else replace(g, rows=None, reduction=None, multipliers=None)
        for g in model.gathers
    )
    return streamed_model, (CanonicalModel(**own), gathers, model.index)


# Pickled without its rows.
copyreg.pickle(StreamedModel, _reduced)
