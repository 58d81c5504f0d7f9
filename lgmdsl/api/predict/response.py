"""The predictive distribution of an observed datum at new data: moments, probabilities of its
values, quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.posterior.class_response import class_moments
from lgmdsl.posterior.drawn_response import classes_of_draws, response_of_draws
from lgmdsl.posterior.event_moments import moments
from lgmdsl.posterior.labelled import dataset
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.normal_mixtures import mixed_moments
from lgmdsl.posterior.predictive.moments import response_moments
from lgmdsl.posterior.predictive.quantiles import quantiles_of_draws, response_quantiles
from lgmdsl.posterior.response import last_value, probabilities
from lgmdsl.posterior.site_draws import parameter_rows

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.predict.predict import Prediction

TABLE = 1_000_000  # probabilities of the values of counts in `Prediction.to_dataset`
Predictors = list[tuple[Mapping[str, Array], Array, Array]]
Moments = dict[str, Array]


def response(prediction: Prediction, block: SiteBlock, most: float = math.inf) -> xr.Dataset:
    """See `Prediction.response`; probabilities of counts for up to `most` values of all rows."""
    parts = response_parts(prediction, block, most)
    table = parts.pop("probability", None)
    dims = (*block.data.dims, block.classes) if block.classes else block.data.dims
    out = {k: prediction.labelled(dims, x, k) for k, x in parts.items()}
    if table is None:
        return dataset(out)
    if block.classes:
        return dataset({"probability": prediction.labelled(dims, table, "probability"), **out})
    values = np.arange(table.shape[-1])
    out["probability"] = prediction.labelled(dims, table, last="value", labels=values)
    return dataset(out)


def response_parts(prediction: Prediction, block: SiteBlock, most: float = 0.0) -> Moments:
    """`mean` and `sd` of y over its axes, and `probability` with one more axis, the values of y or
    its classes; that of values where there are up to `most` of all rows together."""
    if prediction.marginals.of_draws:
        return _drawn(prediction, block, most)
    predictors, weights = _predictors(prediction, block)
    if block.classes:
        return _classes(prediction, block, predictors, weights)
    shape = block.data_shape
    known = [response_moments(block.bind_family(t), m, v) for t, m, v in predictors]
    means, sds = (np.array([m[i] for m in known]) for i in (0, 1))
    first, spread = mixed_moments(weights, means, sds)
    out = {"mean": first.reshape(shape), "sd": spread.reshape(shape)}
    if first.size * (last_value(block, first, spread) + 1) <= most:
        tables = [probabilities(block, t, m, v, first, spread) for t, m, v in predictors]
        finite_tables = [t for t in tables if t is not None]
        if finite_tables:
            whole = np.tensordot(weights, np.array(finite_tables), axes=1)
            out["probability"] = whole.reshape(*shape, -1)
    return out


def response_quantile(prediction: Prediction, block: SiteBlock, levels: Array) -> Array:
    """(Q, ...) quantiles of y over its axes. See `Prediction.response_quantile`."""
    if not has_quantiles(block):
        why = f"`{block.family.spec.family}` gives no distribution function"
        help = "ask for its mean and sd, by .response"
        if block.classes:
            why = "its values are classes, which have no order"
            help = "ask for their probabilities, by .response"
        raise MethodError(Diagnostic("E501", f"`{block.name}` has no quantiles: {why}", help=help))
    if prediction.marginals.of_draws:
        draws = prediction.marginals.all_draws
        values = quantiles_of_draws(prediction.canonical, block, draws, levels)
    else:
        predictors, weights = _predictors(prediction, block)
        values = response_quantiles(block, predictors, weights, levels)
    return values.reshape(len(levels), *block.data_shape)


def has_quantiles(block: SiteBlock) -> bool:
    """Whether y has an order and its family a distribution function."""
    family = block.family
    return family.cdf is not Site.cdf and not block.classes


def _classes(
    prediction: Prediction, block: SiteBlock, predictors: Predictors, weights: Array
) -> Moments:
    """Of classes, or of counts over them."""
    count = prediction.canonical.sizes[block.classes]
    known = [class_moments(block, t, m, v, count) for t, m, v in predictors]
    parts = {"probability": np.tensordot(weights, np.array([f.probability for f in known]), axes=1)}
    if block.each:
        means, sds = np.array([f.mean for f in known]), np.array([f.sd for f in known])
        parts["mean"], parts["sd"] = mixed_moments(weights, means, sds)
    return {k: x.reshape(*block.data_shape, count) for k, x in parts.items()}


def _drawn(prediction: Prediction, block: SiteBlock, most: float) -> Moments:
    """By the draws that the posterior is made of."""
    canonical, draws = prediction.canonical, prediction.marginals.all_draws
    shape = block.data_shape
    if block.classes:
        count = canonical.sizes[block.classes]
        parts = classes_of_draws(canonical, block, draws, count)
        names = ("probability", "mean", "sd") if block.each else ("probability",)
        return {n: x.reshape(*shape, count) for n, x in zip(names, parts, strict=False)}
    known = response_of_draws(canonical, block, draws, most)
    out = {"mean": known.mean.reshape(shape), "sd": known.sd.reshape(shape)}
    if known.probability is not None:
        out["probability"] = known.probability.reshape(*shape, -1)
    return out


def _predictors(prediction: Prediction, block: SiteBlock) -> tuple[Predictors, Array]:
    """Hyperparameters of the sites, means and variances of their predictors; the weights. The
    sites' own parameters are averaged over the factors of a mean field, whose latents know
    them by a mean only."""
    mixed, weights = prediction.marginals, []
    predictors: Predictors = []
    thetas, shares = (
        mixed.hypers.nodes(lambda t: parameter_rows(block, t, all_rows=True))
        if mixed.hypers is not None
        else ((), np.zeros(0))
    )
    for k, weight in enumerate(mixed.weights):
        part = mixed.part(k)
        predictor = _moments(prediction, block, part)
        predictors += [(theta, *predictor) for theta in thetas or (part.theta,)]
        weights += list(weight * shares) if thetas else [weight]
    return predictors, np.array(weights)


def _moments(prediction: Prediction, block: SiteBlock, part: Marginals) -> tuple[Array, Array]:
    predictor = prediction.canonical.as_written(block, part.theta)
    return moments(part.frame.conditioned, part.frame.embed(predictor))
