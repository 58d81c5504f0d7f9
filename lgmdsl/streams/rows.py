"""Rows of one site block by batches, and what a chunk of them knows: the latents that it touches,
with coefficients, an offset, and the fields of its sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.contract.site import Site
from lgmdsl.streams.packed import Packed

CHUNK = 1 << 14  # rows whose numbers stay in the nearer caches


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Some rows, one after the other.

    `place`, (n,): the place of each, whose K latents it touches; `coefficients`: of these, K;
    `offset`; `fields` of its sites by name, but for those that depend on hyperparameters.
    """

    place: AnyArray
    coefficients: tuple[Packed, ...]
    offset: Packed
    fields: Mapping[str, Packed]

    def __len__(self) -> int:
        return len(self.place)

    @property
    def nbytes(self) -> int:
        parts = (*self.coefficients, self.offset, *self.fields.values())
        return int(self.place.nbytes) + sum(p.nbytes for p in parts)


class RowSource(Protocol):
    """Batches that can be read again and again, always the same."""

    def __iter__(self) -> Iterator[RowBatch]: ...


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows that are worked on together; their predictor is a'z + offset."""

    place: AnyArray
    constant: Array
    varying: IntArray
    values: Array
    offset: Array
    site: Site

    def lifted(self, z: Array) -> Array:
        """(n,) predictors at the latents z, (G, K)."""
        from lgmdsl.streams.kernels import lift

        s = self.offset.copy()
        lift(self.place, self.constant, self.varying, self.values, z, s)
        return s

    def moved(self, z: Array) -> Array:
        """(n,) a'z."""
        from lgmdsl.streams.kernels import lift

        s = np.zeros(len(self.place))
        lift(self.place, self.constant, self.varying, self.values, z, s)
        return s

    def variances(self, v: Array) -> Array:
        """(n,) a'Va for V, (G, K, K)."""
        from lgmdsl.streams.kernels import squared

        out = np.empty(len(self.place))
        squared(self.place, self.constant, self.varying, self.values, v, out)
        return out

    def add_rows(self, x: Array, out: Array) -> None:
        """x a to (G, K)."""
        from lgmdsl.streams.kernels import add_rows

        add_rows(self.place, self.constant, self.varying, self.values, x, out)

    def add_squares(self, x: Array, out: Array) -> None:
        """x a a' to the lower triangles of (G, K, K)."""
        from lgmdsl.streams.kernels import add_squares

        add_squares(self.place, self.constant, self.varying, self.values, x, out)

    def add(self, x: Array, out: Array) -> None:
        """x to (G,)."""
        from lgmdsl.streams.kernels import add_values

        add_values(self.place, x, out)


@dataclass(frozen=True, eq=False)
class BoundRows:
    """All rows of a block at theta: `family` of the sites, `own`: the fields that depend on
    hyperparameters, without an axis of rows; `count` rows at `places` places, K latents each."""

    source: RowSource
    family: type[Site]
    own: Mapping[str, Array]
    count: int
    places: int
    latents: int

    def chunks(self) -> Iterator[Chunk]:
        """In the order of the rows. Chunks begin at whole multiples of CHUNK within a batch."""
        for batch in self.source:
            fixed = np.array([k for k, c in enumerate(batch.coefficients) if c.constant], np.int64)
            varying = np.array([k for k in range(self.latents) if k not in fixed], np.int64)
            constant = np.zeros(self.latents)
            constant[fixed] = [float(batch.coefficients[k].values[0]) for k in fixed]
            for first in range(0, len(batch), CHUNK):
                rows = slice(first, min(first + CHUNK, len(batch)))
                size = rows.stop - rows.start
                values = np.empty((len(varying), size))
                for v, k in enumerate(varying):
                    values[v] = batch.coefficients[k].at(rows)
                yield Chunk(
                    batch.place[rows],
                    constant,
                    varying,
                    values,
                    batch.offset.at(rows),
                    self._site(batch, rows, size),
                )

    def _site(self, batch: RowBatch, rows: slice, size: int) -> Site:
        values: dict[str, Any] = {name: f.at(rows) for name, f in batch.fields.items()}
        for name, value in self.own.items():
            values[name] = np.array(np.broadcast_to(value, (size, *value.shape)))
        return self.family(**values)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Batches that are kept."""

    batches: tuple[RowBatch, ...]

    def __iter__(self) -> Iterator[RowBatch]:
        return iter(self.batches)


def field_names(family: type[Site]) -> tuple[str, ...]:
    """The fields of a site family with an axis of rows."""
    return tuple(f.name for f in dataclasses.fields(family) if f.name not in family.spec.shared)


Answering = Callable[[Site], Any]
