"""Correlated topics: what made the letters is learned from them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray

FOLDER = Path(__file__).resolve().parents[2] / "models" / "correlated_topics"


def in_order(topics: Array, truth: Array) -> tuple[IntArray, Array]:
    """Which topic is which of the truth's, and how far (total variation) it is from it."""
    away = 0.5 * np.abs(truth[:, None] - topics).sum(axis=2)
    rows, found = linear_sum_assignment(away)
    return np.asarray(found), np.asarray(away[rows, found])


def contrasts(s: Array) -> tuple[Array, Array]:
    """Sds and correlations of the topics about their mean: what a softmax knows of them."""
    centre = np.eye(len(s)) - 1.0 / len(s)
    c = centre @ s @ centre
    sd = np.sqrt(c.diagonal())
    return sd, c / np.outer(sd, sd)


@pytest.mark.thorough
@pytest.mark.slow
def test_topics_mean_and_covariance_are_recovered() -> None:
    truth = runpy.run_path(str(FOLDER / "make_data.py"))["TRUTH"]
    model, data = lgm.load(FOLDER / "model.lgm"), FOLDER / "data.npz"
    fit = lgm.fit(model, data)
    assert fit.converged and fit.hyper == "em" and str(fit.guarantee) == "lower"
    found, away = in_order(fit.mean("beta").values, truth["beta"])
    assert away.max() < 0.1  # between topics of the truth it is 0.7
    mu = fit.theta["mu"][found]
    np.testing.assert_allclose(mu - mu.mean(), truth["mu"] - truth["mu"].mean(), atol=0.3)
    sd, correlation = contrasts(fit.theta["S"][np.ix_(found, found)])
    known_sd, known = contrasts(truth["S"])
    np.testing.assert_allclose(sd, known_sd, rtol=0.3)
    clear = np.abs(known) > 0.3
    assert clear.sum() == 14 and (np.sign(correlation) == np.sign(known))[clear].all()
    np.testing.assert_allclose(correlation, known, atol=0.2)
    # What the truth gives up to the estimates: 127 parameters gain about half a nat each.
    pinned = lgm.fit(model, data, fixed=truth)
    assert 30.0 < fit.log_evidence - pinned.log_evidence < 120.0
