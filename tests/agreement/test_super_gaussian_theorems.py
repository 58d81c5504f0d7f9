"""Theorems 1 and 2 of Nickisch and Seeger 2009: the super-Gaussian relaxation is convex where all
sites are log-concave, whatever the rest of the model is.

    phi = log|A| + h(gamma) + min_u R(u, gamma) = -2 log_normaliser(1/gamma, beta) + h + constant
    A = X'X + B' diag(1/gamma) B,    h(gamma) = max_{x >= 0} -x/gamma - 2 g(x)

beta and g are those that the sites answer (`SuperGaussian`), log_normaliser is an engine's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.questions import Pointwise, SuperGaussian
from lgmdsl.contract.site import Property, Site
from lgmdsl.engines.choose import choose
from lgmdsl.operators.explicit import Dense
from lgmdsl.sites.catalogue import find_site, sites
from lgmdsl.sites.observed import make_sites
from lgmdsl.sites.scalar.exp_power import ExpPowerPotential
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.engine_models import random_case
from tests.sites.examples import example

seeds = st.integers(0, 2**20)
shares = st.floats(0.05, 0.95)
# All but Gaussian ones, whose width is a single number.
FAMILIES = [
    s.spec.name
    for s in sites()
    if issubclass(s, SuperGaussian) and Property.GAUSSIAN not in s.spec.properties
]


def answers(site: Site) -> SuperGaussian:
    assert isinstance(site, SuperGaussian)
    return site


def curvature(site: Site, s: Array) -> Array:
    """l'' at s, (N,)."""
    assert isinstance(site, Pointwise)
    return site.pointwise(s).curvature


def log_concave(site: Site) -> BoolArray:
    """(N,) which sites are: no positive l'' on a grid."""
    grid = np.geomspace(1e-2, 1e2, 40)
    bends = [curvature(site, np.full(len(site), x)) for x in (*grid, *-grid)]
    return np.asarray(np.max(bends, axis=0) <= 0.0)


def h_at(site: SuperGaussian, width: Array) -> Array:
    """h at given widths: x* by bisection on log x, 0 where the width is below all that g has."""
    low, high = np.full_like(width, -300.0), np.full_like(width, 300.0)
    for _ in range(45):
        middle = 0.5 * (low + high)
        narrow = -2.0 * site.g(np.exp(middle))[1] * width > 1.0
        low, high = np.where(narrow, middle, low), np.where(narrow, high, middle)
    x = np.where(low > -300.0, np.exp(low), 0.0)
    return -x / width - 2.0 * site.g(x)[0]


# Families with log-concave sites; exp_power has both kinds.
CONVEX = [name for name in FAMILIES if log_concave(example(name, 40)).any()]


def log_det(x: Array, b: Array, f: Array) -> float:
    """log|X'X + B' diag(f) B|."""
    sign, value = np.linalg.slogdet(x.T @ x + (b.T * f) @ b)
    assert sign > 0
    return float(value)


def random_matrices(rng: np.random.Generator) -> tuple[Array, Array]:
    """X (m, n), m from 0, and B (q, n) of full rank with a row of zeros."""
    n = int(rng.integers(1, 7))
    x = 10.0 ** rng.uniform(-2, 1) * rng.normal(size=(int(rng.integers(0, n + 2)), n))
    b = rng.normal(size=(n + int(rng.integers(1, 5)), n))
    b[-1] = 0.0
    return x, b


@given(seeds, shares)
def test_the_log_determinant_is_convex_in_the_widths(seed: int, t: float) -> None:
    """Theorem 1: for every f_i with log f_i convex: gamma^-alpha, and e^gamma."""
    rng = np.random.default_rng(seed)
    x, b = random_matrices(rng)
    alpha = rng.uniform(0.1, 3.0, len(b))
    exponential = rng.integers(0, 2, len(b)) == 1

    def psi(gamma: Array) -> float:
        positive = np.where(exponential, 1.0, gamma)
        return log_det(x, b, np.where(exponential, np.exp(gamma), positive**-alpha))

    free = 1.5 * rng.normal(size=(2, len(b)))
    one, two = np.where(exponential, free, np.exp(free))
    chord = (1.0 - t) * psi(one) + t * psi(two)
    assert psi((1.0 - t) * one + t * two) <= chord + 1e-9 * (1.0 + abs(chord))


@given(seeds, shares)
def test_the_log_determinant_is_concave_in_the_inverse_widths(seed: int, t: float) -> None:
    """(Nickisch and Seeger 2009, 2.2), with gradient z = diag(B A^-1 B') in 1/gamma
    (not in gamma, as printed)."""
    rng = np.random.default_rng(seed)
    x, b = random_matrices(rng)
    one, two = np.exp(1.5 * rng.normal(size=(2, len(b))))
    middle = (1.0 - t) * one + t * two
    chord = (1.0 - t) * log_det(x, b, one) + t * log_det(x, b, two)
    assert log_det(x, b, middle) >= chord - 1e-9 * (1.0 + abs(chord))
    z = np.sum(b * np.linalg.solve(x.T @ x + (b.T * one) @ b, b.T).T, axis=1)
    step = 1e-5 * one * rng.normal(size=len(one))
    difference = log_det(x, b, one + step) - log_det(x, b, one - step)
    assert 0.5 * difference == pytest.approx(z @ step, abs=1e-9)


@given(seeds, st.sampled_from(FAMILIES))
def test_widths_are_conjugate_to_g_both_ways(seed: int, name: str) -> None:
    """h(gamma) = max_x -x/gamma - 2g(x) and h* = min_gamma (z + s^2)/(2 gamma) + h/2 - beta s."""
    site = answers(example(name, seed=seed))
    rng = np.random.default_rng(seed)
    s, z, other = 2.0 * rng.normal(size=(3, 8))
    z, other = z * z, np.exp(2.0 * other)
    found, elsewhere = site.widths(s, z), site.widths(np.sqrt(other), np.zeros(8))
    small = 1e-9 * (1.0 + np.abs(found.h) + np.abs(elsewhere.h))
    assert np.all(found.h >= -other / found.width - 2.0 * site.g(other)[0] - small)
    x = z + s * s
    at_other_width = 0.5 * (x / elsewhere.width + elsewhere.h) - site.beta * s
    assert np.all(found.penalty <= at_other_width + small)
    at_width = 0.5 * (x / found.width + found.h) - site.beta * s
    np.testing.assert_allclose(found.penalty, at_width, atol=float(small.max()))
    np.testing.assert_allclose(h_at(site, found.width), found.h, atol=10.0 * float(small.max()))


def test_which_sites_are_log_concave() -> None:
    """What the two halves of theorem 2 are tried on."""
    for name in FAMILIES:
        site = example(name, 40)
        concave = log_concave(site)
        if isinstance(site, ExpPowerPotential):
            np.testing.assert_array_equal(concave, site.power >= 1.0)
        else:
            assert (
                concave.all() if Property.LOG_CONCAVE in site.spec.properties else not concave.any()
            )
    assert set(FAMILIES) - set(CONVEX) == {"student_t"}
    assert {"bernoulli.logit", "binomial.logit", "laplace", "sech2", "logistic"} < set(CONVEX)


@given(seeds, st.sampled_from(CONVEX), shares)
@settings(max_examples=40)
def test_h_is_convex_for_log_concave_sites(seed: int, name: str, t: float) -> None:
    """Theorem 2, first half: over all widths, also those below the narrowest of g."""
    made = example(name, seed=seed)
    made = made.take(log_concave(made))
    site, rng = answers(made), np.random.default_rng(seed)
    one, two = np.exp(2.0 * rng.normal(size=(2, len(made))))
    chord = (1.0 - t) * h_at(site, one) + t * h_at(site, two)
    middle = h_at(site, (1.0 - t) * one + t * two)
    assert np.all(middle <= chord + 1e-9 * (1.0 + np.abs(chord)))


@given(seeds, st.sampled_from(FAMILIES))
def test_h_bends_against_the_log_density(seed: int, name: str) -> None:
    """Theorem 2, both halves at once: h is convex at gamma(s^2) where l'' < 0, concave where
    l'' > 0, and straight where l is."""
    made = example(name, seed=seed)
    site, rng = answers(made), np.random.default_rng(seed)
    s = np.exp(1.5 * rng.normal(size=8))
    near, at, far = (site.widths(s * k, np.zeros(8)) for k in (0.97, 1.0, 1.03))
    assert np.all(near.width < at.width) and np.all(at.width < far.width)
    t = (at.width - near.width) / (far.width - near.width)
    above = (1.0 - t) * near.h + t * far.h - at.h
    noise = 1e-13 * (1.0 + np.abs(at.h))
    bends = np.stack([curvature(made, s * k) * s * s for k in (0.97, 1.0, 1.03)])
    assert np.all(above[bends.max(axis=0) <= 0.0] >= -noise[bends.max(axis=0) <= 0.0])
    assert np.all(above[bends.min(axis=0) >= 0.0] <= noise[bends.min(axis=0) >= 0.0])
    bent = (np.abs(bends).min(axis=0) > 1e-4) & (np.ptp(np.sign(bends), axis=0) == 0.0)
    assert np.all(above[bent] * bends[1, bent] < 0.0)


def phi(linear: LinearGaussian, groups: tuple[SuperGaussian, ...], width: Array) -> float:
    """The objective, from an engine's log normaliser and the sites' h; -phi/2 is the bound."""
    sizes = np.cumsum([len(g.beta) for g in groups])[:-1]
    engine, reason = choose(linear)
    assert engine is not None, reason
    beta = np.concatenate([g.beta for g in groups])
    q = engine.condition((1.0 / width,), (beta,))
    assert not isinstance(q, Failed), q.reason
    h = [h_at(g, part).sum() for g, part in zip(groups, np.split(width, sizes), strict=True)]
    return float(sum(h) - 2.0 * q.log_normaliser)


@given(seeds, shares, st.sampled_from(["", "proper", "flat"]))
@settings(max_examples=20)
def test_the_problem_is_convex_whatever_the_model(seed: int, t: float, tie: str) -> None:
    """Priors proper, singular and flat, means, offsets, constraints; two families of sites."""
    rng = np.random.default_rng(seed)
    linear = random_case(seed, gp=bool(seed % 2), tie=tie).linear
    groups: list[SuperGaussian] = []
    for size in (linear.rows // 2, linear.rows - linear.rows // 2):
        made = example(CONVEX[rng.integers(len(CONVEX))], 40, int(rng.integers(2**20)))
        groups.append(answers(made.take(np.flatnonzero(log_concave(made))[:size])))
    one, two = np.exp(1.5 * rng.normal(size=(2, linear.rows)))
    values = [phi(linear, tuple(groups), w) for w in (one, two, (1.0 - t) * one + t * two)]
    chord = (1.0 - t) * values[0] + t * values[1]
    assert values[2] <= chord + 1e-8 * (1.0 + abs(chord))


@given(seeds)
@settings(max_examples=4)
def test_the_fit_under_jaakkolas_bound_is_the_global_minimum(seed: int) -> None:
    """-phi/2 at the fit's widths 1/w is its log evidence, and at no other widths is it larger."""
    rng = np.random.default_rng(seed)
    design, y = rng.normal(size=(8, 2)), rng.integers(0, 2, 8).astype(float)
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : binary\n"
        "latent b[feat] ~ normal(sd = 1)\nlet eta[obs] = X @ b\n"
        "observe y ~ bernoulli(logit = eta)\n"
    )
    data = {"X": design, "y": y}
    fit = lgm.fit(lgm.loads(text), data, "natural-gradient", bound="jaakkola", tol=1e-10)
    mean, variance = fit.mean("eta").values, fit.sd("eta").values ** 2
    f = lgm.sites.expected("bernoulli.logit", y, mean, variance, rule="jaakkola")
    best = -0.5 / f.d_variance
    block = PriorBlock("b", (structure("iid", 2),), np.zeros(2))
    linear = LinearGaussian((block,), (Predictor({"b": Dense(design)}, np.zeros(8)),))
    logit = find_site("bernoulli.logit")
    assert logit is not None
    site = answers(make_sites(logit, y, {}))
    assert -0.5 * phi(linear, (site,), best) == pytest.approx(fit.log_evidence, abs=1e-7)
    for scale in (0.01, 0.3, 3.0):
        other = best * np.exp(scale * rng.normal(size=8))
        assert -0.5 * phi(linear, (site,), other) < fit.log_evidence + 1e-9


@dataclass(frozen=True)
class TamedStudent(SuperGaussian):
    """g = -2 log(1 + x/3) - decay x: Student-t of 3 degrees times a normal. Its log density bends
    upwards at s = 3 as long as decay < 1/12, and hardly does for a decay just below."""

    decay: float

    @property
    def beta(self) -> Array:
        return np.zeros(1)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        total = 3.0 + x
        return -2.0 * np.log1p(x / 3.0) - self.decay * x, -2.0 / total - self.decay, 2.0 / total**2


def sags(site: SuperGaussian, precision: float) -> float:
    """The most by which phi = log(precision + 1/gamma) + h(gamma) of one latent, one site, y = 0
    and X = sqrt(precision) is above the chord of its neighbours on a grid: > 0 if not convex."""
    x = np.geomspace(1e-2, 1e3, 120)
    found = site.widths(np.sqrt(x), np.zeros_like(x))
    gamma, value = found.width, np.log(precision + 1.0 / found.width) + found.h
    t = (gamma[1:-1] - gamma[:-2]) / (gamma[2:] - gamma[:-2])
    return float(np.max(value[1:-1] - (1.0 - t) * value[:-2] - t * value[2:]))


def test_one_site_that_is_not_log_concave_spoils_some_models_only() -> None:
    """The converse of theorem 2 speaks of some X, B, y: log|A| may outweigh a slight bend of h."""
    slight, strong = TamedStudent(0.99 / 12.0), TamedStudent(0.5 / 12.0)
    assert sags(slight, 1e6) > 1e-7 and sags(strong, 1e6) > 1e-5
    assert sags(slight, 1e-2) < 0.0
    assert sags(TamedStudent(1.01 / 12.0), 1e6) < 0.0
    student = example("student_t", 1)
    assert all(sags(answers(student), p) > 1e-5 for p in np.geomspace(1e-6, 1e6, 7))
