"""Precision matrices of covariance hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.errors import ModelError, suggestion
from lgmdsl.posterior.labelled import labelled
from lgmdsl.priors.covariance import sparse_inverse

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord


def precision(fit: FitRecord, name: str) -> xr.DataArray:
    """See `Fit.precision`."""
    known = [b.name for b in fit.canonical.hypers.blocks if b.type == "covariance"]
    if name not in known:
        listing = f"the covariances are: {', '.join(known)}" if known else "the model has none"
        raise ModelError.of(
            "E103", f"no covariance is named `{name}`", help=suggestion(name, known, listing)
        )
    quantity = fit.quantity(name)
    return labelled(fit.canonical.layout, quantity.dims, sparse_inverse(quantity.mean), name)
