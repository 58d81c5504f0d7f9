"""The predictive distribution of classes, or of counts over them: Gaussian predictors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.softmax import complete
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.questions import Tilted
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.numerics.expectations.log_sum_exp import expected_log_sum_exp
from lgmdsl.posterior.response import tilting
from lgmdsl.sites.vector.admixture import AdmixtureSoftmax
from lgmdsl.sites.vector.multinomial_probit import CategoricalProbit
from lgmdsl.sites.vector.softmax import SoftmaxSite
from lgmdsl.sites.vector.stick import CategoricalStick


class ClassMoments(NamedTuple):
    """P(class) of one trial, mean and sd of the counts, (N, K) each; 0 where none is on offer."""

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
    if isinstance(site, CategoricalProbit | CategoricalStick):
        found = site.predictive(mean, variance)
        return ClassMoments(found, found, np.sqrt(np.maximum(found * (1.0 - found), 0.0)))
    if isinstance(site, AdmixtureSoftmax):
        return _of_admixture(site, mean, variance, block)
    if block.each or (site.spec.vector and not isinstance(site, Tilted)):
        told = f"the predictive distribution of {site.spec.name} is not known: a vector site"
        raise MethodError(Diagnostic("E501", told))
    p = np.empty((len(mean), classes))
    for k in range(classes):
        site = block.bind_family(theta, np.full(len(mean), float(k)))
        p[:, k] = np.exp(tilting(site).tilted(mean, variance).log_mass)
    return ClassMoments(p, p, np.sqrt(np.maximum(p * (1.0 - p), 0.0)))


def _of_softmax(site: SoftmaxSite, mean: Array, variance: Array) -> ClassMoments:
    """With E[p] the slope of E[log sum exp s] and E[p (1 - p)] the diagonal of its curvature."""
    m, v = complete(mean, variance, site.classes)
    found = expected_log_sum_exp(m, v, site.offered)
    return _counts(site.trials, found.d_mean, np.einsum("nkk->nk", found.bend))


def _of_admixture(
    site: AdmixtureSoftmax, mean: Array, variance: Array, block: SiteBlock
) -> ClassMoments:
    """As of a softmax, E[pp'] = diag E[p] - curvature mapped through the topics. How many words a
    row has only its own counts say: where they are missing, means and sds are NaN."""
    found = expected_log_sum_exp(mean, variance, np.ones(mean.shape, dtype=np.bool_))
    word = found.d_mean @ site.emission
    topics = np.einsum("nk,kw->nw", found.d_mean, site.emission**2)
    topics -= np.einsum("nkl,kw,lw->nw", found.bend, site.emission, site.emission, optimize=True)
    known = np.isin(np.arange(len(mean)), block.data.rows)
    return _counts(np.where(known, site.trials, np.nan), word, word - topics)


def _counts(trials: Array, p: Array, inside: Array) -> ClassMoments:
    """Of E[p] and `inside` = E[p (1 - p)]:
    Var y = n E[p (1 - p)] + n^2 (E[p] - E[p (1 - p)] - E[p]^2)."""
    n = trials[:, None]
    spread = n * inside + n * n * np.maximum(p - inside - p * p, 0.0)
    return ClassMoments(p, n * p, np.sqrt(np.maximum(spread, 0.0)))
