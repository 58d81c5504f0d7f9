"""The fixed point of the groups' sites, all groups at once and each at its own pace.

At sites (W, b) of the places, q has E s = z and Cov s = v there, and the rows ask for

    T = -2 f_v(z, v),   t = f_m + T z,        with which q has the mean z'

so that (W, z) -> (T, z') is a map whose fixed point is sought. Given q of the shared latents,
groups do not know of one another: each extrapolates from its own last steps (Anderson, type II, as
`numerics.optimisation.anderson` does for one vector), and takes shorter ones by itself where it
came farther away. Between slopes alpha = b - Wz and means there is a linear relation,
Q (a - mu) = Z'alpha, so that what is combined of both are a mean and the sites that it needs.

Residuals are measured in units of q: weights times the sds at their predictors, means in sds.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.objectives.elbo import LEGIBLE, ElboPoint, blur, elbo_of, resolved
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import ExpectedAnswer
from lgmdsl.shards.averages.at_shared import AtShared

MEMORY = 4  # steps that a group extrapolates from
# A group whose residual became so many times what it was goes back, and takes half the step.
FARTHER, SHORTEST = 2.0, 1e-3
# Where rounding ends the descent: no half of the least residual for so many passes, where that is
# at most so many times what is small.
PATIENCE, ROUGHEST = 4, 1e2
# Of the squares of a group's steps, what is added so that they are of full rank.
NOISE = 1e-10


@dataclass(frozen=True, eq=False)
class Sites:
    """W, (G, K, K), the mean z that they give, (G, K), and alpha = b - Wz there."""

    weight: Array
    mean: Array
    alpha: Array

    @property
    def shift(self) -> Array:
        return self.alpha + rows.times(self.weight, self.mean)

    def where(self, chosen: BoolArray, other: Sites) -> Sites:
        """These sites at the places `chosen`, (G,), another's elsewhere."""
        pairs = zip(self.parts, other.parts, strict=True)
        return Sites(*(np.where(rows.per_site(chosen, x), x, y) for x, y in pairs))

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        return self.weight, self.mean, self.alpha


@dataclass(frozen=True, eq=False)
class Step:
    """A step: from where, where to, and the difference in units of q, (G, L)."""

    now: Sites
    image: Sites
    gap: Array


def settle(
    problem: Problem, engine: AtShared, weight: Array, shift: Array, small: float, limit: int
) -> ElboPoint | None:
    """Iterate from sites of the places until every residual is `small` or as small as rounding lets
    it, `limit` passes at most; None where the bound does not exist on the way or has lost its
    digits, or the limit is reached."""
    group = engine.groups.split.group
    count = int(group.max(initial=-1)) + 1
    began = engine.condition((weight,), (shift,))
    if isinstance(began, Failed):
        return None
    state = _sites(began, weight, shift)
    q: Conditioned | Failed = began
    taken: deque[Step] = deque(maxlen=MEMORY + 1)
    age, share = np.zeros(count, dtype=np.int64), np.ones(count)
    before: Array | None = None
    least, waited = math.inf, 0
    best: ElboPoint | None = None
    for _ in range(limit):
        point = elbo_of(problem, q)
        if isinstance(point, Failed) or not (resolved(point) or blur(point) < LEGIBLE):
            return None
        (z,), (v,), (a,) = point.mean, point.variance, point.answers
        wanted, target = _asked(engine, a, z)
        if wanted is None:
            return None
        gap = _difference(engine, Sites(state.weight, z, state.alpha), wanted, v)
        square = np.bincount(group, np.sum(gap * gap, axis=1), count)
        size = np.sqrt(square)
        if not np.isfinite(size).all():
            return None
        most = float(size.max(initial=0.0))
        if most < least:
            waited = 0 if most < 0.5 * least else waited + 1
            least, best = most, point
        else:
            waited += 1
        if least <= small or (waited >= PATIENCE and least <= ROUGHEST * small):
            return best
        lost = np.zeros(count, dtype=bool)
        if before is not None:
            lost = (size > FARTHER * before) & (size > small) & (share > SHORTEST)
        share = np.where(lost, 0.5 * share, np.minimum(1.0, 1.5 * share))
        age = np.where(lost, 0, age + 1)
        back = lost[group]
        if back.any():
            last = taken[-1]
            state, wanted = last.now.where(back, state), last.image.where(back, wanted)
            gap = np.where(back[:, None], last.gap, gap)
            assert before is not None
            size = np.where(lost, before, size)
        before = size
        taken.append(Step(state, wanted, gap))
        state = _following(engine, taken, age, share, group)
        if not back.any() and all(map(np.array_equal, state.parts, wanted.parts)):
            q = target
        else:
            q = engine.condition((state.weight,), (state.shift,))
    return best if least <= ROUGHEST * small else None


def _sites(q: Conditioned, weight: Array, shift: Array) -> Sites:
    (mean,) = q.mean
    return Sites(weight, mean, shift - rows.times(weight, mean))


def _asked(
    engine: AtShared, a: ExpectedAnswer, z: Array
) -> tuple[Sites | None, Conditioned | Failed]:
    """The sites that the rows ask for, and q with them."""
    weight = -2.0 * a.d_variance
    shift = a.d_mean + rows.times(weight, z)
    q = engine.condition((weight,), (shift,))
    return (None if isinstance(q, Failed) else _sites(q, weight, shift)), q


def _difference(engine: AtShared, now: Sites, image: Sites, variance: Array) -> Array:
    """(G, r K + r): of the weights and means of the groups' own entries, in units of q."""
    own = engine.groups.split.own
    sd = np.sqrt(np.maximum(rows.diagonal(variance), 0.0))
    change = (image.weight - now.weight)[:, own] * sd[:, own, None] * sd[:, None, :]
    unit = np.where(sd[:, own] > 0.0, sd[:, own], 1.0)
    moved = (image.mean - now.mean)[:, own] / unit
    return np.concatenate([change.reshape(len(change), -1), moved], axis=1)


def _following(
    engine: AtShared, taken: deque[Step], age: IntArray, share: Array, group: IntArray
) -> Sites:
    """x + r F - (dX + r dF) c with each group's r, the `share`, and c from its last `age` steps."""
    last, count = taken[-1], len(age)
    pairs = list(pairwise(taken))
    k = len(pairs)
    coefficients: Array = np.zeros((count, k))
    if k:
        # A pair counts where a group has taken both steps since it went back last.
        valid = age[:, None] > k - np.arange(k)[None, :]
        change = [(a.gap - b.gap) * valid[group, j, None] for j, (b, a) in enumerate(pairs)]
        square, pull = np.empty((count, k, k)), np.empty((count, k))
        for i in range(k):
            pull[:, i] = np.bincount(group, np.sum(change[i] * last.gap, axis=1), count)
            for j in range(i + 1):
                total = np.bincount(group, np.sum(change[i] * change[j], axis=1), count)
                square[:, i, j] = square[:, j, i] = total
        # A ridge in the place of directions that are noise; 1 where a group has taken no steps.
        size = np.einsum("gii->g", square)
        ridge = np.where(size > 0.0, NOISE * size, 1.0)
        system = square + ridge[:, None, None] * np.eye(k)
        coefficients = np.asarray(np.linalg.solve(system, pull[:, :, None])[:, :, 0])
    r, c = share[group], coefficients[group]
    out = []
    for n in range(3):
        now, image = last.now.parts[n], last.image.parts[n]
        x = now + rows.per_site(r, now) * (image - now)
        for j, (b, a) in enumerate(pairs):
            moved = a.now.parts[n] - b.now.parts[n]
            asked = a.image.parts[n] - b.image.parts[n]
            step = moved + rows.per_site(r, now) * (asked - moved)
            x = x - rows.per_site(c[:, j], now) * step
        out.append(x)
    mixed = Sites(*out)
    own = engine.groups.split.own
    inner = mixed.weight[:, own[:, None], own]
    sound = np.isfinite(inner).all(axis=(1, 2)) & (c != 0.0).any(axis=1)
    inner = np.where(sound[:, None, None], inner, 0.0)
    least = inner[:, 0, 0] if inner.shape[1] == 1 else rows.smallest(inner)
    sound &= least >= 0.0
    whole = np.bincount(group, (~sound).astype(float), count)[group] == 0.0
    plain = []
    for now, image in zip(last.now.parts, last.image.parts, strict=True):
        share_of = rows.per_site(r, now)
        plain.append(np.where(share_of == 1.0, image, now + share_of * (image - now)))
    return mixed.where(whole, Sites(*plain))
