"""The way back: names, indices and labels of everything a result is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.lowering.lower import distinct


@dataclass(frozen=True, eq=False)
class Layout:
    """Labels of every index, and where each latent starts in z."""

    labels: Mapping[str, AnyArray]
    starts: Mapping[str, int]
    dims: Mapping[str, tuple[str, ...]]

    def shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """Sizes of the named axes."""
        return tuple(len(self.labels[d]) for d in dims)

    def coords(self, dims: tuple[str, ...]) -> dict[str, AnyArray]:
        """Labels of each axis; a repeated index's second axis is `term_2`."""
        return dict(zip(distinct(dims), (self.labels[d] for d in dims), strict=True))

    def latent(self, name: str) -> slice:
        """The positions of a latent in z."""
        start = self.starts[name]
        return slice(start, start + int(np.prod(self.shape(self.dims[name]), dtype=np.int64)))

    def entry(self, name: str, dims: tuple[str, ...], place: int) -> str:
        """One entry of something over `dims` by its labels: `w[dose, 3]`; `w` of a scalar."""
        if not dims:
            return name
        indices = np.unravel_index(place, self.shape(dims))
        labels = [str(self.labels[d][i]) for d, i in zip(dims, indices, strict=True)]
        return f"{name}[{', '.join(labels)}]"
