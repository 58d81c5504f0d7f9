"""A prediction as a table: one row for each row of the new data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lgmdsl.api.columns import Columns, index_columns, quantile_columns, set_apart
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Dataset, Loaded
from lgmdsl.errors import DataError
from lgmdsl.posterior.marginals import Quantity

if TYPE_CHECKING:
    from lgmdsl.posterior.mixture import Mixture

# Columns of one quantity: what has more members across the rows is left to `to_dataset`.
ACROSS = 50


class Predicted(Protocol):
    """What a table reads of a prediction."""

    @property
    def canonical(self) -> CanonicalModel: ...
    @property
    def marginals(self) -> Mixture: ...
    @property
    def carried(self) -> Columns: ...
    @property
    def start(self) -> int: ...
    @property
    def unobserved(self) -> tuple[str, ...]: ...
    @property
    def responses(self) -> tuple[str, ...]: ...
    def observed(self, name: str) -> SiteBlock: ...
    def members(
        self, dims: tuple[str, ...], values: AnyArray, before: bool = False
    ) -> AnyArray: ...
    def doubt(self, name: str) -> None: ...
    def parts(self, block: SiteBlock) -> dict[str, Array]: ...
    def levels(self, block: SiteBlock, levels: Array) -> Array | None: ...


def row_axes(prediction: Predicted) -> tuple[str, ...]:
    """The axes that the rows of the new data are over: those of the response of most members, or of
    the let, report or latent of most members where nothing is observed."""
    candidates = [prediction.observed(n).data.dims for n in prediction.responses]
    candidates = candidates or [
        prediction.marginals.quantity_dims(n) for n in prediction.unobserved
    ]
    shape = prediction.canonical.layout.shape
    return max(candidates, key=lambda dims: (math.prod(shape(dims)), len(dims)), default=())


def table_columns(prediction: Predicted, levels: Array) -> Columns:
    """The columns: labels, those of the new data, where groups are known from, and for each let,
    report, latent and response NAME_mean, NAME_sd, NAME_q5 ...; of classes NAME_probability_CLASS.
    What runs over other axes too has a column for each of their members, at the end of the name."""
    rows = row_axes(prediction)
    labels = row_labels(prediction, rows)
    numbered = [x + prediction.start for x in labels] if prediction.start else labels
    given = index_columns(rows, numbered) | prediction.carried
    out = _status(prediction.canonical.grounded, rows, prediction)
    table = _Table(prediction, rows, tuple(len(x) for x in labels))
    suffixes = tuple(quantile_columns(levels))
    for name in prediction.unobserved:
        if not table.takes(prediction.marginals.quantity_dims(name)):
            continue
        known: Quantity = prediction.marginals.quantity(name)
        prediction.doubt(name)
        out |= table.columns(f"{name}_mean", known.dims, known.mean)
        out |= table.columns(f"{name}_sd", known.dims, known.sd)
        if not len(levels):
            continue
        dims, values = prediction.marginals.quantile(name, levels)
        for suffix, value in zip(suffixes, values, strict=True):
            out |= table.columns(f"{name}_{suffix}", dims, value)
    for name in prediction.responses:
        block = prediction.observed(name)
        dims = (*block.data.dims, block.classes) if block.classes else block.data.dims
        if not table.takes(dims):
            continue
        for kind, value in prediction.parts(block).items():
            out |= table.columns(f"{name}_{kind}", dims, value)
        quantiles = prediction.levels(block, levels) if len(levels) else None
        for suffix, value in zip(suffixes, () if quantiles is None else quantiles, strict=False):
            out |= table.columns(f"{name}_{suffix}", dims, value)
    return set_apart(given, out) | out


def outside(prediction: Predicted) -> tuple[str, ...]:
    """What is predicted and has no place in the table."""
    rows = row_axes(prediction)
    table = _Table(prediction, rows, tuple(len(x) for x in row_labels(prediction, rows)))
    of = {n: prediction.marginals.quantity_dims(n) for n in prediction.unobserved}
    of |= {n: prediction.observed(n).data.dims for n in prediction.responses}
    return tuple(n for n, dims in of.items() if not table.takes(dims))


def carried_columns(
    grounded: GroundedModel, dataset: Dataset, rows: Sequence[str], size: int
) -> Columns:
    """The columns of the new data that have an entry for each row, as they were read: labels as
    they are written (`01`), and so whole numbers that the model doesn't read."""
    if len(rows) != 1:
        return {}
    symbols = [(dataset.key(n), s) for n, s in grounded.model.symbols.items()]
    along = {k for k, s in symbols if s.kind == "data" and s.dims == (*rows,)}
    labels = {k for k, s in symbols if s.kind == "index" or s.target is not None}
    numbers = {k for k, s in symbols if s.kind == "data"} - labels
    out: Columns = {}
    for key, entry in dataset.entries.items():
        if entry.shape != (size,) or not (entry.table or key in along):
            continue
        try:
            loaded = entry.loaded
        except DataError:  # what no model asks for may be anything
            continue
        if isinstance(loaded.values, np.ndarray):
            texts = key in labels or (loaded.values.dtype.kind == "i" and key not in numbers)
            out[key] = _with_gaps(*_written(loaded, texts))
    return out


def _written(loaded: Loaded, texts: bool) -> tuple[AnyArray, AnyArray | None]:
    """The values and which are missing; their texts where labels are these (`Loaded.settled`)."""
    settled = loaded.settled() if texts else loaded
    if settled.kept:
        return settled.texts, settled.absent
    return loaded.values, loaded.missing


def _with_gaps(values: AnyArray, missing: AnyArray | None) -> Any:
    """Missing entries are NaN among numbers, None among text and integers that no float holds."""
    if missing is None or not missing.any():
        return values
    kind = values.dtype.kind
    if kind == "f" or (kind in "iu" and np.abs(values.astype(np.float64)).max() < 2.0**53):
        return np.where(missing, np.nan, values)
    return [None if gone else v for v, gone in zip(values.tolist(), missing, strict=True)]


def row_labels(prediction: Predicted, dims: Sequence[str]) -> list[AnyArray]:
    """The labels of the new data along some axes."""
    grounded, layout = prediction.canonical.grounded, prediction.canonical.layout
    return [np.asarray(grounded.asked.get(d, layout.labels[d])) for d in dims]


def _status(grounded: GroundedModel, rows: Sequence[str], prediction: Predicted) -> Columns:
    """`who_status`: whether the member that a map leads to is `fitted` or `new`."""
    out: Columns = {}
    joined = {d for b in prediction.canonical.latents for d in b.dims}
    for symbol in grounded.model.of_kind("data"):
        target = symbol.target
        if target is None or target not in joined or symbol.dims != (*rows,):
            continue
        places = grounded.values.get(symbol.name)
        if not isinstance(places, np.ndarray) or target in grounded.replaced:
            continue
        fitted = grounded.indices[target].size - len(grounded.new_levels.get(target, ()))
        words = np.where(places < 0, "missing", np.where(places < fitted, "fitted", "new"))
        out[f"{symbol.name}_status"] = words
    return out


class _Table:
    """Arrays over the axes of the rows, or some of them, and a few more, as columns."""

    def __init__(
        self, prediction: Predicted, rows: tuple[str, ...], sizes: tuple[int, ...]
    ) -> None:
        self.prediction, self.rows, self.sizes = prediction, rows, sizes

    def takes(self, dims: tuple[str, ...]) -> bool:
        """Whether something over these axes has a place: it runs over rows, or is a scalar where
        they have none, and has few members across."""
        across = [d for d in dims if d not in self.rows]
        few = math.prod(len(x) for x in row_labels(self.prediction, across)) <= ACROSS
        return few and len({*dims}) == len(dims) and bool({*dims} & {*self.rows} or not self.rows)

    def columns(self, name: str, dims: tuple[str, ...], values: AnyArray) -> Columns:
        """One column, or one for each member of the further axes."""
        along = [d for d in self.rows if d in dims]
        across = [d for d in dims if d not in self.rows]
        whole = np.transpose(
            self.prediction.members(dims, values), [dims.index(d) for d in (*along, *across)]
        )
        shape = tuple(n if d in dims else 1 for d, n in zip(self.rows, self.sizes, strict=True))
        out: Columns = {}
        for k, suffix in enumerate(_members(row_labels(self.prediction, across))):
            part = whole.reshape(*whole.shape[: len(along)], -1)[..., k].reshape(shape)
            out[f"{name}{suffix}"] = np.broadcast_to(part, self.sizes).reshape(-1)
        return out


def _members(labels: list[AnyArray]) -> Iterator[str]:
    """What the columns of each member of the further axes end in."""
    for place in np.ndindex(*(len(x) for x in labels)):
        named = (str(x[i]) for x, i in zip(labels, place, strict=True))
        yield "".join(f"_{n}" for n in named)
