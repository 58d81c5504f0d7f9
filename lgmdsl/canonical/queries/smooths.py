"""The smooths of a model: which of its latents are smooth functions, and their coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.latents import FactorSpec, LatentBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.lowering.bases import basis_factor
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Shape
from lgmdsl.vocabulary.signature import Trait


@dataclass(frozen=True, eq=False)
class SmoothTerm:
    """One smooth function: a latent, or what it is at one member of the indices along which its
    members are independent functions, whose labels are `labels`. `level`: the flat position of
    that member. `along`: the index over which it is a function. `blocks`: its coefficients, along
    the axis `axes` of each."""

    canonical: CanonicalModel
    name: str
    labels: str
    level: int
    along: str
    blocks: tuple[LatentBlock, ...]
    axes: tuple[int, ...]

    @cached_property
    def where(self) -> IntArray:
        """(k,) the places of its coefficients among all latents."""
        parts = []
        for block, axis in zip(self.blocks, self.axes, strict=True):
            entries = np.arange(block.size).reshape(block.sizes)
            levels = np.moveaxis(entries, axis, -1).reshape(-1, block.sizes[axis])
            parts.append(self.canonical.layout.starts[block.name] + levels[self.level])
        return np.concatenate(parts)

    def free(self, theta: Theta) -> bool:
        """Whether its penalty leaves directions free."""
        return any(Shape.IMPROPER in b.at(theta).shape for b in self.blocks)

    @property
    def single(self) -> bool:
        """Whether one scale is that of all its coefficients."""
        smooth = self.canonical.smooths.get(self.name)
        return smooth is None or smooth.penalties is None

    def size(self, theta: Theta) -> float:
        """The typical size of what is penalised: the geometric mean of the prior sds of its
        members."""
        block, axis = self.blocks[-1], self.axes[-1]
        scale = np.ones(block.sizes)
        for node in (n for f in block.factors for n in f.scaling()):
            named = dict(zip(block.dims, block.sizes, strict=True))
            scale = scale * expand(node.evaluate(theta), block.dims, named)
        own = np.moveaxis(scale, axis, -1).reshape(-1, block.sizes[axis])[self.level]
        if self.single:
            return float(own[0])
        squares = self._squares @ (own / own.max()) ** 2
        return float(own.max() * np.exp(0.5 * np.log(squares).mean()))

    @cached_property
    def _squares(self) -> Array:
        """(n, r) of the curves at the members, those that all are 0 left out."""
        smooth = self.canonical.smooths[self.name]
        curves = smooth.columns(self.canonical.positions[self.name])[1]
        return np.asarray(curves[curves.any(axis=1)] ** 2)


def smooth_terms(canonical: CanonicalModel) -> tuple[SmoothTerm, ...]:
    """The smooths that a model declares, in its order."""
    out: list[SmoothTerm] = []
    for symbol in canonical.grounded.model.of_kind("latent"):
        blocks = tuple(b for b in canonical.reported if owner(b.name) == symbol.name)
        axes = [_axis(b, basis_factor(symbol) is not None) for b in blocks]
        if blocks and all(a is not None for a in axes):
            known = [a for a in axes if a is not None]
            basis = basis_factor(symbol)
            along = symbol.dims[known[0]] if basis is None else basis.axis
            out += _terms(canonical, symbol.name, along, blocks, known)
    return tuple(out)


def _axis(block: LatentBlock, basis: bool) -> int | None:
    """The axis along which a block is a smooth function and across which it is independent."""
    if basis:
        return len(block.dims) - 1
    curved = [k for k, f in enumerate(block.factors) if Trait.SMOOTH in f.declared.traits]
    return curved[0] if len(curved) == 1 and _apart(block.factors, curved[0]) else None


def _apart(factors: Sequence[FactorSpec], axis: int) -> bool:
    others = [f for k, f in enumerate(factors) if k != axis]
    return all(Trait.IDENTITY in f.declared.traits for f in others)


def _terms(
    canonical: CanonicalModel,
    name: str,
    along: str,
    blocks: tuple[LatentBlock, ...],
    axes: list[int],
) -> Iterator[SmoothTerm]:
    block, axis = blocks[0], axes[0]
    outer = [d for k, d in enumerate(block.dims) if k != axis]
    labels = [""]
    for dim in outer:
        members = canonical.layout.labels[dim].tolist()
        labels = [f"{a}, {b}" if a else str(b) for a in labels for b in members]
    for level, label in enumerate(labels):
        yield SmoothTerm(canonical, name, label, level, along, blocks, tuple(axes))
