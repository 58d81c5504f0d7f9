"""Covariances that become small, or singular: where a search has converged, and never lower."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.transforms import Covariance
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.closed_steps import covariances
from lgmdsl.learning.em.em import EM
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import NOISE, Maximiser, _in_units
from lgmdsl.numerics.optimisation.lbfgs import Evaluated, Iterate
from lgmdsl.priors.covariance import InvWishart
from tests.compiled import canonical_form

TEXT = """lgm 1
index p
index i
data y[p, i] : {kind}?
data W[i, i] : real
hyper mu[i] : real ~ normal(sd = 2)
hyper S[i, i] : covariance ~ {prior}
latent z[p, i] ~ iid * dense(cov = S)
let eta[p, i] = mu + z
observe y ~ {family}
"""
FAMILIES = {"real": "normal(mean = eta, sd = 0.5)", "binary": "bernoulli(logit = eta)"}
WISHART, LKJ = "inv_wishart(df = {df}, scale = W)", "lkj_cov(eta = {eta}, u = 2, alpha = 0.1)"


def text(kind: str, prior: str) -> str:
    return TEXT.format(kind=kind, prior=prior, family=FAMILIES[kind])


def people(
    count: int, size: int, kind: str, scale: float, rank: int | None = None, seed: int = 0
) -> dict[str, Any]:
    """Ragged responses; `scale` is the inverse Wishart's."""
    rng = np.random.default_rng(seed)
    loads = rng.normal(size=(size, rank or size))
    z = rng.normal(size=(count, loads.shape[1])) @ loads.T
    y = z + 0.5 * rng.normal(size=z.shape)
    if kind == "binary":
        y = (rng.random(z.shape) < 1.0 / (1.0 + np.exp(-z))).astype(float)
    y[rng.random(y.shape) < 0.05] = np.nan
    return {"y": y, "W": scale * np.eye(size)}


def objective(model: str, data: dict[str, Any]) -> Objective:
    canonical = canonical_form(model, data)
    return Objective(plan(canonical), Coordinates(canonical.hypers), {}, Tolerances(1e-10, 1e-7))


def begun(given: Objective, s: Array) -> Evaluation:
    theta = {**given.planned.canonical.hypers.start(), "S": s}
    found = given.at(given.coordinates.pack(theta))
    assert found is not None
    return found


def left(given: Objective, at: Evaluation) -> float:
    """Nats that evidence + log prior may still rise, by the slope in whitened coordinates,
    S -> L(I + E)L', whatever the size of S: |L'GL|^2 / n."""
    space, (step,) = (
        given.planned.canonical.hypers,
        covariances(given.planned.canonical, given.coordinates),
    )
    root = np.linalg.cholesky(np.asarray(at.theta["S"]))
    slope = at.slopes["S"] + space.log_prior(at.theta)[1]["S"]
    return float(((root.T @ slope @ root) ** 2).sum() / step.count)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["real", "binary"])
@pytest.mark.parametrize("scale", [1e-2, 1e-8])
def test_converged_is_where_the_slope_is_small_beside_the_covariance(
    kind: str, scale: float
) -> None:
    """In the peak of a prior with a small scale, whose entries have slopes of 1e8 beside those of
    its logarithms: L-BFGS and EM, from above it and from within, end in one place."""
    given = objective(text(kind, WISHART.format(df=6)), people(40, 3, kind, scale, rank=1))
    ends = []
    for begin in (scale / 6.0, 40.0 * scale):
        first = begun(given, begin * np.eye(3))
        found = Maximiser(given, jacobian=False).run(first)
        em = EM.of(given, first.theta, "squarem")
        assert em is not None and found.status.name == "converged"
        climbed = em.run(first)
        assert climbed.status.name == "converged"
        ends += [found.at, climbed.at]
    for at in ends:
        assert left(given, at) < NOISE
        assert at.value == pytest.approx(ends[0].value, abs=1e-4)


def test_short_steps_of_em_where_the_slope_is_not_small_are_no_convergence() -> None:
    given = objective(text("real", WISHART.format(df=6)), people(40, 3, "real", 1.0))
    first = begun(given, np.eye(3))
    em = EM.of(given, first.theta, "none")
    assert em is not None
    plain, em.limit = em.direction, 10

    def short(now: Evaluation) -> Evaluation | None:
        direction = plain(now)
        assert direction is not None
        return given.at(now.x + 1e-14 * direction, now.posterior)

    em.step = short  # type: ignore[method-assign]
    climbed = em.run(first)
    assert climbed.status.name == "stalled" and "short" in climbed.reason


@pytest.mark.few(1)
@pytest.mark.parametrize("hyper", ["map", "em"])
def test_a_small_scale_does_not_hide_what_data_say(hyper: str) -> None:
    """The start, scale / df, lies in the prior's own peak: 1,400 nats below."""
    model, data = text("real", WISHART.format(df=5)), people(100, 3, "real", 1e-4)
    given = objective(model, data)
    wanted = Maximiser(given, jacobian=False).run(begun(given, np.eye(3)))
    trapped = Maximiser(given, jacobian=False).run(begun(given, 1e-4 / 5.0 * np.eye(3)))
    assert trapped.at.value < wanted.at.value - 100.0
    fit = lgm.fit(lgm.loads(model), data, hyper=hyper, tol=1e-9)
    assert fit.converged and fit.learning is not None
    assert fit.learning.steps[-1].objective > wanted.at.value - 1e-4  # there is a higher one


@pytest.mark.parametrize("acceleration", ["squarem", "none"])
@pytest.mark.parametrize("prior", ["flat", WISHART.format(df=4)])
def test_steps_never_go_down_on_the_way_to_a_singular_covariance(
    acceleration: str, prior: str
) -> None:
    """Vectors of rank 1 seen through noise: the maximum is at the edge, where extrapolated steps
    once found densities of e^(1e22)."""
    given = objective(text("real", prior), people(40, 3, "real", 1e-4, rank=1))
    first = begun(given, np.eye(3))
    em = EM.of(given, first.theta, acceleration)
    assert em is not None
    em.limit = 40
    climbed = em.run(first)
    steps = [s.objective for s in climbed.steps]
    slack = 1e-9 * abs(steps[0])
    assert all(b >= a - slack for a, b in pairwise(steps)) and abs(steps[-1]) < 1e3
    assert np.linalg.eigvalsh(np.asarray(climbed.at.theta["S"]))[0] > -1e-12


@given(st.integers(0, 2**20), st.floats(-30.0, -4.0))
@settings(max_examples=40, deadline=None)
def test_the_inverse_wishart_is_bounded_beside_singular_matrices(seed: int, little: float) -> None:
    """Its mode is the highest it gets, however little of S is left along some axis."""
    rng = np.random.default_rng(seed)
    scale = np.diag(10.0 ** rng.uniform(-8.0, 0.0, size=3))
    prior = InvWishart(np.array(5.0), scale)
    root = rng.normal(size=(3, 1))
    s = root @ root.T + np.exp(little) * np.eye(3)
    value = prior.log_density(s)
    assert value <= prior.log_density(scale / 9.0)
    if little > -15.0:  # beside tr(S^-1 scale) in higher precision
        turned = np.linalg.inv(s.astype(np.longdouble).astype(float))
        known = prior.log_density(np.eye(3)) - 0.5 * (np.trace(turned @ scale) - np.trace(scale))
        known -= 4.5 * np.linalg.slogdet(s)[1]
        assert value == pytest.approx(known, rel=1e-6, abs=1e-6)


def test_units_follow_the_covariance() -> None:
    """S -> DSD moves the units of L's entries with it, and leaves logarithms alone."""
    form = Covariance((3, 3))
    s = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 3.0]])
    x = form.coordinates(s)
    sds = np.sqrt(s.diagonal())
    wanted = np.array([1.0, sds[1], 1.0, sds[2], sds[2], 1.0])
    np.testing.assert_allclose(form.units(x), wanted)
    np.testing.assert_allclose(
        form.units(form.coordinates(1e-8 * s)) / wanted, [1, 1e-4, 1, 1e-4, 1e-4, 1]
    )


EXACT = [("real", "l-bfgs"), ("binary", "l-bfgs")]
WAYS = [
    *((prior, way) for prior in (LKJ.format(eta=1), LKJ.format(eta=4)) for way in EXACT),
    # SQUAREM is left to priors that keep the maximum inside: at an edge it takes 2,000 cycles.
    *(
        (prior, way)
        for prior in (WISHART.format(df=5), WISHART.format(df=7))
        for way in (*EXACT, ("real", "squarem"))
    ),
]


Way = tuple[str, tuple[str, str]]


@pytest.mark.few(3)
@pytest.mark.parametrize("way", WAYS, ids=lambda w: f"{w[0].partition('(')[0]}-{'-'.join(w[1])}")
def test_em_and_gradients_find_the_same_maximum(way: Way) -> None:
    """`em` and `map` under both priors of covariances, also where the maximum is at an edge."""
    place = WAYS.index(way)
    edge = place % 3 != 1
    check_same_maximum(place, 3, 1 if edge else None, way, 3.0 if edge else 0.3)


@pytest.mark.reproduction
@given(
    st.integers(0, 2**20),
    st.integers(2, 4),
    st.sampled_from([None, 1]),
    st.sampled_from(WAYS),
    st.sampled_from([0.3, 3.0]),
)
@settings(max_examples=40, deadline=None)
def test_so_they_do_for_any_data(
    seed: int, size: int, rank: int | None, way: Way, scale: float
) -> None:
    check_same_maximum(seed, size, rank, way, scale)


def check_same_maximum(seed: int, size: int, rank: int | None, way: Way, scale: float) -> None:
    prior, (kind, acceleration) = way
    model, data = lgm.loads(text(kind, prior)), people(60, size, kind, scale, rank, seed)
    by_map = lgm.fit(model, data, hyper="map", tol=1e-10)
    by_em = lgm.fit(model, data, hyper="em", tol=1e-10, options={"acceleration": acceleration})
    assert by_map.converged and by_em.converged and by_map.learning and by_em.learning
    wanted = by_map.learning.steps[-1].objective
    steps = [s.objective for s in by_em.learning.steps]
    # Where all of a covariance goes to 0 each coordinate that is held there leaves a thousandth.
    ends = any(w.code == "W605" for w in by_map.warnings)
    assert steps[-1] == pytest.approx(wanted, rel=5e-5 if ends else 1e-5)
    falls = [k for k, (a, b) in enumerate(pairwise(steps)) if b < a - 1e-8 * abs(a)]
    assert len(falls) <= 1  # where the search from another start begins
    s, other = by_em.theta["S"], by_map.theta["S"]
    np.testing.assert_allclose(s, other, atol=1e-2 * np.abs(other).max() + 1e-4)


@pytest.mark.thorough
def test_the_metric_of_em_shrinks_with_a_covariance_that_goes_to_0() -> None:
    """The search after EM, in the inner product of its last step's curvature: where S has shrunk
    1e4-fold since, the entries of its factor are so stiff beside that, that `em` converged 1e-3
    nats below the maximum, at means with slopes of 0.1."""
    prior, kind = LKJ.format(eta=4), "binary"
    model, data = text(kind, prior), people(60, 4, kind, 3.0, 1, 4)
    by_map, by_em = (lgm.fit(lgm.loads(model), data, hyper=way, tol=1e-10) for way in ("map", "em"))
    assert by_map.converged and by_em.converged and by_map.learning and by_em.learning
    wanted = by_map.learning.steps[-1].objective
    assert by_em.learning.steps[-1].objective == pytest.approx(wanted, abs=1e-4)
    assert any(w.code == "W605" for w in by_em.warnings)
    search = objective(model, data)
    at = search.at(search.coordinates.pack(by_em.theta))
    assert at is not None
    slope = at.gradient[search.coordinates.slices["mu"]]
    assert np.abs(slope).max() < 1e-2


def test_curvature_is_kept_when_units_change() -> None:
    """Pairs in other units: the same steps and slopes."""
    rng = np.random.default_rng(0)
    old, new = np.ones(4), np.array([1.0, 1e-3, 5.0, 1.0])
    s, g = rng.normal(size=4), rng.normal(size=4)
    now = Iterate(s / old, Evaluated(0.0, old * g, None), ((s / old, old * g, 0.7),))
    after = _in_units(now, old, new)
    np.testing.assert_allclose(after.x, s / new)
    np.testing.assert_allclose(after.at.gradient, new * g)
    (pair,) = after.pairs
    np.testing.assert_allclose(pair[0], s / new)
    np.testing.assert_allclose(pair[1], new * g)


def test_the_step_under_lkj_is_as_exact_for_small_covariances() -> None:
    """S -> c S of the scatter, and the prior's scale with it, moves the step's logarithms alone."""
    data, ends = people(40, 3, "real", 1.0), []
    for c in (1.0, 1e-3):
        prior = f"lkj_cov(eta = 2, u = {2 * c}, alpha = 0.1)"
        model = text("real", prior).replace("sd = 0.5", f"sd = {0.5 * c}")
        given = objective(model, {**data, "y": c * data["y"]})
        at = begun(given, c * c * np.eye(3))
        (step,) = covariances(given.planned.canonical, given.coordinates)
        x = step.step(given.planned.canonical, at, at.theta)
        assert x is not None
        ends.append(Covariance((3, 3)).value(x) / c**2)
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5, atol=1e-6)
