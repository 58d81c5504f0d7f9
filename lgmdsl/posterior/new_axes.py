"""The axes of a block after new data, and the pieces of members that its structures add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.latents import FactorSpec, LatentBlock
from lgmdsl.canonical.blocks.new_members import GrownAxis, fitted_numbers, grown
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.model import GroundedModel, IndexSet
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Extension, Members, Shape, Structure
from lgmdsl.errors import DataError
from lgmdsl.posterior.extended_gaussian import NewMemberNoise, NewMembers
from lgmdsl.structures.catalogue import members_of


@dataclass(frozen=True, eq=False)
class Axes:
    """`numbers`: for each axis of a block the member behind each entry; `grown`: those axes that
    have members from their structure's extension, by position."""

    numbers: tuple[IntArray, ...]
    grown: dict[int, GrownAxis]

    def places(self, sizes: tuple[int, ...]) -> IntArray | None:
        """Positions of the block's entries among its members, fitted, joined and new, in the order
        of the pieces; None where they are all of them in order."""
        same = all(
            len(a) == n and (a == np.arange(n)).all()
            for a, n in zip(self.numbers, sizes, strict=True)
        )
        if same and not self.grown:
            return None
        grid = np.meshgrid(*self.numbers, indexing="ij") if self.numbers else []
        return self.position(sizes, tuple(g.reshape(-1) for g in grid))

    def position(self, sizes: tuple[int, ...], numbers: tuple[IntArray, ...]) -> IntArray:
        """Positions of members by their number along each axis."""
        out = np.full(len(numbers[0]) if numbers else 1, -1, dtype=np.int64)
        start = int(np.prod(sizes, dtype=np.int64))
        inside = np.ones(len(out), dtype=np.bool_)
        for axis, shape in self.shapes(sizes).items():
            n = self.grown[axis].fitted
            new_members = numbers[axis] >= n
            # the last axis along which a member is new is the one whose piece holds it
            for later in self.grown:
                if later > axis:
                    new_members = new_members & (numbers[later] < self.grown[later].fitted)
            local = tuple(a[new_members] - (n if k == axis else 0) for k, a in enumerate(numbers))
            out[new_members] = start + np.ravel_multi_index(local, shape)
            start += int(np.prod(shape, dtype=np.int64))
            inside &= ~new_members
        if inside.any() and numbers:
            out[inside] = np.ravel_multi_index(tuple(a[inside] for a in numbers), sizes)
        return out

    def shapes(self, sizes: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """The shape of each axis's piece: its new members, by all along the axes before it that
        grow and by the fitted ones along those after it."""
        out = {}
        for axis, growth in sorted(self.grown.items()):
            shape = [
                g.size if (g := self.grown.get(k)) and k < axis else n for k, n in enumerate(sizes)
            ]
            shape[axis] = len(growth.new)
            out[axis] = tuple(shape)
        return out


def counterpart(new: CanonicalModel, block: str) -> LatentBlock:
    """The block of new data that has the members of a block of the fit, which may be one over the
    places that members share."""
    names = {b.name for b in new.latents}
    return new.latent(block if block in names else owner(block))


def axes_of(block: LatentBlock, fitted: CanonicalModel, new: CanonicalModel, theta: Theta) -> Axes:
    """The members behind the entries of the block that new data make."""
    now, old = new.grounded, fitted.grounded
    later = counterpart(new, block.name)
    numbers: list[IntArray] = []
    growing: dict[int, GrownAxis] = {}
    for factor, again in zip(block.factors, later.factors, strict=True):
        ordered = members_of(factor.name) is Members.ORDERED
        for dim, size in zip(again.dims, again.sizes, strict=True):
            if dim not in old.indices:  # coefficients of a basis, which stays the fit's
                numbers.append(np.arange(size))
                continue
            before, after = old.indices[dim], now.indices[dim]
            if not ordered:
                numbers.append(_joined_numbers(again, dim, before, after, now))
            elif dim in now.replaced or dim in now.new_levels:
                axis = grown(factor, theta, before, after, again, dim in now.new_levels)
                numbers.append(axis.numbers)
                if len(axis.new):
                    growing[len(numbers) - 1] = axis
            else:
                numbers.append(fitted_numbers(factor, before.size))
    return Axes(tuple(numbers), growing)


def check_places(fitted: CanonicalModel, new: CanonicalModel, theta: Theta) -> None:
    """Raise DataError E302 for new members that have no place among the fitted ones, or no proper
    prior there: checked before anything is computed."""
    for block in fitted.latents:
        axes = axes_of(block, fitted, new, theta)
        if axes.grown:
            pieces_of(block, axes, theta)


def _joined_numbers(
    factor: FactorSpec, dim: str, old: IndexSet, now: IndexSet, new: GroundedModel
) -> IntArray:
    """Members among the old ones and, after them, the new ones. Labels that the fit knew keep their
    latents, unless inputs say what members are, or labels are only row numbers."""
    numbers = np.arange(now.size)
    if dim not in new.replaced:
        return numbers
    numbers = numbers + old.size
    if "at" in factor.arguments or (dim not in new.steps and (old.counted or now.counted)):
        return numbers
    known = old.positions(now.labels)
    return np.where(known >= 0, known, numbers)


def pieces_of(block: LatentBlock, axes: Axes, theta: Theta) -> list[NewMembers]:
    """The new members of a block, axis by axis.

    Raises DataError E302 where the other structures leave them without a proper prior.
    """
    factors = [f for f in block.factors for _ in f.dims] if len(block.factors) > 1 else []
    built = [f.build(theta) for f in factors]
    extensions = {k: g.extension(theta) for k, g in axes.grown.items()}
    out: list[NewMembers] = []
    before = block.size
    for axis, shape in axes.shapes(block.sizes).items():
        covariances: list[Array] = []
        for k in range(len(shape)):
            if k == axis:
                covariances.append(extensions[k].covariance)
                continue
            if Shape.IMPROPER in built[k].shape:
                raise _improper(factors[axis], factors[k])
            prior = covariance_of(built[k])
            grows = k in axes.grown and k < axis
            covariances.append(_with_new(prior, extensions[k]) if grows else prior)
        name = f"{block.name}+{block.dims[axis]}"
        weights = _weights(axes, block.sizes, axis, shape, extensions[axis], before)
        out.append(NewMembers(name, block.name, weights, NewMemberNoise(tuple(covariances))))
        before += out[-1].size
    return out


def _weights(
    axes: Axes,
    sizes: tuple[int, ...],
    axis: int,
    shape: tuple[int, ...],
    extension: Extension,
    before: int,
) -> sp.csr_array:
    """I (x) weights (x) I, its columns at the positions of the fitted members."""
    entries = extension.weights.tocoo()
    others = tuple(1 if k == axis else n for k, n in enumerate(shape))
    grid = np.indices(others).reshape(len(shape), -1)
    count = grid.shape[1]
    rows, columns = [], []
    for k in range(len(shape)):
        across = np.tile(grid[k], len(entries.data))
        rows.append(np.repeat(entries.row, count) if k == axis else across)
        columns.append(np.repeat(entries.col, count) if k == axis else across)
    row = np.ravel_multi_index(tuple(r.astype(np.int64) for r in rows), shape)
    column = axes.position(sizes, tuple(c.astype(np.int64) for c in columns))
    size = int(np.prod(shape, dtype=np.int64))
    return sp.csr_array((np.repeat(entries.data, count), (row, column)), shape=(size, before))


def covariance_of(structure: Structure) -> Array:
    """(n, n) covariance, or (n,) where it is diagonal."""
    if Shape.DIAGONAL in structure.shape:
        return structure.variance()
    if Shape.COVARIANCE in structure.shape:
        return np.asarray(structure.covariance())
    precision = structure.precision()
    whole = precision if isinstance(precision, np.ndarray) else precision.toarray()
    return np.asarray(np.linalg.inv(whole))


def _with_new(prior: Array, extension: Extension) -> Array:
    """The covariance of fitted and new members."""
    whole = np.diag(prior) if prior.ndim == 1 else prior
    w = extension.weights
    across = w @ whole
    return np.block([[whole, across.T], [across, (w @ across.T).T + extension.covariance]])


def _improper(growing: FactorSpec, other: FactorSpec) -> DataError:
    return DataError.of(
        "E302",
        f"`{growing.dims[0]}` cannot take new members: `{other.name}` leaves them without a "
        "proper prior",
        growing.factor.span,
        f"each new member has directions of `{other.dims[0]}` that nothing determines",
        help=f"give `{other.dims[0]}` a structure whose null space is tied, as rw1 or iid",
    )
