"""Replicated responses: posterior predictive draws over the observed rows, and at new data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import assessed, every_value
from lgmdsl.api.assess.observations import class_labels
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.assess.predictive import responses
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.contract.site import Site
from lgmdsl.dataset import Keys
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.posterior.labelled import dataset
from lgmdsl.posterior.marginals import check_draws
from lgmdsl.posterior.shifted_draws import by_theta, drawn_sites, hypers_of

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.predict.predict import Prediction
    from lgmdsl.posterior.fit_record import FitRecord


def sample_predictive(
    fit: FitRecord, size: int, seed: int, data: object = None, mapping: Keys | None = None
) -> xr.Dataset:
    """Draws of every observed datum. See `Fit.sample_predictive`."""
    check_draws(size, seed)
    asked = assessed(fit, data, mapping, "sample_predictive")
    where, first = every_value(asked.canonical), asked.at_points[0]
    replicated = [np.empty((size, len(rows))) for _, _, rows in where.blocks]
    noise, hypers = np.random.default_rng([seed, 1]), asked.drawn_hypers(seed)
    for drawn in asked.joint_draws(size, seed):
        thetas = hypers.at(drawn.points, drawn.places)
        z = hypers.carry(drawn.points, drawn.places, drawn.z)
        for k, s in enumerate(asked.predictors(drawn.component, z, thetas)):
            for turn, site in asked.drawn_sites(k, drawn.component.theta, thetas, len(s)):
                y = responses(site, s[turn], noise, where.names[k])
                y = asked.together(k, y, thetas[turn] if thetas else drawn.component.theta)
                replicated[k][drawn.places[turn]] = y.reshape(len(y), -1)
    typed = [
        like_data(y, site, class_labels(asked.canonical, name))
        for y, site, name in zip(replicated, first.sites, where.names, strict=True)
    ]
    return dataset({n: where.labelled(typed, n, first="sample") for n in where.names})


def sample_response(prediction: Prediction, name: str, size: int, seed: int) -> xr.DataArray:
    """Draws of one datum at new data. See `Prediction.sample_response`."""
    check_draws(size, seed)
    block = prediction.observed(name)
    if block.own_trials and len(block.data.rows) < math.prod(block.data_shape):
        raise DataError(_no_length(block))
    canonical, noise = prediction.canonical, np.random.default_rng([seed, 1])
    y = np.zeros((size, *block.blank().shape))
    for places, site, s, thetas in drawn_predictors(prediction, block, size, seed):
        y[places] = responses(site, s, noise, name)
        if block.residual is not None:  # of all rows together
            each = [thetas] * len(s) if isinstance(thetas, Mapping) else thetas
            y[places] = s + block.residual.drawn(each, noise)
    typed = like_data(
        y, block.bind_family(prediction.marginals.thetas[0]), class_labels(canonical, name)
    )
    dims = (*block.data.dims, *block.each)
    values = typed.reshape(size, *block.data_shape, *y.shape[2:])
    return prediction.labelled(dims, values, name, first="sample")


def drawn_predictors(
    prediction: Prediction, block: SiteBlock, size: int, seed: int
) -> Iterator[tuple[IntArray, Site, Array, Theta | Sequence[Theta]]]:
    """Joint draws of the predictors of a block at new data: which draws of `size`, the family's
    sites at them, draws first, the predictors, (draws, N) or (draws, N, K), and the hypers of each
    draw, or of all."""
    canonical, mixed = prediction.canonical, prediction.marginals
    hypers = mixed.drawn(seed, bool(hypers_of(Leaf(block.written))))
    for chosen, part, places, z in mixed.joint(size, np.random.default_rng(seed)):
        thetas, z = hypers.at(chosen, places), hypers.carry(chosen, places, z)
        s: Array | None = None
        turns = by_theta(thetas) if hypers.mixing and thetas else [(part.theta, np.arange(len(z)))]
        for theta, rows in turns:
            predictor = part.frame.embed(canonical.as_written(block, theta))
            if s is None:
                s = np.empty((len(predictor.offset), len(z)))
            s[:, rows] = predictor.values(z[rows].T, part.frame.slices)
        if s is None:
            continue
        shape = (len(z), -1, predictor.event) if predictor.event else (len(z), -1)
        reshaped = s.T.reshape(shape)
        for turn, site in drawn_sites(block, part.theta, thetas, len(z), block.blank(), True):
            yield places[turn], site, reshaped[turn], thetas[turn] if thetas else part.theta


def _no_length(block: SiteBlock) -> Diagnostic:
    return Diagnostic(
        "E305",
        f"the length of each {' and '.join(block.data.dims)} can only be read off its counts "
        f"`{block.name}`, which are missing",
        block.span,
        help=f"give `{block.name}` at the new data: its sums over {block.classes} are the lengths",
    )


def like_data(y: Array, site: Site, labels: AnyArray | None = None) -> AnyArray:
    """Whole numbers as such; positions of classes as their labels, where these are given, and a
    missing one for -1 (no class to choose from)."""
    if not site.spec.discrete:
        return y
    whole = y.astype(np.int64)
    if labels is None:
        return whole
    missing = "" if labels.dtype.kind == "U" else -1
    return np.where(whole < 0, missing, labels[np.maximum(whole, 0)])
