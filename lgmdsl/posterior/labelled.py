"""Results as xarray objects: copied arrays with the model's labels.

An axis that a result adds (`sample`, `quantile`, `value`) is called NAME_2 where an index set or a
variable of the model has its name, as a repeated index is.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.labels import reported
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import Layout

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.later import Later


def labelled(
    layout: Layout,
    dims: tuple[str, ...],
    values: AnyArray | Later,
    name: str | None = None,
    first: str = "",
    last: str = "",
    labels: AnyArray | None = None,
) -> xr.DataArray:
    """A copy of `values` over `dims`, with an axis `first` before or `last` after them, whose
    coordinates are `labels`: changes to a result do not affect the fit. Of what is computed
    `Later`, that."""
    import xarray as xr

    from lgmdsl.posterior.later import Later

    added = free_name(first or last, layout.labels) if first or last else ""
    axes = distinct(dims)
    coords = {d: np.array(reported(x)) for d, x in layout.coords(dims).items()}
    if labels is not None:
        coords[added] = labels
    if added:
        axes = (added, *axes) if first else (*axes, added)
    if isinstance(values, Later):
        return xr.DataArray(xr.Variable(axes, values.loading()), coords, name=name)
    return xr.DataArray(np.array(values), coords, axes, name)


def free_name(name: str, taken: Container[Hashable]) -> str:
    """`name`, or the first of name_2, name_2_2, ... that is not taken."""
    while name in taken:
        name += "_2"
    return name


def with_estimate(arrays: Mapping[str, xr.DataArray]) -> dict[str, xr.DataArray]:
    """Moments by name, the `mean` also as `estimate`: `ds.estimate` is the variable, where
    `ds.mean` is a method of every Dataset."""
    mean = arrays.get("mean")
    return {**arrays} if mean is None else {**arrays, "estimate": mean.rename("estimate")}


def dataset(arrays: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """Arrays by name. An axis that has the name of one of them is renamed, for a Dataset knows
    no other difference between axes and variables."""
    import xarray as xr

    # What is the same axis for all is attached once; xarray would compare it array by array.
    coords: dict[Hashable, xr.DataArray] = {}
    alike = True
    for array in arrays.values():
        for dim, labels in array.coords.items():
            alike &= np.array_equal(coords.setdefault(dim, labels).values, labels.values)
    axes = {d for array in arrays.values() for d in array.dims}
    taken = {*arrays, *map(str, axes)}
    renamed = {d: free_name(str(d), taken) for d in axes if d in arrays}
    if alike and not renamed:
        return xr.Dataset({k: a.variable for k, a in arrays.items()}, coords)
    return xr.Dataset(
        {k: a.rename({d: renamed[d] for d in a.dims if d in renamed}) for k, a in arrays.items()}
    )
