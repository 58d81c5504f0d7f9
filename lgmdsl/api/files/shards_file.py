"""The part of a result file that says of which shards a fit was.

Group `shards`: which latents are of the groups and which are shared, and what was split.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from lgmdsl.api.files.netcdf import Group, NewGroup
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.shards.model import About, ShardedModel, sharded_model
from lgmdsl.shards.shard import Roles

GROUP = "shards"


def write_shards(file: NewGroup, model: ShardedModel) -> None:
    """Add the group."""
    roles, about = json.dumps(asdict(model.roles)), json.dumps(asdict(model.about))
    file.create_group(GROUP).set(roles=roles, about=about, block=model.block)


def read_shards(file: Group, canonical: CanonicalModel) -> CanonicalModel:
    """The model, of the shared latents where the file has the group."""
    if GROUP not in file.groups:
        return canonical
    attributes = file[GROUP].attrs
    known = json.loads(str(attributes["roles"]))
    inner, shared = tuple(known.pop("inner")), tuple(known.pop("shared"))
    about = About(**json.loads(str(attributes["about"])))
    roles = Roles(**known, inner=inner, shared=shared)
    return sharded_model(canonical, roles, about, int(attributes["block"]))
