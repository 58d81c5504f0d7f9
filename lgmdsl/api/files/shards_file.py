"""The part of a result file that says of which shards a fit was.

Group `shards`: which latents are of the groups and which are shared, and what was split; `pairs`,
where the sites are of pairs of shared latents, these.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from lgmdsl.api.files.netcdf import Group, NewGroup
from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.shards.model import About, ShardedModel, sharded_model
from lgmdsl.shards.shard import Roles

GROUP = "shards"


def write_shards(file: NewGroup, model: ShardedModel, put: Callable[..., None]) -> None:
    """Add the group; `put` writes one array into a group."""
    roles, about = json.dumps(asdict(model.roles)), json.dumps(asdict(model.about))
    group = file.create_group(GROUP)
    group.set(roles=roles, about=about, block=model.block)
    codes = model.shared_layout.codes
    if codes is not None:
        put(group, "pairs", codes)


def read_shards(
    file: Group, canonical: CanonicalModel, array: Callable[[Any], AnyArray]
) -> CanonicalModel:
    """The model, of the shared latents where the file has the group."""
    if GROUP not in file.groups:
        return canonical
    attributes = file[GROUP].attrs
    known = json.loads(str(attributes["roles"]))
    inner, shared = tuple(known.pop("inner")), tuple(known.pop("shared"))
    about = About(**json.loads(str(attributes["about"])))
    roles = Roles(**known, inner=inner, shared=shared)
    stored = file[GROUP].variables.get("pairs")
    codes = None if stored is None else array(stored).astype(np.int64)
    return sharded_model(canonical, roles, about, int(attributes["block"]), codes)
