"""Gradients in reverse: engine adjoints and site slopes to all hyperparameters at once.

Each piece of the canonical form gets dF/d(its value at theta) and passes it to the coefficients it
is computed from: operators to their factors, offsets, prior arguments, site parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.expressions.named import collapse
from lgmdsl.canonical.lowering import flatten
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Adjoints
from lgmdsl.contract.site import entry_name
from lgmdsl.engines.shared.prior import covariance_adjoints, precision_adjoints


def pull(
    canonical: CanonicalModel,
    adjoints: Adjoints,
    slopes: Sequence[Mapping[str, Array]],
    theta: Theta,
) -> Gradient:
    """dF/dtheta for every hyperparameter that the model uses directly.

    `adjoints` are dF/d(engine's inputs); `slopes[k][name]` is dF/dparameter of site block k, one
    value a site (dF/dhyper by name, where `RowSource.slopes` says so). `HyperSpace.pull` folds
    hypers given by a value onto the free ones.
    """
    out: Gradient = {}
    for k, block in enumerate(canonical.blocks):
        kind = canonical.rows.slopes(k)
        if kind == "hypers":
            for name, slope in slopes[k].items():
                out[name] = out.get(name, np.zeros(())) + slope
            continue
        offset, summed = block.form.offset, kind == "sums"
        if not summed:  # the sites of sums have the hypers of the rows' predictors in them
            _operators(canonical, k, adjoints.operator[k], theta, out)
        if offset.depends and not summed:
            slope = adjoints.offset[k].reshape(block.predictor_shape)
            offset.pull(_spread(block, slope, block.predictor_dims, offset.dims), theta, out)
        pull_parameters(canonical, k, slopes[k], theta, out)
    for latent in canonical.latents:
        _prior(latent, adjoints, theta, out)
    return out


def pull_parameters(
    canonical: CanonicalModel, k: int, slopes: Mapping[str, Array], theta: Theta, out: Gradient
) -> None:
    """Add what `slopes`, dF/dparameter of the sites of block k, give: one value a site, or sums of
    them over the rows."""
    block, summed = canonical.blocks[k], canonical.rows.slopes(k) == "sums"
    for name in parameters(block):
        d_parameter = _parameter_slope(block, slopes, name)
        if d_parameter is not None:
            node, dims = block.parameters[name], block.dims_of(name)
            if summed:
                dims = dims[len(block.family_dims) :]
            if summed or name in block.site.spec.shared:
                node.pull(collapse(d_parameter, dims, node.dims), theta, out)
                continue
            node.pull(_of_data(block, d_parameter, dims, node.dims), theta, out)


def parameters(block: SiteBlock) -> set[str]:
    """The site parameters that depend on hyperparameters."""
    return {name for name, node in block.parameters.items() if node.depends}


def _parameter_slope(block: SiteBlock, slopes: Mapping[str, Array], name: str) -> Array | None:
    """dF/dparameter, one value a site, or one row over the index of its own."""
    if name not in block.site.spec.indexed:
        return slopes.get(name)
    size = math.prod(block.sizes[d] for d in block.dims_of(name)[len(block.family_dims) :])
    names = [entry_name(name, j) for j in range(size)]
    return np.stack([slopes[n] for n in names], axis=-1) if names[0] in slopes else None


def _operators(
    canonical: CanonicalModel,
    k: int,
    adjoints: Mapping[str, object],
    theta: Theta,
    out: Gradient,
) -> None:
    block = canonical.blocks[k]
    for name in block.form.latents:
        terms = [t for t in block.form.terms if t.latent == name]
        if not any(term.depends for term in terms):
            continue
        placed, given = canonical.placed(k, name), cast("Matrix", adjoints[name])
        if placed is not None and placed.holds(given):
            placed.pull(cast("SparseMatrix", given), theta, out)
            continue
        over = flatten.Over(block.predictor_dims, canonical.latent(name).sizes, block.sizes)
        flatten.pull_operator(terms, over, theta, _all_rows(block, given), out)


def _all_rows(block: SiteBlock, adjoint: Matrix) -> Matrix:
    """The adjoint with zero rows where the entry is missing."""
    if block.complete:
        return adjoint
    entries = int(np.prod(block.shape, dtype=np.int64)) * max(block.predictors, 1)
    size, rows = (entries, adjoint.shape[1]), block.predictor_rows()
    if isinstance(adjoint, np.ndarray):
        full = np.zeros(size)
        full[rows] = adjoint
        return full
    counts = np.zeros(size[0] + 1, dtype=np.int64)
    counts[rows + 1] = np.diff(adjoint.indptr)
    return sp.csr_array((adjoint.data, adjoint.indices, np.cumsum(counts)), shape=size)


def _spread(block: SiteBlock, values: Array, over: tuple[str, ...], dims: tuple[str, ...]) -> Array:
    """Values of each site `over` its indices, summed down to those of a coefficient."""
    full = np.zeros((math.prod(block.shape), *values.shape[1:]))
    full[block.rows] = values
    return collapse(full.reshape(*block.shape, *values.shape[1:]), over, dims)


def _prior(latent: LatentBlock, adjoints: Adjoints, theta: Theta, out: Gradient) -> None:
    if not latent.depends:
        return
    block = latent.at(theta)
    slopes: list[dict[str, Array]]
    if latent.name in adjoints.factors:
        pairs = zip(block.factors, adjoints.factors[latent.name], strict=True)
        slopes = [{} if a is None else f.pullback_covariance(a) for f, a in pairs]
    elif latent.name in adjoints.precision:
        by_factor = precision_adjoints(block, adjoints.precision[latent.name])
        slopes = [f.pullback_precision(a) for f, a in zip(block.factors, by_factor, strict=True)]
    elif latent.name in adjoints.covariance:
        covariances = covariance_adjoints(block, adjoints.covariance[latent.name])
        slopes = [f.pullback_covariance(a) for f, a in zip(block.factors, covariances, strict=True)]
    else:
        slopes = []
    for spec, slope in zip(latent.factors, slopes, strict=False):
        spec.pull(slope, theta, out)
    if len(block.factors) == 1:  # a product has mean zero
        by_mean = block.factors[0].pullback_mean(adjoints.mean[latent.name])
        latent.factors[0].pull(by_mean, theta, out)


def _of_data(
    block: SiteBlock, values: Array, over: tuple[str, ...], dims: tuple[str, ...]
) -> Array:
    """`_spread`, of parameters of the data: summed over the sites that stand for each."""
    if block.whole is None:
        return _spread(block, values, over, dims)
    full = np.zeros((math.prod(block.data_shape), *values.shape[1:]))
    np.add.at(full, block.whole.rows[block.whole.owner], values)
    return collapse(full.reshape(*block.data_shape, *values.shape[1:]), over, dims)
