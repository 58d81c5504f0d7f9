"""Further starts where priors and data contradict each other (`conflict`).

Data far from where offsets may be are explained by the noise or by what else is left. Offsets stay
in the middle of their priors, and with s the root mean square of the data about the prior's mean

    by noise:    noise sds s, latents' sizes and loadings small
    by latents:  latents' sizes and loadings as large as s, noise sds below the residuals'

where loadings are principal components about the prior's mean, none centred: each one of those that
cannot all be kept is left out in turn; loadings that are no matrix are all alike. A loading of s
for a latent of 1 costs more than two of sqrt(s): columns are cut to the length where evidence + log
prior is highest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.rows import inner, times
from lgmdsl.learning.coordinates.vector import transform
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.starts.factor_axes import Loading, from_components, loadings, scattered
from lgmdsl.learning.starts.from_data import HIGH, LOW, NOISE, ScaledStart, fit_at, scaled
from lgmdsl.learning.starts.working_response import LEAST, residual_sd, working_residuals

ROUNDS, CLOSE = 6, 0.1  # of s, and logs by which it may change in the last
QUIETER = (0.0, 1.0, 2.0)  # logs of noise sds below, next to components, which explain most
RUNGS, SHORTER = 12, 10.0**-0.5  # lengths of columns that are tried, each so many times the last


def against_priors(objective: Objective, first: Evaluation) -> Iterator[Evaluation]:
    """Starts of further searches, in the order in which they are worth while; `first`: that of the
    first search."""
    canonical = objective.planned.canonical
    linear = linear_hypers(canonical, first.theta, objective.pinned)
    middle = canonical.hypers.start(objective.pinned, objective.begin)
    offsets = {n: middle[n] for n in linear.coefficients}
    sized = scaled(objective, first)
    theta = scattered({**first.theta, **offsets}, linear.loadings)
    if sized is None:
        plain, highs = fit_at(objective, theta, first), [theta]
        if not linear.names:
            return
    else:
        near = replace(sized[0], theta=theta)
        far, plain = _by_noise(near, sized[1])
        highs = [_high(near, far, NOISE - less) for less in QUIETER]
    if plain is None:
        return
    yield plain
    if not linear.loadings:
        by_latents = fit_at(objective, highs[0], plain)
        if by_latents is not None:
            yield by_latents
        return
    size = float(np.exp(_far(plain).max()))
    groups = loadings(canonical, linear.loadings).values()
    matrices = {o.hyper: o for group in groups for o in group}
    whole = {n: np.full_like(plain.theta[n], size) for n in set(linear.loadings) - set(matrices)}
    firsts = [group[0] for group in groups]
    factors = [o.columns(np.asarray(plain.theta[o.hyper])).shape[1] for o in firsts]
    for without in range(max(factors, default=1), 0, -1):
        columns = from_components(objective, plain, linear.loadings, True, without)
        own = {n: columns[n] for n in linear.loadings} | whole
        cuts = [
            _cut(objective, {**high, **own}, linear.loadings, matrices, plain) for high in highs
        ]
        known = [cut for cut in cuts if cut is not None]
        if known:
            yield max(known, key=lambda cut: cut.value)


def _by_noise(near: ScaledStart, warm: Evaluation) -> tuple[ScaledStart, Evaluation | None]:
    """Where the noise explains all. Weights of sites that are not Gaussian change with it, and with
    them their working response."""
    far, fitted = near, None
    for _ in range(ROUNDS):
        fitted = fit_at(near.objective, far.at(dict.fromkeys(far.names, LOW), 0.0, LOW), warm)
        if fitted is None:
            break
        seen = np.maximum(_far(fitted), near.log_sd)
        settled = bool((np.abs(seen - far.log_sd) < CLOSE).all())
        far = replace(far, log_sd=seen)
        if settled:
            break
    return far, fitted


def _high(near: ScaledStart, far: ScaledStart, noise: float = NOISE) -> Theta:
    """Sizes of latents as large as s, noise sds `noise` logs above those of `near`."""
    latents = replace(far, sizes=tuple(s for s in far.sizes if s.latent))
    theta = latents.at(dict.fromkeys(far.names, HIGH), NOISE)
    sites = tuple(s for s in near.sizes if not s.latent)
    return replace(near, theta=theta, sizes=sites, covariances=()).at({}, noise)


def _cut(
    objective: Objective,
    theta: Theta,
    names: tuple[str, ...],
    matrices: Mapping[str, Loading],
    warm: Evaluation,
) -> Evaluation | None:
    """The highest with columns of the loadings `names` no longer than one of several lengths; those
    that are none of the `matrices` count as one column."""
    lengths = {}
    for name in names:
        value = np.asarray(theta[name])
        one = matrices.get(name)
        lengths[name] = np.linalg.norm(
            value.reshape(-1, 1) if one is None else one.columns(value), axis=0
        )
    longest = max((float(length.max(initial=0.0)) for length in lengths.values()), default=0.0)
    best = fit_at(objective, theta, warm)
    for rung in range(1, RUNGS + 1):
        cut = dict(theta)
        for name, length in lengths.items():
            value, one = np.asarray(theta[name]), matrices.get(name)
            share = np.minimum(1.0, longest * SHORTER**rung / np.maximum(length, LEAST))
            cut[name] = (
                share * value if one is None else one.array(one.columns(value) * share, value)
            )
        found = fit_at(objective, cut, warm)
        if found is not None and (best is None or found.value > best.value):
            best = found
        elif best is not None and found is not None:
            break
    return best


def _far(at: Evaluation) -> Array:
    """(blocks,) logs of the root mean square of the working response about the prior's mean."""
    q, out = at.posterior, []
    means = at.problem.engine.prior_mean
    parts = zip(at.problem.answers, q.weight, q.shift, means, strict=True)
    for k, (site, weight, shift, mean) in enumerate(parts):
        if isinstance(site, SumsOfRows):
            sd = site.working_sd(mean, q.conditioned.variance[k])
        else:
            sd = residual_sd(*working_residuals(weight, shift, mean, as_they_are=True))
        out.append(sd if sd > 0.0 else 1.0)
    return np.log(out)


# ---- conflict ----------------------------------------------------------------------------------
# Whether priors and data contradict each other at a maximum.
#
# A hyper, or the latents of a model, may be so far out in their prior that the data are explained
# by whatever costs least: offsets of 1e4 prior sds by loadings of hundreds, or by the noise. The
# density then has maxima thousands of nats apart, and the nearest one need not be the highest.


# Nats of a hyper's log density below the middle of its prior: a normal is 6 sds out there. One more
# is expected of each entry; both on the natural scale and on that of the coordinates, so that
# neither vague priors (on precisions) nor sds of 0 are far out.
LIKELY = 18.0
OUT = 5.0  # root mean square of latents in sds of their prior


def conflicts(objective: Objective, at: Evaluation) -> tuple[str, ...]:
    """The free hypers that are far out in their priors; and the latents if they are, all that are
    in the model."""
    blocks = objective.coordinates.blocks
    names = tuple(b.name for b in blocks if _fallen(b, at) > LIKELY + np.prod(b.sizes))
    canonical = objective.planned.canonical
    latents = tuple(latent.name for latent in canonical.latents)
    return (*names, *latents) if latents and _squared(at) > OUT**2 * canonical.size else names


def _fallen(block: HyperBlock, at: Evaluation) -> float:
    """Nats by which the log density is lower than in the middle of the prior, by the scale on which
    that is less."""
    assert block.prior is not None
    prior = block.prior.at(at.theta)
    form = transform(block, at.theta)
    heights = []
    with np.errstate(all="ignore"):
        for value in (prior.typical(block.sizes), np.asarray(at.theta[block.name])):
            jacobian = form.log_jacobian(form.coordinates(value))[0]
            density = prior.log_density(value)
            heights.append((density, density + jacobian))
    fallen = np.subtract(heights[0], heights[1])
    return float(fallen.min()) if np.isfinite(fallen).all() else 0.0


def _squared(at: Evaluation) -> float:
    """(E_q z - mu)'K^-1 (E_q z - mu) = alpha'(m - s0), alpha = b - Wm what the sites pull with: the
    means m of the predictors against those of the prior, s0. Improper latents add 0."""
    q = at.posterior
    total = 0.0
    parts = zip(q.weight, q.shift, q.conditioned.mean, at.problem.engine.prior_mean, strict=True)
    for weight, shift, mean, prior in parts:
        total += float(np.sum(inner(shift - times(weight, mean), mean - prior)))
    return total
