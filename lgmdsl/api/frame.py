"""The joint posterior of the fitted latents and those that new data bring in.

New rows and levels extend the prior: their latents are jointly Gaussian with the fitted ones, and
the fitted sites, with their weights and shifts, condition both. Nothing is refitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks import LatentBlock, latent_blocks
from lgmdsl.canonical.ground import GroundedModel, IndexSet
from lgmdsl.canonical.lower import Lowering
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor
from lgmdsl.engines.choose import Terms, choose
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse


@dataclass(frozen=True, eq=False)
class Frame:
    """A conditioned Gaussian over z, and where the latents of some canonical form lie in it.

    `places[name]` are positions in the block of z called `name`, or None for all of them in order.
    """

    conditioned: Conditioned
    starts: Mapping[str, int]
    sizes: Mapping[str, int]
    places: Mapping[str, IntArray | None]

    def embed(self, predictor: Predictor) -> Predictor:
        """The predictor, its columns moved to the latents of the conditioned Gaussian."""
        columns = {
            name: _moved(op, self.places[name], self.sizes[name])
            for name, op in predictor.columns.items()
        }
        return replace(predictor, columns=columns)

    def part(self, name: str, z: Array) -> Array:
        """The draws (size, n_b) of one block of z."""
        return z[:, self.starts[name] : self.starts[name] + self.sizes[name]]


def fitted_frame(canonical: CanonicalModel, conditioned: Conditioned) -> Frame:
    """The frame of the fit itself."""
    sizes = {b.name: b.size for b in canonical.latents}
    return Frame(conditioned, canonical.layout.starts, sizes, dict.fromkeys(sizes))


@np.errstate(all="ignore")  # what overflows fails to factorise
def extended_frame(
    fitted: CanonicalModel,
    new: CanonicalModel,
    theta: Mapping[str, Array],
    weight: Rows,
    shift: Rows,
    seed: int = 0,
    budget: int | None = None,
) -> Frame:
    """The frame of new data: the fitted sites condition the old and the new latents jointly, by the
    engine that the fit's memory `budget` allows.

    Raises NumericalError E602 where the joint posterior does not factorise.
    """
    grounded, old = new.grounded, fitted.grounded
    blocks = latent_blocks(Lowering(_union(old, grounded)))
    linear = fitted.linear(theta)
    olds, news = {}, {}
    for block in blocks:
        before, after = fitted.latent(block.name), new.latent(block.name)
        olds[block.name] = _positions(block, before, grounded, old, new=False)
        news[block.name] = _positions(block, after, grounded, old, new=True)
    sizes = {b.name: b.size for b in blocks}

    def moved(columns: Mapping[str, Operator]) -> dict[str, Operator]:
        return {name: _moved(op, olds[name], sizes[name]) for name, op in columns.items()}

    joint = LinearGaussian(
        tuple(b.at(theta) for b in blocks),
        tuple(replace(p, columns=moved(p.columns)) for p in linear.predictors),
        None
        if linear.constraints is None
        else Constraints(moved(linear.constraints.columns), linear.constraints.values),
    )
    engine, why = choose(joint, None if budget is None else Terms(budget), seed)
    outcome = Failed(why) if engine is None else engine.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise NumericalError(Diagnostic("E602", f"no prediction: {outcome.reason}"))
    return Frame(outcome, joint.starts, sizes, news)


def _union(old: GroundedModel, new: GroundedModel) -> GroundedModel:
    """Data of both: replaced index sets hold the old members, then the new ones."""
    indices: dict[str, IndexSet] = dict(new.indices)
    for name in new.replaced:
        count = old.indices[name].size + new.indices[name].size
        parts = (old.indices[name].places, new.indices[name].places)
        known = [p for p in parts if p is not None]
        indices[name] = IndexSet(
            name, np.arange(count), "the fit and the new data", spaced=False,
            placed=np.concatenate(known) if len(known) == len(parts) else None,
        )  # fmt: skip
    values = dict(new.values)
    for name, value in new.values.items():
        axes = [k for k, d in enumerate(new.dims(name)) if d in new.replaced]
        if not axes or name not in old.values:
            continue
        if len(axes) > 1:
            values.pop(name)  # no cross values: a structure that needs them cannot be extended
        elif isinstance(value, np.ndarray):
            values[name] = np.concatenate([old.values[name], value], axis=axes[0])
        else:
            stack = sp.vstack if axes[0] == 0 else sp.hstack
            pair = [sp.csr_array(old.values[name]), value]
            values[name] = sp.csr_array(stack(pair, format="csr"))
    return replace(new, indices=indices, values=values)


def _positions(
    joint: LatentBlock,
    own: LatentBlock,
    new_data: GroundedModel,
    old_data: GroundedModel,
    new: bool,
) -> IntArray | None:
    """Positions of a block's entries in its joint block; None where they are all of it."""
    axes = []
    for dim, size in zip(own.dims, own.sizes, strict=True):
        at = np.arange(size)
        if new and dim in new_data.replaced:
            at = at + old_data.indices[dim].size
            if not _placed_by_data(joint):
                at = _matched(at, old_data.indices[dim], new_data.indices[dim])
        axes.append(at)
    if joint.sizes == own.sizes and all((a == np.arange(len(a))).all() for a in axes):
        return None
    flat = np.zeros((1,) * len(axes), dtype=np.int64)
    for k, (at, size) in enumerate(zip(axes, joint.sizes, strict=True)):
        flat = flat * size + at.reshape(tuple(-1 if i == k else 1 for i in range(len(axes))))
    return flat.reshape(-1)


def _placed_by_data(block: LatentBlock) -> bool:
    """Whether members differ by their inputs (a GP), so that equal labels mean nothing."""
    return any("at" in f.arguments for f in block.factors)


def _matched(at: IntArray, old: IndexSet, new: IndexSet) -> IntArray:
    """Labels that the fit knew keep their latents; labels that are only row numbers are new."""
    if old.counted or new.counted:
        return at
    known = old.positions(new.labels)
    return np.where(known >= 0, known, at)


def _moved(operator: Operator, places: IntArray | None, size: int) -> Operator:
    if places is None:
        return operator
    matrix = operator.sparse().tocoo()
    shape = (operator.shape[0], size)
    return Sparse(sp.csr_array((matrix.data, (matrix.row, places[matrix.col])), shape=shape))
