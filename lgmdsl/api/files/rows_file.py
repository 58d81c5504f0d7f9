"""The part of a result file that says where rows are that it does not hold (`RowSource.stored`).

Group `streams`, of rows that were read by batches: their index; for each site block k that was
streamed, `touched_k` (G, K), with its latents and the number of rows. Group `shards`: which latents
are of the groups and which are shared, and what was split; `pairs`, where the sites are of pairs of
shared latents, these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lgmdsl.api.files.netcdf import Group, NewGroup
from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.shards import model as shards
from lgmdsl.streams import model as streams

READERS = {streams.GROUP: streams.restored, shards.GROUP: shards.restored}


def write_rows(file: NewGroup, model: CanonicalModel, put: Callable[..., None]) -> None:
    """Add the group; `put` writes one array into a group, with attributes."""
    stored = model.rows.stored()
    if stored is not None:
        group = file.create_group(stored.group)
        group.set(**stored.attributes)
        for name, (values, attributes) in stored.arrays.items():
            put(group, name, values, **attributes)


def read_rows(
    file: Group, canonical: CanonicalModel, array: Callable[[Any], AnyArray]
) -> CanonicalModel:
    """The model, without rows where the file has such a group."""
    for name, restored in READERS.items():
        if name in file.groups:
            group = file[name]
            arrays = {n: (array(v), dict(v.attrs)) for n, v in group.variables.items()}
            canonical = restored(canonical, dict(group.attrs), arrays)
    return canonical
