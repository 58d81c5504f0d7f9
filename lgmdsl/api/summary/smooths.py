"""The smooths of a fit: how many degrees of freedom each takes, its size, and a test of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from lgmdsl.api.columns import Columns
from lgmdsl.arrays import Array
from lgmdsl.assess.influence import Influence
from lgmdsl.assess.smooth_tests import SmoothTest, smooth_test
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import roots
from lgmdsl.canonical.queries.smooths import SmoothTerm, smooth_terms
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.rows import total, trace
from lgmdsl.contract.site import Property
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import Quantity
from lgmdsl.posterior.mixture import Mixture

TESTED = ("statistic", "ref_df", "p_value")


class Smoothed(Protocol):
    """What is read of a fit."""

    @property
    def canonical(self) -> CanonicalModel: ...
    @property
    def theta(self) -> Mapping[str, Array]: ...
    @property
    def points(self) -> tuple[HyperPoint, ...]: ...
    @property
    def gaussian_marginals(self) -> Mixture: ...
    @property
    def posterior(self) -> GaussianPosterior: ...
    def quantity(self, name: str) -> Quantity: ...


def smooth_columns(fit: Smoothed, test: bool = False) -> Columns:
    """The columns of `Fit.smooths`: a row for each smooth of the model; no rows where it has
    none."""
    terms = smooth_terms(fit.canonical)
    out: Columns = {
        "name": np.array([t.name for t in terms], dtype=str),
        "labels": np.array([t.labels for t in terms], dtype=str),
        "edf": _edf(fit, terms),
        "sd": np.array([_size(fit, t) for t in terms], dtype=np.float64),
    }
    if test:
        tests = _tests(fit, terms)
        out |= {name: np.array([t[k] for t in tests]) for k, name in enumerate(TESTED)}
    return out


def _edf(fit: Smoothed, terms: Sequence[SmoothTerm]) -> Array:
    """Averages over the points of the mixture, each of which is conditioned once."""
    out = np.zeros(len(terms))
    mixture = fit.gaussian_marginals
    for k, point in enumerate(fit.points if terms else ()):
        conditioned = mixture.part(k).frame.conditioned
        assert isinstance(conditioned, Conditioned), "a fit's own Gaussian has no new members"
        influence = Influence(fit.canonical.linear(point.theta), conditioned.unconfined)
        out += point.share * np.array([influence.edf(t.where) for t in terms])
    return out


def _size(fit: Smoothed, term: SmoothTerm) -> float:
    """The posterior mean; of a size for which all members are visited over the points of the
    mixture alone."""
    hypers = fit.gaussian_marginals.hypers
    if hypers is None or not term.single:
        return sum(p.share * term.size(p.theta) for p in fit.points)
    return float(hypers.mean(lambda theta: np.array(term.size(theta))))


def _tests(fit: Smoothed, terms: Sequence[SmoothTerm]) -> list[SmoothTest]:
    """Tests at the mode of the hyperparameters."""
    conditioned = fit.posterior.conditioned.unconfined
    influence = Influence(fit.canonical.linear(fit.theta), conditioned)
    residual_df = None
    if _noise_is_estimated(fit):
        pairs = zip(conditioned.weight, conditioned.variance, strict=True)
        fitted = total(tuple(trace(w, v) for w, v in pairs))
        residual_df = fit.canonical.observations - fitted
    return [smooth_test(influence.of(t.where), t.free(fit.theta), residual_df) for t in terms]


def _noise_is_estimated(fit: Smoothed) -> bool:
    """Whether all responses are Gaussian and their sds were learned."""
    canonical = fit.canonical
    blocks = canonical.blocks
    gaussian = all(Property.GAUSSIAN in b.site.spec.properties for b in blocks)
    known = {b.name for b in canonical.hypers.blocks if not fit.quantity(b.name).sd.any()}
    return gaussian and all(
        any(roots(canonical, p.depends, known) for p in b.parameters.values()) for b in blocks
    )
