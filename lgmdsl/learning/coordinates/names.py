"""A label for each coordinate: `s`, `L[item 3, factor 1]`, `S[1,2]`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.lowering.hypers import HyperBlock


def coordinate_count(block: HyperBlock) -> int:
    """How many `coordinate_names` there are."""
    sizes = block.sizes
    if block.type == "covariance":
        return math.prod(sizes[:-2]) * sizes[-1] * (sizes[-1] + 1) // 2
    return math.prod(sizes[:-1]) * (sizes[-1] - 1) if block.type == "simplex" else math.prod(sizes)


def coordinate_names(block: HyperBlock, labels: Mapping[str, AnyArray]) -> tuple[str, ...]:
    """One for each coordinate of the block, in order: a simplex's last entry has none, and of a
    covariance the lower triangle has, row by row."""
    sizes = block.sizes[:-1] if block.type == "covariance" else block.sizes
    if block.type == "simplex":
        sizes = (*sizes[:-1], sizes[-1] - 1)
    if block.type != "covariance":
        return tuple(_bracketed(block, labels, place) for place in np.ndindex(*sizes))
    k, last = block.sizes[-1], block.dims[-1]
    return tuple(
        _bracketed(block, labels, place, (f"{_label(labels, last, j)},{_label(labels, last, i)}",))
        for place in np.ndindex(*sizes[:-1])
        for i in range(k)
        for j in range(i + 1)
    )


def _bracketed(
    block: HyperBlock,
    labels: Mapping[str, AnyArray],
    place: tuple[int, ...],
    more: tuple[str, ...] = (),
) -> str:
    parts = (f"{d} {_label(labels, d, i)}" for d, i in zip(block.dims, place, strict=False))
    inside = ", ".join((*parts, *more))
    return f"{block.name}[{inside}]" if inside else block.name


def _label(labels: Mapping[str, AnyArray], dim: str, position: int) -> str:
    return str(labels[dim][position]) if dim in labels else str(position + 1)
