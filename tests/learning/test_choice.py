"""Discrete choice with a learned covariance of tastes: an estimate inside, and one of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.learning.coordinates.vector import Coordinates

TEXT = """lgm 1
index trial
index person
index attr
index alt = {"bus", "car", "train"}
data X[trial, alt, attr] : real
data who[trial]          : person
data avail[trial, alt]   : binary
data y[trial]            : alt
hyper S[attr, attr] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)
latent b[attr]         ~ normal(sd = 5)
latent d[person, attr] ~ iid * dense(cov = S)
let util[trial, alt] = X @ b + sum(X * d[who, attr], attr)
observe y ~ categorical(softmax = util, available = avail)
"""


def choices(sd: float, persons: int, trials: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x, who = rng.normal(size=(trials, 3, 2)), np.arange(trials) % persons
    taste = np.array([-1.0, 0.5]) + sd * rng.normal(size=(persons, 2))
    u = np.einsum("tka,ta->tk", x, taste[who]) + rng.gumbel(size=(trials, 3))
    avail = rng.random((trials, 3)) < 0.8
    avail[np.arange(trials), rng.integers(0, 3, trials)] = True
    y = np.where(avail, u, -np.inf).argmax(axis=1)
    labels = np.array(["bus", "car", "train"])
    return {"X": x, "who": who, "avail": avail * 1, "y": labels[y], "attr": ["cost", "time"]}


@pytest.mark.thorough
def test_tastes_that_differ_have_a_covariance_and_tastes_that_do_not_have_none() -> None:
    """A density over the entries of S would be infinite at S = 0, where every search would end."""
    for sd, inside in ((1.0, True), (0.0, False)):
        fit = lgm.fit(lgm.loads(TEXT), choices(sd, 20, 160), "laplace", hyper="map")
        assert fit.converged, sd
        sds = np.sqrt(np.diag(fit.theta["S"]))
        assert (sds > 0.3).all() and (sds < 3.0).all() if inside else (sds < 0.5).all(), sds


def test_the_mode_is_that_of_sds_and_correlations() -> None:
    """evidence + log prior is stationary in them."""
    model, given = lgm.loads(TEXT), choices(1.0, 20, 160)
    fit = lgm.fit(model, given, "laplace", hyper="map")
    best = fit.theta["S"]
    space = fit.canonical.hypers

    def value(s: np.ndarray) -> float:
        at = lgm.fit(model, given, "laplace", fixed={"S": s}, tol=1e-11).log_evidence
        return at + space.log_prior({"S": s}, ())[0]

    peak = value(best)
    for scale in (0.97, 1.03):
        for axis in (np.diag([scale, 1.0]), np.diag([1.0, scale])):
            assert value(axis @ best @ axis) < peak + 1e-6
    assert Coordinates(space, {}).size == 3
