"""The sites at draws of the hyperparameters: a response is drawn at those of its draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.predictive import repeated
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.site import Site


def drawn_sites(
    block: SiteBlock,
    theta: Theta,
    thetas: Sequence[Theta],
    count: int,
    y: Array,
    all_rows: bool = False,
) -> Iterator[tuple[slice, Site]]:
    """The family as written with observations y, once for each of `count` draws, draws first: at
    `thetas` (one for each draw), or all at `theta` where there are none. In parts, with the draws
    that each is of: one draw each where parameters that all rows share differ between draws."""
    free = [n for n, node in block.parameters.items() if node.depends]
    if not thetas or not free:
        same: dict[str, Any] = {**block.parameter_values(theta, all_rows), "y": y}
        yield slice(0, count), repeated(block.family(**same), count)
        return
    parameters = [block.parameter_values(t, all_rows) for t in thetas]
    shared = block.family.spec.shared
    if any(n in shared for n in free):
        for k, each in enumerate(parameters):
            arguments: dict[str, Any] = {**each, "y": y}
            yield slice(k, k + 1), block.family(**arguments)
        return
    whole: dict[str, Any] = {
        n: value if n in shared else np.concatenate([each[n] for each in parameters])
        for n, value in parameters[0].items()
    }
    whole["y"] = np.concatenate([y] * count)
    yield slice(0, count), block.family(**whole)


def parameter_rows(block: SiteBlock, theta: Theta, all_rows: bool = False) -> Array:
    """(N, P) the parameters of each row that depend on hyperparameters."""
    values = block.parameter_values(theta, all_rows)
    count = math.prod(block.data_shape) if all_rows else len(block.data.rows)
    rows = [
        np.broadcast_to(v.reshape(1, -1), (count, v.size))
        if n in block.family.spec.shared
        else v.reshape(count, -1)
        for n, v in values.items()
        if block.parameters[n].depends
    ]
    return np.concatenate([np.zeros((count, 0)), *rows], axis=1)
