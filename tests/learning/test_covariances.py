"""Learned covariances, dense and with a sparse inverse: M-steps, maxima, zeros, refusals."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.closed_steps import covariances, fisher
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.metric import Metric, together
from tests.compiled import canonical_form

K, N = 4, 80
TEXT = """lgm 1
index p
index i
data y[p, i] : real?
data W[i, i] : real
hyper mu[i] : real ~ normal(sd = 5)
hyper S[i, i] : covariance ~ {}
latent z[p, i] ~ iid * dense(cov = S)
let eta[p, i] = mu + z
observe y ~ normal(mean = eta, sd = 0.5)
"""
BINARY = """lgm 1
index p
index i
data y[p, i] : binary?
hyper mu[i] : real ~ normal(sd = 2)
hyper S[i, i] : covariance ~ graphical_lasso(rate = 12)
latent z[p, i] ~ iid * dense(cov = S)
let eta[p, i] = mu + z
observe y ~ bernoulli(logit = eta)
"""
PRIORS = [
    "flat",
    "inv_wishart(df = 7, scale = W)",
    "lkj_cov(eta = 2, u = 2, alpha = 0.1)",
    "graphical_lasso(rate = 8)",
]


def real(missing: float = 0.05) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(K, K))
    z = rng.multivariate_normal(np.zeros(K), 0.3 * a @ a.T + np.eye(K), size=N)
    y = 1.0 + z + 0.5 * rng.normal(size=z.shape)
    y[rng.random(y.shape) < missing] = np.nan
    return {"y": y, "W": np.eye(K)}


def binary() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    s = np.eye(5) * 3.0
    s[0, 1] = s[1, 0] = 2.4
    s[2, 3] = s[3, 2] = -2.0
    z = rng.multivariate_normal(np.zeros(5), s, size=150)
    return {"y": (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)}


def first(text: str, data: dict[str, np.ndarray]) -> tuple[Objective, Evaluation]:
    canonical = canonical_form(text, data)
    coordinates = Coordinates(canonical.hypers)
    objective = Objective(plan(canonical), coordinates, {}, Tolerances(1e-12, 1e-9))
    found = objective.at(coordinates.pack(canonical.hypers.start()))
    assert found is not None
    return objective, found


def test_the_scatter_is_that_of_the_posterior() -> None:
    """T from the evidence's slope, against conditioning each row on what it has."""
    data = real()
    objective, at = first(TEXT.format(PRIORS[2]), data)
    s, total = np.asarray(at.theta["S"]), np.zeros((K, K))
    for row in data["y"]:
        has = np.flatnonzero(~np.isnan(row))
        gain = s[:, has] @ np.linalg.inv(s[np.ix_(has, has)] + 0.25 * np.eye(len(has)))
        mean = gain @ (row[has] - np.asarray(at.theta["mu"])[has])
        total += np.outer(mean, mean) + s - gain @ s[has]
    (step,) = covariances(objective.planned.canonical, objective.coordinates)
    assert step.count == N
    np.testing.assert_allclose(step.scatter(at.slopes, at.theta), total / N, atol=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_step_maximises_the_complete_data_objective(prior: str) -> None:
    objective, at = first(TEXT.format(prior), real())
    (step,) = covariances(objective.planned.canonical, objective.coordinates)
    t, own = step.scatter(at.slopes, at.theta), objective.coordinates.slices["S"]
    x = step.step(objective.planned.canonical, at, at.theta)
    assert x is not None
    known = objective.planned.canonical.hypers.block("S")
    assert known is not None and known.prior is not None

    def value(x: np.ndarray) -> float:
        whole = at.x.copy()
        whole[own] = x
        s = np.asarray(objective.coordinates.unpack(whole)["S"])
        expected = -0.5 * N * (np.linalg.slogdet(s)[1] + np.trace(np.linalg.solve(s, t)))
        return float(expected) + known.prior.at({}).log_density(s)

    best = value(x)
    assert best > value(at.x[own]) + 1.0
    for unit in np.eye(len(x)):
        for h in (1e-3, -1e-3):
            assert value(x + h * unit) < best


@pytest.mark.few(1)
@pytest.mark.parametrize("prior", [PRIORS[0], PRIORS[3]])
def test_em_climbs_to_the_maximum(prior: str) -> None:
    data, model = real(), lgm.loads(TEXT.format(prior))
    fast = lgm.fit(model, data, hyper="em", tol=1e-10)
    slow = lgm.fit(model, data, hyper="em", tol=1e-10, options={"acceleration": "none"})
    assert fast.converged and slow.converged and fast.learning and slow.learning
    steps = [s.objective for s in slow.learning.steps]
    assert all(b >= a - 1e-9 for a, b in pairwise(steps))
    assert fast.learning.steps[-1].objective == pytest.approx(steps[-1], abs=1e-5)
    np.testing.assert_allclose(fast.theta["S"], slow.theta["S"], atol=2e-3)
    if prior == PRIORS[0]:  # marginal likelihood: nothing near rises
        for unit in np.eye(K):
            other = {**fast.theta, "S": fast.theta["S"] + 0.02 * np.outer(unit, unit)}
            assert lgm.fit(model, data, fixed=other).log_evidence < fast.log_evidence


@pytest.mark.thorough
def test_a_sparse_precision_has_exact_zeros_and_meets_its_conditions(tmp_path: Path) -> None:
    model, data = lgm.loads(BINARY), binary()
    fit = lgm.fit(model, data, bound="jaakkola", tol=1e-10)
    assert fit.hyper == "em" and fit.converged
    p = fit.precision("S")
    assert p.dims == ("i", "i_2")
    zero = p.values == 0.0
    assert 0 < zero.sum() < 20
    assert not zero[0, 1] and not zero[2, 3]
    objective, _ = first(BINARY, data)
    at = Objective(
        plan(objective.planned.canonical, bound="jaakkola"),
        objective.coordinates,
        {},
        Tolerances(1e-12, 1e-9),
    ).at(objective.coordinates.pack(fit.theta))
    assert at is not None
    s = np.asarray(fit.theta["S"])
    slope = -s @ at.slopes["S"] @ s  # of the evidence in P
    np.testing.assert_allclose(slope[~zero], 6.0 * np.sign(p.values[~zero]), atol=0.02)
    assert (np.abs(slope[zero]) < 6.0).all()
    by_map = lgm.fit(model, data, bound="jaakkola", hyper="map")
    assert by_map.converged and by_map.log_evidence == pytest.approx(fit.log_evidence, abs=1e-3)
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc").precision("S")
    assert ((again.values == 0.0) == zero).all()


def test_what_is_refused_says_what_to_do() -> None:
    model, data = lgm.loads(BINARY), binary()
    with pytest.raises(lgm.MethodError, match="corners"):
        lgm.fit(model, data, hyper="integrate")
    fit = lgm.fit(model, data, bound="jaakkola", fixed={"S": 1.0, "mu": 0.0})
    with pytest.raises(lgm.ModelError, match="no covariance is named `T`"):
        fit.precision("T")


def test_products_with_the_curvature_are_those_of_its_matrix() -> None:
    rng = np.random.default_rng(3)
    factor = np.asarray(np.linalg.cholesky(np.cov(rng.normal(size=(6, 30)))), np.float64)
    rows, columns = np.tril_indices(6)
    tangents = np.zeros((len(rows), 6, 6))
    tangents[np.arange(len(rows)), rows, columns] = np.where(
        rows == columns, factor[rows, columns], 1.0
    )
    e = np.linalg.solve(factor, tangents)
    both = (e + np.swapaxes(e, 1, 2)).reshape(len(rows), -1)
    whole, metric = 0.5 * 13.0 * both @ both.T, fisher(factor, 13.0)
    v = rng.normal(size=len(rows))
    np.testing.assert_allclose(metric.solve(whole @ v), v, rtol=1e-10)
    ends = np.arange(len(rows)) + 2
    joint = together([(ends, metric), (np.arange(2), Metric(lambda u: 0.5 * u))])
    np.testing.assert_allclose(joint.solve(np.r_[2.0, 6.0, whole @ v]), np.r_[1.0, 3.0, v])


ARMS = """lgm 1
index obs
index subject
index arm = {"p", "q"}
index term = {"a", "b"}
data y[obs] : real
data x[obs] : real
data who[obs] : subject
hyper S[arm, term, term] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)
latent c ~ normal(sd = 5)
latent u[subject, term] ~ iid * dense(cov = S["p", term, term])
latent v[subject, term] ~ iid * dense(cov = S["q", term, term])
observe y ~ normal(mean = c + u[who, "a"] + u[who, "b"] * x + v[who, "a"] * x^2, sd = 1)
"""


def test_a_covariance_of_each_level_is_a_matrix_of_its_own() -> None:
    """`S["p", term, term]` is a matrix, not a diagonal: as with two covariances by name."""
    rng = np.random.default_rng(8)
    who, x = np.repeat(np.arange(8), 5), rng.normal(size=40)
    data = {"y": rng.normal(size=40) + rng.normal(size=8)[who] * x, "x": x, "who": who}
    p, q = np.array([[1.2, 0.4], [0.4, 0.7]]), np.array([[0.5, -0.2], [-0.2, 0.9]])
    stacked = lgm.fit(lgm.loads(ARMS), data, fixed={"S": np.stack([p, q])})
    named = ARMS.replace("hyper S[arm, term, term]", "hyper P[term, term]")
    named = named.replace('S["p", term, term]', "P").replace('S["q", term, term]', "Q")
    prior = next(line for line in named.splitlines() if line.startswith("hyper P"))
    two = lgm.loads(named.replace(prior, prior + "\n" + prior.replace("P[", "Q[")))
    apart = lgm.fit(two, data, fixed={"P": p, "Q": q})
    assert stacked.log_evidence == pytest.approx(apart.log_evidence, rel=1e-12)
    found, wanted = lgm.fit(lgm.loads(ARMS), data, hyper="map"), lgm.fit(two, data, hyper="map")
    assert found.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-5)
    assert found.theta["S"][0] == pytest.approx(wanted.theta["P"], rel=1e-3, abs=1e-4)
