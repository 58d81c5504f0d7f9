"""Replicated responses: posterior predictive draws over the observed rows, and at new data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.components import assessed
from lgmdsl.api.labelled import dataset, labelled
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.assess.predictive import joint_draws, responses
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, ModelError

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.api.fit import Fit
    from lgmdsl.api.predict import Prediction


def sample_predictive(
    fit: Fit, size: int, seed: int, data: object = None, mapping: Mapping[str, str] | None = None
) -> xr.Dataset:
    """Draws of every observed datum. See `Fit.sample_predictive`."""
    check_draws(size, seed)
    asked = assessed(fit, data, mapping, "sample_predictive")
    where, first = asked.observations, asked.components[0]
    found = [np.empty((size, len(m))) for m in first.mean]
    noise = np.random.default_rng([seed, 1])
    for drawn in joint_draws(asked.components, size, seed):
        c = drawn.component
        for k, s in enumerate(c.at(drawn.z)):
            found[k][drawn.places] = responses(c.sites[k], s, noise, where.names[k])
    typed = [like_data(y, site) for y, site in zip(found, first.sites, strict=True)]
    return dataset({n: where.labelled(typed, n, first="sample") for n in where.names})


def sample_response(prediction: Prediction, name: str, size: int, seed: int) -> xr.DataArray:
    """Draws of one datum at new data. See `Prediction.sample_response`."""
    check_draws(size, seed)
    block = prediction.observed(name)
    canonical, marginals = prediction.canonical, prediction.marginals
    predictor = marginals.frame.embed(
        canonical.predictor(block.written, block.dims, marginals.theta)
    )
    z = marginals.frame.conditioned.sample(np.random.default_rng(seed), size)
    s = np.repeat(predictor.offset[:, None], size, axis=1)
    for latent, operator in predictor.columns.items():
        s += operator.matvec(np.ascontiguousarray(marginals.frame.part(latent, z).T))
    site = block.bind_family(marginals.theta)
    y = like_data(responses(site, s.T, np.random.default_rng([seed, 1]), name), site)
    return labelled(
        canonical.layout, block.dims, y.reshape(size, *block.shape), name, first="sample"
    )


def check_draws(size: object, seed: object) -> None:
    """Raise ModelError E108 for a size or a seed that is not a whole number from 0."""
    for value, what in ((size, "draws are asked for in a number"), (seed, "a seed is a number")):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
            raise ModelError(Diagnostic("E108", f"{what} that is whole and not below 0"))


def like_data(y: Array, site: Site) -> AnyArray:
    """Whole numbers as such."""
    whole = {"binary", "count", "integer"} & set(site.spec.observed)
    return y.astype(np.int64) if whole else y
