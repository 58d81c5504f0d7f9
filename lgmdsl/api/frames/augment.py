"""fit.augment(): the rows of the data with what the fit says of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.assess.loo import loo as loo_of
from lgmdsl.api.columns import Columns, frame_library, frame_of, index_columns, set_apart
from lgmdsl.api.predict.predict import Prediction, predicted
from lgmdsl.api.predict.table import carried_columns
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.blocks.censoring import censored_between
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import MethodError, ModelError, suggestion

if TYPE_CHECKING:
    import pandas as pd

    from lgmdsl.posterior.fit_record import FitRecord


WHOLE = ("binary", "count", "integer")  # types of data that are whole numbers


def augment(
    fit: FitRecord,
    data: object,
    mapping: Keys | None,
    response: str | None,
    loo: bool,
    backend: str,
) -> pd.DataFrame:
    """See `Fit.augment`."""
    frame_library(backend)
    return frame_of(augmented_columns(fit, data, mapping, response, loo), backend)


def augmented_columns(
    fit: FitRecord, data: object, mapping: Keys | None, response: str | None, loo: bool
) -> Columns:
    """The columns of `Fit.augment`."""
    dataset = None if data is None else read(data, mapping)
    fit, canonical = with_responses(fit, dataset, None, "augment", "fit.augment(data=...)")
    block = _chosen(canonical, response)
    rows = block.data.dims
    labels = [canonical.layout.labels[d] for d in rows]
    size = math.prod(len(x) for x in labels)
    given, out = index_columns(rows, labels), Columns()
    if dataset is None or len(rows) != 1:
        given |= _data(canonical, rows)
    else:
        given |= carried_columns(canonical.grounded, dataset, rows, size)
    prediction = predicted(fit, read({}))
    for name, (dims, _) in canonical.named.items():
        if dims and {*dims} <= {*rows} and len({*dims}) == len(dims):
            quantity = fit.quantity(name)
            for kind, values in (("mean", quantity.mean), ("sd", quantity.sd)):
                out[f"{name}_{kind}"] = _over(canonical, rows, dims, values)
    out |= _response(canonical, prediction, block)
    if loo and (block.residual is None or block.residual.apart(block.rows)):
        left_out = loo_of(fit, data=None if dataset is None else dataset)
        out[f"{block.name}_loo"] = _rowwise(left_out.pointwise(block.name).values, block)
        out[f"{block.name}_loo_flag"] = _rowwise(left_out.flags(block.name).values, block)
    return set_apart(given, out) | out


def _chosen(canonical: CanonicalModel, response: str | None) -> SiteBlock:
    observed = [b for b in canonical.blocks if not b.family.spec.potential]
    if not observed:
        raise MethodError.of(
            "E501",
            "the model observes nothing, so its data have no rows",
            help="fit.tidy() has what was estimated",
        )
    if response is None:
        return max(observed, key=lambda b: math.prod(b.data_shape))
    for block in observed:
        if block.name == response:
            return block
    known = [b.name for b in observed]
    help = suggestion(response, known, f"it observes: {', '.join(known)}")
    raise ModelError.of("E103", f"the model observes no `{response}`", help=help)


def _data(canonical: CanonicalModel, rows: tuple[str, ...]) -> Columns:
    """The data of the model over the rows, or some of their axes, positions as labels."""
    grounded, out = canonical.grounded, Columns()
    for symbol in grounded.model.of_kind("data"):
        values = grounded.values.get(symbol.name)
        dims = symbol.dims
        if not isinstance(values, np.ndarray) or not dims or not {*dims} <= {*rows}:
            continue
        if len({*dims}) == len(dims):
            column = _over(canonical, rows, dims, values)
            whole = symbol.type in WHOLE and bool(np.isfinite(column).all())
            column = column.astype(np.int64) if whole else column
            out[symbol.name] = _labels(canonical, symbol.target, column)
    return out


def _labels(canonical: CanonicalModel, target: str | None, column: AnyArray) -> Any:
    if target is None:
        return column
    labels = canonical.layout.labels[target]
    if (column >= 0).all():
        return labels[column]
    out = labels.astype(object)[np.maximum(column, 0)]
    out[column < 0] = None
    return out


def _over(
    canonical: CanonicalModel, rows: tuple[str, ...], dims: tuple[str, ...], values: AnyArray
) -> AnyArray:
    """Values over some of the axes of the rows, for each row."""
    order = [d for d in rows if d in dims]
    shape = canonical.layout.shape(rows)
    along = tuple(n if d in dims else 1 for d, n in zip(rows, shape, strict=True))
    part = np.transpose(values, [dims.index(d) for d in order]).reshape(along)
    return np.broadcast_to(part, shape).reshape(-1)


def _response(canonical: CanonicalModel, prediction: Prediction, block: SiteBlock) -> Columns:
    """Moments of another response at the same rows, and what is left of the one observed."""
    name, size = block.name, math.prod(block.data_shape)
    parts = prediction.parts(prediction.observed(name))
    if block.each:
        return {}
    observed = np.full(size, np.nan)
    rows, y = canonical.given(block)
    observed[rows] = y
    if block.classes:
        table = parts["probability"].reshape(size, -1)
        known = np.isfinite(observed)
        places = np.where(known, observed, 0.0).astype(np.int64)
        share: Array = np.where(known, table[np.arange(size), places], np.nan)
        return {f"{name}_probability": share}
    mean, sd = parts["mean"].reshape(-1), parts["sd"].reshape(-1)
    censored = ~np.isnan(censored_between(block)[0])
    # What is left of a censored response is not known.
    left = np.where(censored, np.nan, observed - mean)
    marked = {f"{name}_censored": censored} if censored.any() else {}
    return {f"{name}_mean": mean, f"{name}_sd": sd, f"{name}_residual": left, **marked}


def _rowwise(values: AnyArray, block: SiteBlock) -> AnyArray:
    return values.reshape(math.prod(block.data_shape), -1)[:, 0]
