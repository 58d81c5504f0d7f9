"""`weight` of an observe statement: one number for each row, known before the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.errors import DataError, Diagnostic

if TYPE_CHECKING:
    from lgmdsl.canonical.blocks.sites import SiteBlock


def weights_of(
    weight: Coefficient | None, dims: tuple[str, ...], sizes: Mapping[str, int], rows: IntArray
) -> Array:
    """The weight of each of some rows, 1 where none is given."""
    if weight is None:
        return np.ones(len(rows))
    return np.array(expand(weight.evaluate({}), dims, sizes).reshape(-1)[rows], dtype=np.float64)


def with_weights(block: SiteBlock, weight: Coefficient) -> SiteBlock:
    """The block with a weight for each row, without the rows of weight 0: they are left out as
    those without a response are. Raises DataError E303 (a negative weight) and E304 (none)."""
    if not weight.depends and not weight.dims and float(weight.evaluate({}).dense()) == 1.0:
        return block
    if block.y is None:
        return replace(block, weight=weight)
    values = weights_of(weight, block.dims, block.sizes, block.rows)
    for code, wrong, says in (
        ("E304", np.isnan(values), "missing"),
        ("E303", ~(values >= 0.0) & ~np.isnan(values), "negative"),
        ("E303", np.isinf(values), "infinite"),
    ):
        if wrong.any():
            rows = count_of(int(wrong.sum()), "row")
            place = block.place(int(block.rows[np.flatnonzero(wrong)[0]]))
            raise DataError(
                Diagnostic(
                    code,
                    f"the weight of `{block.name}` is {says} in {rows}",
                    block.span,
                    f"first at {place}",
                    help="a weight is a number from 0: 1 counts a row once, 0 leaves it out",
                )
            )
    kept = values > 0.0
    return replace(block, weight=weight, rows=block.rows[kept], y=block.y[kept])
