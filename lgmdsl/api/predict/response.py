"""The predictive distribution of an observed datum at new data: moments, probabilities of its
values, quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.predict.requested import say
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.site import Site
from lgmdsl.errors import MethodError
from lgmdsl.posterior.drawn_response import class_moments, classes_of_draws, moments_of_draws
from lgmdsl.posterior.labelled import dataset
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.normal_mixtures import mixed_moments
from lgmdsl.posterior.predictive.averaged import Averaged, Predictors
from lgmdsl.posterior.predictive.moments import (
    ResponseMoments,
    moments,
    moments_at,
    response_moments,
)
from lgmdsl.posterior.predictive.quantiles import quantiles_of_draws, response_quantiles
from lgmdsl.posterior.predictive.values import (
    last_value,
    over_draws,
    over_predictors,
    probabilities,
)
from lgmdsl.posterior.tails import Look, least_variance, of_few_draws, of_tails, off

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.predict.predict import Prediction

# Densities of values under draws, at most: those of many values are averaged over fewer draws.
DENSITIES = 40_000_000
TABLE = 1_000_000  # probabilities of the values of counts in `Prediction.to_dataset`
Moments = dict[str, Array]


def response(prediction: Prediction, block: SiteBlock, most: float = math.inf) -> xr.Dataset:
    """See `Prediction.response`; probabilities of counts for up to `most` values of all rows."""
    parts = response_parts(prediction, block)
    dims = (*block.data.dims, block.classes) if block.classes else block.data.dims
    out = {k: prediction.labelled(dims, x, k) for k, x in parts.items()}
    if block.classes:
        return dataset(out)
    first, spread = parts["mean"].reshape(-1), parts["sd"].reshape(-1)
    last = last_value(block, first, spread)
    if last < 0 or first.size * (last + 1) > most:
        return dataset(out)

    def table() -> Array:
        found = probabilities(_law(prediction, block, last), last, first, spread)
        return prediction.members(dims, found.reshape(*block.data_shape, -1))

    from lgmdsl.posterior.later import Later  # xarray

    shape = (*out["mean"].shape, last + 1)
    values = np.arange(last + 1)
    out["probability"] = prediction.labelled(dims, Later(shape, table), last="value", labels=values)
    return dataset(out)


def _law(prediction: Prediction, block: SiteBlock, last: int) -> Averaged:
    if prediction.marginals.of_draws:
        draws = prediction.marginals.all_draws
        return over_draws(prediction.canonical, block, draws, DENSITIES // (last + 1))
    return over_predictors(block, *_predictors(prediction, block))


def response_parts(prediction: Prediction, block: SiteBlock, of_sds: bool = True) -> Moments:
    """`mean` and `sd` of y over its axes, or, of classes, `probability` with one more axis;
    `of_sds`: whether to warn of sds that are not known."""
    if prediction.marginals.of_draws:
        return _drawn(prediction, block, of_sds)
    predictors, weights = _predictors(prediction, block)
    if block.classes:
        return _classes(prediction, block, predictors, weights)
    shape = block.data_shape
    known = [response_moments(block.bind_family(t), m, v) for t, m, v in predictors]
    means, sds = np.array([k.mean for k in known]), np.array([k.sd for k in known])
    first, spread = mixed_moments(weights, means, sds)
    if of_sds:
        _doubt(prediction, block, known, first, spread)
    return {"mean": first.reshape(shape), "sd": spread.reshape(shape)}


def _doubt(
    prediction: Prediction,
    block: SiteBlock,
    known: Sequence[ResponseMoments],
    mean: Array,
    sd: Array,
) -> None:
    """Warn (W611) where a predictor's posterior is not Gaussian where the variance comes from."""
    predictors, weights = _predictors(prediction, block)
    if predictors[0][1].ndim > 1:
        return
    with np.errstate(all="ignore"):
        powers = np.stack([k.about(mean) for k in known], axis=1)
    means, sds = np.array([p[1] for p in predictors]), np.sqrt([p[2] for p in predictors])

    def looks(rows: IntArray) -> Iterator[Look]:
        for part, thetas, _ in prediction.marginals.at_sites(block):
            whole = prediction.canonical.as_written(block, part.theta)
            predictor = part.frame.embed(some_rows(whole, rows))
            for theta in thetas:
                site = block.bind_family(theta).take(rows)
                yield Look(part.frame, predictor, partial(moments_at, site))

    site = block.bind_family(predictors[0][0])
    least = least_variance(lambda x: site.conditional_mean(np.full(len(site), x)))
    errors = off(weights, means, sds, powers, least, (mean, sd), looks)
    say(of_tails(f"the sd of `{block.name}`", errors))


def response_quantile(prediction: Prediction, block: SiteBlock, levels: Array) -> Array:
    """(Q, ...) quantiles of y over its axes. See `Prediction.response_quantile`."""
    if not has_quantiles(block):
        why = f"`{block.family.spec.family}` gives no distribution function"
        help = "ask for its mean and sd, by .response"
        if block.classes:
            why = "its values are classes, which have no order"
            help = "ask for their probabilities, by .response"
        raise MethodError.of("E501", f"`{block.name}` has no quantiles: {why}", help=help)
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
    """Predictive moments of classes, or of counts over them."""
    count = prediction.canonical.sizes[block.classes]
    known = [class_moments(block, t, m, v, count) for t, m, v in predictors]
    parts = {"probability": np.tensordot(weights, np.array([f.probability for f in known]), axes=1)}
    if block.each:
        means, sds = np.array([f.mean for f in known]), np.array([f.sd for f in known])
        parts["mean"], parts["sd"] = mixed_moments(weights, means, sds)
    return {k: x.reshape(*block.data_shape, count) for k, x in parts.items()}


def _drawn(prediction: Prediction, block: SiteBlock, of_sds: bool) -> Moments:
    """By the draws that the posterior is made of."""
    canonical, posterior = prediction.canonical, prediction.marginals
    draws = posterior.all_draws
    shape = block.data_shape
    if block.classes:
        count = canonical.sizes[block.classes]
        parts = classes_of_draws(canonical, block, draws, count)
        names = ("probability", "mean", "sd") if block.each else ("probability",)
        return {n: x.reshape(*shape, count) for n, x in zip(names, parts, strict=False)}
    known = moments_of_draws(canonical, block, draws, posterior.worth)
    if of_sds:
        say(of_few_draws(f"the sd of `{block.name}` rests on few draws", known.error))
    return {"mean": known.mean.reshape(shape), "sd": known.sd.reshape(shape)}


def _predictors(prediction: Prediction, block: SiteBlock) -> tuple[Predictors, Array]:
    """Hyperparameters of the sites, means and variances of their predictors; the weights. Found
    once for a prediction."""
    known = prediction.predictors.get(block.name)
    if known is not None:
        return known
    predictors: list[tuple[Mapping[str, Array], Array, Array]] = []
    weights = []
    marginals = prediction.marginals
    found = marginals.predictors(block)
    for k, (thetas, shares) in enumerate(marginals.site_thetas(block)):
        if found is None:
            predictor = _moments(prediction, block, marginals.part(k))
        else:
            predictor = found[k].mean.reshape(-1), found[k].variance.reshape(-1)
        predictors += [(theta, *predictor) for theta in thetas]
        weights.append(shares)
    prediction.predictors[block.name] = predictors, np.concatenate(weights)
    return prediction.predictors[block.name]


def _moments(prediction: Prediction, block: SiteBlock, part: Marginals) -> tuple[Array, Array]:
    predictor = prediction.canonical.as_written(block, part.theta)
    return moments(part.frame.conditioned, part.frame.embed(predictor))
