"""Average information against its definition on dense matrices, and searches by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.contract.structure import Shape
from lgmdsl.dataset import read
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.information import information
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import Maximiser
from lgmdsl.learning.search.metric import FARTHEST, LONGEST, NEAR, Informed
from lgmdsl.sites import catalogue as sites

HEAD = """lgm 1
index obs
index g
data y[obs] : {kind}
data x[obs] : real
data who[obs] : g
hyper a : real ~ flat
hyper b : real ~ flat
"""
GROUPS = "hyper s : positive ~ flat\nlatent u[g] ~ normal(sd = s)\n"
NOISE = "hyper e : positive ~ flat\n"
NORMAL = "observe y ~ normal(mean = eta, sd = e)\n"
SUM = "let eta[obs] = a + b * x + u[who]\n"
POSITIVE = "hyper {} : positive ~ flat\n"
MODELS = {
    "groups": (GROUPS, SUM + NORMAL),
    "a mean of groups": (
        POSITIVE.format("s") + "latent u[g] ~ normal(mean = a, sd = s)\n",
        "let eta[obs] = b * x + u[who]\n" + NORMAL,
    ),
    "loading": (
        "hyper c : real ~ normal(sd = 2)\nlatent u[g] ~ normal(sd = 1)\n",
        "let eta[obs] = a + b * x + c * u[who]\n" + NORMAL,
    ),
    "autocorrelation": (
        POSITIVE.format("s") + "hyper r : correlation ~ pc_cor0(u = 0.5, alpha = 0.5)\n"
        "latent u[g] ~ ar1(sd = s, rho = r)\n",
        SUM + NORMAL,
    ),
    "process": (
        POSITIVE.format("s") + "hyper l : positive ~ lognormal(mean = 1, sd = 1)\n"
        "data at[g] : real\n"
        "latent u[g] ~ gp(at = at, kernel = matern(length = l, sd = s, smoothness = 1.5))\n",
        SUM + NORMAL,
    ),
    "walk": (POSITIVE.format("s") + "latent u[g] ~ rw1(sd = s)\n", SUM + NORMAL),
    "areas": (
        POSITIVE.format("s") + "hyper m : unit ~ beta(a = 1, b = 1)\ndata edges[g, g] : graph\n"
        "latent u[g] ~ bym2(graph = edges, sd = s, mix = m)\n",
        SUM + NORMAL,
    ),
    "two noises": (
        GROUPS + "index k = 2\ndata kind[obs] : k\n",
        SUM + "observe y ~ normal(mean = eta, sd = e[kind])\n",
    ),
}


def _text(name: str) -> str:
    prior, observed = MODELS[name]
    noise = "hyper e[k] : positive ~ flat\n" if "e[kind]" in observed else NOISE
    return HEAD.format(kind="real") + prior + noise + observed


def _data(rows: int = 60, groups: int = 8, response: str = "normal", sd: float = 0.8) -> Any:
    rng = np.random.default_rng(1)
    x, who = rng.normal(size=rows), np.arange(rows) % groups
    s = 0.5 + 0.3 * x + sd * rng.normal(size=groups)[who]
    y = {
        "normal": s + 0.5 * rng.normal(size=rows),
        "poisson": rng.poisson(np.exp(s)),
        "binary": rng.binomial(1, 1.0 / (1.0 + np.exp(-s))),
    }[response]
    return {
        "y": y, "x": x, "who": who, "at": np.arange(groups, dtype=float),
        "kind": np.arange(rows) % 3 % 2,
        "edges": np.array([(k, (k + 1) % groups) for k in range(groups)]),
    }  # fmt: skip


def _objective(text: str, data: Any, method: str = "auto") -> Objective:
    canonical = compile_model(lgm.loads(text).checked, read(data), sites.find_site)
    coordinates = Coordinates(canonical.hypers)
    return Objective(plan(canonical, method), coordinates, {}, Tolerances(1e-12, 1e-9))


def _at(objective: Objective) -> Evaluation:
    x = 0.3 * np.random.default_rng(2).normal(size=objective.coordinates.size)
    found = objective.at(x)
    assert found is not None
    return found


def _moments(canonical: CanonicalModel, theta: Any, data: Any) -> tuple[Array, Array]:
    """Mean and covariance of y."""
    linear = canonical.linear(theta)
    b = StackedPredictors(linear).dense()
    covariances = []
    for block in linear.blocks:
        known = BlockPrior(block, 0)
        dense = Shape.COVARIANCE in block.shape
        covariances.append(known.covariance if dense else np.linalg.inv(known.precision()))
    sd = np.asarray(theta["e"])
    noise = np.full(len(b), float(sd)) if sd.ndim == 0 else sd[data["kind"]]
    mean = b @ np.concatenate([x.mean for x in linear.blocks]) + linear.predictors[0].offset
    return mean, b @ sla.block_diag(*covariances) @ b.T + np.diag(noise**2)


@pytest.mark.parametrize("name", MODELS)
def test_by_definition_on_dense_matrices(name: str) -> None:
    data = _data()
    objective = _objective(_text(name), data)
    at = _at(objective)
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    mean, cov = _moments(canonical, at.theta, data)
    alpha = np.linalg.solve(cov, data["y"] - mean)
    moved, turned, step = [], [], 1e-5
    for d in step * np.eye(coordinates.size):
        (m1, v1), (m0, v0) = (
            _moments(canonical, coordinates.unpack(x), data) for x in (at.x + d, at.x - d)
        )
        moved.append((m1 - m0) / (2 * step))
        turned.append((v1 - v0) @ alpha / (2 * step))
    both = (np.array(moved), 1.0), (np.array(turned), 0.5)
    wanted = sum(share * t @ np.linalg.solve(cov, t.T) for t, share in both)
    space = canonical.hypers

    def slope(x: Array) -> Array:
        return coordinates.pull(space.log_prior(coordinates.unpack(x))[1], x)

    prior = [(slope(at.x - d) - slope(at.x + d)) / (2 * step) for d in step * np.eye(len(at.x))]
    found = information(objective, at, jacobian=False)
    assert found is not None
    scale = np.sqrt(np.diag(wanted))
    gap = (found - wanted - np.array(prior)) / np.outer(scale, scale)
    assert np.abs(gap).max() < 2e-4


FAMILIES = {
    "poisson": ("count", "", "poisson(log_rate = eta)"),
    "binary": ("binary", "", "bernoulli(logit = eta)"),
    "negative binomial": (
        "count", "hyper k : positive ~ lognormal(sd = 1)\n", "negbinomial(log_mean = eta, size = k)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
@pytest.mark.parametrize("family", FAMILIES)
def test_near_the_curvature_at_the_maximum(family: str, method: str) -> None:
    """Of 2,000 rows in 100 groups within a third."""
    kind, more, observed = FAMILIES[family]
    text = HEAD.format(kind=kind) + GROUPS + more
    text += f"let eta[obs] = a + b * x + u[who]\nobserve y ~ {observed}\n"
    data = _data(2000, 100, "binary" if family == "binary" else "poisson")
    objective = _objective(text, data, method)
    search = Maximiser(objective, jacobian=False)
    found = search.run(_at(objective))
    assert found.status.name == "converged"
    curved = search.with_curvature(found)
    known = information(objective, found.at, jacobian=False)
    assert known is not None and curved.hessian is not None
    ratios = sla.eigh(known, -curved.hessian, eigvals_only=True)
    assert ratios.min() > 0.75 and ratios.max() < 1.5


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_the_units_of_the_response_change_nothing(unit: float) -> None:
    """Not the searches' steps either."""
    data = _data(200, 20)
    text = _text("groups")
    model = lgm.loads(text)
    one, other = (lgm.fit(model, {**data, "y": data["y"] * u}, hyper="map") for u in (1.0, unit))
    assert one.converged and other.converged
    for name in ("a", "b", "s", "e"):
        assert float(other.mean(name)) / unit == pytest.approx(float(one.mean(name)), rel=1e-4)


CROSSED = """lgm 1
index obs
{indices}data y[obs] : real
data x[obs] : real
hyper a : real ~ flat
hyper b : real ~ flat
hyper e : positive ~ flat
{latents}let eta[obs] = a + b * x + {sum}
observe y ~ normal(mean = eta, sd = e)
"""


@pytest.mark.parametrize(("factors", "most"), [(3, 12), (6, 25)])
def test_how_many_evaluations_a_search_takes(
    factors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 12 for three variance components and 25 for six, of one conditioning each, from
    starts that are a log or two away; the maximum is that of a search that goes on to the last
    digit."""
    rng = np.random.default_rng(0)
    rows, names = 4000, [f"g{k}" for k in range(factors)]
    text = CROSSED.format(
        indices="".join(f"index {g}\ndata i{g}[obs] : {g}\n" for g in names),
        latents="".join(
            f"hyper s{g} : positive ~ flat\nlatent u{g}[{g}] ~ normal(sd = s{g})\n" for g in names
        ),
        sum=" + ".join(f"u{g}[i{g}]" for g in names),
    )
    data: dict[str, Array] = {"x": rng.normal(size=rows)}
    y = 3.0 - 0.1 * data["x"] + rng.normal(size=rows)
    for k, g in enumerate(names):
        count = (200, 80, 15, 40, 10, 25)[k]
        which = rng.integers(count, size=rows)
        data[f"i{g}"] = which.astype(float)
        y = y + (0.3, 0.5, 0.1, 0.2, 0.3, 0.2)[k] * rng.normal(size=count)[which]
    conditionings = 0
    objective = _objective(text, {**data, "y": y}, "laplace")
    start = dict.fromkeys(objective.coordinates.names, np.array(0.5))
    first = objective.at(objective.coordinates.pack(start))
    assert first is not None
    engine: type[Engine] = type(first.problem.engine)
    condition = engine.condition

    def counted(self: Engine, *sites: Any) -> Any:
        nonlocal conditionings
        conditionings += 1
        return condition(self, *sites)

    monkeypatch.setattr(engine, "condition", counted)
    before = objective.calls
    found = Maximiser(objective, jacobian=False).run(first)
    calls = objective.calls - before
    assert found.status.name == "converged"
    assert calls <= most and conditionings == calls
    known = information(objective, found.at, jacobian=False)
    assert known is not None
    further = objective.at(found.at.x + np.linalg.solve(known, found.at.gradient))
    assert further is not None and abs(further.value - found.at.value) < 1e-6


def test_many_hypers_are_no_models_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would be built once a step: of 60 offsets none is."""
    text = """lgm 1
index obs
index g = 60
data y[obs] : real
data who[obs] : g
hyper b[g] : real ~ normal(sd = 3)
hyper e : positive ~ flat
latent a ~ normal(sd = 1)
observe y ~ normal(mean = a + b[who], sd = e)
"""
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=600), "who": np.arange(600) % 60}
    objective = _objective(text, data, "laplace")
    at = _at(objective)
    assert objective.coordinates.size == 61
    assert information(objective, at, jacobian=False) is None
    some = {"y": rng.normal(size=6000), "who": np.arange(6000) % 6}
    few = _objective(text.replace("= 60", "= 6"), some, "laplace")
    at = _at(few)
    assert information(few, at, jacobian=False) is not None
    monkeypatch.setenv("LGM_MEMORY", "1MB")
    assert information(few, at, jacobian=False) is None


NONE = np.zeros(2, dtype=np.bool_)


def test_steps_and_line_searches_go_a_log_at_most() -> None:
    """What would be longer is damped and nothing else; a line search goes no farther either."""
    known, slope = np.diag([0.1, 400.0]), np.array([-5.0, 8.0])
    cut = Informed.of(known, slope, NONE, ~NONE)
    step = cut.solve(slope)
    assert (1.0 - NEAR) * LONGEST <= -step[0] <= LONGEST
    assert step[1] == pytest.approx(8.0 / 400.0)
    assert cut.cuts == 1 and 1.0 <= cut.farthest <= LONGEST / -step[0]
    whole = Informed.of(known, np.array([0.01, 8.0]), NONE, ~NONE, cut)
    step = whole.solve(np.array([0.01, 8.0]))
    np.testing.assert_allclose(step, [0.1, 0.02])
    assert whole.cuts == 0 and whole.farthest == pytest.approx(LONGEST / 0.1)
    assert whole.gain == pytest.approx(0.5 * (0.01 * 0.1 + 8.0 * 0.02))
    np.testing.assert_allclose(whole.sds, [LONGEST, 0.05])
    reals = Informed.of(known, slope, NONE, NONE)
    np.testing.assert_allclose(reals.solve(slope), [-50.0, 0.02])
    assert reals.cuts == 0 and np.isinf(reals.farthest)
    held = Informed.of(known, slope, np.array([True, False]), ~NONE)
    np.testing.assert_allclose(held.solve(slope), [0.0, 0.02])


def test_two_that_move_together_keep_their_ridge() -> None:
    """The step along it is a log long, not what it is across."""
    known = 1000.0 * np.array([[1.0, -0.9999], [-0.9999, 1.0]])
    slope = np.array([3.0, 3.0])
    step = Informed.of(known, slope, NONE, ~NONE).solve(slope)
    assert (step > (1.0 - NEAR) * LONGEST).all()


def test_steps_that_are_cut_again_and_again_grow() -> None:
    lengths, last = [], None
    for _ in range(8):
        last = Informed.of(np.zeros((2, 2)), np.array([-9.0, 0.0]), NONE, ~NONE, last)
        lengths.append(-last.solve(np.array([-9.0, 0.0]))[0])
    wanted = np.minimum([1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0], FARTHEST)
    assert (lengths <= wanted).all() and (lengths >= (1.0 - NEAR) * wanted).all()


def test_information_that_says_too_much_ends_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """It promises nothing, wherever the search is; the curvature knows what is left."""
    text, data = _text("groups"), _data()
    wanted = lgm.fit(lgm.loads(text), data, hyper="map")

    def too_much(*given: Any) -> Array | None:
        found = information(*given)
        return None if found is None else 1e9 * found

    monkeypatch.setattr("lgmdsl.learning.search.maximise.information", too_much)
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    assert fit.converged
    for name in ("a", "b", "s", "e"):
        assert abs(fit.mean(name) - wanted.mean(name)) < 2e-3 * wanted.sd(name)


def test_coefficients_that_no_datum_tells_apart_keep_a_step_finite() -> None:
    """Along what is known the step is whole."""
    plain = np.array([[3.0, 0.5, 0.5], [0.5, 1.0, 1.0], [0.5, 1.0, 1.0]])
    slope = np.array([0.1, 0.2, 0.2])
    found = Informed.of(plain, slope, np.zeros(3, dtype=bool), np.array([True, False, False]))
    step = found.solve(slope)
    assert plain @ step == pytest.approx(slope, abs=1e-6) and np.abs(step).max() < 1.0
