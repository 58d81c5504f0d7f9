"""Data for the picture of the hyperparameters: posterior and prior of each entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.summary.summary import learned_names
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.lowering.hypers import HyperBlock, HyperSpace
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.errors import LgmError
from lgmdsl.learning.coordinates.hyper_marginals import entry_ends
from lgmdsl.learning.integration.kernel_density import Range, kernel_density, sample_share
from lgmdsl.plot.hypers import HyperPanel

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

POINTS = 401
DRAWS = 2_000  # of priors whose density is not known
REACH = 3.0  # widths of what is shown from which draws count
FEWEST = 30  # draws that have a kernel estimate
GRID = 800  # values of a free hyper at which a computed one's prior is evaluated


def panels(fit: FitRecord, names: Sequence[str]) -> list[HyperPanel]:
    """One for each entry that has a density; each pair of a covariance once."""
    layout, space = fit.canonical.layout, fit.canonical.hypers
    out, draws = list[HyperPanel](), None
    for name in names:
        block = space.block(name)
        assert block is not None, "a learned hyper"
        marginal = fit.marginals.density(name, POINTS)
        median = fit.marginals.quantile(name, np.array([0.5]))[1][0]
        doc = getattr(fit.canonical.grounded.model.symbols[name].statement, "doc", None) or ""
        labels = [layout.labels[d].tolist() for d in block.dims]
        lower, upper = entry_ends(block)
        for index in np.ndindex(*block.sizes):
            x, density = marginal.x[index], marginal.density[index]
            if not np.isfinite(density).all() or (
                block.type == "covariance" and index[-2] < index[-1]
            ):
                continue
            entry = ", ".join(str(members[k]) for members, k in zip(labels, index, strict=True))
            title = f"{name}[{entry}]" if index else name
            prior = prior_density(space, block, x)
            if prior is None:
                draws = _prior_draws(fit) if draws is None else draws
                if name in draws:
                    ends = (float(lower[index]), float(upper[index]))
                    prior = drawn_density(draws[name][(slice(None), *index)], x, ends)
            out.append(HyperPanel(title, doc, x, density, float(median[index]), prior))
    return out


def _prior_draws(fit: FitRecord) -> dict[str, Array]:
    """(S, ...) draws of every hyperparameter from its prior, what was pinned as it is; nothing
    where a prior cannot be drawn from."""
    space, rng = fit.canonical.hypers, np.random.default_rng(0)
    learned = learned_names(fit)
    pinned = {b.name: fit.theta[b.name] for b in space.unpinned() if b.name not in learned}
    try:
        with np.errstate(all="ignore"):
            draws = [space.sample(rng, pinned) for _ in range(DRAWS)]
    except LgmError:
        return {}
    return {b.name: np.array([d[b.name] for d in draws]) for b in space.blocks}


@np.errstate(all="ignore")
def drawn_density(draws: Array, x: Array, ends: tuple[float, float]) -> Array | None:
    """(n,) the density at ascending x of draws (S,) from between two ends: a kernel estimate of
    those within REACH widths of x, which the tails of the others do not widen; None where none are
    there, NaN at an end."""
    within = Range(*ends)
    w, z = within.line(x), within.line(draws)
    width = float(w[-1] - w[0])
    near = np.isfinite(z) & (np.abs(z - 0.5 * (w[0] + w[-1])) <= (REACH + 0.5) * width)
    count = int(near.sum())
    if not width > 0.0 or not count:
        return None
    if count < FEWEST:
        density = np.full(len(x), count / (len(draws) * (2.0 * REACH + 1.0) * width))
        return finite(density / within.slope(w))
    weights = np.full(count, 1.0 / count)
    share = sample_share(weights)
    places, p = kernel_density(z[near], weights, share, POINTS, Range())
    return finite(count / len(draws) * np.interp(w, places, p) / within.slope(w))


def finite(density: Array) -> Array:
    """What is infinite is not drawn."""
    return np.where(np.isfinite(density), density, np.nan)


def prior_density(space: HyperSpace, block: HyperBlock, x: Array) -> Array | None:
    """The prior density of one entry at x, (n,), where it is known: of hypers whose entries are
    independent with the same prior, which no other hyper is in, and of what is computed from one
    such number. None for others, which draws are taken of."""
    if block.value is None:
        return _own_density(block, x)
    parents = [b for b in space.blocks if b.name in block.value.depends]
    if len(parents) != 1 or parents[0].sizes or block.sizes or parents[0].value is not None:
        return None
    return _computed_density(block, parents[0], x)


def _own_density(block: HyperBlock, x: Array) -> Array | None:
    prior = block.prior
    joint = block.type in ("covariance", "simplex", "ordered")
    indexed = block.sizes and any(a.dims for a in getattr(prior, "arguments", {}).values())
    if prior is None or prior.depends or joint or indexed:
        return None
    bound_prior, count = prior.at({}), int(np.prod(block.sizes, dtype=np.int64))
    out = np.zeros(len(x))
    for k, value in enumerate(x):
        try:
            with np.errstate(all="ignore"):
                out[k] = np.exp(bound_prior.log_density(np.full(block.sizes, value)) / count)
        except (LgmError, ValueError):
            return None
    return finite(out)


def _computed_density(block: HyperBlock, parent: HyperBlock, x: Array) -> Array | None:
    """p(g(v)) |dv/dg| where g is monotone over the values of v that reach x, found by bisection
    on a logarithmic or plain grid."""
    assert block.value is not None
    axes = distinct(block.dims)

    def curve(v: Array) -> Array:
        values = [block.value.evaluate({parent.name: np.array(one)}) for one in v]  # type: ignore[union-attr]
        return np.array([float(expand(n, axes, {})) for n in values])

    positive = parent.type == "positive"
    grid = np.geomspace(1e-12, 1e12, GRID) if positive else np.linspace(-1.0, 1.0, GRID)[1:-1]
    if parent.type not in ("positive", "unit", "correlation"):
        return None
    if parent.type == "unit":
        grid = np.linspace(0.0, 1.0, GRID)[1:-1]
    with np.errstate(all="ignore"):
        g = curve(grid)
    rising = np.sign(np.diff(g))
    if not (np.isfinite(g).all() and abs(rising.sum()) == len(rising)):
        return None
    order = np.argsort(g)
    log = np.log if positive else (lambda v: v)
    back = np.exp if positive else (lambda v: v)
    v = back(np.interp(x, g[order], log(grid)[order]))
    for _ in range(3):  # Newton's steps from a point of the grid's chord
        step = 1e-6 * np.maximum(np.abs(v), 1e-12)
        slope = (curve(v + step) - curve(v - step)) / (2.0 * step)
        candidate = v - (curve(v) - x) / slope
        v = np.where(candidate > 0.0, candidate, v) if positive else candidate
    density = _own_density(parent, v)
    return None if density is None else density / np.abs(slope)
