"""Every observed datum in full: what is missing gets its predictive mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.page import several
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.api.response_data import with_responses
from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.model import Layout
from lgmdsl.dataset import Keys
from lgmdsl.errors import ModelError, listed, suggestion
from lgmdsl.html import Paged
from lgmdsl.posterior.labelled import labelled

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class Completed:
    """One datum over `dims`: `values` and `sd`, and over the datum's axes `own_dims` the entries
    that were `missing`. A class is one more axis of `dims`, its values are probabilities.
    `probability` of binary data has one more axis of the values `labels`."""

    dims: tuple[str, ...]
    values: Array
    sd: Array
    own_dims: tuple[str, ...]
    missing: Array
    probability: Array | None = None
    labels: Array | None = None


@dataclass(frozen=True, eq=False)
class Imputation(Mapping[str, "xr.DataArray"], Paged):
    """Every observed datum by name, completed: given entries as they are, missing ones their
    predictive mean (binary: the probability of 1; of classes that of each, over one more axis).
    `sd` and `probability` are its uncertainty."""

    layout: Layout
    data: Mapping[str, Completed]

    def __getitem__(self, name: str) -> xr.DataArray:
        """The datum in its full shape, labelled; raises ModelError E103 for another name."""
        completed = self._of(name)
        return labelled(self.layout, completed.dims, completed.values, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def sd(self, name: str) -> xr.DataArray:
        """Predictive sds: 0 where the entry was given, NaN where the family has none."""
        completed = self._of(name)
        return labelled(self.layout, completed.dims, completed.sd, f"{name}_sd")

    def missing(self, name: str) -> xr.DataArray:
        """Whether an entry was missing."""
        completed = self._of(name)
        return labelled(self.layout, completed.own_dims, completed.missing, f"{name}_missing")

    def probability(self, name: str) -> xr.DataArray:
        """P(y = value) with a last axis `value`, or of the classes, 0 and 1 where the entry was
        given.

        Raises ModelError E103 for data that are neither binary nor categorical.
        """
        completed = self._of(name)
        if len(completed.dims) > len(completed.own_dims):
            return labelled(self.layout, completed.dims, completed.values, f"{name}_probability")
        if completed.probability is None:
            has = [n for n, c in self.data.items() if _has_classes(c)]
            advice = (
                f"data with classes: {', '.join(has)}"
                if has
                else "`sd` is the uncertainty of a mean"
            )
            raise ModelError.of("E103", f"`{name}` has no classes", help=advice)
        return labelled(
            self.layout,
            completed.dims,
            completed.probability,
            f"{name}_probability",
            last="value",
            labels=completed.labels,
        )

    def arrays(self) -> dict[str, xr.DataArray]:
        """y, y_sd and, where it has classes, y_probability of every datum y."""
        out = {}
        for name, completed in self.data.items():
            out[name], out[f"{name}_sd"] = self[name], self.sd(name)
            if completed.probability is not None:
                out[f"{name}_probability"] = self.probability(name)
        return out

    def __repr__(self) -> str:
        filled = [f"{n}: {c.missing.sum():,} of {c.missing.size:,}" for n, c in self.data.items()]
        return f"Imputation({several(filled)})"

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {_filled(int(c.missing.sum()), c.missing.size)}"
            for name, c in self.data.items()
        )

    def _of(self, name: str) -> Completed:
        if name in self.data:
            return self.data[name]
        has = f"it observes: {listed(list(self.data))}"
        raise ModelError.of(
            "E103", f"the model observes no `{name}`", help=suggestion(name, self.data, has)
        )


def impute(fit: FitRecord, data: object = None, mapping: Keys | None = None) -> Imputation:
    """Complete every observed datum of a fit. See `Fit.impute`."""
    fit, canonical = with_responses(fit, data, mapping, "impute", "fit.impute(data=...)")
    prediction = Prediction(canonical, fit.marginals, flops=fit.flops)
    observed = [b for b in canonical.blocks if not b.family.spec.potential]
    return Imputation(canonical.layout, {b.name: _completed(prediction, b) for b in observed})


def _completed(prediction: Prediction, block: SiteBlock) -> Completed:
    """Predictions wherever the datum was not given."""
    data = block.data
    rows, y = prediction.canonical.given(block)
    missing = np.ones(math.prod(block.data_shape), dtype=bool)
    missing[rows] = False
    if block.classes:
        return _of_classes(prediction, block, y, missing)
    shape = block.data_shape
    values, sd = np.empty(len(missing)), np.zeros(len(missing))
    values[rows] = y
    table, labels = None, None
    binary = "count" not in block.family.spec.observed  # a count's table has no end
    if binary or missing.any():
        response = prediction.response(block.name)
        values[missing] = response["mean"].values.reshape(-1)[missing]
        sd[missing] = response["sd"].values.reshape(-1)[missing]
        if binary and "probability" in response:
            axis = str(response["probability"].dims[-1])
            labels = response[axis].values
            table = np.array(response["probability"].values).reshape(len(missing), -1)
            table[rows] = y[:, None] == labels
            table = table.reshape(*shape, -1)
    return Completed(
        data.dims,
        values.reshape(shape),
        sd.reshape(shape),
        data.dims,
        missing.reshape(shape),
        table,
        labels,
    )


def _of_classes(prediction: Prediction, block: SiteBlock, y: Array, missing: Array) -> Completed:
    """One more axis of classes: the probability of each, or its mean count where rows count them.

    A given class is certain, and its indicator has no sd.
    """
    data, dims = block.data, (*block.data.dims, block.classes)
    response = prediction.response(block.name)
    values = response["mean" if block.each else "probability"].values
    shape, classes = values.shape, values.shape[-1]
    values = values.reshape(-1, classes)
    sd = response["sd"].values if block.each else np.sqrt(np.maximum(values * (1.0 - values), 0.0))
    sd = sd.reshape(-1, classes).copy()
    values[data.rows] = y if block.each else y[:, None] == np.arange(classes)
    sd[data.rows] = 0.0
    if block.each:  # the datum itself has the axis of classes
        gaps = np.repeat(missing[:, None], classes, axis=1).reshape(shape)
        return Completed(dims, values.reshape(shape), sd.reshape(shape), dims, gaps)
    gaps = missing.reshape(block.data_shape)
    return Completed(dims, values.reshape(shape), sd.reshape(shape), data.dims, gaps)


def _has_classes(completed: Completed) -> bool:
    return completed.probability is not None or len(completed.dims) > len(completed.own_dims)


def _filled(count: int, size: int) -> str:
    if not count:
        return f"nothing is missing: all {size:,} entries as they were given"
    return f"{count:,} of {size:,} entries were missing"
