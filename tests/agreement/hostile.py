"""Random small models in hostile units, and their evidence by brute force.

    z = mean + sd x,  x ~ N(0, I) of one or two latents;   log p(y) = log int N(x) prod t(s(x)) dx

is integrated on boxes that are halved until Gauss-Legendre rules agree, in logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError, NumericalError
from lgmdsl.sites.catalogue import sites
from lgmdsl.sites.observed import make_sites
from lgmdsl.testing.random import latent_blocks as blocks
from lgmdsl.testing.random.model import RandomModel, Sites

from .methods import METHODS

STEPS = 150
REACH, BOXES, NODES, LEVELS = 14.0, 12, 10, 7
FAR = 45.0  # nats below the highest box that are nothing
VALUES: dict[str, tuple[float, ...]] = {
    "power": (1.5, 1.0, 0.7, 2.0), "df": (4.0, 1.0, 30.0), "exposure": (1.0, 0.01, 30.0),
    "shape": (1.0, 0.6, 3.0), "n": (1.0, 7.0, 40.0), "level": (0.5, 0.2, 0.9),
    "skew": (0.3, -0.5, 0.9), "tweedie.power": (1.5, 1.2, 1.8),
    "generalized_poisson.dispersion": (1.5, 1.0, 3.0),
}  # fmt: skip


def scalar_families() -> tuple[type[Site], ...]:
    """Every registered family of scalar sites whose parameters are numbers, and that allows
    any predictor."""
    return tuple(
        s
        for s in sites()
        if not (s.spec.vector or s.spec.indexed or Property.LIMITED in s.spec.properties)
    )


@dataclass(frozen=True, eq=False)
class Hostile:
    """A model at ordinary scales, the same one in hostile units, and what the evidence of the
    second has beside that of the first; `unit`: of the predictors, `latent`: of the latents."""

    plain: RandomModel
    other: RandomModel
    gain: float
    unit: float
    latent: float


def hostile(seed: int, families: tuple[type[Site], ...] | None = None) -> Hostile:
    """The model of a seed."""
    rng = np.random.default_rng(seed)
    known = scalar_families() if families is None else families
    rows = int(rng.integers(1, 5))
    parts = [blocks.scalar("a", rows, float(rng.normal()), float(rng.choice([0.3, 1.0, 3.0])))]
    if rng.random() < 0.5:
        parts.append(blocks.coefficients("b", rng.normal(size=(rows, 1)), 0.0, 1.0))
    bare = RandomModel(tuple(parts), (), float(rng.choice([0.0, 0.5])))
    s = bare.offset + bare.design @ (
        bare.mean + np.sqrt(bare.covariance.diagonal()) * rng.normal(size=bare.size)
    )
    count = 1 if rng.random() < 0.6 else 2
    chosen = tuple(
        _sites(rng, known[int(rng.integers(len(known)))], f"y{k}", s) for k in range(count)
    )
    plain = RandomModel(bare.blocks, chosen, bare.constant)
    unit, gain, other = 1.0, 0.0, plain
    if all(part.family.spec.scales for part in chosen):
        unit = 10.0 ** float(rng.uniform(-100, 100))
        other = plain.measured(unit)
        densities = sum(int(np.count_nonzero(~part.bound.censored)) for part in chosen)
        gain = -densities * math.log(unit)
    latent = 10.0 ** float(rng.uniform(-100, 100))
    if 1e-140 < unit / latent < 1e140:
        other = other.rescaled(latent)
    else:
        latent = 1.0
    return Hostile(plain, other, gain, unit, latent)


def _sites(rng: np.random.Generator, family: type[Site], name: str, s: Array) -> Sites:
    """Data drawn at predictors s, (rows,)."""
    spec, rows = family.spec, len(s)
    parameters: dict[str, Any] = {}
    types: dict[str, str] = {}
    for p in spec.parameters:
        if p == "n":
            parameters[p], types[p] = np.full(rows, float(rng.choice(VALUES[p]))), "count"
        elif p not in ("event", "lower", "upper"):
            usual = VALUES.get(p, (1.0, 0.3, 3.0))
            parameters[p] = float(rng.choice(VALUES.get(f"{spec.family}.{p}", usual)))
    present = np.ones(rows, dtype=bool)
    if spec.potential:
        return Sites(family, name, None, parameters, types, present)
    every = {
        n: np.zeros(rows) + parameters.get(n, 0.0 if d is None else d)
        for n, d in spec.parameters.items()
    }
    start = np.full(rows, 0.5 if "unit" in spec.observed else 1.0)
    y = np.asarray(make_sites(family, start, every).sample(np.clip(s, -4.0, 4.0), rng))
    if not spec.discrete and "positive" in spec.observed:
        y = np.maximum(y, 1e-12)
    if "unit" in spec.observed:
        y = np.clip(y, 1e-9, 1.0 - 1e-9)
    if "lower" in spec.parameters:
        away = np.abs(y) + 0.1
        parameters["lower"] = np.where(rng.random(rows) < 0.5, y - 0.3 * away, np.nan)
        parameters["upper"] = np.where(rng.random(rows) < 0.5, y + 0.7 * away, np.nan)
        types |= {"lower": "real?", "upper": "real?"}
    return Sites(family, name, y, parameters, types, present)


# ---- by brute force ------------------------------------------------------------------------------


def log_evidence(case: RandomModel) -> float:
    """log p(y), to about 1e-9; priors are diagonal."""
    sd, bound = np.sqrt(case.covariance.diagonal()), [s.bound for s in case.sites]
    design, offset, mean = case.design, case.offset, case.mean

    def density(x: Array) -> Array:
        """log of the integrand at x, (k, latents)."""
        s = offset + (mean + sd * x) @ design.T
        out = -0.5 * (x * x).sum(axis=1) - 0.5 * x.shape[1] * math.log(2.0 * math.pi)
        with np.errstate(all="ignore"):
            for site in bound:
                rows = np.tile(np.arange(len(site)), len(s))
                out += site.take(rows).log_density(s.reshape(-1)).reshape(s.shape).sum(axis=1)
        return np.where(np.isnan(out), -np.inf, out)

    return integrated(density, case.size)


def integrated(density: Callable[[Array], Array], size: int) -> float:
    """log of the integral of exp(density) over a cube around 0, of one or two dimensions."""
    t, w = np.polynomial.legendre.leggauss(NODES)
    grid = np.stack(np.meshgrid(*[t] * size, indexing="ij"), axis=-1).reshape(-1, size)
    logs = np.log(np.stack(np.meshgrid(*[w] * size, indexing="ij"), axis=-1)).sum(axis=-1)
    half = REACH / BOXES
    axis = np.linspace(-REACH + half, REACH - half, BOXES)
    centres = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)

    def rule(at: Array, width: float) -> Array:
        points = at[:, None, :] + width * grid
        values = density(points.reshape(-1, size)).reshape(len(at), -1)
        total: Array = np.logaddexp.reduce(values + logs.reshape(-1), axis=1)
        return total + size * math.log(width)

    corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * size, indexing="ij"), axis=-1)
    corners = corners.reshape(-1, size)
    coarse, settled = rule(centres, half), [-np.inf]
    for _ in range(LEVELS):
        top = float(np.logaddexp.reduce([*settled, *coarse]))
        alive = coarse > top - FAR
        settled.extend(coarse[~alive])
        centres, coarse = centres[alive], coarse[alive]
        children = (centres[:, None, :] + half * corners).reshape(-1, size)
        half *= 0.5
        fine = rule(children, half).reshape(len(centres), -1)
        whole = np.logaddexp.reduce(fine, axis=1)
        with np.errstate(invalid="ignore"):
            off = np.abs(np.exp(whole - top) - np.exp(coarse - top)) > 1e-11
        settled.extend(whole[~off])
        centres, coarse = children.reshape(len(whole), -1, size)[off].reshape(-1, size), fine[off]
        coarse = coarse.reshape(-1)
        if not len(coarse):
            break
    return float(np.logaddexp.reduce([*settled, *coarse]))


# ---- what a fit may say --------------------------------------------------------------------------


def fitted(case: RandomModel, method: str) -> Fit | str:
    """The fit, or why there is none."""
    name, options = METHODS[method]
    try:
        return case.fit(name, options=options, tol=1e-9, max_steps=STEPS)
    except MethodError:
        return "refused"
    except NumericalError:
        return "no state"


def verdict(one: Hostile, method: str, truth: float) -> str:
    """`agrees`, or how the fit in hostile units ended, or what is `wrong` under `converged`."""
    fit = fitted(one.other, method)
    if isinstance(fit, str):
        return fit
    if not fit.converged:
        return "not converged"
    found, size = fit.log_evidence - one.gain, max(1.0, abs(truth))
    if not math.isfinite(found):
        return f"wrong: {found}"
    if fit.guarantee is Guarantee.EXACT and abs(found - truth) > 1e-6 * size:
        return f"wrong: exact, off by {found - truth:.2g}"
    if fit.guarantee is Guarantee.LOWER and found > truth + 1e-6 * size:
        return f"wrong: a lower bound above the truth by {found - truth:.2g}"
    plain = fitted(one.plain, method)
    if isinstance(plain, str) or not plain.converged:
        return "alone"
    apart = found - plain.log_evidence
    if abs(apart) > 1e-6 * size:
        return f"wrong: {apart:.2g} from the fit at ordinary scales"
    for block in one.plain.blocks:
        scale = one.unit / one.latent
        here, there = plain.mean(block.name).values, fit.mean(block.name).values / scale
        sd, other = plain.sd(block.name).values, fit.sd(block.name).values / scale
        if np.max(np.abs(here - there) / sd) > 1e-3 or np.max(np.abs(np.log(other / sd))) > 1e-3:
            return f"wrong: moments of {block.name}"
    return "agrees"
