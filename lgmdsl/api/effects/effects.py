"""fit.effects(): what a covariate does to the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.api.assess.coefficient_tests import TESTED, CoefficientTests, coefficient_tests
from lgmdsl.api.columns import Columns, quantile_columns, set_apart
from lgmdsl.api.effects.drawn import drawn_averages, no_link, no_mean, predictor_at
from lgmdsl.api.effects.exponential import Closed, closed
from lgmdsl.api.effects.requested import Comparison, Requested
from lgmdsl.api.effects.rows import Rows, bound, rows_of
from lgmdsl.api.predict.predict import predicted
from lgmdsl.api.predict.requested import say
from lgmdsl.api.response_data import without_responses
from lgmdsl.arrays import Array
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.contract.linear import Predictor
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError, ModelError, listed, suggestion
from lgmdsl.language.checked import Symbol
from lgmdsl.operators.explicit import Dense
from lgmdsl.posterior.marginals import Marginals, check_draws, column_levels
from lgmdsl.posterior.normal_mixtures import mixed_moments, mixed_quantile
from lgmdsl.posterior.tails import of_few_draws, of_tails, sd_error, together
from lgmdsl.remedies import either, setting
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

KINDS = ("average", "conditional", "balanced")
SCALES = ("response", "link")
COMPARED = ("difference", "ratio")


@dataclass(frozen=True)
class EffectSettings:
    """What `Fit.effects` is asked for: the arguments of their names, `n` draws, `df` the degrees of
    freedom of t-tests."""

    by: str | None
    kind: str
    contrast: object
    compare: str
    scale: str
    response: str | None
    without: Sequence[str]
    quantiles: Sequence[float] | None
    n: int | None
    seed: int
    df: str | None = None


def effect_columns(
    fit: FitRecord, name: str, asked: EffectSettings, data: object, mapping: Keys | None
) -> Columns:
    """The columns of `Fit.effects`. Raises ModelError E103 and E108 for wrong settings."""
    if isinstance(asked.contrast, np.ndarray):
        asked = replace(asked, contrast=asked.contrast.tolist())
    levels, scale = column_levels(asked.quantiles), asked.scale
    check_draws(0 if asked.n is None else asked.n, asked.seed)
    for argument, value, known in (
        ("kind", asked.kind, KINDS),
        ("scale", scale, SCALES),
        ("compare", asked.compare, COMPARED),
    ):
        if value not in known:
            help = suggestion(str(value), known, f"there are: {', '.join(known)}")
            called = either(f"--{argument}", argument)
            raise ModelError.of("E108", f"`{called}` cannot be `{value}`", help=help)
    requested = Requested(fit.canonical.grounded, name, asked.contrast)
    symbol = requested.symbol.name
    rows = rows_of(fit, symbol, asked.kind, asked.by, asked.response, data, mapping)
    rows = replace(rows, without=_left_out(fit, asked.without))
    ratio = asked.compare == "ratio"
    affine = scale == "link" or (
        rows.block.family.spec.link == "identity" and not rows.block.classes
    )
    if requested.latents:
        rows, weights = stacked(fit, rows, requested)
        models = [rows.prediction.canonical] * len(weights)
    else:
        models = _models(rows, requested)
        weights = [rows.weights] * len(models)
    levelled = [*zip(models, weights, strict=True)]
    each = rows.block.family.spec.predictors if scale == "link" else ()
    over, classes = ("predictor", list[Any](each)) if each else (rows.block.classes, [None])
    gaussian = bool(fit.canonical.latent_names) and not rows.prediction.marginals.of_draws
    if asked.df is not None:
        if not affine or ratio:
            raise _no_tests(
                "only differences and levels of an identity link, or of the predictor, are affine "
                "in the coefficients",
                setting("scale", "link"),
            )
        responses = data if without_responses(fit.canonical) else None
        caller = either("--df", "fit.effects(df=...)")
        how = either(f"--df {asked.df} --data DATA", "fit.effects(df=..., data=...)")
        tests = coefficient_tests(fit, asked.df, responses, mapping, caller, how)
        return _tested(rows, requested, levelled, tests, over, classes, levels)
    if affine and not ratio and gaussian:
        estimates = [
            np.stack([_exactly(rows, levelled, c, levels, k) for k in range(len(classes))], axis=-1)
            for c in requested.comparisons
        ]
    else:
        moments: list[Closed | None] = [None] * len(requested.comparisons)
        if gaussian and scale == "response":
            moments = closed(rows, levelled, requested.comparisons, levels, ratio)
        whole = [k.values for k in moments if k is not None]
        estimates = [k[..., None] for k in whole if len(k) == 2 + len(levels)]
        if len(estimates) < len(moments):
            count = rows.prediction.marginals.usual_draws if asked.n is None else asked.n
            drawn = drawn_averages(rows, levelled, count, asked.seed, scale == "link")
            if not np.isfinite(drawn).any():
                raise no_mean(rows.block)
            if drawn.shape[-1] > len(classes):
                classes = rows.prediction.canonical.layout.labels[rows.block.classes].tolist()
            worth = rows.prediction.marginals.worth(drawn.shape[1])
            estimates, errors = [], []
            for comparison, exact in zip(requested.comparisons, moments, strict=True):
                draws = _compared(drawn, comparison, ratio)
                estimates.append(_summary(draws, levels))
                if exact is None:
                    errors.append(sd_error(draws, worth))
                else:
                    estimates[-1][: len(exact.values)] = exact.values[..., None]
            doubt = np.concatenate([np.zeros(0), *(e.reshape(-1) for e in errors)])
            link = f"; {setting('scale', 'link')} has exact sds, of the predictor"
            say(of_few_draws(f"the effects of `{name}` have sds by few draws", doubt, link))
        tails = together(k.off for k in moments if k is not None)
        say(of_tails(f"the sds of the effects of `{name}`", tails))
    return _table(rows, requested, estimates, over, classes, levels, ratio)


def _left_out(fit: FitRecord, without: Sequence[str]) -> frozenset[str]:
    """The blocks of the latents that are left out. Raises ModelError E103 for an unknown one."""
    names = (without,) if isinstance(without, str) else tuple(without)
    known = fit.canonical.latent_names
    for name in names:
        if name not in known:
            help = suggestion(name, known, f"it has: {', '.join(known)}")
            raise ModelError.of("E103", f"the model has no latent `{name}`", help=help)
    return frozenset(b.name for b in fit.canonical.latents if owner(b.name) in names)


def _models(rows: Rows, requested: Requested) -> list[CanonicalModel]:
    """The model with the covariate at each level: the same latents, other predictors."""
    grounded = rows.prediction.canonical.grounded
    name = requested.symbol.name
    out = []
    for level in requested.levels:
        values = {**grounded.values, name: requested.values_at(level, grounded)}
        out.append(canonicalise(replace(grounded, values=values), sites.find_site))
    return out


def _exactly(
    rows: Rows,
    levelled: Sequence[tuple[CanonicalModel, Array]],
    comparison: Comparison,
    levels: Array,
    which: int = 0,
) -> Array:
    """(2 + Q, G) mean, sd and quantiles of an average that is affine in the latents: a mixture of
    normals over the hyperparameters' points. `which` of the predictors of a row, if it has
    several."""
    mixed = rows.prediction.marginals
    means, sds = [], []
    for k in range(len(mixed.weights)):
        part = mixed.part(k)
        columns, offset = _affine(rows, levelled, comparison, part, which)
        predictor = Predictor({n: Dense(x) for n, x in columns.items()}, offset)
        mean, variance = part.frame.conditioned.project(predictor)
        means.append(mean)
        sds.append(np.sqrt(np.maximum(variance, 0.0)))
    m, s = np.array(means), np.array(sds)
    mean, sd = mixed_moments(mixed.weights, m, s)
    return np.array([mean, sd, *mixed_quantile(mixed.weights, m, s, levels)])


def _affine(
    rows: Rows,
    levelled: Sequence[tuple[CanonicalModel, Array]],
    comparison: Comparison,
    part: Marginals,
    which: int,
) -> tuple[dict[str, Array], Array]:
    """A comparison of averages as a functional of the latents: (G, n) of each block, and offsets
    (G,)."""
    columns, offset = _average(*levelled[comparison.high], rows, part, which)
    for place in comparison.low:
        low, lower = _average(*levelled[place], rows, part, which)
        share = 1.0 / len(comparison.low)
        names = {*columns, *low}
        columns = {n: columns.get(n, 0.0) - share * low.get(n, 0.0) for n in names}
        offset = offset - share * lower
    divided = {n: np.asarray(x) / comparison.divisor for n, x in columns.items()}
    return divided, offset / comparison.divisor


def _tested(
    rows: Rows,
    requested: Requested,
    levelled: Sequence[tuple[CanonicalModel, Array]],
    tests: CoefficientTests,
    over: str,
    classes: Sequence[Any],
    levels: Array,
) -> Columns:
    """The table with t-tests. Raises MethodError E501 where averages have other latents in them
    than coefficients."""
    part, estimates = rows.prediction.marginals.part(0), []
    for comparison in requested.comparisons:
        each = []
        for which in range(len(classes)):
            columns, offset = _affine(rows, levelled, comparison, part, which)
            predictor = Predictor({n: Dense(x) for n, x in columns.items()}, offset)
            mean = part.frame.conditioned.project(predictor)[0]
            if others := tests.others(columns):
                latents = list(dict.fromkeys(owner(n) for n in others))
                flags = " ".join(f"--without {n}" for n in latents)
                raise _no_tests(
                    f"{listed([f'`{n}`' for n in latents])} enter the averages, and their prior is "
                    "not flat",
                    f"leave them out: {either(flags, f'without={latents!r}')}",
                )
            contrasts = tests.of(columns, len(mean))
            each.append([mean, *tests.columns(mean, contrasts, levels).values()])
        estimates.append(np.moveaxis(np.array(each), 0, -1))
    return _table(rows, requested, estimates, over, classes, levels, False, TESTED)


def _no_tests(reason: str, help: str) -> MethodError:
    message = "these effects have no degrees of freedom"
    return MethodError.of("E501", message, details=(reason,), help=help)


def _average(
    model: CanonicalModel, weights: Array, rows: Rows, part: Marginals, which: int
) -> tuple[dict[str, Any], Array]:
    """The average predictors of the groups of rows: (G, n) of each latent block, and offsets."""
    predictor = part.frame.embed(predictor_at(model, rows, part.theta))
    if predictor.event:
        if not rows.block.family.spec.predictors:
            raise no_link(rows.block)
        spread = np.zeros((*weights.shape, predictor.event))
        spread[..., which] = weights
        weights = spread.reshape(len(weights), -1)
    columns = {n: op.rmatvec(weights.T).T for n, op in predictor.columns.items()}
    return columns, weights @ predictor.offset


def _compared(drawn: Array, comparison: Comparison, ratio: bool) -> Array:
    """(draws, G, C)."""
    high: Array = drawn[comparison.high]
    if not comparison.low:
        return high
    low: Array = drawn[list(comparison.low)].mean(axis=0)
    with np.errstate(all="ignore"):
        if ratio and comparison.divisor == 1.0:
            return high / low
        # The ratio of a slope is the relative slope, d log E[y] / dx.
        change: Array = np.log(high / low) if ratio else high - low
        return change / comparison.divisor


def _summary(draws: Array, levels: Array) -> Array:
    """(2 + Q, G, C) mean, sd and quantiles over the draws."""
    with np.errstate(all="ignore"):
        mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
        whole: Array = np.array([mean, sd, *np.quantile(draws, levels, axis=0)])
        return whole


def _table(
    rows: Rows,
    requested: Requested,
    estimates: Sequence[Array],
    over: str,
    classes: Sequence[Any],
    levels: Array,
    ratio: bool,
    tested: Sequence[str] = (),
) -> Columns:
    """A row for each comparison, group and class, or predictor; `tested`: further numbers after the
    sd."""
    groups = rows.weights.shape[0]
    names = ("estimate", "sd", *tested, *quantile_columns(levels))
    classed = len(classes) > 1
    given = [*rows.labels, *([over] if classed else [])]
    labels = tuple(set_apart(dict.fromkeys(given), ("term", "contrast", *names)))
    out: Columns = {key: [] for key in ("term", "contrast", *labels, *names)}
    for comparison, values in zip(requested.comparisons, estimates, strict=True):
        slope = ratio and comparison.divisor != 1.0
        for g in range(groups):
            for c, label in enumerate(classes):
                out["term"].append(comparison.term)
                words = comparison.words[int(ratio and bool(comparison.low))]
                out["contrast"].append("relative slope" if slope else words)
                named = [
                    *(x[g] for x in rows.labels.values()),
                    *([label] if classed else []),
                ]
                for key, value in zip(labels, named, strict=True):
                    out[key].append(value)
                for key, value in zip(names, values[:, g, c], strict=True):
                    out[key].append(float(value))
    return {k: np.array(v) for k, v in out.items()}


# ---- other places --------------------------------------------------------------------------------
# Effects of what a latent's prior is built on: each level is other members of the latent.
#
# The rows are stacked, level after level, and predicted together: members at the positions of all
# levels join the fitted ones, so that comparisons have the joint distribution of both.


# Members of the stacked rows: their covariance is dense.
MOST_ROWS = 3_000


def stacked(fit: FitRecord, rows: Rows, requested: Requested) -> tuple[Rows, list[Array]]:
    """The rows at all levels of the covariate, and the weights of each level's averages.

    Raises MethodError E501 where the members are not those of single rows, or the rows too many.
    """
    grounded, dims = rows.prediction.canonical.grounded, rows.block.data.dims
    name = requested.symbol.name
    if len(dims) != 1 or dims[0] not in requested.symbol.dims:
        raise _not_of_rows(requested, f"`{name}` is not over the rows of `{rows.block.name}`")
    over_rows = {
        owner(b.name)
        for b in rows.prediction.canonical.latents
        if dims[0] in b.dims and b.name not in rows.without
    }
    others = sorted(over_rows - {*requested.latents})
    if others:
        raise _not_of_rows(
            requested,
            f"{listed([f'`{n}`' for n in others])} of other rows would be new too",
            either(f"--without {others[0]}", f'without=["{others[0]}"]') + " leaves it out",
        )
    count, size = len(requested.levels), rows.weights.shape[1]
    if count * size > MOST_ROWS:
        message = f"{count} levels of {size:,} rows are {count * size:,} new members of "
        message += listed([f"`{n}`" for n in requested.latents])
        help = f"{setting('kind', 'conditional')}, or fewer rows: "
        help += either("--data rows.csv", "data=rows")
        raise MethodError.of("E501", message, help=help)
    new: dict[str, Any] = {}
    usage = usage_of(grounded.graph)
    for symbol in grounded.model.of_kind("data"):
        values = grounded.values.get(symbol.name)
        if values is None or dims[0] not in symbol.dims or symbol.name in usage.responses:
            continue
        if symbol.name == name:
            levels = [requested.values_at(level, grounded) for level in requested.levels]
        else:
            levels = [_labelled(grounded, symbol, values)] * count
        axis = symbol.dims.index(dims[0])
        if sp.issparse(levels[0]):
            new[symbol.name] = sp.vstack(levels, format="csr")
        else:
            new[symbol.name] = np.concatenate(levels, axis=axis)
    there = predicted(fit, bound(new))
    weights = [np.zeros((rows.weights.shape[0], count * size)) for _ in range(count)]
    for k, part in enumerate(weights):
        part[:, k * size : (k + 1) * size] = rows.weights
    block = there.observed(rows.block.name)
    return replace(rows, prediction=there, block=block, weights=weights[0]), weights


def _labelled(grounded: GroundedModel, symbol: Symbol, values: Any) -> Any:
    """Values as new data have them: maps by their labels."""
    if symbol.target is None:
        return values
    if (np.asarray(values) < 0).any():
        message = f"`{symbol.name}` has missing entries, and new rows need them"
        raise MethodError.of("E501", message)
    return grounded.indices[symbol.target].labels[values]


def _not_of_rows(requested: Requested, reason: str, help: str = "") -> MethodError:
    message = f"the effect of `{requested.symbol.name}` is that of other places of "
    message += f"`{requested.latents[0]}`, which rows do not name"
    new = either("lgm predict", "fit.predict(new)")
    remedy = help or f"compare predictions there: {new}"
    return MethodError.of("E501", message, details=(reason,), help=remedy)
