"""Which hyperparameters set the size of what: how the size of a latent's part of a predictor, or of
the noise of a site, changes with each.

    log size = log gain + log rms(sd of its prior) + ...,   k = dlog size / dlog h, a constant

so s, sqrt(v), 1 / sqrt(tau), s * t, an sd in a kernel, a positive factor of a latent in a predictor
and an entry of a vector are all alike: what counts is what a hyper does, not how it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.lowering.hypers import HyperSpace
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.hyper_uses import of_sites, roots
from lgmdsl.canonical.queries.loadings import terms_of
from lgmdsl.canonical.queries.scales import scales_gaussians

STEP = 0.5  # of a log, over which powers are taken
CONSTANT = 1e-6


@dataclass(frozen=True, eq=False)
class Size:
    """`block`: the number of the site block; `latent`: whose part of its predictor, "" for the
    noise of the sites; `powers`: k of each free hyper; `log`: the log of the size as it is."""

    block: int
    latent: str
    powers: Mapping[str, float]
    log: float


def sizes(canonical: CanonicalModel, theta: Theta, pinned: Collection[str]) -> tuple[Size, ...]:
    """All sizes that a positive hyper sets, at theta."""
    canonical, space = canonical.declared, canonical.hypers
    free = {b.name for b in space.unpinned(pinned) if b.type == "positive"}
    out: list[Size] = []
    for k, block in enumerate(canonical.blocks):
        if not len(block.rows):
            continue
        for name, node in block.parameters.items():
            if scales_gaussians(block.site, name):
                powers = _powers((node,), canonical, theta, free)
                if powers:
                    out.append(Size(k, "", powers, _log_rms(node.evaluate(theta).dense())))
        multipliers: dict[str, list[Coefficient]] = {}
        for term in terms_of(block.form):
            if term.latent:
                multipliers.setdefault(term.latent, []).extend(term.factors)
        gains = dict(_gains(canonical, k, theta))
        for latent in canonical.latents:
            gain = gains.get(latent.name, 0.0)
            if not gain > 0.0:
                continue
            nodes = [node for factor in latent.factors for node in factor.scaling()]
            powers = _powers((*nodes, *multipliers.get(latent.name, ())), canonical, theta, free)
            if powers:
                log = sum(_log_rms(n.evaluate(theta).dense()) for n in nodes)
                out.append(Size(k, latent.name, powers, float(np.log(gain) + log)))
    return tuple(out)


def vanishing(canonical: CanonicalModel, theta: Theta, pinned: Collection[str]) -> dict[str, float]:
    """The free hypers at one end of which latents vanish and nothing else happens, the model being
    the one without them there: 1 where that end is 0, -1 where it is infinity (a precision)."""
    declared, space = canonical.declared, canonical.hypers
    others = {name for depends in of_sites(declared) for name in depends}
    for equation in declared.equations:
        others |= equation.value.depends | equation.form.offset.depends
    for hyper in space.blocks:
        others |= frozenset() if hyper.prior is None else hyper.prior.depends
    for latent in declared.latents:
        for factor in latent.factors:
            scaling = {id(node) for node in factor.scaling()}
            for node in factor.coefficients().values():
                others |= node.depends if id(node) not in scaling else frozenset()
    signs: dict[str, set[float]] = {}
    for size in sizes(canonical, theta, pinned):
        for name, power in size.powers.items():
            signs.setdefault(name, set()).add(float(np.sign(power)))
    kept = signs.keys() - roots(canonical, others, pinned)
    return {name: signs[name].pop() for name in sorted(kept) if len(signs[name]) == 1}


def _powers(
    nodes: Collection[Coefficient], canonical: CanonicalModel, theta: Theta, free: Collection[str]
) -> dict[str, float]:
    """The power of each free hyper in the product of the nodes in which it has one."""
    out: dict[str, float] = {}
    for node in nodes:
        for name in roots(canonical, node.depends) & set(free):
            power = _power(node, canonical.hypers, theta, name)
            if power:
                out.setdefault(name, power)
    return out


def _power(node: Coefficient, space: HyperSpace, theta: Theta, name: str) -> float | None:
    """k where the node is a constant times h^k, entry by entry; None for anything else."""
    base = _dense(node, theta)
    ratios = []
    for step in (STEP, -STEP):
        perturbed = {b: theta[b] for b in space.free if b in theta}
        perturbed[name] = np.exp(step) * np.asarray(theta[name])
        try:
            value = _dense(node, space.filled(perturbed))
        except (ArithmeticError, ValueError):
            return None
        with np.errstate(all="ignore"):
            ratios.append(np.log(np.abs(value / base))[base != 0.0] / step)
    both = np.concatenate(ratios) if ratios else np.zeros(0)
    if not both.size or not np.isfinite(both).all() or np.ptp(both) > CONSTANT:
        return None
    return float(both.mean()) if abs(both.mean()) > CONSTANT else None


def _dense(node: Coefficient, theta: Theta) -> Array:
    return np.ravel(np.asarray(node.evaluate(theta).dense(), dtype=np.float64))


def _gains(canonical: CanonicalModel, k: int, theta: Theta) -> Iterator[tuple[str, float]]:
    """The root mean square of the rows of each operator, about (Hutchinson's estimate)."""
    block = canonical.blocks[k]
    rng = np.random.default_rng(0)
    for name, operator in canonical.site_predictor(block, block.form, theta).columns.items():
        signs = rng.choice([-1.0, 1.0], operator.shape[1])
        yield name, float(np.sqrt(np.mean(operator.matvec(signs) ** 2)))


def _log_rms(values: Array) -> float:
    with np.errstate(all="ignore"):
        return float(0.5 * np.log(np.mean(np.square(values))))
