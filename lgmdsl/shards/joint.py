"""The joint posterior of a shard's groups and the shared latents, for predictions at its rows.

    q(u, beta) = q(beta) N(u; u(beta^) + J (beta - beta^), D^-1),   J = -D^-1 C

is the Gaussian of the shard's prior and rows, and of one more site, of beta: what all other shards
say. Its curvature is that of all shards less this one's, and its slope at beta^ makes beta^ the
mean, so that an engine conditions the two together as it does any model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.engines.choose import Terms, required
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.shards.eliminate import Eliminated
from lgmdsl.shards.model import ShardedModel
from lgmdsl.shards.refusals import without_shard
from lgmdsl.shards.shard import Shard, ShardSource, labels_of
from lgmdsl.streams.model import StreamedModel


@dataclass(frozen=True, eq=False)
class JoinedShard(StreamedModel):
    """The model of a shard's rows with all other shards as its last site block, whose predictors
    are `others`; no statement declares it, and `blocks` does not have it."""

    others: Predictor = field(default_factory=lambda: Predictor({}, np.zeros(0)))

    def linear(self, theta: Theta) -> LinearGaussian:
        known = super().linear(theta)
        return replace(known, predictors=(*known.predictors, self.others))


@dataclass(frozen=True, eq=False)
class AtTheta:
    """A fit to all shards at theta: its sites, and the mean and covariance of the shared latents,
    this as `SharedLayout.entries` has it."""

    theta: Theta
    weight: Rows
    shift: Rows
    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class JoinedAt:
    """The sites of a `JoinedShard` at theta; `condition()`: its posterior, conditioned at every
    call, or kept where it was made by `joined` for one theta."""

    weight: Rows
    shift: Rows
    condition: Callable[[], Conditioned]


def joined(
    model: ShardedModel, source: ShardSource, points: Sequence[AtTheta]
) -> tuple[JoinedShard, tuple[JoinedAt, ...]]:
    """The model of a shard with all others, and its sites at each point of a fit to all of them.

    Raises NumericalError E601 where the groups have no mode at a point, WorkerError E703 for a
    shard that is lost or changed, or names other members than the fit knows."""
    shard = source.shard()
    if labels_of(shard.model, shard.roles) != labels_of(model, model.roles):
        raise without_shard(source.file.path, "its rows name other members than those of the fit")
    own = {f.name: getattr(shard.model, f.name) for f in fields(StreamedModel)}
    made = JoinedShard(**own, others=model.shared_predictor)
    with shard.lock, np.errstate(all="ignore"):
        layout, codes = model.shared_layout, shard.split.codes
        places = [shard.point(p.theta, p.mean, layout.part(p.covariance, codes)) for p in points]
        pairs = zip(points, shard.eliminated_at(places), strict=True)
        parts = [_sites(model, shard, point, e) for point, e in pairs]
    out = []
    for point, (weight, shift) in zip(points, parts, strict=True):
        condition = partial(_conditioned, made, point.theta, weight, shift)
        # Several are as large as several shards, and are made again when they are asked for.
        out.append(JoinedAt(weight, shift, cache(condition) if len(points) == 1 else condition))
    return made, tuple(out)


def _sites(model: ShardedModel, shard: Shard, point: AtTheta, e: Eliminated) -> tuple[Rows, Rows]:
    block, layout = model.block, model.shared_layout
    weight, shift = list(point.weight), list(point.shift)
    at = layout.lifted(point.mean)
    (slope,) = rows.slope_of((shift[block],), (weight[block],), (at,))
    own = layout.weights(layout.total([e.information], [shard.split.codes]))
    others = weight[block] - own
    rest = slope - layout.placed(e.slope) + rows.times(others, at)
    weight[block], shift[block] = e.weight, e.answer.slope + rows.times(e.weight, e.z)
    return (*weight, others), (*shift, rest)


def _conditioned(model: JoinedShard, theta: Theta, weight: Rows, shift: Rows) -> Conditioned:
    with np.errstate(all="ignore"):
        engine, _ = required(model.linear(theta), Terms.of(), sums=True)
        outcome = engine.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise NumericalError(
            Diagnostic("E602", f"the posterior of a shard cannot be rebuilt: {outcome.reason}")
        )
    return outcome
