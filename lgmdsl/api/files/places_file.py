"""The part of a result file that says where the rows of a streamed fit were: the places that its
sites stand for.

Group `streams`: the index of the rows; for each site block k that was streamed, `touched_k` (G, K),
with its latents and the number of rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from lgmdsl.api.files.netcdf import Group, NewGroup
from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.streams.model import Gather, StreamedModel, streamed_model

GROUP = "streams"


def write_places(file: NewGroup, model: StreamedModel, put: Callable[..., None]) -> None:
    """Add the group; `put` writes one array into a group, with attributes."""
    group = file.create_group(GROUP)
    group.set(index=model.index)
    for k, gather in enumerate(model.gathers):
        if gather is not None:
            latents = json.dumps(gather.latents)
            put(group, f"touched_{k}", gather.touched, latents=latents, count=gather.count)


def read_places(
    file: Group, canonical: CanonicalModel, array: Callable[[Any], AnyArray]
) -> CanonicalModel:
    """The model, streamed where the file has the group."""
    if GROUP not in file.groups:
        return canonical
    group = file[GROUP]
    gathers: list[Gather | None] = []
    for k in range(len(canonical.blocks)):
        held = group.variables.get(f"touched_{k}")
        if held is None:
            gathers.append(None)
            continue
        latents = tuple(json.loads(str(held.attrs["latents"])))
        gathers.append(Gather(latents, array(held).astype(np.int64), int(held.attrs["count"])))
    return streamed_model(canonical, tuple(gathers), str(group.attrs["index"]))
