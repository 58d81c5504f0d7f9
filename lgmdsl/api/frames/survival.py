"""fit.survival(): survival curves and hazards of positive responses, with their uncertainty."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lgmdsl.api.assess.predictive import drawn_predictors
from lgmdsl.api.columns import (
    Columns,
    frame_library,
    frame_of,
    index_columns,
    joined,
    quantile_columns,
    set_apart,
)
from lgmdsl.api.predict.predict import Prediction, predict, predicted
from lgmdsl.api.predict.requested import say
from lgmdsl.api.predict.table import row_axes, row_labels
from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.questions import Lifetimes
from lgmdsl.contract.site import Site
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import MethodError, ModelError
from lgmdsl.posterior.marginals import check_draws, column_levels
from lgmdsl.posterior.tails import of_few_draws, sd_error
from lgmdsl.sites.combined.predictors import PredictorsSite
from lgmdsl.sites.tails import Tails

if TYPE_CHECKING:
    import pandas as pd

    from lgmdsl.posterior.fit_record import FitRecord

NEAR_ZERO = (1e-250, 1e-240)
DIGITS = 1e-9  # what is left of 1 - cdf for a hazard of six digits
POSITIVE = ("positive", "nonnegative")
# Values of the arguments that say how a row was observed, of a response that nothing hides.
_WHOLE = {"event": 1.0, "lower": np.nan, "upper": np.nan, "entry": np.nan}


class Curves(NamedTuple):
    """P(Y > t) and the hazard at t, (draws, N) each."""

    survival: Array
    hazard: Array


def survival(
    fit: FitRecord,
    times: object,
    newdata: object,
    mapping: Keys | None,
    response: str | None,
    quantiles: Sequence[float] | None,
    n: int,
    seed: int,
    backend: str,
) -> pd.DataFrame:
    """See `Fit.survival`."""
    frame_library(backend)
    check_draws(n, seed)
    levels, at = column_levels(quantiles), _times(times)
    prediction = predicted(fit, read({})) if newdata is None else predict(fit, newdata, mapping)
    parts = [
        frame_of(_columns(part, _chosen(part, response), at, levels, n, seed), backend)
        for part in prediction.pieces()
    ]
    return parts[0] if len(parts) == 1 else joined(parts, backend)


def _times(times: object) -> Array:
    try:
        at = np.atleast_1d(np.asarray(times, dtype=np.float64)).reshape(-1)
    except (TypeError, ValueError):
        at = np.array([np.nan])
    wrong = at[~(np.isfinite(at) & (at >= 0.0))]
    if len(wrong) or not len(at):
        shown = f", not {wrong[0]:g}" if len(wrong) else ""
        raise ModelError.of(
            "E108",
            f"`times` must be numbers from 0{shown}",
            help="give the times in the unit of the response: fit.survival([30, 90, 365])",
        )
    return at


def _chosen(prediction: Prediction, response: str | None) -> SiteBlock:
    """The response that is asked for; the only positive one where none is."""
    if response is None:
        blocks = [prediction.observed(name) for name in prediction.responses]
        positive = [b for b in blocks if b.family.spec.observed[0] in POSITIVE]
        if len(positive) == 1:
            return positive[0]
        observed = ", ".join(f"`{b.name}`" for b in positive or blocks) or "nothing"
        wanted = "which of them: response=..." if positive else "a response of positive type"
        raise MethodError.of(
            "E501",
            f"survival curves are of one positive response; the model observes {observed}",
            help=f"say {wanted}" if positive else f"they need {wanted}",
        )
    block = prediction.observed(response)
    if block.family.spec.observed[0] not in POSITIVE:
        raise MethodError.of(
            "E501",
            f"`{response}` has no survival curve: `{block.family.spec.family}` observes "
            f"{block.family.spec.observed[0]} data",
            help="survival curves are of positive responses",
        )
    return block


def _columns(
    prediction: Prediction, block: SiteBlock, times: Array, levels: Array, n: int, seed: int
) -> Columns:
    rows, dims = math.prod(block.data_shape), block.data.dims
    labels = row_labels(prediction, dims)
    count = math.prod(len(x) for x in labels)
    each = index_columns(dims, labels)
    if row_axes(prediction) == dims:
        each |= {k: v for k, v in prediction.carried.items() if k not in each}
    draws = list(drawn_predictors(prediction, block, n, seed))
    shape = (len(times), count)
    moments = {k: np.empty((2 + len(levels), *shape)) for k in Curves._fields}
    errors, worth = np.zeros(rows), prediction.marginals.worth(n)  # of the sds of hazards
    for j, time in enumerate(times):
        curves = [np.empty((n, rows)) for _ in Curves._fields]
        for places, site, s, _ in draws:
            for whole, part in zip(curves, curves_at(site, s, float(time)), strict=True):
                whole[places] = part.reshape(len(places), rows)
        errors = np.maximum(errors, sd_error(curves[1], worth))
        for kind, values in zip(Curves._fields, curves, strict=True):
            with np.errstate(invalid="ignore"):  # a hazard at 0 may be infinite
                between = np.quantile(values, levels, axis=0)
                endless = np.isnan(between) & np.isinf(values).any(axis=0)
                between = np.where(endless, np.inf, between)
                known = np.stack([values.mean(axis=0), values.std(axis=0), *between])
            arranged = [
                prediction.members(dims, part.reshape(block.data_shape)).reshape(-1)
                for part in known
            ]
            moments[kind][:, j] = arranged
    say(of_few_draws(f"the hazards of `{block.name}` have sds by few draws", errors))
    out: Columns = {"time": np.tile(times, count)}
    suffixes = ("mean", "sd", *quantile_columns(levels))
    for kind, table in moments.items():
        for suffix, part in zip(suffixes, table, strict=True):
            out[f"{kind}_{suffix}"] = part.T.reshape(-1)
    repeated = {k: np.repeat(np.asarray(v, dtype=None), len(times)) for k, v in each.items()}
    return set_apart(repeated, out) | out


def curves_at(site: Site, s: Array, time: float) -> Curves:
    """P(Y > time | s) and f(time) / P(Y > time | s) of each site, however it was observed: s
    (draws, N) or (draws, N, K), sites draws first."""
    shape = (len(site), s.shape[-1]) if site.spec.vector else (len(site),)
    flat: Array = np.asarray(s, dtype=np.float64).reshape(shape)
    fields = {f.name for f in dataclasses.fields(site)}
    changed: dict[str, Any] = {
        name: np.full(len(site), value) for name, value in _WHOLE.items() if name in fields
    }
    changed["y"] = np.full(len(site), time)
    with np.errstate(all="ignore"):
        whole, t = unhidden(dataclasses.replace(site, **changed), flat)
        log = _log_survival(whole, t) if time > 0.0 else _at_start(whole, t)
        later = np.exp(whole.log_density(t) - log)
        hazard = later if time > 0.0 else _at_zero(site, changed, flat) / np.exp(log)
    return Curves(np.exp(log), hazard)


def unhidden(site: Site, s: Array) -> tuple[Site, Array]:
    """The family of the response itself, of one that says how much of it was seen, and its
    predictor; the others' values stand in its parameters."""
    if isinstance(site, PredictorsSite):
        return unhidden(site.at(s), s[:, 0])
    plain = getattr(site, "plain", None)
    if not isinstance(plain, Site):
        return site, s
    of_plain = {f.name for f in dataclasses.fields(plain)}
    added = {f.name for f in dataclasses.fields(site)} - of_plain
    return unhidden(plain, s) if added <= _WHOLE.keys() else (site, s)


def _log_survival(site: Site, s: Array) -> Array:
    """log P(Y > y | s), y > 0; NaN where it has no digits."""
    if isinstance(site, Lifetimes):
        return site.log_survival_at(s)
    if isinstance(site, Tails):
        return site.tail(s, True, ()).answer.value
    survival = 1.0 - site.cdf(s)
    return np.where(survival > DIGITS, np.log(survival), np.nan)


def _at_start(site: Site, s: Array) -> Array:
    """log P(Y > 0 | s): 0 but for responses with a mass at 0."""
    return np.zeros(len(site)) if site.spec.observed[0] == "positive" else np.log1p(-site.cdf(s))


def _at_zero(site: Site, changed: dict[str, Any], s: Array) -> Array:
    """The limit of the density at time 0: 0 or inf where it goes on falling or growing."""
    ends = (np.full(len(site), time) for time in NEAR_ZERO)
    near, far = (
        np.exp(whole.log_density(t))
        for whole, t in (
            unhidden(dataclasses.replace(site, **{**changed, "y": y}), s) for y in ends
        )
    )
    settled = np.abs(near - far) <= 1e-6 * near
    return np.where(settled, near, np.where(near < far, 0.0, np.inf))
