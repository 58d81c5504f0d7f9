"""From a folder of shards to a model of the shared latents: which latents are the groups', and what
shards cannot take."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.blocks.family import FindSite
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.grounding.ground import ground
from lgmdsl.canonical.grounding.labels import labels_of as names_of
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.contract.backend import BackendSpec
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.structure import Shape
from lgmdsl.dataset import Keys, Loaded
from lgmdsl.dataset.dataset import Dataset
from lgmdsl.engines.shared.prior import is_tied
from lgmdsl.errors import DataError, Diagnostic, MethodError, listed
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.inference.plan import Plan, verdict
from lgmdsl.inference.registry import backends
from lgmdsl.language.checked import CheckedModel
from lgmdsl.remedies import either, key
from lgmdsl.shards import questions
from lgmdsl.shards.averages.averaged import Averaging
from lgmdsl.shards.manifest import Manifest
from lgmdsl.shards.model import About, Sharded, of_groups, sharded_model
from lgmdsl.shards.passes import Passes
from lgmdsl.shards.questions import Found
from lgmdsl.shards.refusals import (
    IN_MEMORY,
    cannot,
    check_all_pairs,
    next_to_hypers,
    of_block,
    without_shard,
)
from lgmdsl.shards.shard import Roles, ShardSource, labels_of, rows_with
from lgmdsl.shards.shared_layout import pairs_of
from lgmdsl.streams.prepare import BATCH, SAMPLE, first_named, joined, maps_of, of_some, sample_of
from lgmdsl.streams.refusals import reason_against
from lgmdsl.streams.streamable import Table, joins, table_of
from lgmdsl.workers.workers import Workers


def gathered(
    model: CheckedModel,
    manifest: Manifest,
    others: Dataset | None,
    mapping: Keys | None,
    planning: Callable[[CanonicalModel], Plan],
    hyper: str,
    find: FindSite,
    workers: Workers | None,
    on_rows: Callable[[int, int], None] = lambda done, of: None,
) -> CanonicalModel:
    """The model of the rows in a folder of shards, and of `others`, data next to it. `planning`:
    the plan for a model, which is asked of some of the rows; `hyper`: how hyperparameters are to be
    learned; `on_rows`: gets how many rows are read, and of how many.

    Raises DataError as compiling does, MethodError E501 for what shards do not take, WorkerError
    E703 for a shard that is lost or changed.
    """
    graph = model_graph(model)
    dataset = rows_with(manifest.shards[0].checked(), others, mapping)
    by = _map_of_groups(graph, dataset, manifest)
    table = table_of(graph, dataset)
    if isinstance(table, str):
        raise cannot("this model cannot be fitted to shards", table)
    if table is None:
        ground(graph, dataset)  # says which datum is absent
        raise cannot("this model cannot be fitted to shards")
    index = str(graph.model.symbols[by].target)
    bare = _sources(model, manifest, others, mapping, Roles(index, by, (), ()), {})
    named = _named(graph, dataset, table, bare, by, workers)
    start = questions.members(bare[0], (), table.keys, table.index, SAMPLE)
    columns = {k: joined([named[k], start[k]]) for k in table.keys} if named else start
    count = len(next(iter(columns.values())).values)
    rest = next(dataset.batches(BATCH, table.keys, table.index)).dataset
    sample = sample_of(dataset, rest, columns, np.arange(count), table.index)
    try:
        whole = canonicalise(ground(graph, sample), find)
    except DataError as error:
        where = "those of shards that were read first, or that name a member first"
        raise of_some(error, where) from None
    block = next(k for k, b in enumerate(whole.blocks) if table.index in b.dims)
    roles = _roles(whole, index, by)
    planned = planning(whole)
    try:
        _check(whole, roles, table, block, planned.backend.spec)
    except MethodError as error:
        raise next_to_hypers(error) if whole.blocks[block].form.depends else error from None
    _check_method(planned, hyper, whole.blocks[block])
    averagings = averagings_of(planned, block)
    sources = _sources(model, manifest, others, mapping, roles, named, averagings)
    passes = Passes(sources, workers)
    done = 0

    def arrived(k: int, _: Found) -> None:
        nonlocal done
        done += manifest.shards[k].rows
        on_rows(done, manifest.rows)

    known: list[Found] = passes.ask(questions.found, arrived=arrived)
    passes.found = tuple(known)
    wanted = labels_of(whole, roles)
    for shard, found in zip(manifest.shards, known, strict=True):
        if found.labels != wanted:
            raise without_shard(shard.path, "its rows name other members than they did at first")
    rows, groups = sum(f.rows for f in known), manifest.groups
    if not rows:
        raise of_block(whole.blocks[block], "none of its rows is observed", IN_MEMORY)
    about = About(table.index, rows, groups, len(known), manifest.sha256)
    size = sum(b.size for b in whole.latents if b.name in roles.shared)
    codes = pairs_of(passes.codes, size)
    if codes is None:
        check_all_pairs(size)
    return sharded_model(whole, roles, about, block, codes, passes, _hashes(known))


def again(
    known: Sharded,
    checked: CheckedModel,
    manifest: Manifest,
    others: Dataset | None,
    mapping: Keys | None,
    workers: Workers | None,
    planned: Plan,
) -> Passes:
    """The shards of a fit, for further questions; `planned`: that of the fit."""
    graph = model_graph(checked)
    dataset = rows_with(manifest.shards[0].checked(), others, mapping)
    table = table_of(graph, dataset)
    if not isinstance(table, Table):
        raise cannot("this model cannot be asked of these shards", table or "")
    bare = _sources(checked, manifest, others, mapping, known.roles, {})
    named = _named(graph, dataset, table, bare, known.roles.by, workers)
    averagings = averagings_of(planned, known.block)
    sources = _sources(checked, manifest, others, mapping, known.roles, named, averagings)
    return Passes(sources, workers)


def averagings_of(planned: Plan, block: int) -> tuple[Averaging, ...]:
    """How a method averages over the groups of a block, and the one whose fits it starts from; none
    for one that asks for their mode."""
    if planned.backend.spec.needs is Pointwise:
        return ()
    out = [Averaging(planned.routes[block], planned.backend)]
    other = backends().get(planned.backend.spec.warm)
    judged = None if other is None else verdict(planned.canonical.blocks, other, None)
    if other is not None and judged is not None and judged.runs and other.spec.eliminates:
        out.append(Averaging(judged.routes[block], other()))
    return tuple(out)


def _sources(
    model: CheckedModel,
    manifest: Manifest,
    others: Dataset | None,
    mapping: Keys | None,
    roles: Roles,
    named: Mapping[str, Loaded],
    averagings: tuple[Averaging, ...] = (),
) -> tuple[ShardSource, ...]:
    text, name = model.source.text, model.source.name
    return tuple(
        ShardSource(text, name, s, mapping, roles, named, manifest.buckets, others, averagings)
        for s in manifest.shards
    )


def _named(
    graph: ModelGraph,
    dataset: Dataset,
    table: Table,
    sources: tuple[ShardSource, ...],
    by: str,
    workers: Workers | None,
) -> dict[str, Loaded]:
    """Columns of the rows of all shards that are the first to name a member of an index other than
    that of the groups."""
    others = tuple(m for m in maps_of(graph, dataset, table) if m != dataset.key(by))
    if not others:
        return {}
    parts = Passes(sources, workers).ask(questions.members, others, table.keys, table.index, 0)
    return _once(parts, others, table.keys)


def _map_of_groups(graph: ModelGraph, dataset: Dataset, manifest: Manifest) -> str:
    """The datum that maps rows to groups."""
    maps = [s for s in graph.model.of_kind("data") if s.target and len(s.dims) == 1]
    of = [s for s in maps if dataset.key(s.name) == manifest.by]
    if not of:
        names = [f"`{s.name}`" for s in maps]
        raise DataError(
            Diagnostic(
                "E306",
                f"the shards are of the groups of `{manifest.by}`, which is no map in the model",
                details=(f"maps in it: {listed(names)}",) if names else (),
                help=f"name the map so, lead to the column by {key('MAP', 'COLUMN')}, or shard by "
                "another column",
            )
        )
    by, index = of[0].name, str(of[0].target)
    if joins(graph, index):
        raise cannot(f"members of `{index}`, which lie in different shards, are joined by a sum")
    over = next((s.name for s in graph.model.of_kind("data") if index in s.dims), "")
    if over:
        raise cannot(
            f"`{over}` is over `{index}`, and a shard holds rows alone",
            help=f"declare it over `{of[0].dims[0]}`: a column, the same in all rows of a group",
        )
    also = next((s.name for s in maps if s.target == index and s.name != by), "")
    if also:
        raise cannot(
            f"`{also}` leads to `{index}` too, whose members lie in different shards",
            help="give it an index of its own",
        )
    return by


def _roles(whole: CanonicalModel, index: str, by: str) -> Roles:
    inner = tuple(b.name for b in whole.latents if index in b.dims)
    shared = tuple(b.name for b in whole.latents if index not in b.dims)
    if not inner:
        raise cannot(f"no latent is over `{index}`, the index of the groups")
    if not shared:
        raise cannot(
            f"all latents are over `{index}`: shards need one that all groups share",
            help="add an intercept, `latent a ~ flat`",
        )
    return Roles(index, by, inner, shared)


def _check(
    whole: CanonicalModel, roles: Roles, table: Table, block: int, spec: BackendSpec
) -> None:
    """Raise E501 for what a method cannot eliminate by groups, shard by shard."""
    of_rows = [b for b in whole.blocks if table.index in b.dims]
    if len(of_rows) > 1:
        raise of_block(of_rows[1], f"`{of_rows[0].name}` is observed over the same rows")
    if not set(whole.blocks[block].form.latents) & set(roles.inner):
        raise of_block(whole.blocks[block], f"no latent over `{roles.index}` is in the predictor")
    # Of the answers of shards, these know how they move with the rows' coefficients.
    hypers = spec.needs is Pointwise
    reason = reason_against(whole.blocks[block], spec, hypers)
    if reason:
        raise of_block(whole.blocks[block], reason, IN_MEMORY)
    for other in whole.blocks:
        if other is not whole.blocks[block] and roles.index in other.dims:
            raise of_block(other, f"it is over `{roles.index}`")
        if other is not whole.blocks[block] and set(other.form.latents) & set(roles.inner):
            raise of_block(other, f"it is of latents over `{roles.index}`")
    for symbol in whole.grounded.model.symbols.values():
        if symbol.kind == "hyper" and roles.index in symbol.dims:
            raise cannot(f"hyper `{symbol.name}` is over `{roles.index}`, the index of the groups")
    theta = whole.hypers.start({})
    for latent in whole.latents:
        if latent.name in roles.inner:
            _check_prior(latent, roles, theta)
    for equation in whole.equations:
        if set(equation.form.latents) & set(roles.inner):
            raise cannot("a constraint is on latents of the groups")
    for name, (dims, tree) in whole.named.items():
        kind = whole.grounded.model.symbols[name].kind
        if kind == "report" and of_groups(dims, tree, roles, table.index):
            raise cannot(
                f"report `{name}` is of the groups' latents, which no one place holds",
                help="leave it out, and ask for the groups' latents: "
                + either("--groups FOLDER", "fit.groups"),
            )


def _check_prior(latent: LatentBlock, roles: Roles, theta: Any) -> None:
    block = latent.at(theta)
    if Shape.IMPROPER in block.shape:
        raise cannot(
            f"the prior of `{latent.name}`, over the groups, is improper",
            help="give it a proper one, such as normal(sd = s)",
        )
    for spec, factor in zip(latent.factors, block.factors, strict=True):
        over = not spec.dims or roles.index in spec.dims
        if over and (Shape.DIAGONAL not in factor.shape or is_tied(factor)):
            raise cannot(
                f"the prior of `{latent.name}` joins members of `{roles.index}`",
                f"{spec.name} over `{roles.index}`",
                "make the groups independent: normal, or iid over their index",
            )


def _check_method(planned: Plan, hyper: str, block: SiteBlock) -> None:
    """Raise E501 for a method that does not eliminate, or an option that asks for more; for hypers
    in the predictor of the rows, `block`, in which averages have no slopes."""
    spec = planned.backend.spec
    able = [n for n, b in backends().items() if b.spec.eliminates]
    if not spec.eliminates:
        raise cannot(
            f"method `{planned.method}` cannot fit shards", help=f"methods that can: {listed(able)}"
        )
    more = [q.__name__ for q in planned.backend.further]
    if more:
        raise cannot(f"this option of `{planned.method}` cannot fit shards", help="leave it out")
    if spec.needs is not Pointwise and block.form.depends:
        modes = [n for n in able if backends()[n].spec.needs is Pointwise]
        help = f"methods that can: {listed(modes)}"
        raise of_block(block, f"hyper `{min(block.form.depends)}` is in the predictor", help)
    if spec.needs is Pointwise and any(r.bound is not None for r in planned.routes):
        raise cannot("sites that answer through a bound cannot be spread over shards")
    if hyper in ("vb", "em"):
        raise cannot(f"`hyper = {hyper}` cannot fit shards", help="take map, integrate or fixed")


def _once(
    parts: Iterable[dict[str, Loaded]], maps: tuple[str, ...], keys: tuple[str, ...]
) -> dict[str, Loaded]:
    """The rows of `parts`, first in their shard to name a member, that are first among all."""
    seen: dict[str, AnyArray] = {}
    kept: list[dict[str, Loaded]] = []
    for part in parts:
        labels = {m: names_of(part[m]).values.astype(np.str_) for m in maps}
        rows = np.unique(np.concatenate([first_named(x, m, seen) for m, x in labels.items()]))
        if len(rows):
            kept.append({k: part[k].rows(rows) for k in keys})
    return {k: joined([p[k] for p in kept]) for k in keys}


def _hashes(known: list[Found]) -> dict[str, str]:
    out = {}
    for name in known[0].hashes:
        digest = hashlib.sha256()
        for found in known:
            digest.update(found.hashes[name].encode())
        out[name] = digest.hexdigest()
    return out
