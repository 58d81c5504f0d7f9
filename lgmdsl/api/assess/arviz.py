"""fit.to_arviz(): a fit as ArviZ reads it, an xarray.DataTree by the InferenceData schema."""

from __future__ import annotations

import json
import warnings
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import Assessed, assessed, every_value
from lgmdsl.api.assess.predictive import like_data
from lgmdsl.arrays import Array
from lgmdsl.assess.predictive import log_densities, responses
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.dataset import Keys
from lgmdsl.posterior.frame import fitted_frame
from lgmdsl.posterior.labelled import dataset, free_name, labelled
from lgmdsl.posterior.marginals import Marginals, all_names, check_draws, named_tree
from lgmdsl.posterior.mixture import evaluated
from lgmdsl.posterior.prior_draws import (
    SimulationWarning,
    left_out_warning,
    prior_to_draw,
    refuse_potentials,
)
from lgmdsl.posterior.shifted_draws import hypers_of

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord

AXES = ("chain", "draw")  # which ArviZ knows by name


def to_arviz(
    fit: FitRecord,
    size: int,
    seed: int,
    data: object = None,
    mapping: Keys | None = None,
    prior: int = 0,
) -> xr.DataTree:
    """Draws and densities in ArviZ's groups. See `Fit.to_arviz`."""
    import xarray as xr

    check_draws(size, seed)
    check_draws(prior, seed)
    asked = assessed(fit, data, mapping, "to_arviz")
    posterior, replicated, density = _drawn(fit, asked, size, seed)
    where, sites = asked.observations, asked.at_points[0].sites
    values = every_value(asked.canonical)
    typed = [like_data(y, site) for y, site in zip(replicated, sites, strict=True)]
    seen = [like_data(site.y.reshape(-1), site) for site in sites]  # type: ignore[attr-defined]
    layout = asked.canonical.layout
    groups = {
        "posterior": _chain({
            name: labelled(layout, dims, values, name, first="draw")
            for name, (dims, values) in posterior.items()
        }),
        "posterior_predictive": _chain(
            {n: values.labelled(typed, n, first="draw") for n in where.names}
        ),
        "log_likelihood": _chain(
            {n: where.labelled(density, n, first="draw") for n in where.names}
        ),
        "observed_data": _set_apart(dataset({n: values.labelled(seen, n) for n in where.names})),
        "constant_data": _constants(asked),
    }  # fmt: skip
    if prior:
        named, drawn = prior_draws(fit, asked, tuple(posterior), prior, seed)
        unseen = [like_data(y, site) for y, site in zip(drawn, sites, strict=True)]
        groups["prior"] = _chain({
            name: labelled(layout, dims, values, name, first="draw")
            for name, (dims, values) in named.items()
        })  # fmt: skip
        groups["prior_predictive"] = _chain(
            {n: values.labelled(unseen, n, first="draw") for n in where.names}
        )
    origin = {
        "created_at": datetime.now(UTC).isoformat(),
        "creation_library": "lgmdsl",
        "creation_library_version": fit.provenance.get("version_lgmdsl", ""),
        "inference_library": f"lgmdsl {fit.method}",
    }
    full = {name: group.assign_attrs(origin) for name, group in groups.items() if group.variables}
    return xr.DataTree.from_dict(full, name="lgmdsl")


def _drawn(
    fit: FitRecord, asked: Assessed, size: int, seed: int
) -> tuple[dict[str, tuple[tuple[str, ...], Array]], list[Array], list[Array]]:
    """Named quantities, replicated responses and log densities at the same joint draws."""
    canonical, first = asked.canonical, asked.at_points[0]
    posterior: dict[str, tuple[tuple[str, ...], Array]] = {}
    replicated = [np.empty((size, len(rows))) for _, _, rows in every_value(canonical).blocks]
    density = [np.empty((size, len(m))) for m in first.mean]
    names = tuple(dict.fromkeys((*canonical.latent_names, *all_names(canonical))))
    of = {n: f for n in names if (f := fit.marginals.of_hypers(n)) is not None}
    mixed = [hypers_of(named_tree(canonical, n)[1]) for n in names if n not in of]
    noise, hypers = np.random.default_rng([seed, 1]), asked.drawn_hypers(seed, any(mixed))
    for drawn in asked.joint_draws(size, seed):
        c = drawn.component
        thetas = hypers.at(drawn.points, drawn.places)
        marginals = Marginals(canonical, c.theta, fitted_frame(canonical, c.conditioned))
        z = hypers.carry(drawn.points, drawn.places, drawn.z)
        for name in names:
            if name in of and thetas:
                values = np.array([of[name](theta) for theta in thetas])
            else:
                values = evaluated(marginals, name, z, thetas if hypers.mixing else ())
            if name not in posterior:
                whole = np.empty((size, *values.shape[1:]))
                posterior[name] = (marginals.quantity_dims(name), whole)
            posterior[name][1][drawn.places] = values
        for k, s in enumerate(asked.predictors(c, z, thetas)):
            for turn, site in asked.drawn_sites(k, c.theta, thetas, len(s)):
                with np.errstate(all="ignore"):
                    level = log_densities(site, s[turn])
                density[k][drawn.places[turn]] = level * first.row_weights[k]
                y = responses(site, s[turn], noise, asked.observations.names[k])
                replicated[k][drawn.places[turn]] = y.reshape(len(y), -1)
    return posterior, replicated, density


def _chain(arrays: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """With a chain of length 1 in front, and draws numbered."""
    group = dataset(arrays)
    for array in group.values():
        draw = array.dims[0]
        numbered = group.assign_coords({draw: np.arange(group.sizes[draw])})
        return _set_apart(numbered, draw).expand_dims(chain=[0])
    return group


def _set_apart(group: xr.Dataset, draw: Hashable = None) -> xr.Dataset:
    """With the axis of draws called `draw`, and index sets of the names of ArviZ's axes NAME_2."""
    names = {} if draw is None else {draw: "draw"}
    taken = {*AXES, *group.dims, *group.variables} - {draw}
    names |= {d: free_name(str(d), taken) for d in group.dims if d in AXES and d != draw}
    return group.rename({d: name for d, name in names.items() if d != name})


def _constants(asked: Assessed) -> xr.Dataset:
    """Arrays over index sets among the data that are no responses: covariates."""
    canonical = asked.canonical
    grounded, observed = canonical.grounded, set(asked.observations.names)
    arrays, indices = {}, grounded.indices
    for symbol in grounded.model.of_kind("data"):
        value = grounded.values.get(symbol.name)
        if symbol.name in observed or not isinstance(value, np.ndarray):
            continue
        if symbol.target is not None:
            labels = indices[symbol.target].labels
            value = np.where(value < 0, labels[:0].dtype.type(), labels[np.maximum(value, 0)])
        arrays[symbol.name] = labelled(canonical.layout, symbol.dims, value, symbol.name)
    return _set_apart(dataset(arrays))


# ---- prior -------------------------------------------------------------------------------------
# Draws of everything from the prior, responses included, for ArviZ.


Named = dict[str, tuple[tuple[str, ...], Array]]


def prior_draws(
    fit: FitRecord, asked: Assessed, names: tuple[str, ...], size: int, seed: int
) -> tuple[Named, list[Array]]:
    """`size` draws of the names, with their dims, and of the responses of each observed block at
    its observed rows.

    Hyperparameters that the fit pinned stay so. Priors that are flat in some
    directions are drawn without these (W402). Raises ModelError (E402 for a flat prior, E501
    for a potential), MethodError E503 for a hyperparameter whose prior cannot be drawn from.
    """
    canonical = asked.canonical
    refuse_potentials(canonical)
    pinned = json.loads(fit.provenance.get("settings", "{}")).get("fixed")
    rng, noise = np.random.default_rng([seed, 3]), np.random.default_rng([seed, 4])
    free = canonical.hypers.unpinned(pinned or ())
    # With free hyperparameters each draw has its own; without, one prior is drawn from at once.
    turns = [(canonical.hypers.sample(rng, pinned), 1) for _ in range(size)] if free else []
    turns = turns or [(canonical.hypers.sample(rng, pinned), size)]
    left_out: dict[str, int] = {}
    replicated: list[list[Array]] = [[] for _ in asked.at_points[0].mean]
    parts: dict[str, list[Array]] = {name: [] for name in names}
    for theta, count in turns:
        linear = canonical.linear(theta)
        drawn = prior_to_draw(canonical, linear)
        q, left_out = drawn.gaussian, drawn.left_out
        z = q.sample(rng, count)
        marginals = Marginals(canonical, theta, fitted_frame(canonical, q), seed)
        for name in names:
            parts[name].append(marginals.evaluate(name, z))
        for k, y in enumerate(_responses(asked, theta, z, noise)):
            replicated[k].append(y)
    warning = left_out_warning(canonical, left_out)
    if warning is not None:
        warnings.warn(warning.render(), SimulationWarning, stacklevel=4)
    named = {n: (fit.marginals.quantity_dims(n), np.concatenate(parts[n])) for n in names}
    return named, [np.concatenate(part) for part in replicated]


def _responses(asked: Assessed, theta: Theta, z: Array, noise: np.random.Generator) -> list[Array]:
    """(draws, values) of each observed block, given draws z of the latents."""
    out = []
    predictors = asked.predictors(asked.at_points[0], z, (theta,) * len(z))
    for k, s in enumerate(predictors):
        pieces = [
            responses(site, s[turn], noise, asked.observations.names[k])
            for turn, site in asked.drawn_sites(k, theta, (), len(s))
        ]
        out.append(np.concatenate(pieces).reshape(len(s), -1))
    return out
