"""A fit without some of its rows, whose hyperparameters are integrated anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.solve.hyper_starts import starting_values
from lgmdsl.api.solve.recondition import point_of
from lgmdsl.api.solve.solved import solve
from lgmdsl.arrays import IntArray
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Rows
from lgmdsl.errors import ModelError, NumericalError
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


def without_rows(
    fit: FitRecord, planned: Plan, removed: Sequence[IntArray]
) -> tuple[tuple[HyperPoint, ...], float] | None:
    """The points of a fit that integrates over the hyperparameters anew without some rows of
    each site block, as points of all rows (the sites of those left out have weight 0), and its
    log evidence. `planned`: how the whole model is fitted. None where the others determine no
    posterior."""
    whole = planned.canonical
    pairs = list(zip(whole.blocks, removed, strict=True))
    rest = replace(whole, blocks=tuple(block.without(out) for block, out in pairs))
    known = json.loads(fit.provenance.get("settings", "{}"))
    settings = FitSettings(
        hyper="integrate",
        fixed=known.get("fixed") or {},
        seed=fit.seed,
        tol=known.get("tol"),
        max_steps=known.get("max_steps"),
    )
    options = LearningOptions(fit.learning.design if fit.learning else "auto")
    begin = starting_values(rest.hypers, settings, fit.theta, settings.hyper)
    try:
        solved = solve(
            replace(planned, canonical=rest), settings.hyper, settings, options, begin=begin
        )
    except (ModelError, NumericalError):
        return None
    if solved.learned is None or not solved.run.status.usable:
        return None
    left = [block.remaining(out) for block, out in pairs]
    points = []
    for fitted, share in solved.learned.points:
        sites = (_among_all(x, whole, left) for x in fitted.sites)
        points.append(point_of(fit, fitted.theta, share, fitted.log_evidence, *sites))
    q = solved.posterior
    return tuple(points), solved.learned.evidence(q.log_evidence, q.guarantee)[0]


def _among_all(some: Rows, canonical: CanonicalModel, left: Sequence[IntArray]) -> Rows:
    """What the sites that are left have, among all sites of each block: 0 of the others."""
    out = []
    for block, values, rows in zip(canonical.blocks, some, left, strict=True):
        whole = np.zeros((len(block.rows), *values.shape[1:]))
        whole[rows] = values
        out.append(whole)
    return tuple(out)
