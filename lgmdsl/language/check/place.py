"""The place of a distribution in its statement: what its arguments may be indexed by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """`name` is the distribution's; `dims` the indices of the left side, `shown` that in
    the user's words (`y[obs]`); `axis` the axis of a factor; `observed` the index set of a
    categorical datum; `inputs` the input dimension of a Gaussian process, None where
    it is not known; `entries` the indices of a potential's expression
    where `dims` are those of its groups, `group` the map or index that makes these."""

    name: str
    dims: tuple[str, ...] = ()
    shown: str = ""
    axis: str | None = None
    observed: str | None = None
    inputs: tuple[str, ...] | None = ()
    potential: bool = False
    entries: tuple[str, ...] = ()
    group: str = ""
    product: bool = False
