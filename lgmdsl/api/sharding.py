"""Fits of rows that are spread over shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.jobs import workers_for
from lgmdsl.api.streaming import reporting, rows_option
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Keys
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.registry import backends
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.shards.gathered import again, gathered
from lgmdsl.shards.groups import NAME, SharedAt
from lgmdsl.shards.groups import write_groups as written
from lgmdsl.shards.manifest import new_folder, read_manifest
from lgmdsl.shards.model import ShardedModel
from lgmdsl.shards.refusals import cannot, without_shard
from lgmdsl.sites import catalogue as sites
from lgmdsl.workers.executor import Jobs
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.api.fit.fit import Fit

SHARDS = "shards"  # the entry of the provenance
APART = "rows lie in shards"


def sharded(
    model: Model,
    folder: str | os.PathLike[str],
    mapping: Keys | None,
    settings: FitSettings,
    planning: Callable[[CanonicalModel], Plan],
    workers: Workers | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> ShardedModel:
    """The model of a folder of shards. Raises as `gathered`, and DataError E306 for a folder
    without shards."""
    wanted, _ = rows_option(settings.options)
    if settings.options.get("correction") == "on":
        raise cannot("fits of shards are not corrected", help="leave out `correction`")
    if wanted != "auto":
        raise cannot(
            f"`rows = {wanted}` is for one table; these rows are spread over shards",
            help="leave it out",
        )
    manifest, find = read_manifest(folder), sites.find_site
    on_rows = reporting(on_step)
    return gathered(
        model.checked, manifest, mapping, planning, settings.hyper, find, workers, on_rows
    )


def for_shards(settings: FitSettings) -> FitSettings:
    """The settings, with a method that can where any may be taken."""
    if settings.method != "auto":
        return settings
    able = [name for name, backend in backends().items() if backend.spec.eliminates]
    return replace(settings, method=able[0])


def write_groups(
    fit: Fit,
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    mapping: Keys | None,
    jobs: Jobs,
) -> tuple[Path, ...]:
    """Write the posterior of the groups' latents (`Fit.groups`)."""
    canonical = fit.canonical
    if not isinstance(canonical, ShardedModel):
        raise cannot(
            "this fit holds the latents of its groups: its rows were not spread over shards",
            help="ask for them by name: fit[NAME]",
        )
    manifest = read_manifest(folder)
    if manifest.sha256 != canonical.about.manifest:
        raise without_shard(os.fsdecode(folder), "it is not the folder that the fit was made of")
    target = new_folder(output)
    with workers_for(jobs, fit.model.tree) as workers:
        points = [_shared_at(p) for p in fit.points]
        passes = again(canonical, fit.model.checked, manifest, mapping, workers)
        try:
            passes.each(written, points, str(target))
        finally:
            passes.done()
    return tuple(target / NAME.format(k) for k in range(len(manifest.shards)))


def _shared_at(point: HyperPoint) -> SharedAt:
    q = point.condition()
    mean = np.asarray(q.latent_mean)
    return SharedAt(dict(point.theta), point.share, mean, q.solve(np.eye(len(mean))))


@contextmanager
def finishing(model: ShardedModel) -> Iterator[None]:
    """Let go of workers and rows at the end of a fit."""
    try:
        yield
    finally:
        assert model.passes is not None, "a fit has shards"
        model.passes.done()


def provenance_of_shards(model: ShardedModel) -> dict[str, str]:
    """What a fit's provenance says of shards: how many, of what, the manifest's sha256, and hashes
    of the data over the rows."""
    about, name = model.about, model.blocks[model.block].name
    hashes = {f"sha256_{n}": digest for n, digest in model.hashes.items()}
    text = (
        f"{name}: {about.rows:,} rows of {about.groups:,} members of {model.roles.index} in "
        f"{about.shards} shards"
    )
    return {SHARDS: text, "shards_sha256": about.manifest, **hashes}
