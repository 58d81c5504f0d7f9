"""M-steps of loadings in vector sites, their start, their axes, and where their search ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.complete_data import solved
from lgmdsl.learning.em.em import EM
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import Maximiser
from tests.compiled import canonical_form

# Offsets by item and class; a coefficient that all classes share; loadings.
TEXT = """lgm 1
index obs
index item = 3
index class = 3
index cut = head(class)
index factor = 2
data y[obs, item] : class?
data x[obs] : real
hyper mu[item, cut] : real ~ normal(sd = 2)
hyper beta : real ~ normal(sd = 1)
hyper L[item, cut, factor] : real ~ normal(sd = 1)
latent u[obs, factor] ~ normal(sd = 1)
let eta[obs, item, cut] = mu + beta * x + L @ u
observe y ~ categorical(softmax = eta)
"""
BOUNDS = ["bohning", "log", "tilted", "quadrature"]


def _data(persons: int = 40, missing: float = 0.2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    loads, u = rng.normal(size=(3, 3, 2)), rng.normal(size=(persons, 2))
    eta = np.einsum("dkf,nf->ndk", loads, u) + rng.gumbel(size=(persons, 3, 3))
    y = eta.argmax(axis=2).astype(float)
    y[rng.random(y.shape) < missing] = -1
    return {"y": y.astype(np.int64), "x": rng.normal(size=persons)}


def _started(bound: str, data: dict[str, np.ndarray], text: str = TEXT) -> tuple[EM, Evaluation]:
    canonical = canonical_form(text, data)
    coordinates = Coordinates(canonical.hypers)
    chosen = None if bound == "quadrature" else bound
    objective = Objective(plan(canonical, "auto", chosen), coordinates, {}, Tolerances(1e-12, 1e-9))
    rng = np.random.default_rng(0)
    first = objective.at(0.5 * rng.normal(size=coordinates.size))
    assert first is not None
    em = EM.of(objective, first.theta, "none")
    assert em is not None
    return em, first


@pytest.mark.parametrize("bound", BOUNDS)
def test_curvature_is_that_of_the_quadratic_sites_over_q(bound: str) -> None:
    """By second differences of E_q[sum b's - s'Ws / 2] + log prior, row by row."""
    data = _data(12)
    em, first = _started(bound, data)
    assert em.complete is not None and len(em.complete.x) == len(first.x)
    q, coordinates = first.posterior, em.objective.coordinates
    canonical, space = em.objective.planned.canonical, em.objective.planned.canonical.hypers
    kept = canonical.blocks[0].rows
    person, item = np.divmod(kept, 3)
    z = q.conditioned.latent_mean.reshape(12, 2)
    cov = q.conditioned.solve(np.eye(24)).reshape(12, 2, 12, 2)[np.arange(12), :, np.arange(12)]
    weight, shift = q.weight[0], q.shift[0]

    def objective(x: np.ndarray) -> float:
        theta = coordinates.unpack(x)
        loads = theta["L"][item]
        mean = theta["mu"][item] + np.einsum("nkf,nf->nk", loads, z[person])
        mean = mean + theta["beta"] * data["x"][person, None]
        second = np.einsum("na,nb->nab", mean, mean)
        second = second + np.einsum("naf,nfg,nbg->nab", loads, cov[person], loads)
        inside = np.sum(shift * mean) - 0.5 * np.sum(weight * second)
        return float(inside + space.log_prior(theta)[0])

    size, h = len(first.x), 0.1  # the objective is quadratic: differences are exact
    units = h * np.eye(size)
    value, x = objective(first.x), first.x
    ends = [(objective(x + u), objective(x - u)) for u in units]
    slope = np.array([(a - b) / (2 * h) for a, b in ends])
    np.testing.assert_allclose(slope[em.complete.x], first.gradient[em.complete.x], atol=2e-4)
    seen = em.complete.with_prior(em.complete.curvature(q), first.theta).toarray()
    want = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            both = objective(x + units[i] + units[j])
            want[i, j] = want[j, i] = -(both - ends[i][0] - ends[j][0] + value) / h**2
    at = em.complete.x
    np.testing.assert_allclose(seen, want[np.ix_(at, at)], rtol=1e-6, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("bound", BOUNDS[:3])
def test_steps_climb_and_end_where_the_gradient_vanishes(bound: str) -> None:
    em, first = _started(bound, _data(25))
    climbed = em.run(first)
    assert climbed.status.name == "converged"
    assert all(b.objective >= a.objective - 1e-7 for a, b in pairwise(climbed.steps))
    curvature = em.metric(climbed.at)
    assert curvature is not None
    slope = climbed.at.gradient
    assert slope @ curvature.solve(slope) < 1e-3


def test_the_least_step_where_a_direction_changes_nothing() -> None:
    """As a constant that is added to the loadings of all classes does, under flat priors."""
    ones = sp.csr_array(np.ones((2, 2)))
    found = solved(ones, np.array([1.0, 1.0]))
    assert found is not None
    np.testing.assert_allclose(found, np.full(2, 0.5))
    assert solved(sp.csr_array(np.diag([1.0, -1.0])), np.ones(2)) is None
    text = TEXT.replace("index cut = head(class)\n", "").replace("cut", "class")
    for old in ("normal(sd = 2)", "normal(sd = 1)\nhyper L", "normal(sd = 1)\nlatent"):
        text = text.replace(old, "flat" + old[old.index(")") + 1 :])
    em, first = _started("bohning", _data(25, 0.0), text)
    assert em.complete is not None
    curvature = em.complete.curvature(first.posterior).toarray()
    assert np.linalg.eigvalsh(curvature)[0] < 1e-9  # beta moves all classes alike
    climbed = em.step(first)
    assert climbed is not None and climbed.value > first.value


def test_loadings_of_classes_are_told_in_principal_axes() -> None:
    fit = lgm.fit(lgm.loads(TEXT), _data(30), hyper="em", bound="bohning")
    loads = fit.mean("L").values.reshape(-1, 2)
    cross = loads.T @ loads
    assert abs(cross[0, 1]) < 1e-6 * cross[0, 0] and cross[0, 0] >= cross[1, 1]
    assert all(column[np.abs(column).argmax()] > 0.0 for column in loads.T)


def test_the_complete_datas_curvature_saves_steps() -> None:
    """L-BFGS from the same point, in its inner product and in the plain one."""
    em, first = _started("bohning", _data(40))
    metric = em.metric(first)
    assert metric is not None
    search = Maximiser(em.objective, jacobian=False)
    within, plain = search.run(first, None, metric), search.run(first)
    assert within.status.name == plain.status.name == "converged"
    assert within.at.value == pytest.approx(plain.at.value, abs=1e-3)
    assert len(within.steps) < 0.8 * len(plain.steps)
