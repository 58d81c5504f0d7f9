"""The predictive distribution of classes, or of counts over them: Gaussian predictors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lgmdsl.api.response import tilting
from lgmdsl.arrays import Array
from lgmdsl.bounds.softmax import complete
from lgmdsl.canonical.site_blocks import SiteBlock
from lgmdsl.contract.questions import Tilted
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.numerics.log_sum_exp import expected_log_sum_exp
from lgmdsl.sites.softmax import SoftmaxSite


class ClassMoments(NamedTuple):
    """P(class) of one trial, mean and sd of the counts, (N, K) each."""

    probability: Array
    mean: Array
    sd: Array


def class_moments(
    block: SiteBlock, theta: Mapping[str, Array], mean: Array, variance: Array, classes: int
) -> ClassMoments:
    """For s ~ N(mean, variance): (N,) each, or (N, L) and (N, L, L) of vector sites. A class is a
    count of one trial.

    Raises MethodError E501 for a third party's vector site, whose expectations nobody knows.
    """
    site = block.bind_family(theta)
    if isinstance(site, SoftmaxSite):
        return _of_softmax(site, mean, variance)
    if block.each or (site.spec.vector and not isinstance(site, Tilted)):
        told = f"the predictive distribution of {site.spec.name} is not known: a vector site"
        raise MethodError(Diagnostic("E501", told))
    p = np.empty((len(mean), classes))
    for k in range(classes):
        site = block.bind_family(theta, np.full(len(mean), float(k)))
        p[:, k] = np.exp(tilting(site).tilted(mean, variance).log_mass)
    return ClassMoments(p, p, np.sqrt(np.maximum(p * (1.0 - p), 0.0)))


def _of_softmax(site: SoftmaxSite, mean: Array, variance: Array) -> ClassMoments:
    """With E[p] the slope of E[log sum exp s] and E[p (1 - p)] the diagonal of its curvature,
    Var y = n E[p (1 - p)] + n^2 (E[p] - E[p (1 - p)] - E[p]^2)."""
    m, v = complete(mean, variance, site.classes)
    found = expected_log_sum_exp(m, v, site.offered)
    p, n = found.d_mean, site.trials[:, None]
    inside = np.einsum("nkk->nk", found.bend)
    spread = n * inside + n * n * np.maximum(p - inside - p * p, 0.0)
    return ClassMoments(p, n * p, np.sqrt(np.maximum(spread, 0.0)))
