"""The rows of one site block, packed, and what a chunk of them knows: the latents that it touches,
with coefficients, an offset, and the fields of its sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.site import Site
from lgmdsl.streams.packed import Packed

CHUNK = 1 << 15  # rows whose numbers stay in the nearer caches
KEPT = 2e8  # bytes of chunks that stay unpacked between passes


@dataclass(frozen=True, eq=False)
class PackedRows:
    """All rows of a block, those of a place one after the other, in the order of the table.

    `starts`, (G + 1,): the first row of each place, and n; `coefficients`: those that differ from
    row to row, V of them; `offset`; `fields` of its sites by name, but for those that depend on
    hyperparameters.
    """

    starts: IntArray
    coefficients: tuple[Packed, ...]
    offset: Packed
    fields: Mapping[str, Packed]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def at_places(self, some: IntArray) -> PackedRows:
        """The rows of some places, (g,), in order."""
        counts = np.diff(self.starts)[some]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(self.starts.dtype)
        rows = np.arange(starts[-1]) + np.repeat(self.starts[some] - starts[:-1], counts)
        return PackedRows(
            starts,
            tuple(c.take(rows) for c in self.coefficients),
            self.offset.take(rows),
            {name: f.take(rows) for name, f in self.fields.items()},
        )

    def places(self, rows: slice) -> IntArray:
        """The place of each of these rows."""
        first, last = np.searchsorted(self.starts, [rows.start, rows.stop - 1], side="right") - 1
        ends = np.clip(self.starts[first : last + 2], rows.start, rows.stop)
        return np.repeat(np.arange(first, last + 1), np.diff(ends))


@dataclass(frozen=True, eq=False)
class Reduction:
    """Coefficients on the K latents of a place, c_0 + sum_v x_v c_v of a row whose own ones are x:
    `columns`, (K, 1 + V). Sums over rows are of 1 + V numbers, not of K."""

    columns: Array

    def inward(self, z: Array) -> Array:
        """z C, (G, 1 + V), for latents z, (G, K), C being `columns`."""
        return np.ascontiguousarray(z @ self.columns)

    def form(self, v: Array) -> Array:
        """C'VC, (G, 1 + V, 1 + V), for V, (G, K, K), C being `columns`."""
        size, own = self.columns.shape
        return (v.reshape(-1, size * size) @ self._pairs).reshape(-1, own, own)

    def outward(self, sums: Array) -> Array:
        """x C', (G, K), for sums x of rows, (G, 1 + V), C being `columns`."""
        return np.ascontiguousarray(sums @ self.columns.T)

    def squares(self, sums: Array) -> Array:
        """(G, K, K) of sums of squares, whose lower triangles (G, 1 + V, 1 + V) hold."""
        from lgmdsl.streams.kernels import mirror

        mirror(sums)
        size, own = self.columns.shape
        return (sums.reshape(-1, own * own) @ self._pairs.T).reshape(-1, size, size)

    def powers(self, sums: Array) -> Array:
        """(G, K, ..., K) of sums of third or higher powers, which (G, 1 + V, ..., 1 + V) hold where
        the places along their axes do not rise."""
        own, order = sums.shape[1], sums.ndim - 1
        falling = np.array(list(product(range(own), repeat=order)))
        falling.sort(axis=1)
        flat = np.ravel_multi_index(tuple(falling[:, ::-1].T), (own,) * order)
        whole = sums.reshape(len(sums), -1)[:, flat].reshape(sums.shape)
        for _ in range(order):  # the axis in front goes to the end, in the latents' coordinates
            whole = np.tensordot(whole, self.columns, axes=(1, 1))
        return whole

    @cached_property
    def _pairs(self) -> Array:
        """(K^2, (1 + V)^2): products of many small matrices are one with this."""
        return np.asarray(np.kron(self.columns, self.columns))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows that are worked on together, in coordinates of the `Reduction`; `rows`: where they are
    among the packed ones."""

    rows: slice
    place: IntArray
    values: Array
    offset: Array
    site: Site

    def lifted(self, z: Array) -> Array:
        """(n,) predictors at z, (G, 1 + V)."""
        return self.moved(z, self.offset.copy())

    def moved(self, z: Array, s: Array | None = None) -> Array:
        """(n,) a'z, added to s."""
        from lgmdsl.streams.kernels import lift

        s = np.zeros(len(self.place)) if s is None else s
        lift(self.place, self.values, z, s)
        return s

    def variances(self, form: Array) -> Array:
        """(n,) a'Va for V, (G, 1 + V, 1 + V)."""
        from lgmdsl.streams.kernels import squared

        out = np.empty(len(self.place))
        squared(self.place, self.values, form, out)
        return out

    def add(self, x: Array, out: Array) -> None:
        """x to (G,), x a to (G, 1 + V), or x a a' to the lower triangles of (G, 1 + V, 1 + V)."""
        from lgmdsl.streams.kernels import add_rows, add_squares, add_values

        if out.ndim == 1:
            add_values(self.place, x, out)
            return
        (add_rows if out.ndim == 2 else add_squares)(self.place, self.values, x, out)

    def add_powers(self, x: Array, y: Array, cubes: Array, fourths: Array) -> None:
        """x a a a to (G, 1 + V, 1 + V, 1 + V) and y a a a a likewise, where the places along their
        axes do not rise."""
        from lgmdsl.streams.kernels import add_powers

        add_powers(self.place, self.values, x, y, cubes, fourths)

    @property
    def nbytes(self) -> int:
        """Bytes that the chunk holds, with all that its sites have computed once."""
        arrays = (self.place, self.values, self.offset, *vars(self.site).values())
        return sum(_held(x) for x in arrays)


def _held(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_held, value))
    return int(value.nbytes) if isinstance(value, np.ndarray) and value.base is None else 0


@dataclass(frozen=True, eq=False)
class BoundRows:
    """The rows of a block at theta: `family` of the sites, `own`: the fields that depend on
    hyperparameters, without an axis of rows."""

    packed: PackedRows
    family: type[Site]
    own: Mapping[str, Array]
    reduction: Reduction
    _kept: dict[int, Chunk] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": {}}

    @property
    def count(self) -> int:
        return len(self.packed)

    @property
    def places(self) -> int:
        return len(self.packed.starts) - 1

    def chunks(self) -> Iterator[Chunk]:
        """The chunks in the order of the rows. Some of them stay as they are between passes, also
        of several threads, where no field depends on hyperparameters."""
        held = 0.0
        for first in range(0, self.count, CHUNK):
            chunk = self._kept.get(first)
            if chunk is None:
                chunk = self._chunk(slice(first, min(first + CHUNK, self.count)))
            yield chunk
            held += chunk.nbytes if held < KEPT else 0.0
            if held < KEPT and not self.own:
                self._kept[first] = chunk

    def _chunk(self, rows: slice) -> Chunk:
        packed, size = self.packed, rows.stop - rows.start
        values = np.empty((len(packed.coefficients), size))
        for v, coefficient in enumerate(packed.coefficients):
            values[v] = coefficient.at(rows)
        fields: dict[str, Any] = {name: f.at(rows) for name, f in packed.fields.items()}
        for name, value in self.own.items():
            fields[name] = np.array(np.broadcast_to(value, (size, *value.shape)))
        site = self.family(**fields)
        return Chunk(rows, packed.places(rows), values, packed.offset.at(rows), site)


def field_names(family: type[Site]) -> tuple[str, ...]:
    """The fields of a site family with an axis of rows."""
    return tuple(f.name for f in dataclasses.fields(family) if f.name not in family.spec.shared)


Answering = Callable[[Site], Any]
