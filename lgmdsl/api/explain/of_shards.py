"""What `lgm check` and `lgm explain` say of a folder of shards: what workers eliminate, what they
answer, and what engine conditions the rest."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from lgmdsl.api.explain.outline import neutral
from lgmdsl.api.settings import check_fixed
from lgmdsl.api.sharding import for_shards, sharded
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Keys
from lgmdsl.engines.choose import preferred, reason, table
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.shards.given import given_shards
from lgmdsl.shards.manifest import read_manifest
from lgmdsl.shards.model import shards_of


@dataclass(frozen=True)
class ShardsView:
    """What is in the folder `data`. `eliminated`, `shared`: names and numbers of latents;
    `method`: what auto takes; `numbers`: of entries of the curvature of all shards; `received`:
    bytes that all shards answer a question with; `engine` and `engine_reason`: of the shared
    latents; empty where the model is `refused`."""

    model: str
    data: str
    by: str
    rows: int
    groups: int
    shards: tuple[tuple[str, int, int], ...]
    sizes: tuple[tuple[str, int, str], ...] = ()
    eliminated: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    method: str = ""
    numbers: int = 0
    received: int = 0
    engine: str = ""
    engine_reason: str = ""
    refused: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        p = sum(n for _, n in self.shared)
        lines = [
            f"model       {self.model}, {self.data}",
            f"rows        {self.rows:,} of {self.groups:,} groups by `{self.by}`, in "
            f"{len(self.shards):,} shards",
        ]
        if self.sizes:
            lines.append("indices     " + ", ".join(f"{n} {size:,}" for n, size, _ in self.sizes))
        if self.shared:
            lines += [
                f"eliminated  {_listed(self.eliminated)}: each group in its shard",
                f"shared      {_listed(self.shared)}: p = {p:,}",
                f"method      {self.method}",
                f"a question  {self.numbers:,} entries of the curvature, of {p * p:,}; all shards "
                f"answer with {self.received:,} bytes",
                f"engine      {self.engine_reason}",
            ]
        lines += [
            f"not available: {d.message}" + (f" ({d.label})" if d.label else "")
            for d in self.refused
        ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        out = asdict(self)
        out["shards"] = [{"path": n, "rows": r, "groups": g} for n, r, g in self.shards]
        sizes = out.pop("sizes")
        out["indices"] = [{"name": n, "size": s, "origin": o} for n, s, o in sizes]
        for part in ("eliminated", "shared"):
            out[part] = [{"name": n, "size": size} for n, size in getattr(self, part)]
        out["not_available"] = [d.as_json() for d in self.refused]
        del out["refused"], out["warnings"]
        return out


def _listed(parts: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in parts)


def view_of_shards(
    model: Model,
    data: object,
    mapping: Keys | None = None,
    fixed: Mapping[str, object] | None = None,
) -> ShardsView:
    """Read all shards, with the model. Raises as a fit to them does, except that what this version
    cannot fit to shards (MethodError) is listed."""
    folder, _ = given_shards(data)
    manifest = read_manifest(folder)
    settings = FitSettings()

    def planning(canonical: CanonicalModel) -> Plan:
        return plan(canonical, for_shards(settings, canonical).method)

    view = ShardsView(
        model.checked.source.name,
        os.path.basename(os.path.abspath(folder)),
        manifest.by,
        manifest.rows,
        manifest.groups,
        tuple((s.name, s.rows, s.groups) for s in manifest.shards),
    )
    try:
        made = sharded(model, data, mapping, settings, planning)
    except MethodError as error:
        return replace(view, refused=error.diagnostics)
    try:
        method = for_shards(settings, made).method
        return _with_model(view, made, check_fixed(fixed), method)
    finally:
        made.rows.done()


def _with_model(
    view: ShardsView, made: CanonicalModel, fixed: Mapping[str, object], method: str
) -> ShardsView:
    rows = shards_of(made)
    assert rows is not None and rows.passes is not None, "they were read now"
    layout, passes, index = rows.layout, rows.passes, rows.roles.index
    space = made.hypers
    free = {b.name: neutral(b) for b in space.blocks if b.value is None and b.name not in fixed}
    linear = made.linear(space.theta({**free, **fixed}))
    options = table(linear)
    best, why = preferred(options, sums=True), reason(linear, options, sums=True)
    held = {b.name: b for b in rows.whole.latents}
    known = [dim for b in made.latents for dim in b.dims]
    sizes = {rows.about.index: view.rows, index: view.groups}
    sizes |= {dim: len(made.layout.labels[dim]) for dim in known}
    indices = rows.whole.grounded.indices
    # A vector of slopes, of modes another of third derivatives, a value and a determinant, next to
    # the curvature.
    vectors = 2 if passes.question is None else 1
    curvatures = (layout.size**2 if c is None else len(c) for c in passes.codes)
    each = [vectors * layout.size + 2 + n for n in curvatures]
    return replace(
        view,
        sizes=tuple((n, size, indices[n].origin) for n, size in sizes.items()),
        eliminated=tuple((n, _size(held[n], index, view.groups)) for n in rows.roles.inner),
        shared=layout.sizes,
        method=method,
        numbers=layout.numbers,
        received=8 * sum(each),
        engine="" if best is None else best.name,
        engine_reason=why or "no engine takes this model within memory",
        warnings=warnings_of(made.grounded.graph),
    )


def _size(latent: LatentBlock, index: str, groups: int) -> int:
    """How many entries a latent of the groups has in all shards."""
    rest = [n for d, n in zip(latent.dims, latent.sizes, strict=True) if d != index]
    return groups * math.prod(rest)
