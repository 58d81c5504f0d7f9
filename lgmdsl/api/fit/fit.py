"""The result of a fit: labelled moments, quantiles, draws, predictions, a summary, a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.answering import answering
from lgmdsl.api.assess.assessable import Assessable
from lgmdsl.api.columns import LEVELS
from lgmdsl.api.frames.framed import Framed
from lgmdsl.api.page import several
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.dataset import Keys
from lgmdsl.html import Page
from lgmdsl.posterior.fit_record import FitRecord
from lgmdsl.posterior.labelled import dataset, labelled, with_estimate
from lgmdsl.posterior.marginals import probability_levels
from lgmdsl.state import made_by
from lgmdsl.workers.task import Jobs

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from lgmdsl.api.assess.audit import Audit
    from lgmdsl.api.predict.by_shards import ShardPredictions
    from lgmdsl.api.predict.impute import Imputation
    from lgmdsl.api.predict.predict import Prediction
    from lgmdsl.workers.task import Jobs


@made_by("lgm.fit", "lgm.load_fit")
@dataclass(frozen=True, eq=False)
class Fit(Assessable, Framed):
    """A posterior of a model with its record: Gaussian at fixed or maximised hyperparameters,
    a mixture of Gaussians over `points` where they were integrated (`hyper`).

    `log_evidence` is log p(y | hypers) in nats, as the method estimates it, and log p(y) where
    hyperparameters were integrated; `guarantee` says whether it is exact, a bound or an
    approximation. `theta`, `weight` and `shift` (the sites' W and b), `posterior` and `trace` are
    those at the hyperparameters' mode. Everything named in the model can be asked for by name;
    results are xarray.DataArrays with the model's labels, `fit["u"]` is its mean, sd and quantiles
    in one xarray.Dataset, and `fit.names` are all names. Fits are equal where model, data, settings
    and results are, and can be pickled and copied: everything is answered with the same digits, in
    any process. `starts`: the result of each start, where the sites are not log-concave and several
    were tried. `audited`: the audit that summary and file show, where one was asked for.
    `hyper` is how hyperparameters were treated (fixed, map, em, integrate or vb),
    `hyper_marginals` their marginals where they were learned, `learning` how they were found.
    `accuracy`: the largest estimated error of what is reported; `log_evidence_corrected`: log p(y)
    with the estimated gap, nearer to the truth and without a guarantee; NaN where there is no
    estimate. `drawn`: draws of the latents, exact or right to second order, of which everything
    that is reported of them is made where the Gaussian posterior is too far off
    (`fit.marginals`), assessments (LOO, WAIC, ...) included; `posterior`, `conditional` and
    `gaussian_marginals` remain those of the Gaussian, and so do the scores of `lgm.design`.
    `checkpoint`: of an integration that was interrupted, from which
    `lgm.fit(..., start_from=fit)` goes on. `stages`: what was done, in its order, each with the
    reason why, the fits that it made and its seconds, without those of the stages within it: their
    sum is `seconds`.
    """

    audited: Audit | None = field(default=None, repr=False)

    @classmethod
    def of(cls, record: FitRecord) -> Fit:
        """The record, to be asked by its user."""
        return cls(**{f.name: getattr(record, f.name) for f in fields(FitRecord)})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> xr.Dataset:
        """`mean`, `sd` and the 5, 50 and 95 % points (`quantiles`, leading axis `quantile`) of a
        name; `estimate` is the mean again, for attribute access: `fit["u"].estimate` (`.mean` is a
        method of every Dataset). Raises ModelError E103 for an unknown name."""
        quantiles = self.quantile(name, LEVELS)
        parts = {"mean": self.mean(name), "sd": self.sd(name), "quantiles": quantiles}
        return dataset(with_estimate(parts))

    def __eq__(self, other: object) -> bool:
        """Whether two fits answer alike: of one model, data, method and settings, with the same
        evidence, hyperparameters and sites. (How long they took does not count.)"""
        if not isinstance(other, Fit):
            return NotImplemented
        if self.provenance != other.provenance or self.log_evidence != other.log_evidence:
            return False
        pairs = [*zip(self.weight, other.weight, strict=True)]
        pairs += zip(self.shift, other.shift, strict=True)
        pairs += [(self.theta[name], other.theta[name]) for name in self.theta]
        return len(self.mixed) == len(other.mixed) and all(np.array_equal(*p) for p in pairs)

    def __hash__(self) -> int:
        return hash((frozenset(self.provenance.items()), self.log_evidence))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.names)

    def __repr__(self) -> str:
        ways = "" if self.hyper == "fixed" else f", hyper={self.hyper!r}"
        return (
            f"Fit({self.method!r}{ways}, {self.status}, log_evidence={self.log_evidence:.6g}: "
            f"{several(self.names)})"
        )

    def _repr_html_(self) -> str:
        from lgmdsl.api.notebook.cards import of_fit

        return of_fit(self, self._page(full=False, warned=False))

    def _page(self, full: bool, warned: bool) -> str:
        from lgmdsl.api.summary.summary import summary

        text = summary(self, full, warned)
        return text if self.audited is None else f"{text}\n\n{self.audited}"

    @answering("computing means")
    def mean(self, name: str) -> xr.DataArray:
        """Posterior mean of a latent, let, report or hyper; raises ModelError E103 if unknown."""
        quantity = self.quantity(name)
        return self._labelled(name, quantity.dims, quantity.mean)

    @answering("computing sds")
    def sd(self, name: str) -> xr.DataArray:
        """Posterior standard deviation of a latent, let, report or hyper."""
        quantity = self.quantity(name)
        return self._labelled(name, quantity.dims, quantity.sd)

    @answering("computing precisions")
    def precision(self, name: str) -> xr.DataArray:
        """(k, k) the inverse of a covariance hyper's value; its zeros under a graphical lasso are
        exactly 0. Raises ModelError E103 for a name that is no covariance."""
        from lgmdsl.posterior.precisions import precision

        return precision(self, name)

    @answering("computing quantiles")
    def quantile(self, name: str, probabilities: Sequence[float]) -> xr.DataArray:
        """Posterior quantiles, with a leading `quantile` axis.

        Gaussian for affine quantities, transformed for monotone reports, else from draws; all from
        the posterior's own draws where there are any (`fit.drawn`).
        """
        levels = probability_levels(probabilities)
        dims, values = self.marginals.quantile(name, levels)
        layout = self.canonical.layout
        return labelled(layout, dims, values, name, first="quantile", labels=levels)

    @answering("computing densities")
    def density(self, name: str, size: int = 201) -> xr.Dataset:
        """Marginal densities of a latent, let, report or learned hyper, entry by entry: variables
        `x` and `density` with a last axis `point` of `size` points, all but 1e-5 of each tail.

        A mixture of normals for affine quantities, transformed for monotone reports; hypers from
        the nodes of their posterior, or normal in unconstrained coordinates after `map`. Reports
        summarised by draws have a kernel estimate of them (attribute `from`). NaN for entries
        that are fixed; raises MethodError E501 where all are, ModelError E103 or E108.
        """
        from lgmdsl.posterior.marginal_density import labelled_density

        return labelled_density(self, name, size)

    @answering("drawing samples")
    def sample(
        self, size: int, seed: int | None = None, names: Sequence[str] | None = None
    ) -> xr.Dataset:
        """Exact joint draws from q of every latent, let and report (or of `names`); where the
        posterior is made of draws (`fit.drawn`), these in random order.

        The same seed gives the same digits. The leading axis is `sample`. Where hyperparameters
        were integrated, latents are drawn at the points of the mixture, and hyperparameters, if
        named, from the part of their posterior that each point stands for.
        """
        wanted = [names] if isinstance(names, str) else names
        if wanted is None:
            wanted = list(dict.fromkeys((*self.canonical.shown_names, *self.canonical.named)))
        drawn = self.marginals.draws(wanted, size, self.seed if seed is None else seed)
        arrays = {}
        for name, values in drawn.items():
            dims = self.marginals.quantity_dims(name)
            arrays[name] = labelled(self.canonical.layout, dims, values, first="sample")
        return dataset(arrays)

    @answering("predicting")
    def predict(self, data: object, mapping: Keys | None = None) -> Prediction:
        """Predictions at new rows, new levels and new inputs, without refitting: the rows of
        `data`, in their order, labels as often as they are given.

        Index sets over which a structure is ordered (`ar1 ar rw1 rw2 seasonal ou`) take labels
        under their own name, `{"t": [30, 31]}`, before, between and beyond those of the fit, known
        ones among them, and so do maps into them. New members follow the fitted prior
        given the fitted ones: its scale and its sum to zero stay as they are. Rows without
        labels are new ones: their own latents have their prior.

        `data` holds what the predictors of the new rows need, and `n` or `exposure` for responses
        on their scale. The response, `event`, `lower` and `upper` may be left out and say nothing
        where they are given: responses of new units that are known in part are completed by a fit
        to them, `lgm.fit(model, data, fixed=...).impute()`.

        Raises DataError: E305 where `data` name nothing that rows could be asked for by, or lack a
        covariate; E302 for members that a structure cannot have. Ambiguities are
        in the prediction's `warnings`, each a `lgm.PredictionWarning`: labels of groups that the
        fit does not know are new members (W307), and may be mistyped.
        """
        from lgmdsl.api.predict.predict import predict
        from lgmdsl.api.predict.requested import say

        prediction = predict(self, data, mapping)
        say(prediction.warnings)
        return prediction

    @answering("imputing")
    def impute(self, data: object = None, mapping: Keys | None = None) -> Imputation:
        """Every observed datum completed, by name: given entries as they are, missing ones their
        predictive mean (binary: the probability of 1; of classes that of each, over one more axis);
        `.sd(name)` is its uncertainty, and `.probability(name)` gives P(y = value).

        A fit read from a file needs its `data` again (`mapping` renames keys): DataError E305
        without, E303 for other data.
        """
        from lgmdsl.api.predict.impute import impute

        return impute(self, data, mapping)

    @answering("auditing the posterior")
    def audit(
        self,
        n: int = 4000,
        seed: int = 0,
        data: object = None,
        mapping: Keys | None = None,
        sampler: bool = False,
        jobs: Jobs = None,
    ) -> Audit:
        """How far this posterior is from the truth, by importance sampling with n draws: k-hat,
        corrected log evidence, means, sds and 5 and 95 % points, and a verdict. The same seed gives
        the same digits. `sampler`: by n or more draws of an exact sampler, where weights cannot
        tell; so is a fit that reports exact draws (`drawn`), against draws of its own. `jobs`
        shares the draws, as in `lgm.fit`; the bits are the same.

        A fit read from a file needs its `data` again (`mapping` renames keys). Raises MethodError
        E501 without arviz-stats (extra `arviz`), DataError for other data.
        """
        from lgmdsl.api.assess.audit import audit

        return audit(self, n, seed, data, mapping, sampler, jobs)

    @answering("summarising the fit")
    def summary(self, full: bool = False) -> str:
        """A page of text in 80 columns: status, evidence, hypers, latents (`full`: all rows)."""
        return Page(self._page(full, warned=True))

    @answering("drawing the fit")
    def plot(
        self,
        target: str | os.PathLike[str] | Sequence[str],
        format: str = "png",
        names: Sequence[str] | None = None,
        data: object = None,
        mapping: Keys | None = None,
        *,
        ax: Axes | Sequence[Axes] | AnyArray | None = None,
    ) -> Any:
        """A name, or several, on matplotlib axes; or everything into a folder.

            fit.plot("f")                    # a new figure, which a notebook shows; its axes
            fit.plot("f", ax=ax)             # on axes of yours
            fit.plot(["f", "u", "s"])        # a panel for each; an array of axes
            fit.plot("pictures")             # files, one for each picture; their paths
            fit.plot("pictures", "svg", names=["f"])

        What has an order is a line with 50 % and 90 % bands, with what was observed over it where
        it is the mean of the response, and a grey ground where there are no data (a forecast). A
        spline over the rows of a Gaussian response is shown with its partial residuals. What has
        places is a map, or a surface where there are values between them (a gp). The rest are dots
        with whiskers; more than 40 are sorted, with the labels of the lowest and the highest. Over
        two indices: a line for each of up to 40 groups along what has an order, else a colour for
        each of up to 8 groups, or a panel where they are of unlike size (random slopes) or have
        more than 40 members; a heat map of two long orders, or of more groups. Hyperparameters are
        densities, with their prior behind. An observed datum (`"y"`) is shown with what is
        predicted of it; of a fit read from a file that takes its `data`. Maps and heat maps have
        two panels, mean and sd: give axes for each panel, or one for the first.

        A folder (`target`; a path that is no name, such as "pictures" or "./f") gets everything
        that is not fixed, or `names`, and is made if need be. `format`: png, svg or pdf. Files:
        `latent_f.png`, `let_eta.png`, `report_p.png`, `scalars.png`, `map_f.png`, `terms.png` (a
        panel for each latent), `hyper.png`, `response_y.png`, and `pit.png`, the histogram of
        leave-one-out transforms.

        Raises MethodError E501 without matplotlib (extra `plot`) or where nothing can be drawn,
        ModelError E103 for an unknown name, DataError E306 for a folder that takes no files.
        """
        from lgmdsl.api.pictures.on_axes import drawn

        return drawn(self, target, ax, format, names, data, mapping)

    @answering("writing the fit")
    def groups(
        self,
        shards: object,
        output: str | os.PathLike[str],
        *,
        mapping: Keys | None = None,
        jobs: Jobs = None,
    ) -> tuple[Path, ...]:
        """Write means and sds of the groups' latents of a fit to shards, as .parquet files, one
        for each shard, in the new folder `output`: a row for each group, with its label and
        columns `NAME.mean` and `NAME.sd`, `NAME[member].mean` where a latent has another index.
        Moments are those of the mixture where hyperparameters were integrated over.

        `shards`: what the fit was made of, the folder or a list of it and other data; `mapping`,
        by default that of the fit, and `jobs` as for `lgm.fit`.
        Returns the paths. Raises MethodError E501 for a fit that was not made of shards, DataError
        E306 for a folder that holds something, WorkerError E703 for other shards than the fit's.

            fit = lgm.fit(model, "visits.shards", "laplace", jobs=2)
            fit.groups("visits.shards", "patients", jobs=2)
        """
        from lgmdsl.api.sharding import write_groups

        return write_groups(self, shards, output, mapping, jobs)

    @answering("predicting")
    def predict_shards(
        self,
        shards: str | os.PathLike[str],
        output: str | os.PathLike[str],
        *,
        fitted: object = None,
        quantiles: Sequence[float] | None = LEVELS,
        mapping: Keys | None = None,
        jobs: Jobs = None,
    ) -> ShardPredictions:
        """Write predictions at the rows of a folder of shards, as .parquet files, one for each
        shard with its rows in their order, in the new folder `output`: the columns that
        `predict(...).frame()` has (`quantiles=()`: none). Rows without labels are counted from
        shard to shard.

        `shards`: the folder that the fit was made of, or new rows that `lgm shard` has split: by
        the same groups or by others, into any number of shards. `fitted`: with new rows, and where
        the fit was made of other data next to the folder, what it was made of. Groups
        that the fit does not know have their prior. A fit with all rows in memory needs no
        `fitted`. `mapping`: as for `lgm.fit`, by default that of the fit; `jobs` as there.

        Returns the paths, the columns and what is not over the rows. Ambiguities are in the
        `warnings` of what is returned, each a `lgm.PredictionWarning`. Raises as `predict`;
        DataError E306 for a folder that is there or holds no shards, MethodError E501 for other
        shards without `fitted`, WorkerError E703 for shards that are lost or changed, or not the
        fit's.

            fit = lgm.fit(model, "visits.shards", "laplace", jobs=2)
            fit.predict_shards("visits.shards", "predictions", jobs=2)
            fit.predict_shards("next_year.shards", "next_year", fitted="visits.shards")
        """
        from lgmdsl.api.predict.by_shards import predict_shards
        from lgmdsl.api.predict.requested import say

        written = predict_shards(self, shards, output, fitted, quantiles, mapping, jobs)
        say(written.warnings)
        return written

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a NetCDF file, whole or not at all; `load_fit` and plain xarray open it."""
        from lgmdsl.api.files.store import save

        save(self, self.audited, path)

    def _labelled(self, name: str, dims: tuple[str, ...], values: Array) -> xr.DataArray:
        return labelled(self.canonical.layout, dims, values, name)
