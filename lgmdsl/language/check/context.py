"""Where a distribution stands: what its arguments may be indexed by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """`name` is the distribution's; `left` the indices of what stands on the left, `shown` that in
    the user's words (`y[obs]`); `axis` the axis of a factor; `observed` the index set of a
    categorical datum; `inputs` the input dimension of a Gaussian process, None where
    it is not known."""

    name: str
    left: tuple[str, ...] = ()
    shown: str = ""
    axis: str | None = None
    observed: str | None = None
    inputs: tuple[str, ...] | None = ()
    potential: bool = False
    product: bool = False
