"""Predictions at new rows, new levels and new GP inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.answering import answering
from lgmdsl.api.by_rows import check_groups, check_rows
from lgmdsl.api.columns import LEVELS, Columns, FrameLibrary, frame_library, frame_of, joined
from lgmdsl.api.page import several
from lgmdsl.api.predict.pieces import ROWS, pieces
from lgmdsl.api.predict.requested import ambiguous, check_asked, say
from lgmdsl.api.predict.response import (
    TABLE,
    has_quantiles,
    response,
    response_parts,
    response_quantile,
)
from lgmdsl.api.predict.table import carried_columns, row_axes, table_columns
from lgmdsl.api.predict.unchanged_priors import check_members, check_prior_data
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.grounding.ground import GroundedModel, ground_new
from lgmdsl.canonical.grounding.tables.place import placed
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import Diagnostic, ModelError, suggestion
from lgmdsl.posterior.drawn import MAX_LATENTS_JOINED, drawn_mixture, with_members
from lgmdsl.posterior.frame import Frame, extended_frame, fitted_frame
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.labelled import dataset, labelled
from lgmdsl.posterior.marginals import Marginals, column_levels, probability_levels
from lgmdsl.posterior.mixture import Mixture, mixture
from lgmdsl.posterior.new_axes import check_places
from lgmdsl.posterior.predictive.averaged import Predictors
from lgmdsl.posterior.tails import of_few_draws, of_tails
from lgmdsl.sites import catalogue as sites
from lgmdsl.state import FieldState

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from lgmdsl.posterior.fit_record import FitRecord
    from lgmdsl.posterior.later import Later


@dataclass(frozen=True, eq=False)
class Prediction(FieldState):
    """The posterior at new data: lets, reports and latents there, and the predictive of y.

    Results have the rows that were asked for, in their order, with the new data's labels.
    `warnings`: which reading of ambiguous data was chosen (W305 to W307), and the general warnings
    about data (W302 to W304, W308). `names`: the lets, reports and latents that are predicted;
    `responses`: the observed data. `carried`: the columns of the new data, which `frame` repeats;
    `divided`: predictions at some of very many rows at a time, see `pieces`; `start`: the number of
    the first row of one of these.
    """

    canonical: CanonicalModel
    marginals: Mixture
    warnings: tuple[Diagnostic, ...] = ()
    flops: float = field(default=0.0, repr=False)
    carried: Columns = field(default_factory=dict, repr=False)
    divided: Callable[[], Iterator[Prediction] | None] | None = field(default=None, repr=False)
    start: int = 0

    def __repr__(self) -> str:
        return f"Prediction({several(self.names)})"

    def _repr_html_(self) -> str:
        from lgmdsl.api.predict.card import card

        return card(self)

    @cached_property
    def predictors(self) -> dict[str, tuple[Predictors, Array]]:
        """Means and variances of the predictors of responses at the points, and their weights, once
        they were asked for."""
        return {}

    @property
    def names(self) -> tuple[str, ...]:
        """What is over new rows or members, or all there is: latents, lets, reports, responses."""
        return (*self.unobserved, *self.responses)

    @answering("predicting")
    def mean(self, name: str) -> xr.DataArray:
        """Mean of a let, report or latent at the new data."""
        quantity = self.marginals.quantity(name)
        return self.labelled(quantity.dims, quantity.mean, name)

    @answering("predicting")
    def sd(self, name: str) -> xr.DataArray:
        """Standard deviation of a let, report or latent at the new data."""
        quantity = self.marginals.quantity(name)
        self.doubt(name)
        return self.labelled(quantity.dims, quantity.sd, name)

    def doubt(self, name: str) -> None:
        """Warn (W611) where a name's sd rests on few draws, or a predictor is not Gaussian."""
        if name in self.canonical.named:
            error = np.array([self.marginals.sd_error(name)])
            say(of_few_draws(f"the sd of `{name}` rests on few draws", error))
            say(of_tails(f"the sd of `{name}`", self.marginals.off(name)))

    @answering("predicting")
    def quantile(self, name: str, probabilities: Sequence[float]) -> xr.DataArray:
        """Quantiles, with a leading `quantile` axis."""
        levels = probability_levels(probabilities)
        dims, values = self.marginals.quantile(name, levels)
        return self.labelled(dims, values, name, first="quantile", labels=levels)

    @answering("drawing samples")
    def sample(self, size: int, seed: int = 0) -> xr.Dataset:
        """Joint draws of every let and report at the new data (leading axis `sample`)."""
        arrays = {}
        names = self._lets or tuple(self.canonical.named)
        for name, values in self.marginals.draws(names, size, seed).items():
            dims = self.marginals.quantity_dims(name)
            arrays[name] = self.labelled(dims, values, first="sample")
        return dataset(arrays)

    @answering("predicting the response")
    def response(self, name: str) -> xr.Dataset:
        """The predictive distribution of an observed datum at the new data.

        `mean` and `sd` of y (NaN where the family has none), the mean also as `estimate`, so that
        `response("y").estimate` is it (`.mean` is a method of every Dataset); for binary and count
        data also `probability`, P(y = value) with a trailing axis `value`, of nonnegative numbers
        that of 0, computed when its values are first asked for: of counts those that all together
        are less likely than 1e-11 are 0. Of classes `probability` alone, with their index set as
        its last axis; of counts over classes all three, of each class.
        Texts (admixtures) are as long as their counts at the new data say: `mean` and `sd` are NaN
        of those without.
        Raises ModelError E103 where the model observes no such datum.
        """
        found = response(self, self.observed(name))
        return found.assign(estimate=found["mean"]) if "mean" in found else found

    @answering("predicting the response")
    def response_quantile(self, name: str, probabilities: Sequence[float]) -> xr.DataArray:
        """Quantiles of the predictive distribution of an observed datum, with a leading `quantile`
        axis: 0.05 and 0.95 are the ends of a 90 % interval of y itself, noise included. Of counts
        the smallest whole number whose P(y <= k) is no less than the probability.

        Raises ModelError: E103 where the model observes no such datum, E108 for probabilities out
        of range; MethodError E501 of classes, which have no order.
        """
        levels, block = probability_levels(probabilities), self.observed(name)
        values = response_quantile(self, block, levels)
        return self.labelled(block.data.dims, values, name, first="quantile", labels=levels)

    @answering("drawing responses")
    def sample_response(self, name: str, size: int, seed: int = 0) -> xr.DataArray:
        """Predictive draws of an observed datum at the new data (leading axis `sample`).

        Raises ModelError E103 where the model observes no such datum, DataError E305 for texts
        whose counts, and so whose lengths, are not given, NumericalError E602 where its family
        cannot be drawn at such extreme predictors.
        """
        from lgmdsl.api.assess.predictive import sample_response

        return sample_response(self, name, size, seed)

    @answering("predicting")
    def frame(
        self, quantiles: Sequence[float] | None = LEVELS, backend: FrameLibrary = "pandas"
    ) -> pd.DataFrame:
        """A pandas frame (polars: `backend="polars"`) with one row for each row of the new data:

        - the labels of the row (`obs`), and the columns of the new data as they were read;
        - MAP_status for maps into groups: `fitted`, or `new` where the fit does not know the label
          and the prior of new members is used;
        - NAME_mean, NAME_sd and NAME_q5, NAME_q50, NAME_q95 (other `quantiles`: NAME_q2.5;
          `quantiles=()`: none, which takes less time) of every let, report and latent of the row;
        - y_mean, y_sd and y_q5, y_q50, y_q95 of the response: of y itself, so that 5 and 95 % are
          the ends of a 90 % predictive interval. Of binary data y_mean is P(y = 1); of classes
          y_probability_CLASS alone.

        What runs over further axes has a column for each of up to 50 members, NAME_mean_MEMBER;
        what does not run over the rows is left to `to_dataset`. Very many rows are computed in
        pieces. Raises ModelError E108 for probabilities out of range, MethodError E501 where the
        frame's library is not installed.
        """
        levels = column_levels(quantiles)
        frame_library(backend)
        parts = [frame_of(table_columns(p, levels), backend) for p in self.pieces()]
        return parts[0] if len(parts) == 1 else joined(parts, backend)

    def plot(self, name: str | None = None, ax: Axes | None = None) -> Axes:
        """A name (the response where none is given) on matplotlib axes, a new figure's where none
        are given: a line with 50 % and 90 % bands over what has an order, else dots with whiskers,
        of more than 40 rows sorted. Over several indices: a line for each group (a member of the
        others) along the longest order, else a colour for each of up to 8 groups. Returns the axes.

            ax = fit.plot("y")
            fit.predict({"t": range(31, 41)}).plot("y", ax=ax)

        Raises ModelError E103 for a name that is not predicted, MethodError E501 without matplotlib
        (extra `plot`), of classes, which have no quantiles, and of what has too many groups.
        """
        from lgmdsl.api.predict.picture import plot

        return plot(self, name, ax)

    def pieces(self) -> Iterator[Prediction]:
        """The prediction in pieces of consecutive rows, or itself where these are not many: every
        row has the same marginals there."""
        parts = None if self.divided is None else self.divided()
        yield from (self,) if parts is None else parts

    @answering("predicting")
    def to_dataset(self, quantiles: Sequence[float] | None = None) -> xr.Dataset:
        """Everything: NAME_mean and NAME_sd of lets, reports and responses, y_probability (of
        counts for up to 1,000,000 values of all rows together); and of the latents over an index
        set whose members were named. With `quantiles` also NAME_quantile, with a leading axis."""
        levels = column_levels(quantiles)
        out: dict[str, xr.DataArray] = {}
        like: dict[tuple[str, ...], xr.DataArray] = {}  # the same axes need not be made again
        for name in self.unobserved:
            quantity = self.marginals.quantity(name)
            self.doubt(name)
            dims = quantity.dims
            for kind, part in (("mean", quantity.mean), ("sd", quantity.sd)):
                if dims not in like:
                    like[dims] = self.labelled(dims, part)
                out[f"{name}_{kind}"] = like[dims].copy(data=np.array(self.members(dims, part)))
            if len(levels):
                out[f"{name}_quantile"] = self.quantile(name, levels.tolist())
        for name in self.responses:
            block = self.observed(name)
            for key, values in response(self, block, TABLE).items():
                out[f"{name}_{key}"] = values
            if len(levels) and has_quantiles(block):
                out[f"{name}_quantile"] = self.response_quantile(name, levels.tolist())
        return dataset(out)

    def parts(self, block: SiteBlock, of_sds: bool = True) -> dict[str, Array]:
        """Mean and sd of a response, or the probabilities of its classes, over its axes; `of_sds`:
        whether to warn of sds that are not known."""
        return response_parts(self, block, of_sds)

    def levels(self, block: SiteBlock, levels: Array) -> Array | None:
        """(Q, ...) quantiles of a response; None of one without, and of 0 and 1."""
        if not has_quantiles(block) or "binary" in block.family.spec.observed:
            return None
        return response_quantile(self, block, levels)

    @property
    def _changed(self) -> set[str]:
        """The index sets that have members which were asked for."""
        grounded = self.canonical.grounded
        return {*grounded.replaced, *grounded.new_levels, *grounded.asked}

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Latents over members that were named, or over what is new where nothing else is; lets and
        reports over what is new, or all of them where nothing is."""
        members, lets = {*self.canonical.grounded.asked}, self._lets
        if not (lets or self.responses):
            members = self._changed
        known = [n for n in self.canonical.latent_names if n not in self.canonical.named]
        of = self.marginals.quantity_dims
        return (*(n for n in known if members & {*of(n)}), *lets)

    @property
    def _lets(self) -> tuple[str, ...]:
        named = self.canonical.named
        return tuple(
            n for n, (dims, _) in named.items() if not self._changed or self._changed & {*dims}
        )

    @property
    def responses(self) -> tuple[str, ...]:
        """Observed data over what is new, or all of them where nothing is."""
        observed = [b for b in self.canonical.blocks if not b.family.spec.potential]
        return tuple(
            b.name for b in observed if not self._changed or self._changed & {*b.data.dims, *b.each}
        )

    def observed(self, name: str) -> SiteBlock:
        """The block of an observed datum; raises ModelError E103 where there is none."""
        for block in self.canonical.blocks:
            if block.name == name and not block.family.spec.potential:
                return block
        known = [b.name for b in self.canonical.blocks if not b.family.spec.potential]
        raise ModelError.of(
            "E103",
            f"the model observes no `{name}`",
            help=suggestion(name, known, f"it observes: {', '.join(known)}"),
        )

    def labelled(
        self,
        dims: tuple[str, ...],
        values: AnyArray | Later,
        name: str | None = None,
        first: str = "",
        last: str = "",
        labels: AnyArray | None = None,
    ) -> xr.DataArray:
        """Values over `dims` and one more axis, `first` or `last`: the members asked for."""
        layout, asked = self.canonical.layout, self.canonical.grounded.asked
        layout = replace(layout, labels={**layout.labels, **asked})
        if isinstance(values, np.ndarray):
            values = self.members(dims, values, bool(first))
        return labelled(layout, dims, values, name, first, last, labels)

    def members(self, dims: tuple[str, ...], values: AnyArray, before: bool = False) -> AnyArray:
        """Values at the members asked for; `before`: whether one more axis is before `dims`."""
        grounded = self.canonical.grounded
        for axis, dim in enumerate(dims):
            if dim in grounded.asked:
                places = grounded.indices[dim].positions(grounded.asked[dim])
                values = np.take(values, places, axis=axis + before)
        return values


def predict(fit: FitRecord, data: object, mapping: Keys | None = None) -> Prediction:
    """The posterior of a fit at new data.

    Raises DataError for data that do not fit the model, that name nothing of it (E305), or that
    would change the prior of what was fitted: E303 by their values, E302 by new members of an axis
    whose structure does not extend to them.
    """
    dataset = as_read_before(fit, data if isinstance(data, Dataset) else read(data, mapping))
    model = fit.canonical.grounded.model
    check_asked(model, usage_of(fit.canonical.grounded.graph), dataset)
    prediction = predicted(fit, dataset)
    axis, grounded = independent_rows(prediction), prediction.canonical.grounded
    if not axis:
        return prediction
    size = len(grounded.asked.get(axis, grounded.indices[axis].labels))
    divided = partial(pieces, predicted, fit, dataset, axis, size) if size > ROWS else None
    return replace(prediction, divided=divided)


def independent_rows(prediction: Prediction) -> str:
    """The axis of the new rows where each of them has its marginals whatever the others are; empty
    where there are several, or where they are steps of one another."""
    rows, grounded = row_axes(prediction), prediction.canonical.grounded
    free = len(rows) == 1 and rows[0] in grounded.replaced and rows[0] not in grounded.steps
    return rows[0] if free else ""


def predicted(
    fit: FitRecord, dataset: Dataset, check: Callable[[GroundedModel], None] | None = None
) -> Prediction:
    """Prediction at new data, or at the rows of the fit for data that do not say where. `check`
    examines the new data first."""
    check_groups(fit.canonical, "a prediction")
    usage = usage_of(fit.canonical.grounded.graph)
    # Counts of words only give the length of a text here.
    lengths = {b.name for b in fit.canonical.blocks if b.own_trials}
    responses = usage.responses - lengths
    grounded = ground_new(fit.canonical.grounded, _covariates(fit, dataset, responses))
    if check is not None:
        check(grounded)
    if not {*fit.canonical.rows.over} <= {*grounded.replaced}:
        check_rows(fit.canonical, "a prediction at no new rows")
    check_members(fit.canonical, grounded)
    check_prior_data(fit.canonical.grounded, grounded)
    covariates = {n: v for n, v in grounded.values.items() if n not in responses}
    missing = {n: m for n, m in grounded.missing.items() if n not in responses}
    new = canonicalise(replace(grounded, values=covariates, missing=missing), sites.find_site)
    check_places(fit.canonical, new, fit.theta)
    changed = {*grounded.replaced, *grounded.new_levels}
    renamed = any(a.name != b.name for a, b in zip(fit.canonical.latents, new.latents, strict=True))
    extended = renamed or any(changed & set(b.dims) for b in new.latents)

    latents = _Latents(fit.canonical, new, extended, fit.seed, fit.memory_budget)
    warnings = (*grounded.warnings, *ambiguous(fit.canonical, grounded, dataset))
    made = partial(_prediction, new, dataset, fit.flops)
    if fit.drawn is not None:
        if not extended:
            known = drawn_mixture(
                new,
                fit.points,
                partial(fit.named_at, new),
                fit.hyper_marginals,
                fit.seed,
                fit.drawn,
            )
            return made(known, warnings)
        whole = with_members(
            new, fit.points, latents.frame, fit.hyper_marginals, fit.seed, fit.drawn
        )
        if whole is not None:
            return made(whole, warnings)
        warnings = (*warnings, _gaussian_members())
    whole_mixture = mixture(new, fit.points, latents.at, fit.hyper_marginals, fit.seed)
    return made(whole_mixture, warnings)


def _prediction(
    canonical: CanonicalModel,
    dataset: Dataset,
    flops: float,
    marginals: Mixture,
    warnings: tuple[Diagnostic, ...],
) -> Prediction:
    """With the columns of the data."""
    prediction = Prediction(canonical, marginals, warnings, flops)
    rows, grounded = row_axes(prediction), canonical.grounded
    sizes = [len(grounded.asked.get(d, grounded.indices[d].labels)) for d in rows]
    carried = carried_columns(grounded, dataset, rows, math.prod(sizes))
    return replace(prediction, carried=carried)


@dataclass(frozen=True, eq=False)
class _Latents:
    """The latents of a model at new data, at each hyperparameter point: those of the fit, or
    `extended` by new members."""

    fitted: CanonicalModel
    new: CanonicalModel
    extended: bool
    seed: int
    budget: int | None

    def frame(self, point: HyperPoint) -> Frame:
        """Gaussian of the latents, and where each latent is in it."""
        if self.extended:
            return extended_frame(self.fitted, self.new, point, self.seed, self.budget)
        return fitted_frame(self.fitted, point.condition(), point.theta)

    def at(self, point: HyperPoint) -> Marginals:
        """What the model's names are there."""
        return Marginals(self.new, point.theta, self.frame(point), self.seed)


def _gaussian_members() -> Diagnostic:
    return Diagnostic(
        "W609",
        "the predictions are those of the Gaussian posterior, which may be off",
        details=(f"draws are kept for up to {MAX_LATENTS_JOINED:,} latents, new ones included",),
        help="predict fewer new members at a time",
        severity="warning",
    )


def _covariates(fit: FitRecord, dataset: Dataset, responses: frozenset[str]) -> Dataset:
    """The data without the responses, which say nothing here, where other data size their indices:
    a file of the old responses and new covariates is no error."""
    model = fit.canonical.grounded.model
    symbols = model.of_kind("data")
    loaded = [s for s in symbols if s.name not in responses and dataset.ask(s.name) is not None]
    sized = {dim for s in loaded for dim in s.dims}
    sized |= {s.name for s in model.of_kind("index") if dataset.labels(s.name) is not None}
    idle = {s.name for s in symbols if s.name in responses and sized >= set(s.dims)}
    keys = {dataset.key(name) for name in idle}
    placements = dataset.placements
    return replace(
        dataset,
        entries={k: e for k, e in dataset.entries.items() if k not in keys},
        placements=placements and {k: e for k, e in placements.items() if k not in idle},
    )


def as_read_before(fit: FitRecord, dataset: Dataset) -> Dataset:
    """The data with every name placed, by the mapping of the fit where they have none of their
    own, and with the levels of the fit in its matrices of columns."""
    grounded = fit.canonical.grounded
    return placed(grounded.model, dataset, grounded)
