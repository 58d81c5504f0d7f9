"""Expectations under N(m, v) of functions that bend at a known place on a known scale.

The trapezoidal rule in u with s = c + a sinh(u). Around c the step is a h, so that singularities of
the function at c +- i a stand at distance pi/2 in u (error exp(-pi^2 / h)); far away it grows as
|s - c|, as such functions flatten there. The Gaussian factor needs, with r = |m - c| / sd,

    h <= 2 pi / max_tau sqrt((r + tau)^2 + (a / sd)^2) sqrt(2 L - tau^2)        (error exp(-L))

for a step that is locally even, and 4/pi less where it grows with |s| (the saddle of
exp(-t^2 / 2 + i A log t) is at t^2 = iA, which leaves exp(-A pi / 4)),

so one rule serves sd << a (where it is the plain trapezoid with a step of 0.8 sd), sd >> a, and
means far from c. 25 to 100 nodes give 1e-12 for sd / a from 0 to 1000.

Where sd is well below a, Gauss-Hermite does the same with 6 to 32 nodes; where a is a guess, if a
rule of half as many nodes more agrees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.numerics.stable import asinh_difference

# rows (n,), s (n, k), t = (s - m) / sd (n, k) -> (q, n, k)
Integrands = Callable[[IntArray, Array, Array], Array]

REACH = 8.3  # truncation in standard deviations
DECAY = 31.0  # L for functions whose centre and scale are declared
DECAY_CHECKED = 84.0  # L where twice the step must already be good to 2e-9
# Between step and half step. The error squares, but a feature far out in the Gaussian's tail comes
# with that tail's factor, which does not: so the coarse rule itself is held to the target.
AGREEMENT = 2e-9
MAX_STEP = 0.3
NODES_PER_PASS = 1 << 17
CHUNK_HERMITE = 1 << 15  # its passes are so few that the cache decides
ROUNDS = 12
MAX_NODES = 1 << 14  # nodes: what more do not bring nearer is rounding, at sds of 1e20 scales
JOINED = 2000  # evaluations of a function that cost no more than to call it for a few rows apart
ACROSS = 60.0  # nodes of means this many sds away from c never reach it
# Largest sd / a at which Gauss-Hermite with so many nodes is good to 1e-12 (1e-10 for the third
# derivatives), measured over all sites that declare a scale (logistic, probit, cloglog, negative
# binomial, Student-t with half a degree of freedom, which is the worst).
GAUSS_HERMITE = {6: 0.03, 8: 0.06, 10: 0.09, 12: 0.115, 16: 0.155, 20: 0.195, 24: 0.22, 32: 0.28}


def expectations(
    f: Integrands,
    mean: Array,
    sd: Array,
    centre: Array,
    scale: Array,
    *,
    checked: bool,
    max_step: float = MAX_STEP,
) -> Array:
    """E[f(s)], s ~ N(mean, sd^2), for q functions at once: (q, N).

    `centre`, `scale` (N,): where f bends and the distance of its complex singularities. With
    `checked` they are guesses: the step is halved until two rules agree. Tails are widened until
    the terms at both ends are negligible either way (f may grow like e^s).
    """
    x = (mean - centre) / scale
    ratio = sd / scale
    reach = np.full(mean.shape, REACH)
    none = np.zeros((0, 1))
    # NaN until a rule has answered: a row without a Gaussian must not count as 0.
    result = np.full((len(f(np.zeros(0, dtype=np.intp), none, none)), len(mean)), np.nan)
    pending = _gauss_hermite(f, mean, sd, ratio, result, checked)
    step = np.zeros(len(mean))
    step[pending] = _step(x[pending], ratio[pending], DECAY_CHECKED if checked else DECAY, max_step)
    for _ in range(ROUNDS):
        if not len(pending):
            break
        done = np.zeros(len(pending), dtype=bool)
        for members, before, count in _groups(
            x[pending], ratio[pending], reach[pending], step[pending]
        ):
            rows = pending[members]
            fine, gap, ends = _apply(
                f, rows, mean[rows], sd[rows], x[rows], scale[rows], step[rows], before, count
            )
            result[:, rows] = fine
            wide = ends > 1e-14
            # Where f grows so fast that the tails had to be widened, the mass is not at the mean.
            rough = (gap > AGREEMENT) & (checked | (reach[rows] > REACH))
            rough &= count < MAX_NODES
            # Past 38 sd the Gaussian weight itself underflows: nothing is left to collect.
            reach[rows] = np.where(wide, np.minimum(1.4 * reach[rows], 38.0), reach[rows])
            step[rows] = np.where(rough, 0.5 * step[rows], step[rows])
            done[members] = ~(wide & (reach[rows] < 38.0)) & ~rough
        pending = pending[~done]
    return result


def _gauss_hermite(
    f: Integrands, mean: Array, sd: Array, ratio: Array, result: Array, checked: bool
) -> IntArray:
    """Fill in the rows whose sd / a lets Gauss-Hermite serve; returns the others. With `checked`
    a rule of half as many nodes more must agree."""
    refused = [np.zeros(0, dtype=np.int64)]
    rule = np.searchsorted(_LARGEST, ratio, side="right")
    served = ratio < _LARGEST[-1]
    for count, members in _joined(_COUNTS[np.minimum(rule, len(_COUNTS) - 1)], served):
        size = CHUNK_HERMITE // count
        for start in range(0, len(members), size):
            rows = members[start : start + size]
            values = result[:, rows] = _averages(f, rows, mean, sd, rule[rows], 1.0)
            if checked:
                finer = _averages(f, rows, mean, sd, rule[rows], 1.5)
                gap = np.abs(finer - values) / np.maximum(1.0, np.abs(finer))
                result[:, rows] = finer
                refused.append(rows[~(gap.max(axis=0) <= AGREEMENT)])
    return np.sort(np.concatenate([*refused, np.flatnonzero(ratio >= _LARGEST[-1])]))


def _averages(
    f: Integrands, rows: IntArray, mean: Array, sd: Array, rule: IntArray, finer: float
) -> Array:
    """(q, n) by a Gauss-Hermite rule for each of the rows, or one of `finer` times as many nodes;
    rows of fewer nodes than others have some at the mean, without weight."""
    kinds = np.flatnonzero(np.bincount(rule))
    which = np.searchsorted(kinds, rule)
    rules = [hermite(int(finer * _COUNTS[k])) for k in kinds]
    if len(rules) == 1:
        t, weight = rules[0]
        s = mean[rows, None] + sd[rows, None] * t
        return f(rows, s, np.broadcast_to(t, s.shape)) @ weight
    nodes, weights = np.zeros((2, len(rules), len(rules[-1][0])))
    for k, (t, weight) in enumerate(rules):
        nodes[k, : len(t)], weights[k, : len(t)] = t, weight
    t = nodes[which]
    values = f(rows, mean[rows, None] + sd[rows, None] * t, t)
    return np.asarray((values * weights[which]).sum(axis=-1))


_COUNTS = np.array(list(GAUSS_HERMITE))
_LARGEST = np.array(list(GAUSS_HERMITE.values()))


def _joined(size: IntArray, able: BoolArray | None = None) -> list[tuple[int, IntArray]]:
    """The rows that are `able` by the number of nodes that they take, the most first; few rows
    join those that take more, which costs less than to ask for them alone."""
    groups: list[tuple[int, list[IntArray]]] = []
    for count in np.unique(size if able is None else size[able])[::-1]:
        own = size == count
        members = np.flatnonzero(own if able is None else own & able)
        if groups and (groups[-1][0] - count) * len(members) <= JOINED:
            groups[-1][1].append(members)
        else:
            groups.append((int(count), [members]))
    return [(k, np.sort(np.concatenate(m)) if len(m) > 1 else m[0]) for k, m in groups]


@cache
def hermite(count: int) -> tuple[Array, Array]:
    """Nodes and weights of N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def _step(x: Array, ratio: Array, decay: float, cap: float) -> Array:
    """The step in u that leaves exp(-decay) of the Gaussian factor's aliasing."""
    r = np.abs(x) / ratio
    tau = 0.25 * (np.sqrt(r * r + 16.0 * decay) - r)  # argmax for a << sd
    best = np.hypot(r + tau, 1.0 / ratio) * np.sqrt(2.0 * decay - tau * tau)
    at_mean = np.hypot(r, 1.0 / ratio) * np.sqrt(2.0 * decay)  # the argmax for a >> sd
    return np.asarray(np.minimum(2.0 * np.pi / np.maximum(4.0 / np.pi * best, at_mean), cap))


def _groups(
    x: Array, ratio: Array, reach: Array, step: Array
) -> list[tuple[IntArray, IntArray, IntArray]]:
    """Rows that are taken together, in chunks: positions, nodes to the left of the mean, and all
    nodes (a multiple of 8, and one)."""
    before = np.ceil(-asinh_difference(x, -reach * ratio) / step).astype(np.int64)
    before += before % 2  # the coarse rule is every second node, the mean among them
    count = before + np.ceil(asinh_difference(x, reach * ratio) / step).astype(np.int64) + 1
    size = 8 * ((count + 7) // 8) + 1
    groups = []
    for k, members in _joined(size):
        rows = max(1, NODES_PER_PASS // k)
        chunks = (members[i : i + rows] for i in range(0, len(members), rows))
        groups += [(few, before[few], size[few]) for few in chunks]
    return groups


def _apply(
    f: Integrands,
    rows: IntArray,
    mean: Array,
    sd: Array,
    x: Array,
    scale: Array,
    step: Array,
    before: IntArray,
    count: IntArray,
) -> tuple[Array, Array, Array]:
    """The fine rule, its distance to the coarse rule, and the share of the two end terms. Rows of
    fewer nodes than others repeat their last one, without weight."""
    last = count[:, None] - 1
    place = np.arange(count.max())[None, :]
    beyond = place > last if count.min() < count.max() else None
    w = (np.minimum(place, last) - before[:, None]) * step[:, None]
    # s - m = a [sinh(u0 + w) - sinh(u0)] = 2 a sinh(w/2) cosh(u0 + w/2): no cancellation however
    # small sd is relative to m. One exponential serves both, and a root the Jacobian cosh(u0 + w).
    e = np.expm1(0.5 * w)
    down = 1.0 / (1.0 + e)
    sinh = 0.5 * (e + e * down)
    cosh = 0.5 * (1.0 + e + down)
    position = 2.0 * sinh * (np.hypot(1.0, x)[:, None] * cosh + x[:, None] * sinh)
    # Far from c that sum cancels beyond c, by a factor x^2; there sinh(u) itself is good enough.
    across = (np.abs(x) > 10.0) & (np.abs(x) * scale < ACROSS * sd)
    if across.any():
        far = x[across, None]
        position[across] = np.sinh(np.arcsinh(far) + w[across]) - far
    offset = scale[:, None] * position
    t = offset / sd[:, None]
    position += x[:, None]
    weight = np.exp(-0.5 * t * t) * np.sqrt(1.0 + position * position)
    if beyond is not None:
        weight[beyond] = 0.0
    values = f(rows, mean[:, None] + offset, t)
    # Where the weight underflows the value must not count, be it as large as it may.
    terms = np.where(weight > 0.0, values, 0.0)
    terms *= weight
    total = weight.sum(axis=-1)
    fine = terms.sum(axis=-1) / total
    coarse = terms[..., ::2].sum(axis=-1) / weight[:, ::2].sum(axis=-1)
    size = np.maximum(1.0, np.abs(fine))
    ends = np.abs(terms[..., 0]) + np.abs(terms[:, np.arange(len(count)), last[:, 0]])
    share = ends / (size * total)
    return fine, np.max(np.abs(fine - coarse) / size, axis=0), np.max(share, axis=0)
