"""Rows that are read by batches: the site blocks over their index stand for rows by the latents
that these share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.row_source import ROWS_A_PLACE, Held, Remade, RowSource, Stored, StoredArray
from lgmdsl.contract.site import Site
from lgmdsl.dataset import Dataset
from lgmdsl.engines.shared.prior import pattern
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse
from lgmdsl.streams.collective import Places
from lgmdsl.streams.multipliers import ONE, Multipliers
from lgmdsl.streams.rows import BoundRows, PackedRows, Reduction

GROUP = "streams"  # of a result file
# Of a sample of places: at least so many rows and places in it, every k-th place.
LEAST_ROWS, LEAST_PLACES, LEAST_STEP, LARGEST_STEP = 50_000, 400, 8, 64
LARGEST = 6_000_000  # predictors of places up to which errors are estimated of all of them at once
NO_SAMPLE = "rows were read by batches, and no sample of them tells of all"


@dataclass(frozen=True, eq=False)
class Gather:
    """The places of the rows of a `block`: `latents`, K names; `touched`, (G, K), the entry of each
    that all rows of a place touch; `count` rows, `rows` with their coefficients by `reduction` and
    what hyperparameters in the predictor multiply these with (`multipliers`, None: nothing), None
    where they are not at hand (a stored fit); `order`, (count,): where the rows of the table are
    among the packed ones, None where nobody asked for that."""

    block: str
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
        moved = replace(self, rows=rows, multipliers=factors, order=None)
        return replace(moved, touched=self.touched[some], count=len(rows))

    @property
    def bare(self) -> Gather:
        """The places without their rows."""
        return Gather(self.block, self.latents, self.touched, self.count)

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
class ByPlaces(RowSource):
    """Rows by places, read by batches. `gathers`: of each site block, None where its rows are in
    memory. The blocks of the others hold a sample of the rows, which tells their sizes and no more.
    `index`: the streamed one; `hashes`: of the data over it, as `GroundedModel.hashes` has them;
    `read_from`: where rows can be had again. Pickled without its rows."""

    gathers: tuple[Gather | None, ...]
    index: str
    hashes: Mapping[str, str] = field(default_factory=dict)
    read_from: Dataset | None = None
    beyond: tuple[Predictor, ...] = ()

    def remade(self, model: CanonicalModel) -> Remade:
        gathers = tuple(None if g is None else g.bare for g in self.gathers)
        return placed, (replace(model, rows=RowSource()), ByPlaces(gathers, self.index))

    @property
    def over(self) -> tuple[str, ...]:
        return (self.index,)

    @property
    def placed(self) -> tuple[Gather, ...]:
        """The places of the blocks that hold no rows."""
        return tuple(g for g in self.gathers if g is not None)

    def held(self, k: int) -> Held | None:
        gather = self.gathers[k]
        return None if gather is None else Held(gather.count, gather.weight)

    def slopes(self, k: int) -> Literal["sites", "sums", "hypers"]:
        return "sites" if self.gathers[k] is None else "sums"

    @property
    def said(self) -> dict[str, str]:
        hashes = {f"sha256_{name}": digest for name, digest in self.hashes.items()}
        return {"streamed": self.note, **hashes}

    @property
    def note(self) -> str:
        """What lies at which places, for the provenance: `y: 5,000,000 rows at 1,000 places`."""
        sizes = ((g.block, g.count, g.places) for g in self.placed)
        return "; ".join(f"{name}: {n:,} rows at {places:,} places" for name, n, places in sizes)

    def stored(self) -> Stored:
        arrays = {
            f"touched_{k}": (g.touched, {"latents": json.dumps(g.latents), "count": g.count})
            for k, g in enumerate(self.gathers)
            if g is not None
        }
        return Stored(GROUP, 4, {"index": self.index}, arrays)

    def sampled(self, model: CanonicalModel) -> CanonicalModel | None:
        """The model of every k-th place; None where that is not much cheaper: few rows, few places,
        or few rows at each, which then are not what costs."""
        step = LARGEST_STEP
        for g in self.placed:
            few = g.count < ROWS_A_PLACE * g.places
            step = min(step, 0 if few else min(g.count // LEAST_ROWS, g.places // LEAST_PLACES))
        return None if step < LEAST_STEP else self._thinned(model, step)

    def few_groups(
        self, model: CanonicalModel, theta: Theta, rows: int, groups: int
    ) -> CanonicalModel | None:
        if len(self.gathers) != 1:
            return None
        (gather,) = self.placed
        step = min(gather.count // rows, gather.places // groups)
        return self._thinned(model, step) if step >= 2 and self._apart(model, theta) else None

    @property
    def unsampled(self) -> str:
        return NO_SAMPLE if sum(g.touched.size for g in self.placed) > LARGEST else ""

    def _thinned(self, model: CanonicalModel, step: int) -> CanonicalModel:
        """The model of every k-th place, on the same latents."""
        some = tuple(g and g.at_places(np.arange(step // 2, g.places, step)) for g in self.gathers)
        return replace(model, rows=ByPlaces(some, self.index, self.hashes))

    def _apart(self, model: CanonicalModel, theta: Theta) -> bool:
        """Whether no place shares a latent with another one but with all, nor is joined with it by
        the prior or by a constraint."""
        linear = model.linear(theta)
        if linear.constraints is not None:
            return False
        place = np.full(linear.size, -1)
        for gather in self.placed:
            for name, touched in zip(gather.latents, gather.touched.T, strict=True):
                positions = linear.slices[name].start + touched
                if (touched == touched[0]).all():
                    continue
                order = np.arange(len(positions))
                known = place[positions]
                if ((known >= 0) & (known != order)).any():
                    return False
                place[positions] = order
                if (place[positions] != order).any():
                    return False
        for block in linear.blocks:
            own = place[linear.slices[block.name]]
            if (own < 0).all():
                continue
            joined = pattern(block)
            if joined is None:
                return False
            rows = np.repeat(np.arange(block.size), np.diff(joined.indptr))
            if (own[rows] != own[joined.indices]).any():
                return False
        return True

    def observed(self, model: CanonicalModel, k: int, theta: Theta) -> Predictor:
        gather, known = self.gathers[k], self._predictors.get(k)
        if gather is None:
            return model.own_predictor(k, theta)
        if known is None:
            known = gather.predictor({b.name: b.size for b in model.latents})
        return self._predictors.setdefault(k, known)

    def bound(self, model: CanonicalModel, k: int, theta: Theta) -> Site:
        if self.gathers[k] is None:
            return model.own_sites(k, theta)
        return self.sites(model, k, theta)

    def sites(self, model: CanonicalModel, k: int, theta: Theta) -> Places:
        """The sites of the places of a block."""
        gather, known = self.gathers[k], self._sites.get(k)
        assert gather is not None, "rows of the block are elsewhere"
        if known is None:
            assert gather.rows is not None, "a stored fit has no rows to bind"
            assert gather.reduction is not None, "rows come with one"
            family, own = model.blocks[k].site, _own(model.blocks[k], model.sizes, theta)
            rows = BoundRows(gather.rows, family, own, gather.reduction)
            known = Places(Places.spec_of(family, "places"), rows, _itself)
            if not own:
                self._sites[k] = known
        if gather.multipliers is None:
            return known
        return replace(known, multipliers=gather.multipliers.at(theta))

    @cached_property
    def _sites(self) -> dict[int, Places]:
        return {}

    @cached_property
    def _predictors(self) -> dict[int, Predictor]:
        return {}


def _own(block: SiteBlock, sizes: Mapping[str, int], theta: Theta) -> dict[str, Array]:
    """The fields of the sites that depend on hyperparameters, without an axis of rows."""
    out = {}
    for name, node in block.parameters.items():
        if node.depends:
            dims = block.dims_of(name)[len(block.family_dims) :]
            out[name] = np.asarray(expand(node.evaluate(theta), dims, sizes), np.float64)
    return out


def _itself(site: Site) -> Site:
    return site


def by_places(model: CanonicalModel) -> ByPlaces:
    """The places of the rows of a model that has such. Raises TypeError for others."""
    if isinstance(model.rows, ByPlaces):
        return model.rows
    raise TypeError("rows of this model are not at places")


def placed(canonical: CanonicalModel, rows: ByPlaces) -> CanonicalModel:
    """The model with these places. Lets over the streamed index are left out: nobody holds them."""
    named = {n: (d, tree) for n, (d, tree) in canonical.named.items() if rows.index not in d}
    return replace(canonical, named=named, rows=rows)


def restored(
    canonical: CanonicalModel, attributes: Mapping[str, Any], arrays: Mapping[str, StoredArray]
) -> CanonicalModel:
    """The model of a result file, without its rows."""
    gathers: list[Gather | None] = []
    for k, block in enumerate(canonical.blocks):
        if (known := arrays.get(f"touched_{k}")) is None:
            gathers.append(None)
            continue
        touched, said = known
        latents = tuple(json.loads(str(said["latents"])))
        gathers.append(Gather(block.name, latents, touched.astype(np.int64), int(said["count"])))
    return placed(canonical, ByPlaces(tuple(gathers), str(attributes["index"])))
