"""Which entries of a datum a site block stands for."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.arrays import Array, IntArray


@dataclass(frozen=True, eq=False)
class Observed:
    """What a stored fit keeps of a block's data: the rows, and y where a rewrite needs it."""

    rows: IntArray
    y: Array | None


@dataclass(frozen=True, eq=False)
class RewrittenData:
    """The data of a block whose rewrite makes several scalar sites of each datum: `dims`, `rows`
    and `y` as the model writes them; the family takes `event` predictors, over one more index (0
    for a scalar family);
    `owner` is the datum, by its place in `rows`, of each of the block's sites."""

    dims: tuple[str, ...]
    rows: IntArray
    y: Array | None
    event: int
    owner: IntArray
