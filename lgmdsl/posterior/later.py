"""Arrays of results that are computed when their values are first asked for, as xarray's back ends
read files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from lgmdsl.arrays import AnyArray


class Later(BackendArray):
    """What `make` returns: float64 of this shape. Copies share it, and files hold its values."""

    def __init__(self, shape: tuple[int, ...], make: Callable[[], AnyArray]) -> None:
        self.shape, self.dtype = shape, np.dtype(np.float64)
        self._make = make
        self._known: AnyArray | None = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        basic = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, basic, self._part)

    def _part(self, key: tuple[Any, ...]) -> AnyArray:
        return np.asarray(self.values[key])

    @property
    def values(self) -> AnyArray:
        """The array."""
        if self._known is None:
            self._known = np.asarray(self._make(), dtype=np.float64).reshape(self.shape)
        return self._known

    def __reduce__(self) -> tuple[Any, ...]:
        return _known, (self.values,)

    def __deepcopy__(self, memo: Any) -> Later:
        return self

    def loading(self) -> Any:
        """What a variable holds: it keeps the values once they are there, and may be assigned
        to."""
        layers: Any = indexing  # their types are wider than they say
        return layers.MemoryCachedArray(layers.CopyOnWriteArray(layers.LazilyIndexedArray(self)))


def _known(values: AnyArray) -> Later:
    return Later(values.shape, lambda: values)
