"""A shard in a worker: its file, the model of its rows, and the answers to questions about them."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import Pointwise
from lgmdsl.dataset import Dataset, Keys, Loaded, read
from lgmdsl.engines.choose import Terms, required
from lgmdsl.errors import DataError, MethodError, with_note
from lgmdsl.graph.build import model_graph
from lgmdsl.inference.registry import backends
from lgmdsl.language.load import loads
from lgmdsl.language.tree import ast
from lgmdsl.memory import budget
from lgmdsl.shards.anchors import Near, Point, point_key
from lgmdsl.shards.averages.averaged import Average, Averaging
from lgmdsl.shards.eliminate import Eliminated, Groups, Mode, NoMode
from lgmdsl.shards.keys import check_rows
from lgmdsl.shards.manifest import ShardFile
from lgmdsl.shards.refusals import in_shard, too_many_shared, without_mode, without_shard
from lgmdsl.shards.shelf import SHELF, kept
from lgmdsl.shards.split_places import SplitPlaces, groups_of, groups_of_places, split_places
from lgmdsl.sites import catalogue as sites
from lgmdsl.streams.model import Gather, by_places
from lgmdsl.streams.prepare import BATCH, prepare
from lgmdsl.streams.rows import KEPT
from lgmdsl.streams.streamable import Table, table_of

Name = tuple[bytes, ...]  # of a point and of those from which it was found
THETAS, MODES = 2, 6  # that a shard keeps
# Bytes of a packed row, about; numbers of an unpacked one next to its coefficients and fields.
PACKED, UNPACKED = 16.0, 4
FULL = 0.25  # of it, for one shard's arrays over the shared latents


@dataclass(frozen=True)
class Roles:
    """What the coordinator found in the model: the index of the groups and the datum that maps rows
    to them, the latents of the groups (`inner`) and the `shared` ones, in order."""

    index: str
    by: str
    inner: tuple[str, ...]
    shared: tuple[str, ...]


@dataclass(eq=False)
class ShardSource:
    """What a worker makes a shard of. It crosses as a text, a path, the rows that name members of
    the indices of shared latents, the data that are no rows (`others`), and how groups are averaged
    over; the rest is made where it is."""

    text: str
    name: str
    file: ShardFile
    mapping: Any
    roles: Roles
    first: Mapping[str, Loaded]
    buckets: int
    others: Dataset | None = None
    averagings: tuple[Averaging, ...] = ()
    _shard: Shard | None = field(default=None, repr=False)
    _lock: Any = field(default_factory=RLock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shard": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())

    def shard(self) -> Shard:
        """The shard, read once while there is room. Raises WorkerError E703 for a file that is not
        there, or not what it was."""
        with self._lock:
            made = self._shard
            if made is None:
                made = self._shard = _read(self)
            SHELF.put(self, made.nbytes)
            return made

    @property
    def series(self) -> object:
        """What the shards of one fit have in common."""
        return self.text, os.path.dirname(self.file.path)

    def forget(self) -> None:
        """Give up what was read."""
        self._shard = None

    def by_key(self) -> str:
        """The column of the groups."""
        key = (self.mapping or {}).get(self.roles.by, self.roles.by)
        return str(key)

    def dataset(self) -> Dataset:
        """The rows. Raises WorkerError E703."""
        path = self.file.checked()
        try:
            return rows_with(path, self.others, self.mapping)
        except DataError as error:
            raise without_shard(path, error.diagnostics[0].message) from error


def rows_with(path: str, others: Dataset | None, mapping: Keys | None) -> Dataset:
    """The rows of a shard, and the data next to the folder."""
    return read(path if others is None else [path, others], mapping)


@dataclass(eq=False)
class Shard:
    """The model of a shard's rows. `block`: the number of their site block; `averagings`: how the
    groups are averaged over, by the fit's method first; none for methods that ask for their mode
    alone."""

    model: CanonicalModel
    roles: Roles
    block: int
    split: SplitPlaces
    nbytes: float
    averagings: tuple[Averaging, ...] = ()
    _groups: OrderedDict[bytes, Groups] = field(default_factory=OrderedDict)
    _modes: OrderedDict[Name, Mode | None] = field(default_factory=OrderedDict)
    _last: tuple[Name, Eliminated] | None = None
    lock: Any = field(default_factory=RLock, repr=False)

    @property
    def gather(self) -> Gather:
        """The places of the rows."""
        (gather,) = by_places(self.model).placed
        return gather

    @property
    def members(self) -> IntArray:
        """The positions of the groups that are this shard's: all, or where the model names them
        all, those that rows touch."""
        labels = self.model.layout.labels[self.roles.index]
        statement = self.model.grounded.model.symbols[self.roles.index].statement
        if not (isinstance(statement, ast.Index) and statement.definition):
            return np.arange(len(labels))
        gather = self.gather
        name = gather.latents[int(self.split.own[0])]
        latent = self.model.latent(name)
        touched = gather.touched[:, self.split.own[0]]
        return np.unique(
            np.unravel_index(touched, latent.sizes)[latent.dims.index(self.roles.index)]
        )

    def point(self, theta: Theta, mean: Array, covariance: Array) -> Point:
        """Where the groups stand next to N(mean, covariance) of the shared latents: at their mode
        given the mean, or where the method averages at their best average."""
        if not self.averagings:
            return Point(theta, mean)
        return Point(theta, mean, covariance, self.averagings[0].question)

    def groups(self, theta: Theta) -> Groups:
        """At theta, those asked last kept."""
        key = point_key(Point(theta, np.zeros(0)))
        return kept(self._groups, key, THETAS, lambda: self._at(theta))

    def eliminated(self, point: Point, near: Near = ()) -> Eliminated:
        """At a point, the last kept: a function of it and of the points `near`, from which the
        mode, or where the point has a covariance the best average, is sought (`anchors`).
        Raises NoMode."""
        key = self._name(point, near)
        if self._last is None or self._last[0] != key:
            self._last = None
            mode = self._modes.get(key)
            if mode is not None:
                self._modes.move_to_end(key)
                found = self._known(point, mode)
            else:
                found = self._sought(point, self._mode(near))
                kept(self._modes, key, MODES, lambda: found.mode)
            self._last = key, found
        return self._last[1]

    def _known(self, point: Point, mode: Mode) -> Eliminated:
        groups = self.groups(point.theta)
        if point.covariance is None:
            return groups.at_mode(mode)
        assert isinstance(mode, Average), "it was found so"
        return self._averaging(point).at(groups, point.beta, point.covariance, mode)

    def _sought(self, point: Point, start: Mode | None) -> Eliminated:
        groups = self.groups(point.theta)
        if point.covariance is None:
            return groups.eliminated(point.beta, start)
        return self._averaging(point).averaged(groups, point.beta, point.covariance, start)

    def _averaging(self, point: Point) -> Averaging:
        return next(a for a in self.averagings if a.question is point.question)

    def eliminated_at(self, points: Iterable[Point]) -> Iterator[Eliminated]:
        """At each of some points in turn, those after the first from its modes. Raises
        NumericalError E601 where the groups have no mode."""
        near: Near = ()
        for point in points:
            try:
                found = self.eliminated(point, near)
            except NoMode as reason:
                raise without_mode(str(reason)) from None
            near = near or (point,)
            yield found

    def _mode(self, near: Near) -> Mode | None:
        """At the last of some points, found from those before it; None where there is none."""
        if not near:
            return None
        point, before = near[-1], near[:-1]
        key = self._name(point, before)

        def found() -> Mode | None:
            try:
                return self._sought(point, self._mode(before)).mode
            except NoMode:
                return None

        return kept(self._modes, key, MODES, found)

    @staticmethod
    def _name(point: Point, near: Near) -> Name:
        return tuple(point_key(p) for p in (point, *reversed(near)))

    def _at(self, theta: Theta) -> Groups:
        model, known = self.model, self.gather
        inner = tuple(b for b in model.latents if b.name in self.roles.inner)
        blocks = tuple(b.at(theta) for b in inner)
        linear = LinearGaussian(blocks, (self.split.inner,))
        engine, _ = required(linear, Terms.of(), sums=True)
        rows = by_places(model)
        places, alone = rows.sites(model, self.block, theta), replace(rows, gathers=(known,))
        part = replace(model, latents=inner, blocks=(model.blocks[self.block],), rows=alone)
        backend = eliminating()
        return Groups(part, theta, places, self.split, engine, backend, known.multipliers)


def eliminating() -> Backend[Any]:
    """The back end that finds the groups' mode, with an evidence."""
    specs = ((b.spec, b) for b in backends().values())
    return next(b() for s, b in specs if s.eliminates and s.needs is Pointwise and s.evidence)


def _read(source: ShardSource) -> Shard:
    """Raises WorkerError E703, DataError and MethodError as `prepare` does, and E501 where rows
    join groups."""
    roles, dataset = source.roles, source.dataset()
    check_rows(source.file, source.by_key(), source.buckets)
    model = model_of(source, dataset)
    gathers = by_places(model).gathers
    block, gather = next((k, g) for k, g in enumerate(gathers) if g is not None)
    sizes = {b.name: b.size for b in model.latents}
    starts, start = {}, 0
    for name in roles.shared:
        starts[name] = start
        start += sizes[name]
    group = groups_of_places(model, gather, roles.inner, roles.index, block)
    of = groups_of(model.latents, roles.inner, roles.index)
    split = split_places(gather, roles.inner, starts, sizes, group, of)
    count, total = gather.touched.shape
    joining = 8.0 * count * 3.0 * len(split.own) * split.width
    if joining > FULL * budget():
        raise too_many_shared(split.width, count)
    pairs = 0 if split.touched is None else split.touched.nbytes
    modes = MODES * (total + 1.0) ** 2
    arrays = 8.0 * count * (6.0 * total * total + modes) + joining + pairs
    assert gather.rows is not None, "they were just read"
    columns = len(gather.rows.coefficients) + len(gather.rows.fields) + UNPACKED
    taken = PACKED * gather.count + min(KEPT, 8.0 * columns * gather.count)
    return Shard(model, roles, block, split, arrays + taken, source.averagings)


def model_of(source: ShardSource, dataset: Dataset) -> CanonicalModel:
    """The model of rows of a shard, or of several. Raises DataError and MethodError as `prepare`
    does."""
    backends()  # entry points may bring families
    graph = model_graph(loads(source.text, source.name).checked)
    table = table_of(graph, dataset)
    assert isinstance(table, Table), "the coordinator has seen one of its like"
    first = as_own(source.first, dataset, table, dataset.key(source.roles.by))
    try:
        return prepare(graph, dataset, table, sites.find_site, first=first, silent=True)
    except DataError as error:
        raise with_note(error, f"in {source.file.name}") from None
    except MethodError as error:
        raise in_shard(error) from None


def as_own(
    first: Mapping[str, Loaded], dataset: Dataset, table: Table, by: str
) -> Mapping[str, Loaded]:
    """Rows of other shards as rows of this one: of its first group."""
    if not first:
        return {}
    batch = next(dataset.batches(BATCH, table.keys, table.index))
    own = batch.dataset.entries[by].loaded
    if not len(own.values):
        raise without_shard(dataset.name, "it has no rows")
    count = len(first[by].values)
    return {**first, by: own.rows(np.zeros(count, dtype=np.int64))}


def labels_of(model: Any, roles: Roles) -> str:
    """A hash of the members of the indices of shared latents and of hyperparameters, in order."""
    digest = hashlib.sha256()
    for block in model.hypers.blocks:
        for dim in block.dims:
            digest.update(repr((dim, [str(x) for x in model.layout.labels[dim]])).encode())
    for name in roles.shared:
        latent = model.latent(name)
        for dim in latent.dims:
            digest.update(repr((dim, [str(x) for x in model.layout.labels[dim]])).encode())
        digest.update(repr(latent.sizes).encode())
    return digest.hexdigest()
