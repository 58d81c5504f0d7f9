"""fit.density(): marginal densities of anything the model names, and their computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering import derived
from lgmdsl.errors import Diagnostic, MethodError, ModelError
from lgmdsl.learning.coordinates.hyper_marginals import ends_of_values
from lgmdsl.learning.integration.kernel_density import TAIL, Range, kernel_density, sample_share
from lgmdsl.posterior.labelled import dataset, labelled
from lgmdsl.posterior.marginals import NormalMarginal
from lgmdsl.posterior.normal_mixtures import density, mixed_quantile
from lgmdsl.remedies import pin, setting

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class Density:
    """Declared indices; points and densities, each with a last axis; `origin`: marginals, or draws
    of which they are kernel estimates."""

    dims: tuple[str, ...]
    x: Array
    density: Array
    origin: str = "marginals"


def density_of_normals(
    weights: Array, parts: Sequence[NormalMarginal], size: int
) -> tuple[Array, Array]:
    """(..., size) points at even normal scores of a mixture, and its density there; those of g(x)
    where the parts have a curve g, by the change of variables."""
    means, sds = np.array([n.mean for n in parts]), np.array([n.sd for n in parts])
    reach = -special.ndtri(TAIL)
    levels = special.ndtr(np.linspace(-reach, reach, size))
    x = mixed_quantile(weights, means, sds, levels)
    with np.errstate(all="ignore"):  # fixed entries, and tails where a curve is flat
        p = np.where((sds > 0.0).all(axis=0), density(weights, means, sds, x), np.nan)
        if parts[0].tree is not None:
            p = p / derived.slope(parts[0].tree, x)
    return np.moveaxis(parts[0].curved(x), 0, -1), np.moveaxis(p, 0, -1)


def density_of_draws(draws: Array, size: int) -> tuple[Array, Array]:
    """(..., size) points and kernel estimates there of draws (S, ...); NaN for entries that are
    fixed, or not finite in a draw."""
    weights = np.full(len(draws), 1.0 / len(draws))
    share, columns = sample_share(weights), draws.reshape(len(draws), -1).T
    lower, upper = (e.reshape(-1) for e in ends_of_values(draws))
    x, p = np.full((2, len(columns), size), np.nan)
    for k, column in enumerate(columns):
        if np.isfinite(column).all():
            within = Range(float(lower[k]), float(upper[k]))
            x[k], p[k] = kernel_density(column, weights, share, size, within)
    shape = (*draws.shape[1:], size)
    return x.reshape(shape), p.reshape(shape)


def labelled_density(fit: FitRecord, name: str, size: int) -> xr.Dataset:
    """See `Fit.density`."""
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 2:
        raise ModelError.of(
            "E108", "a density is asked for at a whole number from 2", help="fit.density(name, 200)"
        )
    density = fit.marginals.density(name, int(size))
    if np.isnan(density.density).all():
        raise MethodError(_no_density(fit, name, density))
    layout = fit.canonical.layout
    arrays = {
        label: labelled(layout, density.dims, values, last="point", labels=np.arange(size))
        for label, values in (("x", density.x), ("density", density.density))
    }
    out = dataset(arrays)
    out.attrs.update({"name": name, "from": density.origin})
    return out


def _no_density(fit: FitRecord, name: str, density: Density) -> Diagnostic:
    block = fit.canonical.hypers.block(name)
    if density.origin == "draws":
        reason, help = "its draws are fixed, or not finite", f'fit.sample(100, names=["{name}"])'
    elif not np.isfinite(fit.quantity(name).mean).all():
        reason = "its values overflow"
        help = f'a report of its log, or fit.quantile("{name}", 0.5)'
    elif np.isnan(fit.quantity(name).sd).any():
        reason = "the curvature at the mode is not known"
        help = f"integrate: {setting('hyper', 'integrate')}"
    elif block is not None and block.value is None:
        reason = "it is fixed"
        help = f"leave out {pin(name)}, and learn it: {setting('hyper', 'integrate')}"
    elif block is not None:
        reason, help = "it is fixed in the model", f"give `{name}` a prior: {name} : TYPE ~ PRIOR"
    else:
        reason, help = "it is fixed", f'fit.mean("{name}") is its value'
    return Diagnostic("E501", f"`{name}` has no density: {reason}", help=help)
