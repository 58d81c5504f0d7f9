"""Places: the distinct tuples of the latents that rows of a block touch, and the rows at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.memory import TooLarge, budget, check
from lgmdsl.streams.model import Gather
from lgmdsl.streams.moving import Cells, Moving, multipliers
from lgmdsl.streams.multipliers import ONE
from lgmdsl.streams.packed import Packed, packed, scattered
from lgmdsl.streams.refusals import KEPT, UNEQUAL, refused
from lgmdsl.streams.rows import PackedRows, Reduction

TABLE = 50_000_000  # codes up to which places are looked up in a table
HELD = 6.0  # (G, K, K) arrays that a fit holds
LEVEL = 1e4  # of a response, in its sds, from which on squares lose digits


@dataclass
class CollectedRows:
    """What is collected of a site block. `alike`: for each pair of entries whether the codes were
    the same in all rows so far; `single`: the one code of an entry, -1 where there are several;
    `cells` and `widths`: of what depends on hyperparameters (`multipliers`), whose entries are the
    last ones, and whose cells tell places apart."""

    canonical: CanonicalModel
    block: SiteBlock
    latents: tuple[str, ...] = ()
    codes: list[list[AnyArray]] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    widths: tuple[int, ...] = ()
    parts: list[tuple[tuple[Packed, ...], Packed, dict[str, Packed]]] = field(default_factory=list)
    held: int = 0
    count: int = 0

    def add(
        self,
        codes: list[IntArray],
        latents: tuple[str, ...],
        values: list[Array],
        offset: Array,
        fields: dict[str, Array],
        moving: Sequence[Moving] = (),
    ) -> None:
        """`latents`, `codes` and `values` of the entries without hyperparameters; `moving`: of the
        others."""
        if not len(offset):
            return
        for more in moving:
            latents = (*latents, *[more.latent] * len(more.codes))
            codes, values = [*codes, *more.codes], [*values, *more.values]
        if self.latents and latents != self.latents:
            raise refused(self.block, UNEQUAL)
        self.latents = latents
        self.widths = tuple(len(part.codes) for part in moving)
        self.cells = self.cells or [Cells() for _ in moving]
        cells = [of.add(part) for of, part in zip(self.cells, moving, strict=True)]
        codes = [*codes, *(cell for cell in cells if cell is not None)]
        coefficients = tuple(packed(v) for v in values)
        part = coefficients, packed(offset), {n: packed(f) for n, f in fields.items()}
        small: list[AnyArray] = []
        for k, c in enumerate(codes):  # equal columns are one array
            same = next((small[j] for j in range(k) if np.array_equal(codes[j], c)), None)
            small.append(_smallest(c) if same is None else same)
        self.codes.append(small)
        self.parts.append(part)
        self.count += len(offset)
        self.held += sum({id(c): c.nbytes for c in small}.values())
        self.held += sum(p.nbytes for p in (*part[0], part[1], *part[2].values()))
        if self.held > 0.5 * budget():
            raise TooLarge(
                f"the rows of `{self.block.name}`",
                f"{self.count:,} rows read, packed",
                2.0 * self.held,
                self.block.span,
            )

    def gathered(self, silent: bool = False, ordered: bool = False) -> Gather:
        """Places: the distinct tuples of the latents that rows touch. `silent`: whether there may
        be none, of no rows; `ordered`: whether to keep where each row came to lie."""
        if not self.parts and silent:
            return self._nothing()
        if not self.parts:
            raise refused(self.block, "none of its rows is observed")
        self._check_level()
        sizes = [1 if n == ONE else self.canonical.latent(n).size for n in self.latents]
        sizes += [of.count for of in self.cells if of.count]
        lead = self._leading(len(sizes))
        radix = float(np.prod([float(sizes[k]) for k in lead]))
        if radix >= 2.0**62:
            raise refused(self.block, "too many latents together in a row")
        known = _distinct((self._key(i, lead, sizes) for i in range(len(self.parts))), radix)
        total = len(self.latents)
        check(
            f"what rows of `{self.block.name}` share",
            f"{len(known):,} places of {total} latents",
            8.0 * HELD * len(known) * total * total,
            help=f"keep the rows in memory: {KEPT}",
        )
        touched = np.empty((len(known), len(sizes)), dtype=np.int64)
        rest = known.copy()
        for k in reversed(lead):
            touched[:, k] = rest % sizes[k]
            rest //= sizes[k]
        find, where = _finder(known, radix), list[AnyArray]()
        for i in range(len(self.parts)):
            place, codes = find(self._key(i, lead, sizes)), self.codes[i]
            for k in range(len(sizes)):
                if k not in lead:
                    touched[place, k] = codes[k]
            self.codes[i] = []  # the places say as much
            where.append(place)
        reduction = self._reduction()
        own = np.flatnonzero(~reduction.columns[:, 0].astype(bool))
        rows, order = self._ordered(where, len(known), own)
        differing = [m for m, of in enumerate(self.cells) if of.count]
        cells = {m: touched[:, total + k] for k, m in enumerate(differing)}
        first = total - sum(self.widths)
        moved = multipliers(self.cells, self.widths, first, cells, len(known), self.block)
        touched = np.ascontiguousarray(touched[:, :total])
        kept = np.concatenate(order) if ordered else None
        return Gather(
            self.block.name, self.latents, touched, self.count, rows, reduction, moved, kept
        )

    def _nothing(self) -> Gather:
        """No places, of each latent in the predictor once."""
        latents = tuple(self.block.form.latents)
        rows = PackedRows(np.zeros(1, dtype=np.int64), (), packed(np.zeros(0)), {})
        touched = np.zeros((0, len(latents)), dtype=np.int64)
        return Gather(
            self.block.name, latents, touched, 0, rows, Reduction(np.ones((len(latents), 1)))
        )

    def _ordered(
        self, where: list[AnyArray], places: int, own: IntArray
    ) -> tuple[PackedRows, list[AnyArray]]:
        """The rows, those of a place together, and where each of them lies then, batch by batch;
        `where`: the place of each, `own`: the coefficients that differ."""
        from lgmdsl.streams.kernels import number

        counts = np.zeros(places, dtype=np.int64)
        for place in where:
            counts += np.bincount(place, minlength=places)
        starts = np.concatenate([[0], np.cumsum(counts)])
        following = starts[:-1].copy()
        kind = np.int32 if self.count < 2**31 else np.int64
        to = [np.empty(len(place), dtype=kind) for place in where]
        for place, numbers in zip(where, to, strict=True):
            number(place, following, numbers)
        where.clear()
        parts, self.parts = self.parts, []
        coefficients = tuple(scattered([p[0][k] for p in parts], to) for k in own)
        offset = scattered([p[1] for p in parts], to)
        fields = {name: scattered([p[2][name] for p in parts], to) for name in parts[0][2]}
        return PackedRows(starts, coefficients, offset, fields), to

    def _check_level(self) -> None:
        """Refuse numbers whose level is so high above their spread that sums of squares cancel."""
        centred = self.block.form is not self.block.written  # then the offset holds -y
        for name in ("",) if centred else self.block.site.spec.places:
            count, mean, square, size = 0, 0.0, 0.0, 0.0
            for _, offset, fields in self.parts:
                x = -offset.at(slice(None))
                if name:
                    x += fields[name].at(slice(None))
                count += len(x)
                gap = x - mean
                mean += float(np.sum(gap)) / count
                square += float(np.sum(gap * (x - mean)))
                size = max(size, float(np.max(np.abs(x))))
            if size > LEVEL * math.sqrt(square / count):
                about = f"{mean:.3g}"
                reason = f"its level, {about}, is high above its spread: subtract it"
                raise refused(self.block, reason)

    def _reduction(self) -> Reduction:
        """Coefficients that are one number in all rows, but for 0, and the others."""
        numbers = [
            self._number([part[0][k] for part in self.parts]) for k in range(len(self.latents))
        ]
        columns = np.zeros((len(numbers), 1 + sum(not x for x in numbers)))
        columns[:, 0] = numbers
        own = np.flatnonzero(columns[:, 0] == 0.0)
        columns[own, 1 + np.arange(len(own))] = 1.0
        return Reduction(columns)

    @staticmethod
    def _number(parts: list[Packed]) -> float:
        """The one value of a coefficient in all batches, 0 where there are several."""
        if not all(p.constant for p in parts):
            return 0.0
        values = {float(p.values[0]) for p in parts}
        return values.pop() if len(values) == 1 else 0.0

    def _leading(self, count: int) -> list[int]:
        """Entries that tell the place: not those that are one latent, nor as another one is."""
        out: list[int] = []
        for k in range(count):
            single = (
                all(len(c[k]) == 1 for c in self.codes)
                and len({int(c[k][0]) for c in self.codes}) == 1
            )
            alike = any(all(c[k] is c[j] for c in self.codes) for j in out)
            if not single and not alike:
                out.append(k)
        return out

    def _key(self, batch: int, lead: list[int], sizes: list[int]) -> IntArray:
        """(n,) one number for the latents that tell the place, of the rows of a batch."""
        key = np.zeros(self.parts[batch][1].count, dtype=np.int64)
        for k in lead:
            key = key * sizes[k] + self.codes[batch][k].astype(np.int64)
        return key


def _smallest(codes: IntArray) -> AnyArray:
    """Codes in few bytes; one where all are the same."""
    if (codes == codes[0]).all():
        return codes[:1].copy()
    most = int(codes.max())
    return codes.astype(np.min_scalar_type(most))


def _distinct(keys: Iterable[IntArray], radix: float) -> IntArray:
    if radix <= TABLE:
        seen = np.zeros(int(radix), dtype=np.bool_)
        for key in keys:
            seen[key] = True
        return np.flatnonzero(seen)
    known = np.zeros(0, dtype=np.int64)
    for key in keys:
        known = np.union1d(known, key)
    return known


def _finder(known: IntArray, radix: float) -> Callable[[IntArray], AnyArray]:
    if radix <= TABLE:
        table = np.zeros(int(radix), dtype=np.int32)
        table[known] = np.arange(len(known), dtype=np.int32)
        return lambda key: table[key]
    return lambda key: np.searchsorted(known, key).astype(np.int32)
