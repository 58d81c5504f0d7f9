"""Positions of the observed responses among the labelled entries of their data, and labels for
results about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lgmdsl.arrays import AnyArray, IntArray
from lgmdsl.canonical.grounding.labels import reported
from lgmdsl.canonical.model import CanonicalModel, Layout
from lgmdsl.errors import ModelError, suggestion
from lgmdsl.posterior.labelled import labelled

if TYPE_CHECKING:
    import xarray as xr


class Places(Protocol):
    """What is left out: responses one by one, or groups of them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that values can be asked for by."""

    @property
    def word(self) -> str:
        """What one of them is called, for counts."""

    def labelled(self, values: Sequence[AnyArray], name: str | None) -> xr.DataArray:
        """The values of one name with their labels."""

    def entry(self, block: int, row: int) -> str:
        """One of them in words: `y[t 3]`."""


@dataclass(frozen=True, eq=False)
class Observations:
    """The observed data: name, indices, and flat positions of the entries that are not missing."""

    layout: Layout
    blocks: tuple[tuple[str, tuple[str, ...], IntArray], ...]
    word: str = "response"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.blocks)

    def labelled(
        self, values: Sequence[AnyArray], name: str | None = None, first: str = ""
    ) -> xr.DataArray:
        """The values (N,) of one datum over all its entries, NaN (or "") where it is missing; with
        `first`, (k, N) with that axis before. The name may be left out where there is one datum.

        Raises ModelError E103 for a name that is not observed.
        """
        k = chosen(self.names, name)
        datum, dims, rows = self.blocks[k]
        shape = self.layout.shape(dims)
        size = int(np.prod(shape, dtype=np.int64))
        column = np.asarray(values[k])
        if len(rows) == size:
            full = column
        else:
            absent = "" if column.dtype.kind == "U" else np.nan
            kind = column.dtype if column.dtype.kind == "U" else np.float64
            full = np.full((*column.shape[:-1], size), absent, dtype=kind)
            full[..., rows] = column
        return labelled(
            self.layout, dims, full.reshape(*column.shape[:-1], *shape), datum, first=first
        )

    def entry(self, block: int, row: int) -> str:
        name, dims, rows = self.blocks[block]
        if not dims:
            return name
        place = np.unravel_index(int(rows[row]), self.layout.shape(dims))
        labels = [str(self.layout.labels[d][i]) for d, i in zip(dims, place, strict=True)]
        return f"{name}[{', '.join(labels)}]"


@dataclass(frozen=True, eq=False)
class GroupPlaces:
    """Groups of responses, by their labels along one axis."""

    axis: str
    labels: AnyArray
    word: str = "group"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.axis,)

    def labelled(self, values: Sequence[AnyArray], name: str | None = None) -> xr.DataArray:
        """The values (G,) along the groups."""
        import xarray as xr

        chosen(self.names, name)
        labels = np.array(reported(self.labels))
        return xr.DataArray(np.array(values[0]), {self.axis: labels}, (self.axis,))

    def entry(self, block: int, row: int) -> str:
        return f"{self.axis} {self.labels[row]}"


def class_labels(canonical: CanonicalModel, name: str) -> AnyArray | None:
    """The labels of the classes that an observed datum is, None where it is none."""
    target = canonical.grounded.model.symbols[name].target
    return None if target is None else canonical.layout.labels[target]


def chosen(names: tuple[str, ...], name: str | None) -> int:
    """The position of a name; raises ModelError E103 for another one, or none of several."""
    if name is None and len(names) == 1:
        return 0
    if name in names:
        return names.index(name)
    message = "which one?" if name is None else f"there is no observed datum named `{name}`"
    has = f"there are: {', '.join(names)}"
    raise ModelError.of("E103", message, help=suggestion(name or "", names, has))
