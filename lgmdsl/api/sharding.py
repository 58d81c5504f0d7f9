"""Fits of rows that are spread over shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lgmdsl.api.fit.merging import merge_option
from lgmdsl.api.streaming import rows_option
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Keys
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.shards.gathered import gathered
from lgmdsl.shards.manifest import read_manifest
from lgmdsl.shards.model import ShardedModel
from lgmdsl.shards.refusals import cannot
from lgmdsl.sites import catalogue as sites
from lgmdsl.workers.workers import Workers

SHARDS = "shards"  # the entry of the provenance


def sharded(
    model: Model,
    folder: str,
    mapping: Keys | None,
    settings: FitSettings,
    planning: Callable[[CanonicalModel], Plan],
    workers: Workers | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> ShardedModel:
    """The model of a folder of shards. Raises as `gathered`, and DataError E306 for a folder without
    shards."""
    wanted, rest = rows_option(settings.options)
    merge_option(rest)
    if wanted != "auto":
        raise cannot(
            f"`rows = {wanted}` is for one table; these rows are spread over shards",
            help="leave it out",
        )
    manifest = read_manifest(folder)
    return gathered(
        model.checked, manifest, mapping, planning, settings.hyper, sites.find_site, workers
    )


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
