"""Fits of rows that are spread over shards."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.jobs import workers_for
from lgmdsl.api.streaming import reporting, rows_option
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.questions import Pointwise
from lgmdsl.dataset import Keys
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.plan import Plan, plan_again, verdict
from lgmdsl.inference.registry import backends
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.shards import questions
from lgmdsl.shards.gathered import again, gathered
from lgmdsl.shards.given import given_shards
from lgmdsl.shards.groups import NAME, AtTheta
from lgmdsl.shards.groups import write_groups as written
from lgmdsl.shards.manifest import filling, read_manifest
from lgmdsl.shards.model import Sharded, shards_of
from lgmdsl.shards.passes import Passes
from lgmdsl.shards.refusals import cannot, without_shard
from lgmdsl.shards.shard import ShardSource
from lgmdsl.sites import catalogue as sites
from lgmdsl.workers.task import Jobs
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


def sharded(
    model: Model,
    data: object,
    mapping: Keys | None,
    settings: FitSettings,
    planning: Callable[[CanonicalModel], Plan],
    workers: Workers | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> CanonicalModel:
    """The model of a folder of shards. Raises as `gathered`, and DataError E306 for a folder
    without shards."""
    wanted, _ = rows_option(settings.options)
    if wanted != "auto":
        raise cannot(
            f"`rows = {wanted}` is for one table; the data are spread over shards",
            help="leave it out",
        )
    folder, others = given_shards(data)
    manifest, on_rows = read_manifest(folder), reporting(on_step)
    hyper, find = settings.hyper, sites.find_site
    return gathered(
        model.checked, manifest, others, mapping, planning, hyper, find, workers, on_rows
    )


def for_shards(settings: FitSettings, canonical: CanonicalModel) -> FitSettings:
    """The settings, where any method may be taken with the first that can run the model, those
    before that ask for the modes of the groups: a few passes over the rows, averages take more."""
    if settings.method != "auto":
        return settings
    able = {n: b for n, b in backends().items() if b.spec.eliminates and b.spec.evidence}
    order = sorted(able, key=lambda n: able[n].spec.needs is not Pointwise)
    runs = (n for n in order if verdict(canonical.blocks, able[n], settings.bound).runs)
    options = {"correction": "on", **settings.options}  # as of any fit by `auto`
    return replace(settings, method=next(runs, order[0]), options=options)


def write_groups(
    fit: FitRecord,
    shards: object,
    output: str | os.PathLike[str],
    mapping: Keys | None,
    jobs: Jobs,
) -> tuple[Path, ...]:
    """Write the posterior of the groups' latents (`Fit.groups`)."""
    known = shards_of(fit.canonical)
    if known is None:
        raise cannot(
            "this fit holds the latents of its groups: its rows were not spread over shards",
            help="ask for them by name: fit[NAME]",
        )
    with workers_for(jobs, fit.model.tree) as workers, filling(output) as target:
        passes = Passes(sources_of(fit, known, shards, mapping, workers), workers)
        points = [shared_at(known, p) for p in fit.points]
        try:
            # A shard's pairs of shared latents are among those of all: it is sent no others.
            codes = [f.codes for f in passes.ask(questions.found)]
            layout = known.layout
            parts = [
                [
                    replace(p, weight=(), shift=(), covariance=layout.part(p.covariance, of))
                    for p in points
                ]
                for of in codes
            ]
            numbered = enumerate(parts)
            passes.of_each(written, [(part, str(target), k) for k, part in numbered])
        finally:
            passes.done()
    return tuple(target / NAME.format(k) for k in range(known.about.shards))


def sources_of(
    fit: FitRecord, known: Sharded, shards: object, mapping: Keys | None, workers: Workers | None
) -> tuple[ShardSource, ...]:
    """The shards of a fit to shards, for further questions; `mapping`: that of the fit by default.
    Raises WorkerError E703 for another folder than the fit's."""
    folder, others = given_shards(shards)
    manifest = read_manifest(folder)
    if manifest.sha256 != known.about.manifest:
        raise without_shard(folder, "it is not the folder that the fit was made of")
    keys = mapping or dict(fit.canonical.grounded.mapping) or None
    planned = plan_again(fit.canonical, fit.method, fit.provenance)
    return again(known, fit.model.checked, manifest, others, keys, workers, planned).sources


def shared_at(known: Sharded, point: HyperPoint) -> AtTheta:
    """A point of a fit, for its shards."""
    q = point.condition()
    covariance = known.layout.entries(q.variance[known.block])
    given = dict(point.theta), point.share, point.weight, point.shift
    return AtTheta(*given, np.asarray(q.latent_mean), covariance)
