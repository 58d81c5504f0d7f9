"""Audits against quadrature, on random models with one to three latents."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgmdsl.accuracy.limits import LEVELS
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.verdict import Outcome
from tests.assess.small_models import LOGISTIC, SmallModel, Truth, small_model, truth

BOUNDS = ("jaakkola", "bohning", "piecewise-quadratic-4")
# The rates below were measured on 300 models (HYPOTHESIS_PROFILE=thorough).
MODELS = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 36


def fits(model: SmallModel) -> Iterator[Fit]:
    """Laplace, the variational Gaussian, and the latter through every kind of bound."""
    yield model.fit("laplace")
    yield model.fit("natural-gradient")
    if model.family in LOGISTIC:
        for bound in BOUNDS:
            yield model.fit("natural-gradient", bound=bound)


def grid_quantiles(values: Array, shares: Array) -> Array:
    """Of a density on a grid, whose nodes may share a value."""
    nodes, place = np.unique(np.round(values, 9), return_inverse=True)
    mass = np.bincount(place, shares)
    return np.interp(LEVELS, np.cumsum(mass) - 0.5 * mass, nodes)


def off(fit: Fit, model: SmallModel, exact: Truth) -> float:
    """How far the worst mean or 5 or 95 % point of weights and predictors is from the truth, in
    posterior sds, or the worst sd, relative."""
    worst = 0.0
    for name, values in (("w", exact.nodes), ("eta", exact.nodes @ model.data["X"].T)):
        mean = exact.shares @ values
        sd = np.sqrt(exact.shares @ (values - mean) ** 2)
        points = np.array([grid_quantiles(v, exact.shares) for v in values.T])
        apart = (
            (fit.mean(name).values - mean) / sd,
            fit.sd(name).values / sd - 1.0,
            (fit.quantile(name, LEVELS).values.T - points) / sd[:, None],
        )
        worst = max(worst, *(float(np.abs(a).max()) for a in apart))
    return worst


@given(st.integers(0, 2**20))
@settings(max_examples=15)
def test_corrections_are_within_their_errors(seed: int) -> None:
    model = small_model(seed)
    fit = model.fit("natural-gradient")
    exact, audit = truth(model, fit), fit.audit(seed=seed)
    if audit.ess < 400:
        return
    error = audit.error("w").values * audit.sd("w").values
    assert np.all(np.abs(audit.mean("w").values - exact.mean) <= 6 * error + 1e-4 * exact.sd)
    miss = abs(audit.log_evidence - exact.log_evidence)
    assert miss <= 6 * audit.log_evidence_se + 1e-4
    np.testing.assert_allclose(audit.sd("w").values, exact.sd, rtol=12 / np.sqrt(audit.ess))


@pytest.mark.thorough
@pytest.mark.slow
def test_verdicts_are_right() -> None:
    """Fits that are off by more than 0.15 are not trusted, and those within 0.08 let through."""
    caught, missed, passed, accused = 0, 0, 0, 0
    for seed in range(MODELS):
        model, exact = small_model(seed), None
        for fit in fits(model):
            exact = exact or truth(model, fit)
            trusted = fit.audit(seed=seed).outcome is Outcome.trust
            error = off(fit, model, exact)
            if error > 0.15:
                caught, missed = caught + (not trusted), missed + trusted
            elif error < 0.08:
                passed, accused = passed + trusted, accused + (not trusted)
    print(
        f"{MODELS} models: bad {caught + missed}, missed {missed}; "
        f"good {passed + accused}, accused {accused}"
    )
    assert caught + missed > MODELS // 4 and passed + accused > MODELS // 8
    assert caught >= 0.95 * (caught + missed) and accused <= 0.1 * (passed + accused)
