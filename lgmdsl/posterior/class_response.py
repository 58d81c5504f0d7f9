"""The predictive distribution of classes, or of counts over them: Gaussian predictors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.predictive import repeated
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.classes import Classes, ClassMoments
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError


def class_moments(
    block: SiteBlock,
    theta: Mapping[str, Array],
    mean: Array,
    variance: Array,
    classes: int,
    draws: int = 1,
) -> ClassMoments:
    """For s ~ N(mean, variance): (N,) each, or (N, L) and (N, L, L) of vector sites; of several
    draws these and the answers have `draws` N rows, draws first. A class is a count of one trial.

    Raises MethodError E501 for a third party's vector site, whose expectations are unknown.
    """
    site = repeated(block.bind_family(theta), draws)
    if isinstance(site, Classes):
        answer = site.class_moments(mean, variance)
        if not block.own_trials:
            return answer
        # the number of trials is the sum of the counts: unknown where they are missing
        known = np.isin(np.arange(len(mean)) % (len(mean) // draws), block.data.rows)[:, None]
        counts = (np.where(known, one, np.nan) for one in (answer.mean, answer.sd))
        return ClassMoments(answer.probability, *counts)
    if block.each or (site.spec.vector and not isinstance(site, Tilted)):
        message = f"the predictive distribution of {site.spec.name} is not known: a vector site"
        raise MethodError(Diagnostic("E501", message))
    p = np.empty((len(mean), classes))
    for k in range(classes):
        site = repeated(block.bind_family(theta, np.full(len(mean) // draws, float(k))), draws)
        p[:, k] = np.exp(_tilting(site).tilted(mean, variance).log_mass)
    return ClassMoments.of_one_trial(p)


def _tilting(site: Site) -> Tilted:
    """The site as Tilted: itself, or through the first bound that gives it."""
    if isinstance(site, Tilted):
        return site
    lifts = (b for b in bounds() if b.spec.gives is Tilted and not b.applies_to(type(site)))
    return cast(Tilted, next(lifts).lift(site))
