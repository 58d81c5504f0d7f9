"""The joint posterior of a shard's groups and the shared latents, for predictions at its rows.

    q(u, beta) = q(beta) N(u; u(beta^) + J (beta - beta^), D^-1),   J = -D^-1 C

is the Gaussian of the shard's prior and rows, and of one more site, of beta: what all other shards
say. Its curvature is that of all shards less this one's, and its slope at beta^ makes beta^ the
mean, so that an engine conditions the two together as it does any model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.engines.choose import Terms, required
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.shards.eliminate import Eliminated
from lgmdsl.shards.groups import AtTheta
from lgmdsl.shards.model import Sharded
from lgmdsl.shards.refusals import without_shard
from lgmdsl.shards.shard import Shard, ShardSource, labels_of
from lgmdsl.streams.model import by_places


@dataclass(frozen=True, eq=False)
class JoinedAt:
    """The sites of a `joined` shard at theta; `condition()`: its posterior, conditioned at every
    call, or kept where it was made by `joined` for one theta."""

    weight: Rows
    shift: Rows
    condition: Callable[[], Conditioned]


def joined(
    known: Sharded, source: ShardSource, points: Sequence[AtTheta]
) -> tuple[CanonicalModel, tuple[JoinedAt, ...]]:
    """The model of a shard, with all others as one more block of sites, which no statement
    declares, and its sites at each point of a fit to all of them.

    Raises NumericalError E601 where the groups have no mode at a point, WorkerError E703 for a
    shard that is lost or changed, or names other members than the fit knows."""
    shard = source.shard()
    if labels_of(shard.model, shard.roles) != labels_of(known.whole, known.roles):
        raise without_shard(source.file.path, "its rows name other members than those of the fit")
    own = replace(by_places(shard.model), beyond=(known.predictor,))
    made = replace(shard.model, rows=own)
    with shard.lock, np.errstate(all="ignore"):
        layout, codes = known.layout, shard.split.codes
        places = [shard.point(p.theta, p.mean, layout.part(p.covariance, codes)) for p in points]
        pairs = zip(points, shard.eliminated_at(places), strict=True)
        parts = [_sites(known, shard, point, e) for point, e in pairs]
    out = []
    for point, (weight, shift) in zip(points, parts, strict=True):
        condition = partial(_conditioned, made, point.theta, weight, shift)
        # Several are as large as several shards, and are made again when they are asked for.
        out.append(JoinedAt(weight, shift, cache(condition) if len(points) == 1 else condition))
    return made, tuple(out)


def _sites(known: Sharded, shard: Shard, point: AtTheta, e: Eliminated) -> tuple[Rows, Rows]:
    block, layout = known.block, known.layout
    weight, shift = list(point.weight), list(point.shift)
    at = layout.lifted(point.mean)
    (slope,) = rows.slope_of((shift[block],), (weight[block],), (at,))
    own = layout.weights(layout.total([e.information], [shard.split.codes]))
    others = weight[block] - own
    rest = slope - layout.placed(e.slope) + rows.times(others, at)
    weight[block], shift[block] = e.weight, e.answer.slope + rows.times(e.weight, e.z)
    return (*weight, others), (*shift, rest)


def _conditioned(model: CanonicalModel, theta: Theta, weight: Rows, shift: Rows) -> Conditioned:
    with np.errstate(all="ignore"):
        engine, _ = required(model.linear(theta), Terms.of(), sums=True)
        outcome = engine.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise NumericalError(
            Diagnostic("E602", f"the posterior of a shard cannot be rebuilt: {outcome.reason}")
        )
    return outcome
