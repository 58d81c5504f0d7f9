"""The rows that effects are computed at, and how they are averaged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.columns import Columns
from lgmdsl.api.effects.requested import Made, made
from lgmdsl.api.predict.predict import Prediction, predicted
from lgmdsl.api.predict.requested import say
from lgmdsl.api.summary.table import index_order
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.dataset.codings import Coding, Design
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


def bound(values: dict[str, Any], designs: Mapping[str, Design] | None = None) -> Dataset:
    """Values under the names of the model, which are not to be made of the fit's columns again.
    `designs`: how they were made."""
    return replace(read(values), placements={}, designs=designs or {})


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
    datum, column = _grouping(grounded, by, rows)
    values = _dense(grounded.values[datum.name])
    dims, labels = datum.dims, None
    if column is not None:
        values, labels = column[0].groups(column[1], values)
        dims = dims[:1]
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
    grounded: GroundedModel, by: str, rows: Sequence[str]
) -> tuple[Symbol, tuple[Made, str] | None]:
    """The datum over the rows that groups are by, and, where that was made of columns of a table,
    the column, which `by` names as `region` or `X[region]`."""
    model = grounded.model
    known = {
        s.name: s
        for s in model.of_kind("data")
        if s.dims and {*s.dims} <= {*rows} and s.name in grounded.values
    }
    if by in known:
        return known[by], None
    columns: dict[str, tuple[Made, str]] = {}
    for name in grounded.designs:
        of = made(grounded, name)
        if of is not None and model.symbols[name].dims[0] in rows and name in grounded.values:
            columns |= {f"{name}[{column}]": (of, column) for column in of.design.names}
    meant = [key for key, (_, column) in columns.items() if by in (key, column)]
    if len(meant) == 1:
        of, column = columns[meant[0]]
        return model.symbols[of.name], (of, column)
    help = f"there is {listed(meant, last='or')}"
    if not meant:
        names = [*known, *columns, *rows]
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
    columns: dict[str, tuple[Made, dict[str, Any]]] = {}
    coded: dict[str, tuple[Made, str]] = {}
    labels: Columns = {}
    if by is not None:
        _, known = _groups(fit, prediction, block, by)
        labels = {by: known[by][_ordered(prediction, by, np.arange(len(known[by])))]}
        datum, column = (None, None) if by == dim else _grouping(grounded, by, [dim])
        key = by if datum is None else datum.name if column is None else _named(*column)
        free[key] = labels[by].tolist()
        if column is not None:
            coded[key] = column
    for symbol in grounded.model.of_kind("data"):
        values = grounded.values.get(symbol.name)
        if symbol.name in usage.responses or dim not in symbol.dims or symbol.name in free:
            continue
        if values is None or symbol.type == "graph":
            continue
        of = made(grounded, symbol.name)
        if of is not None:
            columns[symbol.name] = of, {k: _usual(of, k, v) for k, v in of.values(values).items()}
            for each in of.design.names if balanced else ():
                factor = of.design.factor(each)
                if factor is not None and _named(of, each) not in coded:
                    coded[_named(of, each)] = of, each
                    free[_named(of, each)] = [*factor.levels]
            continue
        kept = _typical(symbol, values, grounded, symbol.dims.index(dim))
        labelled = symbol.target is not None or symbol.type == "binary"
        if labelled and balanced and symbol.name != name and len(symbol.dims) == 1:
            free[symbol.name] = _members(symbol, values, grounded)
        else:
            fixed[symbol.name] = kept
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
    levels = {key: [c[k] for c in combinations] for k, key in enumerate(free)}
    new |= {key: np.array(values) for key, values in levels.items() if key not in coded}
    designs: dict[str, Design] = {}
    for datum_name, (of, usual) in columns.items():
        at = {k: np.repeat(np.asarray(v), size) for k, v in usual.items()}
        for key, (other, each) in coded.items():
            if other.name == datum_name:
                at[each] = _at_levels(of.design.factor(each), levels[key])
        designs[datum_name], _ = of.design.of(at)
        new[datum_name] = of.datum(at)
    if not new:
        message = f"`{block.name}` has no covariates, so there is no reference row"
        raise MethodError.of("E501", message)
    grid = predicted(fit, bound(new, designs))
    groups = len(labels[by]) if by is not None else 1
    weights = np.kron(np.eye(groups), np.full((1, size // groups), groups / size))
    return Rows(grid, grid.observed(block.name), weights, labels)


def _dense(values: Any) -> AnyArray:
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray())


def _named(of: Made, column: str) -> str:
    return f"{of.name}[{column}]"


def _usual(of: Made, column: str, values: AnyArray) -> Any:
    """A column at the reference row: the level of most rows, the mean of numbers."""
    if of.design.factor(column) is None:
        return np.nanmean(values)
    return np.bincount(values[values >= 0].astype(np.int64)).argmax()


def _at_levels(factor: Coding | None, levels: Sequence[Any]) -> AnyArray:
    return np.array(levels if factor is None else [factor.levels.index(str(v)) for v in levels])


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
