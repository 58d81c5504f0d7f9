"""The range of every entry of a hyperparameter: what its type and its prior leave."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.hypers import HyperBlock

Ends: TypeAlias = tuple[Array, Array]

_OF_TYPE = {"positive": (0.0, np.inf), "unit": (0.0, 1.0), "simplex": (0.0, 1.0),
            "correlation": (-1.0, 1.0)}  # fmt: skip


def prior_ends(block: HyperBlock) -> Ends:
    """Lower and upper ends, of the block's shape, where the prior leaves less than the type; NaN
    elsewhere, and for bounds that are other hypers."""
    nothing = np.full(block.sizes, np.nan)
    scalar = block.type in ("real", "positive", "unit", "correlation")
    if not scalar or block.prior is None or block.prior.depends:
        return nothing, nothing
    typed = _OF_TYPE.get(block.type, (-np.inf, np.inf))
    lower, upper = (np.broadcast_to(end, block.sizes) for end in block.prior.at({}).bounds)
    return np.where(lower > typed[0], lower, np.nan), np.where(upper < typed[1], upper, np.nan)


def entry_ends(block: HyperBlock) -> Ends:
    """Lower and upper ends of the block's shape. Bounds of a prior that are other hypers are not
    used, nor the order of an ordered one."""
    if block.type == "covariance":
        diagonal = np.broadcast_to(np.eye(block.sizes[-1], dtype=bool), block.sizes)
        return np.where(diagonal, 0.0, -np.inf), np.full(block.sizes, np.inf)
    lower, upper = (
        np.full(block.sizes, end) for end in _OF_TYPE.get(block.type, (-np.inf, np.inf))
    )
    if block.type in ("simplex", "ordered") or block.prior is None or block.prior.depends:
        return lower, upper
    bounds = block.prior.at({}).bounds
    return np.maximum(lower, bounds[0]), np.minimum(upper, bounds[1])


def ends_of_values(values: Array) -> Ends:
    """Ends for entries of values (m, ...) of which no type tells: above 0 where all are."""
    lower = np.where((values > 0.0).all(axis=0), 0.0, -np.inf)
    return lower, np.full(lower.shape, np.inf)
