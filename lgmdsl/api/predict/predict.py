"""Predictions at new rows, new levels and new GP inputs."""

# Long because everything that a prediction is asked for is a method of the one class.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.answering import answering
from lgmdsl.api.page import several
from lgmdsl.api.predict.requested import ambiguous, check_asked
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
from lgmdsl.posterior.class_response import class_moments
from lgmdsl.posterior.drawn import drawn_mixture
from lgmdsl.posterior.drawn_members import MOST, with_members
from lgmdsl.posterior.drawn_response import classes_of_draws, response_of_draws
from lgmdsl.posterior.event_moments import moments
from lgmdsl.posterior.frame import Frame, extended_frame, fitted_frame
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.labelled import dataset, labelled
from lgmdsl.posterior.marginals import Marginals, probability_levels
from lgmdsl.posterior.mixture import Mixture, mixture
from lgmdsl.posterior.new_axes import check_places
from lgmdsl.posterior.normal_mixtures import mixed_moments
from lgmdsl.posterior.response import probabilities, response_moments
from lgmdsl.posterior.site_draws import parameter_rows
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.fit.fit import Fit


@dataclass(frozen=True, eq=False)
class Prediction:
    """The posterior at new data: lets, reports and latents there, and the predictive of y.

    Results have the rows that were asked for, in their order, with the new data's labels.
    `warnings`: which reading of ambiguous data was chosen (W305 to W307), and the general warnings
    about data (W302 to W304, W308).
    """

    canonical: CanonicalModel
    marginals: Mixture
    warnings: tuple[Diagnostic, ...] = ()
    flops: float = field(default=0.0, repr=False)

    def __repr__(self) -> str:
        return f"Prediction({several(self.names)})"

    def _repr_html_(self) -> str:
        from lgmdsl.api.notebook.cards import of_prediction

        return of_prediction(self)

    @property
    def names(self) -> tuple[str, ...]:
        """What is over new rows or members, or all there is: latents, lets, reports, responses."""
        return (*self._latents, *self._names, *self._responses)

    @answering("predicting")
    def mean(self, name: str) -> xr.DataArray:
        """Mean of a let, report or latent at the new data."""
        quantity = self.marginals.quantity(name)
        return self.labelled(quantity.dims, quantity.mean, name)

    @answering("predicting")
    def sd(self, name: str) -> xr.DataArray:
        """Standard deviation of a let, report or latent at the new data."""
        quantity = self.marginals.quantity(name)
        return self.labelled(quantity.dims, quantity.sd, name)

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
        names = self._names or tuple(self.canonical.named)
        for name, values in self.marginals.draws(names, size, seed).items():
            dims = self.marginals.quantity_dims(name)
            arrays[name] = self.labelled(dims, values, first="sample")
        return dataset(arrays)

    @answering("predicting the response")
    def response(self, name: str) -> xr.Dataset:
        """The predictive distribution of an observed datum at the new data.

        `mean` and `sd` of y (NaN where the family has none); for binary and count data also
        `probability`, P(y = value) with a trailing axis `value`. Of classes `probability` alone,
        with their index set as its last axis; of counts over classes all three, of each class.
        Texts (admixtures) are as long as their counts at the new data say: `mean` and `sd` are NaN
        of those without.
        Raises ModelError E103 where the model observes no such datum.
        """
        block = self.observed(name)
        if self.marginals.of_draws:
            return self._drawn(block)
        predictors, weights = self._at(block)
        if block.classes:
            return self._classes(block, predictors, weights)
        shape, dims = block.data_shape, block.data.dims
        known = [response_moments(block.bind_family(t), m, v) for t, m, v in predictors]
        means, sds = (np.array([m[i] for m in known]) for i in (0, 1))
        first, spread = mixed_moments(weights, means, sds)
        out = {
            "mean": self.labelled(dims, first.reshape(shape), "mean"),
            "sd": self.labelled(dims, spread.reshape(shape), "sd"),
        }
        tables = [probabilities(block, t, m, v, first, spread) for t, m, v in predictors]
        finite_tables = [t for t in tables if t is not None]
        if finite_tables:
            table = np.tensordot(weights, np.array(finite_tables), axes=1)
            out["probability"] = self.labelled(
                dims, table.reshape(*shape, -1), last="value", labels=np.arange(table.shape[-1])
            )
        return dataset(out)

    def _classes(
        self,
        block: SiteBlock,
        predictors: Sequence[tuple[Mapping[str, Array], Array, Array]],
        weights: Array,
    ) -> xr.Dataset:
        """`response` of classes, or of counts over them."""
        dims = (*block.data.dims, block.classes)
        count = self.canonical.sizes[block.classes]
        moments = [class_moments(block, t, m, v, count) for t, m, v in predictors]
        probability = np.tensordot(weights, np.array([f.probability for f in moments]), axes=1)
        parts = {"probability": probability}
        if block.each:
            means, sds = np.array([f.mean for f in moments]), np.array([f.sd for f in moments])
            parts["mean"], parts["sd"] = mixed_moments(weights, means, sds)
        shape = (*block.data_shape, count)
        return dataset({k: self.labelled(dims, x.reshape(shape), k) for k, x in parts.items()})

    def _drawn(self, block: SiteBlock) -> xr.Dataset:
        """`response` by the draws that the posterior is made of."""
        draws, dims, shape = self.marginals.all_draws, block.data.dims, block.data_shape
        if block.classes:
            dims, count = (*dims, block.classes), self.canonical.sizes[block.classes]
            parts = classes_of_draws(self.canonical, block, draws, count)
            names = ("probability", "mean", "sd") if block.each else ("probability",)
            arrays = {n: x.reshape(*shape, count) for n, x in zip(names, parts, strict=False)}
            return dataset({n: self.labelled(dims, x, n) for n, x in arrays.items()})
        moments = response_of_draws(self.canonical, block, draws)
        out = {
            "mean": self.labelled(dims, moments.mean.reshape(shape), "mean"),
            "sd": self.labelled(dims, moments.sd.reshape(shape), "sd"),
        }
        if moments.probability is not None:
            table = moments.probability.reshape(*shape, -1)
            values = np.arange(table.shape[-1])
            out["probability"] = self.labelled(dims, table, last="value", labels=values)
        return dataset(out)

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
    def to_dataset(self) -> xr.Dataset:
        """Everything: NAME_mean and NAME_sd of lets, reports and responses, y_probability; and of
        the latents over an index set whose members were named."""
        out: dict[str, xr.DataArray] = {}
        like: dict[tuple[str, ...], xr.DataArray] = {}  # the same axes need not be made again
        for name in (*self._latents, *self._names):
            quantity = self.marginals.quantity(name)
            dims = quantity.dims
            for kind, part in (("mean", quantity.mean), ("sd", quantity.sd)):
                if dims not in like:
                    like[dims] = self.labelled(dims, part)
                out[f"{name}_{kind}"] = like[dims].copy(data=np.array(self._members(dims, part)))
        for name in self._responses:
            for key, values in self.response(name).items():
                out[f"{name}_{key}"] = values
        return dataset(out)

    def _dims(self, name: str) -> tuple[str, ...]:
        return self.marginals.quantity_dims(name)

    @property
    def _changed(self) -> set[str]:
        """The index sets that have members which were asked for."""
        grounded = self.canonical.grounded
        return {*grounded.replaced, *grounded.new_levels, *grounded.asked}

    @property
    def _latents(self) -> tuple[str, ...]:
        """Latents over members that were named, or over what is new where nothing else is."""
        members = {*self.canonical.grounded.asked}
        if not (self._names or self._responses):
            members = self._changed
        known = [n for n in self.canonical.latent_names if n not in self.canonical.named]
        return tuple(n for n in known if members & {*self._dims(n)})

    @property
    def _names(self) -> tuple[str, ...]:
        """Lets and reports over what is new, or all of them where nothing is."""
        named = self.canonical.named
        return tuple(
            n for n, (dims, _) in named.items() if not self._changed or self._changed & {*dims}
        )

    @property
    def _responses(self) -> tuple[str, ...]:
        """Observed data over what is new, or all of them where nothing is."""
        observed = [b for b in self.canonical.blocks if not b.family.spec.potential]
        return tuple(
            b.name for b in observed if not self._changed or self._changed & {*b.data.dims, *b.each}
        )

    def _at(self, block: SiteBlock) -> tuple[list[tuple[Mapping[str, Array], Array, Array]], Array]:
        """Hyperparameters of the sites, means and variances of their predictors; the weights. The
        sites' own parameters are averaged over the factors of a mean field, whose latents know
        them by a mean only."""
        hypers, predictors, weights = self.marginals.hypers, [], []
        thetas, shares = (
            hypers.nodes(lambda t: parameter_rows(block, t, all_rows=True))
            if hypers is not None
            else ((), np.zeros(0))
        )
        for k, weight in enumerate(self.marginals.weights):
            part = self.marginals.part(k)
            predictor = self._predictor(block, part)
            predictors += [(theta, *predictor) for theta in thetas or (part.theta,)]
            weights += list(weight * shares) if thetas else [weight]
        return predictors, np.array(weights)

    def _predictor(self, block: SiteBlock, part: Marginals) -> tuple[Array, Array]:
        predictor = self.canonical.as_written(block, part.theta)
        return moments(part.frame.conditioned, part.frame.embed(predictor))

    def observed(self, name: str) -> SiteBlock:
        """The block of an observed datum; raises ModelError E103 where there is none."""
        for block in self.canonical.blocks:
            if block.name == name and not block.family.spec.potential:
                return block
        known = [b.name for b in self.canonical.blocks if not b.family.spec.potential]
        raise ModelError(
            Diagnostic(
                "E103",
                f"the model observes no `{name}`",
                help=suggestion(name, known, f"it observes: {', '.join(known)}"),
            )
        )

    def labelled(
        self,
        dims: tuple[str, ...],
        values: AnyArray,
        name: str | None = None,
        first: str = "",
        last: str = "",
        labels: AnyArray | None = None,
    ) -> xr.DataArray:
        """Values over `dims` and one more axis, `first` or `last`: the members asked for."""
        layout, asked = self.canonical.layout, self.canonical.grounded.asked
        layout = replace(layout, labels={**layout.labels, **asked})
        values = self._members(dims, values, bool(first))
        return labelled(layout, dims, values, name, first, last, labels)

    def _members(self, dims: tuple[str, ...], values: AnyArray, before: bool = False) -> AnyArray:
        """Values at the members asked for; `before`: whether one more axis is before `dims`."""
        grounded = self.canonical.grounded
        for axis, dim in enumerate(dims):
            if dim in grounded.asked:
                places = grounded.indices[dim].positions(grounded.asked[dim])
                values = np.take(values, places, axis=axis + before)
        return values


def predict(fit: Fit, data: object, mapping: Keys | None = None) -> Prediction:
    """The posterior of a fit at new data.

    Raises DataError for data that do not fit the model, that name nothing of it (E305), or that
    would change the prior of what was fitted: E303 by their values, E302 by new members of an axis
    whose structure does not extend to them.
    """
    dataset = as_read_before(fit, data if isinstance(data, Dataset) else read(data, mapping))
    model = fit.canonical.grounded.model
    check_asked(model, usage_of(fit.canonical.grounded.graph), dataset)
    return predicted(fit, dataset)


def predicted(
    fit: Fit, dataset: Dataset, check: Callable[[GroundedModel], None] | None = None
) -> Prediction:
    """As `predict`, also for data that do not say where: then at the rows of the fit. `check`
    examines the new data first."""
    usage = usage_of(fit.canonical.grounded.graph)
    # Counts of words only give the length of a text here.
    lengths = {b.name for b in fit.canonical.blocks if b.own_trials}
    responses = usage.responses - lengths
    grounded = ground_new(fit.canonical.grounded, _covariates(fit, dataset, responses))
    if check is not None:
        check(grounded)
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
    if fit.drawn is not None:
        if not extended:
            known = drawn_mixture(
                new, fit.points, partial(fit.named_at, new), fit.hypers, fit.seed, fit.drawn
            )
            return Prediction(new, known, warnings, fit.flops)
        whole = with_members(new, fit.points, latents.frame, fit.hypers, fit.seed, fit.drawn)
        if whole is not None:
            return Prediction(new, whole, warnings, fit.flops)
        warnings = (*warnings, _gaussian_members())
    whole_mixture = mixture(new, fit.points, latents.at, fit.hypers, fit.seed)
    return Prediction(new, whole_mixture, warnings, fit.flops)


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
        """Their Gaussian and where each of them is in it."""
        if self.extended:
            return extended_frame(self.fitted, self.new, point, self.seed, self.budget)
        return fitted_frame(self.fitted, point.condition())

    def at(self, point: HyperPoint) -> Marginals:
        """What the model's names are there."""
        return Marginals(self.new, point.theta, self.frame(point), self.seed)


def _gaussian_members() -> Diagnostic:
    return Diagnostic(
        "W609",
        "the predictions are those of the Gaussian posterior, which may be off",
        details=(f"draws are kept for up to {MOST:,} latents, new ones included",),
        help="predict fewer new members at a time",
        severity="warning",
    )


def _covariates(fit: Fit, dataset: Dataset, responses: frozenset[str]) -> Dataset:
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


def as_read_before(fit: Fit, dataset: Dataset) -> Dataset:
    """The data with every name placed, by the mapping of the fit where they have none of their
    own, and with the levels of the fit in its matrices of columns."""
    grounded = fit.canonical.grounded
    return placed(grounded.model, dataset, grounded)
