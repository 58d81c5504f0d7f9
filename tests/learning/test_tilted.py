"""The posterior of hyperparameters with a correction of the log evidence in it."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior
from lgmdsl.learning.integration.tilted import farthest, tilted

MODEL = """lgm 1
hyper s : positive ~ exponential(rate = 0.4)
latent a ~ normal(sd = s)
data y : real
observe y ~ normal(mean = a, sd = 2)
"""


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(lgm.loads(MODEL), {"y": 1.0})


def _posterior(fit: lgm.Fit) -> HyperPosterior:
    assert isinstance(fit.hyper_marginals, HyperPosterior)
    return fit.hyper_marginals


def _hinge(z: Array) -> Array:
    return np.log1p(np.exp(2.0 * z)) / 2.0


def test_a_bend_is_followed(fit: lgm.Fit) -> None:
    """0 on one side, a line on the other, as the gap of an evidence is in the log of a scale."""
    hypers = _posterior(fit)
    thetas = [p.theta for p in fit.mixed]
    shares = np.array([p.share for p in fit.mixed])
    after = tilted(hypers, thetas, shares, thetas, _hinge(hypers.places(thetas)[:, 0]), 1.5)
    exact = hypers.weights * np.exp(_hinge(hypers.z[:, 0]))
    assert after.rough < 0.1
    assert np.abs(np.cumsum(after.posterior.weights - exact / exact.sum())).max() < 2e-3
    assert after.gain == pytest.approx(np.log(exact.sum()), abs=5e-3)
    assert after.shares.sum() == pytest.approx(1.0)
    natural = hypers.natural(hypers.places(thetas))[:, 0]
    for power in (1.0, 2.0):
        wanted = after.posterior.weights @ hypers.natural(hypers.z)[:, 0] ** power
        assert after.shares @ natural**power == pytest.approx(wanted, rel=1e-6)


def test_noise_is_smoothed(fit: lgm.Fit) -> None:
    """Gaps with noise of their own: a spline through them would follow it."""
    hypers = _posterior(fit)
    places = np.linspace(-3.0, 2.0, 24)
    nodes = [int(np.argmin(np.abs(hypers.z[:, 0] - p))) for p in places]
    known = [hypers.thetas[k] for k in nodes]
    z = hypers.z[nodes, 0]
    deltas = 0.2 * z + 0.05 * z**2 + np.random.default_rng(3).normal(scale=0.3, size=len(z))
    thetas = [p.theta for p in fit.mixed]
    shares = np.array([p.share for p in fit.mixed])
    after = tilted(hypers, thetas, shares, known, deltas)
    held = np.clip(hypers.z[:, 0], z.min(), z.max())
    exact = hypers.weights * np.exp(0.2 * held + 0.05 * held**2)
    gap = np.abs(np.cumsum(after.posterior.weights - exact / exact.sum())).max()
    assert gap < 0.05, "a spline is 0.1 off"


def test_more_fits_are_far_from_those_there_are(fit: lgm.Fit) -> None:
    hypers = _posterior(fit)
    known = [fit.theta]
    more = farthest(hypers.z, hypers.weights, hypers.places(known), 4)
    places = np.append(hypers.places(known)[:, 0], hypers.z[more, 0])
    assert len(set(np.round(places, 6))) == 5
    assert places.min() < -1.0 and places.max() > 1.0
    mass = hypers.weights[(hypers.z[:, 0] >= places.min()) & (hypers.z[:, 0] <= places.max())]
    assert 0.8 < mass.sum() < 1.0
