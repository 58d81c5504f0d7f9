"""Effects of what a latent's prior is built on: each level is other members of the latent.

The rows are stacked, level after level, and predicted together: members at the positions of all
levels join the fitted ones, so that comparisons have the joint distribution of both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.api.effects.requested import Requested
from lgmdsl.api.effects.rows import Rows, bound
from lgmdsl.api.predict.predict import predicted
from lgmdsl.arrays import Array
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.errors import MethodError, listed
from lgmdsl.language.checked import Symbol
from lgmdsl.remedies import either, setting

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# Members of the stacked rows: their covariance is dense.
MOST_ROWS = 3_000


def stacked(fit: FitRecord, rows: Rows, requested: Requested) -> tuple[Rows, list[Array]]:
    """The rows at all levels of the covariate, and the weights of each level's averages.

    Raises MethodError E501 where the members are not those of single rows, or the rows too many.
    """
    grounded, dims = rows.prediction.canonical.grounded, rows.block.data.dims
    name = requested.symbol.name
    if len(dims) != 1 or dims[0] not in requested.symbol.dims:
        raise _not_of_rows(requested, f"`{name}` is not over the rows of `{rows.block.name}`")
    over_rows = {
        owner(b.name)
        for b in rows.prediction.canonical.latents
        if dims[0] in b.dims and b.name not in rows.without
    }
    others = sorted(over_rows - {*requested.latents})
    if others:
        raise _not_of_rows(
            requested,
            f"{listed([f'`{n}`' for n in others])} of other rows would be new too",
            either(f"--without {others[0]}", f'without=["{others[0]}"]') + " leaves it out",
        )
    count, size = len(requested.levels), rows.weights.shape[1]
    if count * size > MOST_ROWS:
        message = f"{count} levels of {size:,} rows are {count * size:,} new members of "
        message += listed([f"`{n}`" for n in requested.latents])
        help = f"{setting('kind', 'conditional')}, or fewer rows: "
        help += either("--data rows.csv", "data=rows")
        raise MethodError.of("E501", message, help=help)
    new: dict[str, Any] = {}
    usage = usage_of(grounded.graph)
    for symbol in grounded.model.of_kind("data"):
        values = grounded.values.get(symbol.name)
        if values is None or dims[0] not in symbol.dims or symbol.name in usage.responses:
            continue
        if symbol.name == name:
            levels = [requested.values_at(level, values) for level in requested.levels]
        else:
            levels = [_labelled(grounded, symbol, values)] * count
        axis = symbol.dims.index(dims[0])
        if sp.issparse(levels[0]):
            new[symbol.name] = sp.vstack(levels, format="csr")
        else:
            new[symbol.name] = np.concatenate(levels, axis=axis)
    there = predicted(fit, bound(new))
    weights = [np.zeros((rows.weights.shape[0], count * size)) for _ in range(count)]
    for k, part in enumerate(weights):
        part[:, k * size : (k + 1) * size] = rows.weights
    block = there.observed(rows.block.name)
    return replace(rows, prediction=there, block=block, weights=weights[0]), weights


def _labelled(grounded: GroundedModel, symbol: Symbol, values: Any) -> Any:
    """Values as new data have them: maps by their labels."""
    if symbol.target is None:
        return values
    if (np.asarray(values) < 0).any():
        message = f"`{symbol.name}` has missing entries, and new rows need them"
        raise MethodError.of("E501", message)
    return grounded.indices[symbol.target].labels[values]


def _not_of_rows(requested: Requested, reason: str, help: str = "") -> MethodError:
    message = f"the effect of `{requested.symbol.name}` is that of other places of "
    message += f"`{requested.latents[0]}`, which rows do not name"
    new = either("lgm predict", "fit.predict(new)")
    remedy = help or f"compare predictions there: {new}"
    return MethodError.of("E501", message, details=(reason,), help=remedy)
