"""Parts of px-vb: the bound at any q(z), the paper's (13) beside ours, the way to its limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.contract.engine import Conditioned
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel
from lgmdsl_backends.px_vb import ParameterExpanded
from lgmdsl_backends.px_vb.backend import move, newton_move
from lgmdsl_backends.px_vb.bound import (
    Gaussian,
    anchored,
    at,
    best,
    conditioned_on,
    expanded,
    pulls,
    update,
)
from tests.agreement.methods import few
from tests.backends.test_px_vb import FLAT, problem_of, small
from tests.backends.test_px_vb_properties import bound_at
from tests.compiled import canonical_form

PROBIT = ("bernoulli.probit", "binomial.probit", "normal.mean")
TEXT = FLAT.replace("flat()", "normal(mean = 0.3, sd = 2)")


@given(random_models(PROBIT, rows=(2, 8), latents=(1, 4), wild=False), st.integers(0, 1000))
@few(12)
def test_the_bound_at_any_gaussian(case: RandomModel, seed: int) -> None:
    """sum f - KL(q || p), the KL by dense algebra in whitened coordinates of the prior."""
    problem = case.problem("px-vb")
    rng = np.random.default_rng(seed)
    weight = tuple(rng.uniform(0.2, 3.0, len(m)) for m in problem.engine.prior_mean)
    shift = tuple(rng.normal(size=len(m)) for m in problem.engine.prior_mean)
    q = conditioned_on(problem, weight, shift)
    assert isinstance(q, Gaussian)
    values, vectors = np.linalg.eigh(case.covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > 1e-9 * values.max()]
    rows = [case.design[s.present] for s in case.sites]
    starts = [(case.offset + case.design @ case.mean)[s.present] for s in case.sites]
    precision, pull = np.eye(root.shape[1]), np.zeros(root.shape[1])
    for b, s0, w, h in zip(rows, starts, weight, shift, strict=True):
        precision += root.T @ b.T @ (w[:, None] * (b @ root))
        pull += root.T @ b.T @ (h - w * s0)
    covariance = np.linalg.inv(precision)
    mean = covariance @ pull
    kl = 0.5 * (np.trace(covariance) + mean @ mean - len(mean) + np.linalg.slogdet(precision)[1])
    value = 0.0
    for answer, b, s0 in zip(problem.sites, rows, starts, strict=True):
        m = s0 + b @ root @ mean
        v = np.einsum("ij,jk,ik->i", b @ root, covariance, b @ root)
        a = answer.weights(m, v)  # type: ignore[attr-defined]
        value += float((a.correction - 0.5 * a.precision * (m * m + v) + a.shift * m).sum())
    assert at(problem, q).bound == pytest.approx(value - kl, rel=1e-7, abs=1e-7)


def test_the_papers_expansion_beside_ours() -> None:
    """(13) from its moments is (size + M) / (N + M), where ours, 1 / rho^2, is size / N."""
    data, sd = small(2), 2.0
    X, y = np.asarray(data["X"]), np.asarray(data["y"], dtype=np.float64)
    n, m = X.shape
    problem = problem_of(FLAT.replace("flat()", f"normal(sd = {sd})"), data)
    point = at(problem, conditioned_on(problem, (np.ones(n),), (y - 0.5,)))  # type: ignore[arg-type]
    plain, pull = update(problem, point), pulls(point.answers)
    assert isinstance(plain, Gaussian) and pull is not None
    anchor = anchored(plain, pull, None)
    assert isinstance(anchor, Gaussian)
    ours = expanded(point.answers, pull, plain, anchor)
    assert ours is not None
    rho = float(np.mean(ours.shift[0] / plain.shift[0]))
    # At rho = 0 nothing is left of the auxiliaries, at any round: one solve serves for all.
    after, further = update(problem, at(problem, ours)), pulls(at(problem, ours).answers)
    assert isinstance(after, Gaussian) and further is not None
    assert anchored(after, further, anchor) is anchor and not anchor.shift[0].any()

    V = np.linalg.inv(X.T @ X + np.eye(m) / sd**2)
    zeta, s = point.answers[0].shift, point.q.mean[0]
    t = (2.0 * y - 1.0) * s
    hazard = (2.0 * y - 1.0) * (zeta - s)
    square = 1.0 - hazard * (t + hazard) + zeta**2
    w = V @ X.T @ zeta
    second = np.outer(w, w) + V
    quadratic = np.einsum("ij,jk,ik->i", X, second, X)
    c2 = (np.sum(square - 2.0 * zeta * (X @ w) + quadratic) + np.trace(second) / sd**2) / (n + m)
    assert c2 == pytest.approx((n / rho**2 + m) / (n + m), rel=1e-10)
    assert (c2 - 1.0) * (1.0 / rho**2 - 1.0) > 0.0


def test_the_best_rho_at_its_limits() -> None:
    for count, tilt, size in ((3.0, 0.0, 2.0), (5.0, 1e8, 1.0), (5.0, -1e8, 1.0), (1e-8, 1.0, 4.0)):
        rho = best(count, tilt, size)
        assert rho is not None and rho > 0.0
        terms = (size * rho * rho, tilt * rho, count)
        assert abs(terms[0] - terms[1] - terms[2]) < 1e-12 * max(map(abs, terms))
    for count, tilt, size in ((0.0, 1.0, 1.0), (1.0, 1.0, 0.0), (1.0, math.nan, 1.0)):
        assert best(count, tilt, size) is None


def test_newtons_move_is_the_distance() -> None:
    """Near the limit, where plain rounds move by a small part of it."""
    problem = problem_of(TEXT, small(4))
    far = run(ParameterExpanded(), problem, Tolerances(1e-14, 1e-10), 50_000).posterior
    assert far is not None
    goal = far.conditioned.latent_mean
    backend = ParameterExpanded(expand=False)
    state = backend.start(problem)
    for _ in range(200):
        state = backend.step(problem, state)
    assert state.point is not None and state.following is not None
    q = state.point.q.conditioned()
    away = goal - q.latent_mean
    X = np.asarray(small(4)["X"])
    precision = X.T @ X + np.eye(3) / 4.0
    distance = float(np.sqrt(away @ precision @ away))
    assert newton_move(problem, state.point) == pytest.approx(distance, rel=5e-3)
    step = state.following.q.conditioned().latent_mean - q.latent_mean
    taken = move(state.point.q, state.following.q)
    assert taken == pytest.approx(float(np.sqrt(step @ precision @ step)), rel=1e-6)
    assert taken < 0.5 * distance


def test_a_start_from_other_weights_counts_their_change() -> None:
    """From Laplace's W the mean stands, and the first round moves the weights."""
    problem = problem_of(TEXT, small(4))
    n = len(problem.sites[0])
    q = conditioned_on(problem, (np.full(n, 0.25),), (np.zeros(n),))
    assert isinstance(q, Gaussian)
    following = update(problem, at(problem, q))
    assert isinstance(following, Gaussian)
    assert move(q, following) >= 0.75
    assert following.family is not q.family
    assert isinstance(following.conditioned(), Conditioned)
    again = update(problem, at(problem, following))
    assert isinstance(again, Gaussian) and again.family is following.family


@pytest.mark.parametrize("ratio", ["", ', model = "continuation"'])
def test_the_expansion_of_ordered_classes(ratio: str) -> None:
    """Variables beyond a cut are stretched from it, those between two stand: the best of its line,
    and no other limit."""
    text = f"""lgm 1
index obs
index feat
index k = 3
index cut = head(k)
data X[obs, feat] : real
data y[obs] : k
hyper c[cut] : ordered ~ normal(sd = 3)
latent w[feat] ~ normal(mean = 0.4, sd = 2)
let eta[obs] = X @ w
observe y ~ ordinal(probit = eta, cuts = c{ratio})
"""
    data = small(3)
    data["y"] = np.digitize(np.asarray(data["X"]) @ [0.0, 1.0, -0.5], [-0.5, 0.7])
    canonical = canonical_form(text, data)
    problem = plan(canonical, "px-vb").at({"c": np.array([-0.7, 0.9])})
    n = len(problem.sites[0])
    q = conditioned_on(problem, (np.ones(n),), (np.linspace(-1.0, 2.0, n),))
    assert isinstance(q, Gaussian)
    point = at(problem, q)
    plain, pull = update(problem, point), pulls(point.answers)
    assert isinstance(plain, Gaussian) and pull is not None
    anchor = anchored(plain, pull, None)
    assert isinstance(anchor, Gaussian)
    found = expanded(point.answers, pull, plain, anchor)
    assert found is not None
    moved = np.concatenate(pull) != 0.0
    steps = (np.concatenate(found.shift) - np.concatenate(anchor.shift))[moved]
    rho = float(np.mean(steps / np.concatenate(pull)[moved]))
    there = bound_at(problem, point.answers, rho)
    assert there > bound_at(problem, point.answers, 1.0)
    for other in (rho - 1e-3, rho + 1e-3):
        assert bound_at(problem, point.answers, other) < there
    # Variables between two cuts move from round to round, and the anchor with them.
    following = at(problem, found)
    after, further = update(problem, following), pulls(following.answers)
    assert isinstance(after, Gaussian) and further is not None
    moved_on = anchored(after, further, anchor)
    assert isinstance(moved_on, Gaussian)
    for b, d, a in zip(after.shift, further, moved_on.shift, strict=True):
        np.testing.assert_allclose(a, b - d, atol=1e-12)
    ends = [
        run(ParameterExpanded(e), problem, Tolerances(1e-12, 1e-7), 20_000) for e in (True, False)
    ]
    one, two = (e.posterior for e in ends)
    assert one is not None and two is not None and ends[0].steps <= ends[1].steps
    np.testing.assert_allclose(one.conditioned.latent_mean, two.conditioned.latent_mean, atol=1e-6)
