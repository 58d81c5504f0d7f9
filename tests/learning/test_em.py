"""EM: its M-steps against dense algebra, its maxima against scikit-learn's and L-BFGS's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.em import EM
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from tests.compiled import canonical_form

GAUSSIAN = """lgm 1
index p
index i
index k = 2
data y[p, i] : real?
hyper c[i] : real ~ {c}
hyper L[i, k] : real ~ {L}
hyper s[i] : positive ~ {s}
latent z[p, k] ~ normal(sd = 1)
let eta[p, i] = c + L @ z
observe y ~ normal(mean = eta, sd = s)
"""
FLAT = GAUSSIAN.format(c="flat", L="flat", s="flat")
PROPER = GAUSSIAN.format(c="normal(sd = 2)", L="normal(sd = 1)", s="pc_sd(u = 1, alpha = 0.5)")
BINARY = """lgm 1
index p
index i
index k = 2
data y[p, i] : binary?
hyper c[i] : real ~ normal(sd = 3)
hyper L[i, k] : real ~ normal(sd = 1)
latent z[p, k] ~ normal(sd = 1)
let eta[p, i] = c + L @ z
observe y ~ bernoulli(logit = eta)
"""
RNG = np.random.default_rng(1)


def _real(
    persons: int = 60, items: int = 5, missing: float = 0.0, rng: np.random.Generator = RNG
) -> np.ndarray:
    loads = rng.normal(size=(items, 2))
    y = rng.normal(size=(persons, 2)) @ loads.T + rng.normal(size=items)
    y = y + rng.normal(size=y.shape) * (0.3 + rng.random(items))
    y[rng.random(y.shape) < missing] = np.nan
    return y


def _binary(persons: int = 80, items: int = 6) -> np.ndarray:
    loads, z = 1.5 * RNG.normal(size=(items, 2)), RNG.normal(size=(persons, 2))
    y = (RNG.random((persons, items)) < 1 / (1 + np.exp(-z @ loads.T))).astype(float)
    y[RNG.random(y.shape) < 0.1] = np.nan
    return y


def _started(text: str, data: dict[str, np.ndarray], **start: np.ndarray) -> tuple[EM, Evaluation]:
    canonical = canonical_form(text, data)
    coordinates = Coordinates(canonical.hypers)
    objective = Objective(plan(canonical), coordinates, {}, Tolerances(1e-12, 1e-9))
    theta = {**canonical.hypers.start(), **start}
    first = objective.at(coordinates.pack(theta))
    em = EM.of(objective, theta, "none")
    assert first is not None and em is not None
    return em, first


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_step_is_that_of_factor_analysis(missing: float) -> None:
    """Against Rubin and Thayer's step, item by item over the persons who have it."""
    y = _real(missing=missing)
    loads, sd = RNG.normal(size=(5, 2)), 0.5 + RNG.random(5)
    em, first = _started(FLAT, {"y": y}, L=loads, s=sd, c=np.full(5, 0.3))
    seen = ~np.isnan(y)
    means, seconds = [], []
    for row, has in zip(y, seen, strict=True):
        part = loads[has] / sd[has, None] ** 2
        cov = np.linalg.inv(np.eye(2) + part.T @ loads[has])
        mean = np.append(cov @ part.T @ (row[has] - 0.3), 1.0)
        second = np.outer(mean, mean)
        second[:2, :2] += cov
        means.append(mean)
        seconds.append(second)
    moved = em.step(first)
    assert moved is not None
    for i in range(5):
        has = seen[:, i]
        total = np.array(seconds)[has].sum(axis=0)
        right = np.array(means)[has].T @ y[has, i]
        found = np.linalg.solve(total, right)
        np.testing.assert_allclose(moved.theta["L"][i], found[:2], rtol=1e-7)
        assert float(moved.theta["c"][i]) == pytest.approx(found[2], rel=1e-7)
        left = (y[has, i] ** 2).sum() - 2 * found @ right + found @ total @ found
        assert float(moved.theta["s"][i]) == pytest.approx(np.sqrt(left / has.sum()), rel=1e-7)


def test_the_step_maximises_the_complete_data_objective_with_its_priors() -> None:
    """Its gradient, by differences, is zero where the step goes: in the linear hypers at the noise
    before the step, in the noise after it."""
    y = _real()
    em, first = _started(PROPER, {"y": y}, L=RNG.normal(size=(5, 2)), s=np.full(5, 0.7))
    direction = em.direction(first)
    assert direction is not None
    coordinates, space = em.objective.coordinates, em.objective.planned.canonical.hypers
    q, z = first.posterior.conditioned, first.posterior.conditioned.latent_mean.reshape(-1, 2)
    cov = q.solve(np.eye(120)).reshape(60, 2, 60, 2)[np.arange(60), :, np.arange(60)]

    def objective(x: np.ndarray) -> float:
        theta = coordinates.unpack(x)
        off = y - theta["c"] - z @ theta["L"].T
        spread = np.einsum("ia,pab,ib->pi", theta["L"], cov, theta["L"])
        terms = -np.log(theta["s"]) - 0.5 * (off**2 + spread) / theta["s"] ** 2
        return float(terms.sum() + space.log_prior(theta)[0])

    h, noise = 1e-5, coordinates.slices["s"]
    after = first.x + direction
    before = after.copy()
    before[noise] = first.x[noise]
    for k, unit in enumerate(np.eye(len(after))):
        x = after if noise.start <= k < noise.stop else before
        slope = (objective(x + h * unit) - objective(x - h * unit)) / (2 * h)
        assert abs(slope) < 1e-5


@pytest.mark.few(1)
@pytest.mark.parametrize("acceleration", ["l-bfgs", "squarem", "none"])
def test_the_maximum_is_scikit_learns(acceleration: str) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    y = _real(200, 6, rng=np.random.default_rng(8))
    peer = decomposition.FactorAnalysis(2, tol=1e-11, max_iter=20000).fit(y)
    fit = lgm.fit(
        lgm.loads(FLAT), {"y": y}, hyper="em", options={"acceleration": acceleration}, tol=1e-10
    )
    assert fit.converged and fit.hyper == "em"
    assert fit.log_evidence == pytest.approx(200 * peer.score(y), abs=1e-6)
    climbed = [s.objective for s in fit.learning.steps]
    assert all(b >= a - 1e-8 for a, b in pairwise(climbed))


@pytest.mark.thorough
def test_the_mode_is_that_of_map_for_binary_data_and_told_in_its_axes() -> None:
    model, data = lgm.loads(BINARY), {"y": _binary()}
    by_em = lgm.fit(model, data, hyper="em", bound="jaakkola")
    by_map = lgm.fit(model, data, hyper="map", bound="jaakkola")
    assert by_em.converged
    assert by_em.log_evidence == pytest.approx(by_map.log_evidence, abs=1e-3)
    loads = by_em.mean("L").values
    np.testing.assert_allclose(loads, by_map.mean("L").values, atol=0.02)
    square = loads.T @ loads
    assert abs(square[0, 1]) < 1e-6 * square[0, 0] and square[0, 0] > square[1, 1]
    assert (loads[np.abs(loads).argmax(axis=0), [0, 1]] > 0).all()
    assert lgm.fit(model, data, bound="jaakkola").hyper == "em"
    assert "none where `L` may turn" in " ".join(by_em.summary().split())
    again = lgm.fit(model, data, hyper="fixed", bound="jaakkola", fixed=dict(by_em.theta))
    np.testing.assert_allclose(again.mean("z"), by_em.mean("z"), atol=1e-3)


@pytest.mark.thorough
def test_linear_pieces_are_flat_where_loadings_start_and_are_learned_none_the_less() -> None:
    """At 0 the middle of three lines has no curvature: residuals are not divided by it."""
    model, data = lgm.loads(BINARY), {"y": _binary()}
    fit = lgm.fit(model, data, hyper="em", bound="piecewise-linear-3")
    assert fit.learning.steps[0].objective > -1e4
    assert np.abs(fit.mean("L").values).max() < 20.0


def test_classes_beside_reals_are_learned_by_em() -> None:
    """Loadings of softmax sites, whose weights are matrices, have no closed step; the others do."""
    text = PROPER.replace(
        "observe y",
        """index class = {"a", "b", "c"}
index cut = head(class)
data g[p] : class
hyper G[cut, k] : real ~ normal(sd = 1)
let u[p, cut] = G @ z
observe g ~ categorical(softmax = u)
observe y""",
    )
    y = _real(40)
    data = {"y": y, "g": np.array(list("abc"))[(y[:, 0] > 0) + (y[:, 1] > 0).astype(int)]}
    canonical = canonical_form(text, data)
    coordinates = Coordinates(canonical.hypers)
    objective = Objective(plan(canonical, "auto", "bohning"), coordinates, {}, Tolerances())
    theta = {**canonical.hypers.start(), "L": RNG.normal(size=(5, 2))}
    now, em = objective.at(coordinates.pack(theta)), EM.of(objective, theta, "none")
    assert now is not None and em is not None
    moved = em.step(now)
    assert moved is not None and moved.value > now.value + 1.0
    assert np.abs(moved.theta["G"] - now.theta["G"]).max() > 1e-3


@pytest.mark.thorough
def test_signs_alone_are_fixed_where_the_prior_knows_the_columns_apart() -> None:
    text = BINARY.replace("normal(sd = 1)\nlatent", "normal(sd = w)\nlatent")
    text = text.replace("index k = 2", "index k = 2\ndata w[k] : positive")
    fit = lgm.fit(lgm.loads(text), {"y": _binary(), "w": np.array([0.3, 2.0])}, hyper="em")
    loads = fit.mean("L").values
    assert fit.converged
    assert (loads[np.abs(loads).argmax(axis=0), [0, 1]] > 0).all()
    assert np.abs(loads[:, 1]).max() > np.abs(loads[:, 0]).max()


@pytest.mark.thorough
def test_the_rest_is_learned_beside() -> None:
    """A covariate's coefficients, loadings on a picked latent, and a prior's sd without a form."""
    text = """lgm 1
index row
index who
data y[row] : count
data x[row] : real
data of[row] : who
hyper a : real ~ normal(sd = 3)
hyper b : real ~ normal(sd = 3)
hyper t : positive ~ pc_sd(u = 2, alpha = 0.1)
latent u[who] ~ normal(sd = t)
let eta[row] = a + b * x + u[of]
observe y ~ poisson(log_rate = eta)
"""
    of, x = np.arange(60) % 12, RNG.normal(size=60)
    y = RNG.poisson(np.exp(0.5 + 0.4 * x + 0.6 * RNG.normal(size=12)[of]))
    data = {"y": y, "x": x, "of": of}
    by_em = lgm.fit(lgm.loads(text), data, hyper="em")
    alone = lgm.fit(lgm.loads(text), data, hyper="em", options={"acceleration": "none"})
    by_map = lgm.fit(lgm.loads(text), data, hyper="map")
    assert by_em.converged and alone.converged
    for name in ("a", "b", "t"):
        wanted = float(by_map.mean(name))
        assert float(by_em.mean(name)) == pytest.approx(wanted, abs=2e-3)
        assert float(alone.mean(name)) == pytest.approx(wanted, abs=5e-3)
    assert lgm.fit(lgm.loads(text), data).hyper == "integrate"


def test_without_a_closed_step_it_is_map_and_wrong_accelerations_are_told() -> None:
    text = """lgm 1
index row
data y[row] : count
hyper t : positive ~ pc_sd(u = 2, alpha = 0.1)
latent u[row] ~ normal(sd = t)
let eta[row] = u
observe y ~ poisson(log_rate = eta)
"""
    data = {"y": RNG.poisson(2.0, 20)}
    assert lgm.fit(lgm.loads(text), data, hyper="em").hyper == "map"
    with pytest.raises(lgm.MethodError, match="did you mean `squarem`"):
        lgm.fit(lgm.loads(text), data, hyper="em", options={"acceleration": "squarm"})


LONG = """lgm 1
index row
index p
index i
index k = 2
data y[row] : real
data who[row] : p
data item[row] : i
hyper c[i] : real ~ normal(sd = 2)
hyper L[i, k] : real ~ normal(sd = 1)
hyper s[i] : positive ~ pc_sd(u = 1, alpha = 0.5)
latent z[p, k] ~ normal(sd = 1)
let eta[row] = c[item] + sum(L[item, k] * z[who, k], k)
observe y ~ normal(mean = eta, sd = s[item])
"""


def test_loadings_of_a_long_table_have_the_m_step_of_a_matrix() -> None:
    y = np.random.default_rng(5).normal(size=(30, 6)) @ np.tril(np.ones((6, 6)))
    y[np.random.default_rng(6).random(y.shape) < 0.4] = np.nan
    who, item = np.nonzero(np.isfinite(y))
    long = {"y": y[who, item], "who": who, "item": item}
    found = []
    rng = np.random.default_rng(7)
    start = {"L": rng.normal(size=(6, 2)), "c": rng.normal(size=6)}
    for text, data in ((PROPER, {"y": y}), (LONG, long)):
        em, now = _started(text, data, **start)
        assert em.complete is not None and em.complete.names == ("c", "L") and not len(em.rest)
        step = em.direction(now)
        assert step is not None
        found.append((now.value, now.gradient, step))
    (value, gradient, step), (again, same, other) = found
    assert value == pytest.approx(again, rel=1e-12)
    np.testing.assert_allclose(gradient, same, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(step, other, rtol=1e-8, atol=1e-8)
