"""Simplices with their edges: the chart, topics with zeros, entries that an edge holds wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.restricted import ClosedSimplex
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.learning.search.continued import held_wrongly, released
from lgmdsl.learning.search.maximise import Maximiser, Maximum
from lgmdsl.learning.search.metric import Metric
from lgmdsl.priors.bounded import Dirichlet
from tests.compiled import canonical_form

from .test_simplices import TEXT, texts


def test_edges_are_places_of_the_chart() -> None:
    form = ClosedSimplex((4, 3))
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.4, 0.6], [0.7, 0.3, 0.0], [0.0, 0.0, 1.0]])
    x = form.coordinates(p)
    assert x.shape == (8,) and np.abs(x).max() <= 1.0
    np.testing.assert_allclose(form.value(x), p, atol=1e-15)
    np.testing.assert_allclose(form.value(-x), p, atol=1e-15)  # its mirror image
    assert np.isfinite(form.log_jacobian(x)[0])


def test_slopes_and_jacobian_of_the_chart() -> None:
    rng = np.random.default_rng(1)
    form, adjoint = ClosedSimplex((2, 4)), rng.normal(size=(2, 4))
    x = rng.normal(size=6)  # beyond the simplex too

    def differences(f: Callable[[Array], Any], at: Array) -> Array:
        ends = [(at + e, at - e) for e in 1e-5 * np.eye(6)]
        return np.array([(f(a) - f(b)) / 2e-5 for a, b in ends])

    known = differences(lambda at: (form.value(at) * adjoint).sum(), x)
    np.testing.assert_allclose(form.pull(adjoint, x).x, known, atol=1e-8)
    jacobian = differences(lambda at: form.value(at)[:, :-1].ravel(), x)
    found, slopes = form.log_jacobian(x)
    assert found == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-8)
    known = differences(lambda at: form.log_jacobian(at)[0], x)
    np.testing.assert_allclose(slopes.x, known, rtol=1e-7, atol=1e-7)


def test_counts_bend_alike_along_the_sphere() -> None:
    """4n for a unit of length, in every direction: what the M-step's curvature says."""
    counts = np.array([[3.0, 0.5, 20.0, 6.5]])
    form = ClosedSimplex((1, 4))
    at = form.coordinates(counts / counts.sum())

    def slope(x: Array) -> Array:
        return form.pull(counts / form.value(x), x).x

    ends = [(at + e, at - e) for e in 1e-5 * np.eye(3)]
    bend = np.array([(slope(a) - slope(b)) / 2e-5 for a, b in ends])
    known = 4.0 * counts.sum() * form.lengths(at) ** 2
    np.testing.assert_allclose(-bend, np.diag(known.ravel()), atol=1e-5 * known.max())


def test_a_flat_dirichlet_has_no_slope_on_the_edge() -> None:
    prior = Dirichlet(alpha=np.array([1.0, 1.0, 2.0]))
    slope = prior.gradient(np.array([0.0, 0.5, 0.5]))["value"]
    np.testing.assert_array_equal(slope, [0.0, 0.0, 2.0])


@pytest.mark.thorough
@pytest.mark.parametrize("hyper", ["map", "em"])
def test_topics_under_a_flat_prior_have_zeros(hyper: str) -> None:
    """Converged, and no word that a topic lacks would raise the evidence if it had it."""
    data, model = {"n": texts()["n"][:10]}, lgm.loads(TEXT.format("flat"))
    f = lgm.fit(model, data, hyper=hyper)
    assert f.converged
    beta = f.theta["beta"]
    zeros = np.argwhere(beta < 1e-7)
    assert len(zeros) >= 2
    np.testing.assert_allclose(beta.sum(axis=1), 1.0, rtol=1e-12)

    def evidence(at: Array) -> float:
        return float(lgm.fit(model, data, fixed={"beta": at}, tol=1e-11).log_evidence)

    for k, w in zeros:
        more = beta.copy()
        more[k] *= 1.0 - 1e-3
        more[k, w] += 1e-3
        assert evidence(more) < f.log_evidence
    inside = np.argwhere(beta > 0.05)[::3]
    for k, w in inside:  # stationary there: a move loses what is quadratic in it
        more = beta.copy()
        more[k, w] *= 1.0 + 1e-3
        assert abs(evidence(more / more.sum(axis=1, keepdims=True)) - f.log_evidence) < 1e-3


@pytest.mark.thorough
def test_what_an_edge_holds_wrongly_is_released() -> None:
    data = {"n": texts()["n"][:10]}
    canonical = canonical_form(TEXT.format("flat"), data)
    coordinates = Coordinates(canonical.hypers, closed=True)
    objective = Objective(plan(canonical), coordinates, {}, Tolerances(1e-9, 1e-6))
    search = Maximiser(objective, jacobian=False)

    def sought(beta: Array, metric: Metric | None = None) -> Maximum:
        at = objective.at(coordinates.pack({"beta": beta}))
        assert at is not None
        return search.run(at, None, metric)

    beta = np.random.default_rng(0).dirichlet(np.full(8, 5.0), size=2)
    free = sought(beta)
    best = free.at.theta["beta"]
    assert free.status is Status.converged
    assert not held_wrongly(objective, free.at)
    k, w = np.unravel_index(best.argmax(), best.shape)
    beta = best.copy()
    beta[k, w] = 0.0
    stuck = sought(beta / beta.sum(axis=1, keepdims=True), Metric(np.array))
    assert stuck.status is Status.converged
    assert stuck.at.theta["beta"][k, w] < 1e-12
    assert held_wrongly(objective, stuck.at)["beta"][k, w]
    left = released(search, stuck)
    assert left.status is Status.converged and not held_wrongly(objective, left.at)
    assert left.at.value > stuck.at.value + 1.0
    assert left.at.theta["beta"][k, w] > 0.01
    assert [s.step for s in left.steps] == list(range(len(left.steps)))
