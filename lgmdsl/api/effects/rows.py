"""The rows that effects are computed at, and how they are averaged."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.columns import Columns
from lgmdsl.api.effects.requested import Coded, coded_columns, factors, made_of
from lgmdsl.api.predict.predict import Prediction, predicted
from lgmdsl.api.predict.requested import say
from lgmdsl.api.summary.table import index_order
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import MethodError, ModelError, listed, suggestion
from lgmdsl.language.checked import Symbol
from lgmdsl.remedies import setting

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

OBSERVE = "give it an observe statement: observe y ~ normal(mean = eta, sd = s)"
GRID = 10_000  # rows of a balanced grid


@dataclass(frozen=True, eq=False)
class Rows:
    """`prediction` at the rows; `weights` (G, N), each row of which sums to 1: the average over the
    rows of each group; `labels`: of the groups, by the name of `by`; `without`: blocks of latents
    that are left out of the predictors."""

    prediction: Prediction
    block: SiteBlock
    weights: Array
    labels: Columns
    without: frozenset[str] = frozenset()


def rows_of(
    fit: FitRecord,
    name: str,
    kind: str,
    by: str | None,
    response: str | None,
    data: object,
    mapping: Keys | None,
) -> Rows:
    """The rows of the data (`average`), one reference row (`conditional`), or a `balanced` grid."""
    prediction = predicted(fit, bound({}) if data is None else read(data, mapping))
    if data is not None:
        say(prediction.warnings)
    block = _response(prediction, response)
    if kind == "average":
        groups = np.zeros(math.prod(block.data_shape), dtype=np.int64)
        labels: Columns = {}
        if by is not None:
            groups, labels = _groups(fit, prediction, block, by)
        counts = np.bincount(groups, minlength=int(groups.max(initial=0)) + 1)
        present = _ordered(prediction, by, np.flatnonzero(counts))
        weights = (groups[None, :] == present[:, None]) / counts[present][:, None]
        return Rows(prediction, block, weights, {k: v[present] for k, v in labels.items()})
    return _grid(fit, prediction, block, name, kind == "balanced", by)


def bound(values: dict[str, Any]) -> Dataset:
    """Values under the names of the model, which are not to be made of the fit's columns again."""
    return replace(read(values), placements={})


def _ordered(prediction: Prediction, by: str | None, groups: IntArray) -> IntArray:
    """Groups in the natural order of their labels."""
    grounded = prediction.canonical.grounded
    symbol = None if by is None else grounded.model.symbols.get(by)
    target = None if symbol is None else by if symbol.kind == "index" else symbol.target
    if target is None:
        return groups
    order = index_order(grounded.indices[target])
    return order[np.isin(order, groups)]


def _response(prediction: Prediction, response: str | None) -> SiteBlock:
    observed = [b for b in prediction.canonical.blocks if not b.family.spec.potential]
    if not observed:
        raise MethodError.of(
            "E501", "the model observes nothing that effects could be on", help=OBSERVE
        )
    if response is not None:
        return prediction.observed(response)
    return max(observed, key=lambda b: math.prod(b.data_shape))


def _groups(
    fit: FitRecord, prediction: Prediction, block: SiteBlock, by: str
) -> tuple[AnyArray, Columns]:
    """The group of each row, and the groups' labels."""
    canonical, rows = prediction.canonical, block.data.dims
    grounded = canonical.grounded
    shape = canonical.layout.shape(rows)
    if by in rows:
        along = tuple(-1 if d == by else 1 for d in rows)
        places = np.arange(len(canonical.layout.labels[by])).reshape(along)
        return np.broadcast_to(places, shape).reshape(-1), {by: canonical.layout.labels[by]}
    datum, column = _grouping(fit.canonical.grounded, by, rows, grounded.values)
    values = _dense(grounded.values[datum.name])
    dims, labels = datum.dims, None
    if column is not None:
        values, labels = column.groups(values)
        dims = dims[:-1]
    order = [d for d in rows if d in dims]
    along = tuple(n if d in dims else 1 for d, n in zip(rows, shape, strict=True))
    values = np.transpose(values, [dims.index(d) for d in order]).reshape(along)
    values = np.broadcast_to(values, shape).reshape(-1)
    if datum.target is not None:
        return values.astype(np.int64), {by: canonical.layout.labels[datum.target]}
    if labels is not None:
        return values, {by: _whole(np.array(labels))}
    known, places = np.unique(values, return_inverse=True)
    return places.reshape(-1), {by: _whole(known)}


def _whole(labels: AnyArray) -> AnyArray:
    """Labels as whole numbers where all of them are."""
    whole = labels.dtype.kind == "f" and bool((labels == np.round(labels)).all())
    return labels.astype(np.int64) if whole else labels


def _grouping(
    grounded: GroundedModel, by: str, rows: Sequence[str], held: Container[str]
) -> tuple[Symbol, Coded | None]:
    """The datum over the rows that groups are by, and, where that is a matrix, the column of a
    table in it, which `by` names as `region` or `X[region]`; `held`: data that the rows have, which
    are those that the predictor needs."""
    model = grounded.model
    known = {
        s.name: s
        for s in model.of_kind("data")
        if s.dims and {*s.dims} <= {*rows} and s.name in grounded.values and s.name in held
    }
    if by in known:
        return known[by], None
    columns = [
        c
        for name in grounded.codings
        if {*model.symbols[name].dims[:-1]} <= {*rows}
        for c in coded_columns(grounded, name)
    ]
    meant = [c for c in columns if by in (c.name, c.coding.column)]
    alone = [name for name in made_of(grounded, by) if name in known]
    if len(meant) + len(alone) == 1:
        if alone:
            return known[alone[0]], None
        return model.symbols[meant[0].matrix], meant[0]
    help = f"there is {listed([*alone, *(c.name for c in meant)], last='or')}"
    if not meant and not alone:
        names = [*known, *(c.name for c in columns), *rows]
        help = suggestion(by, names, f"there are: {', '.join(names)}")
    raise ModelError.of("E103", f"effects cannot be grouped by `{by}`", help=help)


def _grid(
    fit: FitRecord,
    prediction: Prediction,
    block: SiteBlock,
    name: str,
    balanced: bool,
    by: str | None,
) -> Rows:
    """A reference row for each group: numbers at their mean, whole numbers at the rounded mean, 0/1
    data, maps and columns by contrasts at their most frequent value; `balanced`: every combination
    of the values of these, with equal weights."""
    grounded = prediction.canonical.grounded
    if len(block.data.dims) != 1:
        message = f"`{block.name}` has {len(block.data.dims)} axes, so there is no reference row"
        raise MethodError.of("E501", message, help=f"{setting('kind', 'average')} is defined")
    dim, usage = block.data.dims[0], usage_of(grounded.graph)
    free: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}
    coded: dict[str, Coded] = {}
    labels: Columns = {}
    if by is not None:
        _, known = _groups(fit, prediction, block, by)
        labels = {by: known[by][_ordered(prediction, by, np.arange(len(known[by])))]}
        datum, column = (
            (None, None)
            if by == dim
            else _grouping(fit.canonical.grounded, by, [dim], prediction.canonical.grounded.values)
        )
        key = by if datum is None else datum.name if column is None else column.name
        free[key] = labels[by].tolist()
        if column is not None:
            coded[key] = column
    for symbol in grounded.model.of_kind("data"):
        values = grounded.values.get(symbol.name)
        if symbol.name in usage.responses or dim not in symbol.dims or symbol.name in free:
            continue
        if values is None or symbol.type == "graph":
            continue
        kept = _typical(symbol, values, grounded, symbol.dims.index(dim))
        factor = symbol.target is not None or symbol.type == "binary"
        if factor and balanced and symbol.name != name and len(symbol.dims) == 1:
            free[symbol.name] = _members(symbol, values, grounded)
        else:
            fixed[symbol.name] = kept
        for column in factors(fit.canonical.grounded, symbol.name):
            _place(fixed[symbol.name], column, _most_frequent(values, column))
            if balanced and column.name not in coded:
                coded[column.name] = column
                free[column.name] = [*column.coding.levels]
    size = math.prod(len(v) for v in free.values())
    if size > GRID:
        message = f"the balanced grid has {size:,} rows"
        shown = ", ".join(f"{k} ({len(v):,})" for k, v in free.items())
        raise MethodError.of("E501", message, details=(shown,), help=setting("kind", "average"))
    new: dict[str, Any] = {}
    combinations = list(product(*free.values()))
    for key, value in fixed.items():
        axis = grounded.model.symbols[key].dims.index(dim)
        new[key] = np.repeat(np.expand_dims(value, axis), size, axis=axis)
    for k, key in enumerate(free):
        values_of = [c[k] for c in combinations]
        if key in coded:
            for row, level in enumerate(values_of):
                _place(new[coded[key].matrix][row], coded[key], level)
        else:
            new[key] = np.array(values_of)
    if not new:
        message = f"`{block.name}` has no covariates, so there is no reference row"
        raise MethodError.of("E501", message)
    at = predicted(fit, bound(new))
    groups = len(labels[by]) if by is not None else 1
    weights = np.kron(np.eye(groups), np.full((1, size // groups), groups / size))
    return Rows(at, at.observed(block.name), weights, labels)


def _dense(values: Any) -> AnyArray:
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray())


def _most_frequent(values: Any, factor: Coded) -> str:
    """The level of most rows."""
    columns = _dense(values)[:, list(factor.places)]
    counts = {v: int((columns == row).all(axis=1).sum()) for v, row in factor.coding.rows.items()}
    return max(factor.coding.levels, key=lambda v: counts[v])


def _place(row: AnyArray, factor: Coded, level: object) -> None:
    """Set a row of a matrix to a level."""
    for column, entry in factor.entries(level):
        row[column] = entry


def _typical(symbol: Symbol, values: Any, grounded: GroundedModel, axis: int) -> Any:
    """What a covariate is at the reference row."""
    if not isinstance(values, np.ndarray):
        return np.asarray(values.mean(axis=0)).reshape(-1)
    if symbol.target is not None:
        places = np.bincount(values[values >= 0].astype(np.int64).reshape(-1))
        return np.array(grounded.indices[symbol.target].labels[int(places.argmax())])
    if symbol.type == "binary":
        return np.round(np.nanmean(values, axis=axis))
    mean = np.nanmean(values, axis=axis)
    return np.round(mean) if symbol.type in ("count", "integer") else mean


def _members(symbol: Symbol, values: Any, grounded: GroundedModel) -> list[Any]:
    if symbol.target is not None:
        labels: list[Any] = grounded.indices[symbol.target].labels.tolist()
        return labels
    return sorted({*np.asarray(values).reshape(-1).tolist()})
