"""Hyperparameters that set sizes: scales of Gaussians, and of a latent's part of a predictor.

Hyperparameters that are scales of Gaussians: every sd in which they appear is c h^k.

    sd = c prod_j h_j^k_j          s;  sqrt(v);  1 / sqrt(tau);  2 * s[group];  s * t

Read off the coefficients of the sites' and the latents' sds, through hypers given by values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gradient, Theta
from lgmdsl.canonical.expressions.named import collapse
from lgmdsl.canonical.lowering.hypers import HyperSpace
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import made_of, of_predictors, of_sites, roots, terms_of
from lgmdsl.contract.questions import Augmented
from lgmdsl.contract.site import Property, Site
from lgmdsl.operators.base import Operator


@dataclass(frozen=True)
class Scales:
    """`exponents`: k of every hyper that is a scale and nothing else; `others`: for each other one
    the reason."""

    exponents: Mapping[str, float]
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Use:
    """One sd: its node, a description of its place, and whether it is one of a Gaussian."""

    node: Coefficient
    place: str
    gaussian: bool


def scales(
    canonical: CanonicalModel, pinned: Collection[str] = (), mixtures: bool = False
) -> Scales:
    """Which free hypers are scales of Gaussians and nothing else; with `mixtures`, of Student-t
    sites too."""
    space = canonical.hypers
    free = [b.name for b in space.unpinned(pinned)]
    powers_of: dict[str, float] = {}
    others: dict[str, str] = {}

    def refuse(names: Collection[str], why: str) -> None:
        for name in roots(canonical, names, pinned):
            others.setdefault(name, why)

    for use in _uses(canonical, mixtures):
        powers = exponents(canonical, use.node, pinned) if use.gaussian else None
        if powers is None:
            refuse(use.node.depends, use.place)
            continue
        for name, k in powers.items():
            if powers_of.setdefault(name, k) != k:
                others.setdefault(name, "appears in sds with two different powers")
    for depends in of_predictors(canonical):
        refuse(depends, "appears in a predictor")
    for equation in canonical.equations:
        refuse(equation.value.depends | equation.form.offset.depends, "appears in a constraint")
    for block in space.unpinned(pinned):
        if block.prior is not None:
            refuse(block.prior.depends, f"appears in the prior of `{block.name}`")
            if roots(canonical, block.prior.depends, pinned):
                others.setdefault(block.name, "has a prior with another hyper in it")
    for name in free:
        if name not in powers_of:
            others.setdefault(name, "appears in no sd")
    return Scales({n: k for n, k in powers_of.items() if n not in others and k != 0.0}, others)


Powers: TypeAlias = dict[str, float] | None


def exponents(canonical: CanonicalModel, node: Coefficient, pinned: Collection[str]) -> Powers:
    """k of each free hyper where the node is a constant times a product of powers; else None."""
    behind, known = made_of(canonical, node.depends, pinned), dict[str, Powers]()
    for block in canonical.hypers.blocks:  # a value has earlier hypers in it
        if block.name in behind and block.name not in pinned:
            value = block.value
            known[block.name] = {block.name: 1.0} if value is None else _powers(value, known)
    return _powers(node, known)


def _powers(node: Coefficient, known: Mapping[str, Powers]) -> Powers:
    """`exponents`, from those of the hypers in the node that are not pinned."""
    parts: dict[int, Powers] = {}
    for part in node.order:
        parts[id(part)] = _power(part, parts, known)
    return parts[id(node)]


def _power(node: Coefficient, parts: Mapping[int, Powers], known: Mapping[str, Powers]) -> Powers:
    if all(known.get(name, {}) == {} for name in node.depends):
        return {}
    if isinstance(node, co.HyperValue):
        return known[node.name]
    if isinstance(node, co.Gather):
        return parts[id(node.operand)]
    if isinstance(node, co.Elementwise) and node.function == "sqrt":
        return _times(parts[id(node.operand)], 0.5)
    if isinstance(node, co.Power) and not node.exponent.depends:
        power = np.unique(node.exponent.evaluate({}).dense())
        return _times(parts[id(node.base)], power[0]) if len(power) == 1 else None
    if isinstance(node, co.Contraction) and node.dims == co.union(*(f.dims for f in node.factors)):
        total: dict[str, float] = {}
        for factor in node.factors:
            part = parts[id(factor)]
            if part is None:
                return None
            for name, k in part.items():
                total[name] = total.get(name, 0.0) + k
        return total
    return None


def _times(powers: Powers, factor: float) -> Powers:
    return None if powers is None else {n: float(factor * k) for n, k in powers.items()}


def log_sd_slopes(canonical: CanonicalModel, theta: Theta, pinned: Collection[str]) -> Gradient:
    """d(sum log sd)/dhyper of every free hyper at theta, the sum being over observed rows and over
    the ranks of the latents' priors: for a scale h^k that n Gaussians share, k n / h."""
    raw: Gradient = {}
    for block in canonical.blocks:
        for name, node in block.parameters.items():
            if node.depends and scales_gaussians(block.site, name):
                _pull(node, _rows(block), block.dims, theta, raw)
    for latent in canonical.latents:
        rank = math.prod(f.size - f.nullity for f in latent.at(theta).factors)
        for factor in latent.factors:
            coefficients, entries = factor.coefficients(), factor.declared.whole
            for name in factor.scales:
                sd = coefficients[name]
                if sd.depends:
                    whole = np.ones(factor.sizes) if entries else np.asarray(float(rank))
                    _pull(sd, whole, factor.dims if entries else (), theta, raw)
    return canonical.hypers.pull(raw, theta, pinned)


def _pull(
    node: Coefficient, count: Array, over: tuple[str, ...], theta: Theta, out: Gradient
) -> None:
    collapsed = collapse(count, over, node.dims)
    node.pull(collapsed / node.evaluate(theta).dense(), theta, out)


def _rows(block: SiteBlock) -> Array:
    full = np.zeros(math.prod(block.shape))
    full[block.rows] = block.row_weights
    return full.reshape(block.shape)


def _uses(canonical: CanonicalModel, mixtures: bool) -> Iterator[_Use]:
    """Every argument of a site or a prior that depends on hypers."""
    for block in canonical.blocks:
        for name, node in block.parameters.items():
            if node.depends:
                place = f"is the {name} of `{block.family.spec.family}` sites"
                gaussian = scales_gaussians(block.site, name, mixtures)
                yield _Use(node, _of_sds(place, name), gaussian)
    for latent in canonical.latents:
        for factor in latent.factors:
            for path, node in factor.coefficients().items():
                if node.depends:
                    place = f"is the {path} of `{factor.name}`, the prior of `{latent.name}`"
                    yield _Use(node, _of_sds(place, path), path in factor.scales)


def scales_gaussians(site: type[Site], parameter: str, mixtures: bool = True) -> bool:
    """Whether a parameter is the sd of a Gaussian site as it stands; with `mixtures`, or the scale
    of a mixture of Gaussians, for methods that hold a Gaussian of the mixture."""
    spec = site.spec
    gaussian = Property.GAUSSIAN in spec.properties or (mixtures and issubclass(site, Augmented))
    return gaussian and parameter == spec.gaussian_scale


def _of_sds(place: str, name: str) -> str:
    return place.replace("is the", "is part of the", 1) if name == "sd" else place


# ---- sizes -------------------------------------------------------------------------------------
# Which hyperparameters set the size of what: how the size of a latent's part of a predictor, or of
# the noise of a site, changes with each.
#
#     log size = log gain + log rms(sd of its prior) + ...,   k = dlog size / dlog h, a constant
#
# so s, sqrt(v), 1 / sqrt(tau), s * t, an sd in a kernel, a positive factor of a latent in a
# predictor and an entry of a vector are all alike: what counts is what a hyper does, not how it is
# written.


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
                powers = _powers_of_product((node,), canonical, theta, free)
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
            powers = _powers_of_product(
                (*nodes, *multipliers.get(latent.name, ())), canonical, theta, free
            )
            if powers:
                log = sum(_log_rms(n.evaluate(theta).dense()) for n in nodes)
                out.append(Size(k, latent.name, powers, float(np.log(gain) + log)))
    return tuple(out)


@dataclass(frozen=True, eq=False)
class CovarianceSize:
    """What a free covariance does to the predictors of site block `block`: tr(cov gram), with
    `gram` (k, k), is the mean over rows of the variance that the hyper `name` gives them."""

    block: int
    name: str
    gram: Array


def covariance_sizes(
    canonical: CanonicalModel, theta: Theta, pinned: Collection[str]
) -> tuple[CovarianceSize, ...]:
    """Those of all covariances by which a latent's prior is `dense(cov = ...)`, at theta, other
    structures in a product taken for ones of independent members with an sd of 1."""
    canonical, space = canonical.declared, canonical.hypers
    free = {b.name for b in space.unpinned(pinned) if b.type == "covariance" and len(b.sizes) == 2}
    places: list[tuple[str, LatentBlock, int]] = []
    for latent in canonical.latents:
        for at, factor in enumerate(latent.factors):
            node = factor.arguments.get(factor.declared.covariance)
            if isinstance(node, co.HyperValue) and node.name in free:
                places.append((node.name, latent, at))
    if not places:
        return ()
    grams: dict[tuple[int, str], Array] = {}
    for k, block in enumerate(canonical.blocks):
        if not len(block.rows):
            continue
        columns = canonical.site_predictor(block, block.form, theta).columns
        for name, latent, at in places:
            if latent.name in columns:
                gram = _gram(columns[latent.name], [f.size for f in latent.factors], at)
                grams[k, name] = grams[k, name] + gram if (k, name) in grams else gram
    return tuple(CovarianceSize(k, name, gram) for (k, name), gram in grams.items())


def _gram(operator: Operator, sizes: list[int], at: int) -> Array:
    """(k, k) the mean over rows of sum_g z_g z_g', with z_g (k,) the entries of a row along axis
    `at` of a latent of these `sizes`; exact where a row has one z_g (Hutchinson's estimate)."""
    members, rng = sizes[at], np.random.default_rng(0)
    before, after = math.prod(sizes[:at]), math.prod(sizes[at + 1 :])
    signs = rng.choice([-1.0, 1.0], (before, after))
    parts = []
    for j in range(members):
        vector = np.zeros((before, members, after))
        vector[:, j] = signs
        parts.append(operator.matvec(vector.ravel()))
    stacked = np.array(parts)
    return np.asarray(stacked @ stacked.T / max(stacked.shape[1], 1))


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


def _powers_of_product(
    nodes: Collection[Coefficient], canonical: CanonicalModel, theta: Theta, free: Collection[str]
) -> dict[str, float]:
    """The power of each free hyper in the product of the nodes in which it has one."""
    out: dict[str, float] = {}
    for node in nodes:
        for name in roots(canonical, node.depends) & set(free):
            power = _power_of_one(node, canonical.hypers, theta, name)
            if power:
                out.setdefault(name, power)
    return out


def _power_of_one(node: Coefficient, space: HyperSpace, theta: Theta, name: str) -> float | None:
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
