"""Draws of everything from the prior, responses included, for ArviZ."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import Assessed
from lgmdsl.arrays import Array
from lgmdsl.assess.predictive import responses
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.posterior.frame import fitted_frame
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.prior_draws import (
    SimulationWarning,
    left_out_warning,
    prior_to_draw,
    refuse_potentials,
)

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

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
