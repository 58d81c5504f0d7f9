"""Loadings of categorical responses: where they start, and what each bound makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from scipy.stats import qmc

import lgmdsl as lgm
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.log_posterior import Objective
from tests.compiled import canonical_form

TEXT = """lgm 1
index obs
index variable = 2
index class = 4
index cut = head(class)
index factor = 6
data y[obs, variable] : class
hyper mu[variable, cut] : real ~ flat
hyper L[variable, cut, factor] : real ~ flat
latent u[obs, factor] ~ normal(sd = 1)
let eta[obs, variable, cut] = mu + L @ u
observe y ~ categorical({link} = eta)
"""
POINTS = special.ndtri(qmc.Sobol(6, seed=0).random(1 << 13))
# Of equation 5.38 of Khan's thesis: 20 cov([I I]) + I.
COV = 20.0 * np.cov(np.tile(np.eye(3), 2).T) + np.eye(6)


def probabilities(link: str, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(4, 4) of the two responses."""
    s = (POINTS @ root.T + mean).reshape(-1, 2, 3)
    p = special.softmax(np.pad(s, ((0, 0), (0, 0), (0, 1))), axis=2)
    if link == "stick":
        left = np.cumprod(special.expit(-s), axis=2)
        p = np.concatenate([np.ones((len(s), 2, 1)), left], axis=2)
        p[..., :-1] *= special.expit(s)
    return np.asarray(np.einsum("na,nb->ab", p[:, 0], p[:, 1]) / len(s))


TRUE = probabilities("softmax", np.zeros(6), np.linalg.cholesky(COV))


def rows(count: int) -> np.ndarray:
    pairs = np.array([(a, b) for a in range(4) for b in range(4)])
    return np.repeat(pairs, np.rint(count * TRUE.ravel()).astype(int), axis=0)


def test_offsets_have_their_slope_where_loadings_are_zero() -> None:
    """The predictors do not move there, and the bound's weights are constant: nothing is left to
    iterate, but the shifts must still be those of the optimum."""
    canonical = canonical_form(TEXT.format(link="softmax"), {"y": rows(60)})
    for bound in ("bohning", "log"):
        coordinates = Coordinates(canonical.hypers)
        planned = plan(canonical, "natural-gradient", bound)
        objective = Objective(planned, coordinates, {}, Tolerances())
        at = objective.at(np.zeros(coordinates.size))
        assert at is not None
        for j in range(6):
            step = 1e-4 * np.eye(coordinates.size)[j]
            ends = [objective.at(sign * step, at.posterior) for sign in (1.0, -1.0)]
            slope = (ends[0].value - ends[1].value) / 2e-4
            assert abs(slope) > 0.5
            np.testing.assert_allclose(at.gradient[j], slope, rtol=1e-5)


@pytest.mark.thorough
def test_pieces_before_log_before_bohning() -> None:
    """KL from the truth (Khan 2012, figure 5.5); Boehning's bound learns independence."""
    y = rows(200)
    found = {}
    for link, bound in (
        ("stick", "piecewise-quadratic-20"),
        ("softmax", "log"),
        ("softmax", "bohning"),
    ):
        text = TEXT.format(link=link)
        fit = lgm.fit(lgm.loads(text), {"y": y}, hyper="em", bound=bound, tol=1e-6)
        assert fit.converged, bound
        root = fit.mean("L").values.reshape(6, -1)
        found[bound] = special.rel_entr(
            TRUE, probabilities(link, fit.mean("mu").values.reshape(-1), root)
        ).sum()
    apart = special.rel_entr(TRUE, np.outer(TRUE.sum(axis=1), TRUE.sum(axis=0))).sum()
    pieces, log, bohning = found.values()
    assert pieces < 0.3 * log and log < 0.6 * bohning
    np.testing.assert_allclose(bohning, apart, rtol=0.02)


def test_scalar_sites_beside_vector_sites() -> None:
    """EM has M-steps for the loadings of the binary column alone; the rest climbs by L-BFGS."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(60, 1))
    y = (2.0 * u + rng.gumbel(size=(60, 3))).argmax(axis=1)
    won = (u[:, 0] + rng.logistic(size=60) > 0).astype(float)
    text = (
        "lgm 1\nindex obs\nindex class = 3\nindex cut = head(class)\nindex factor = 1\n"
        "data y[obs] : class\ndata won[obs] : binary\nhyper l[factor] : real ~ normal(sd = 1)\n"
        "hyper L[cut, factor] : real ~ normal(sd = 1)\nlatent u[obs, factor] ~ normal(sd = 1)\n"
        "let eta[obs, cut] = L @ u\nlet win[obs] = l @ u\n"
        "observe y ~ categorical(softmax = eta)\nobserve won ~ bernoulli(logit = win)\n"
    )
    fits = [
        lgm.fit(lgm.loads(text), {"y": y, "won": won}, "natural-gradient", hyper=h, bound="log")
        for h in ("em", "map")
    ]
    assert all(f.converged for f in fits)
    np.testing.assert_allclose(fits[0].log_evidence, fits[1].log_evidence, atol=1e-3)
