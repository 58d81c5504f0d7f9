"""The super-Gaussian bound: h and h* against the paper's scalar minimisations, and the bound's
slopes in site parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.questions import SuperGaussian
from lgmdsl.sites.catalogue import sites
from tests.sites.examples import example

FAMILIES = [s.spec.name for s in sites() if issubclass(s, SuperGaussian)]
SHRINK = 0.5 * (np.sqrt(5.0) - 1.0)


@dataclass(frozen=True)
class Cauchyish(SuperGaussian):
    """A third party's site, g, g', g'' and nothing else: t = e^{s/4} / (1 + s^2) e^{-s^2/50}."""

    @property
    def beta(self) -> Array:
        return np.full(7, 0.25)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        return -np.log1p(x) - x / 50.0, -1.0 / (1.0 + x) - 0.02, 1.0 / (1.0 + x) ** 2


def lowest(f: Callable[[Array], Array], low: Array, high: Array, rounds: int) -> Array:
    """The minimum of functions with one valley each, by golden section."""
    a, b = low.copy(), high.copy()
    c, d = b - SHRINK * (b - a), a + SHRINK * (b - a)
    for _ in range(rounds):
        left = f(c) <= f(d)
        a, b = np.where(left, a, c), np.where(left, d, b)
        c, d = b - SHRINK * (b - a), a + SHRINK * (b - a)
    return np.minimum(np.minimum(f(a), f(b)), f(0.5 * (a + b)))


def brute_h(site: SuperGaussian, width: Array) -> Array:
    """h(gamma) = -min over x >= 0 of x/gamma + 2 g(x)."""

    def valley(t: Array) -> Array:
        return np.exp(t) / width + 2.0 * site.g(np.exp(t))[0]

    inside = lowest(valley, np.full_like(width, -60.0), np.full_like(width, 40.0), 70)
    return -np.minimum(inside, 2.0 * site.g(np.zeros_like(width))[0])


def brute_penalty(site: SuperGaussian, s: Array, z: Array) -> Array:
    """h*(s) = 1/2 min over gamma of (z + s^2)/gamma + h(gamma), less beta s."""

    def k(t: Array) -> Array:
        return (z + s * s) * np.exp(-t) + brute_h(site, np.exp(t))

    best = lowest(k, np.full_like(s, -35.0), np.full_like(s, 35.0), 70)
    return 0.5 * best - site.beta * s


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [*FAMILIES, "third party"])
def test_h_and_its_dual_are_the_paper_s_minimisations(name: str) -> None:
    made = Cauchyish() if name == "third party" else example(name, 7)
    assert isinstance(made, SuperGaussian)
    rng = np.random.default_rng(3)
    for reach in (1.0, 30.0):
        s, z = reach * rng.normal(size=7), rng.exponential(size=7)
        z[0] = 1e-8  # next to a kink
        s[1] = 0.0
        found = made.widths(s, z)
        size = 1.0 + np.abs(found.penalty)
        np.testing.assert_allclose(
            brute_penalty(made, s, z) / size, found.penalty / size, atol=1e-10
        )
        if name not in ("normal", "normal.mean"):  # whose h is infinite but for gamma <= sd^2
            size = 1.0 + np.abs(found.h)
            np.testing.assert_allclose(
                brute_h(made, found.width) / size, found.h / size, atol=1e-10
            )
        step = 1e-5 * (1.0 + np.abs(s)) * np.sqrt(z + s * s) / (1.0 + np.abs(s))
        up, down = made.widths(s + step, z), made.widths(s - step, z)
        scale = 1.0 + np.abs(found.slope)
        np.testing.assert_allclose(
            (up.penalty - down.penalty) / (2.0 * step) / scale, found.slope / scale, atol=1e-6
        )
        np.testing.assert_allclose(
            (up.slope - down.slope) / (2.0 * step), found.curvature, rtol=1e-5, atol=1e-8
        )


def test_the_student_s_h_is_the_one_of_the_paper_from_gamma_zero_on() -> None:
    """h = nu/gamma - (nu + 1) + (nu + 1) log(gamma (nu + 1) / nu) for gamma >= gamma_0."""
    made = example("student_t", 7)
    assert isinstance(made, SuperGaussian)
    nu, square = made.df, made.distance**2 / made.df  # type: ignore[attr-defined]
    start = made.widths(np.zeros(7), np.zeros(7))
    np.testing.assert_allclose(start.width / square, nu / (nu + 1.0), rtol=1e-12)
    for ratio in (1.0, 1.0 + 1e-9, 3.0, 1e4):
        gamma = ratio * nu / (nu + 1.0)
        x = (nu + 1.0) * gamma - nu
        found = made.widths(np.zeros(7), np.maximum(x, 0.0) * square)
        wanted = nu / gamma - (nu + 1.0) + (nu + 1.0) * np.log(gamma * (nu + 1.0) / nu)
        np.testing.assert_allclose(found.width / square, gamma, rtol=1e-8)
        np.testing.assert_allclose(found.h - start.h, wanted, rtol=1e-8, atol=1e-8)


PARAMETERS = (
    "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : real\n"
    "data c[obs] : binary\nhyper a : positive = 1\nhyper b : positive = 1\n"
    "hyper t : positive = 1\n"
    "latent w[feat] ~ normal(sd = 2)\nlet eta[obs] = X @ w\n"
    "observe y ~ {family}\nobserve c ~ bernoulli(logit = eta)\npotential w ~ laplace(scale = t)\n"
)


@pytest.mark.parametrize(
    "family",
    [
        "normal(mean = eta, sd = a * b)",
        "student_t(mean = eta, scale = a, df = 3 * b)",
        "laplace(mean = eta, scale = a * b)",
    ],
)
def test_slopes_in_site_parameters_are_those_of_the_bound(family: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(9, 3))
    y = X @ [1.0, -1.0, 0.0] + rng.standard_t(3, 9)
    data = {"X": X, "y": y, "c": (rng.random(9) < 0.5).astype(int)}
    model = lgm.loads(PARAMETERS.format(family=family))
    at = {"a": 0.8, "b": 1.3, "t": 0.6}

    def fitted(**change: float) -> lgm.Fit:
        return lgm.fit(model, data, "double-loop", fixed={**at, **change}, tol=1e-13)

    fit = fitted()
    problem_slopes = slopes(fit)
    for name in ("scale", "sd", "df"):
        hyper = "b" if name == "df" else "a"
        if name not in problem_slopes[0]:
            continue
        h = 1e-4
        wanted = (
            fitted(**{hyper: at[hyper] + h}).log_evidence
            - fitted(**{hyper: at[hyper] - h}).log_evidence
        ) / (2.0 * h)
        inner = {"df": 3.0, "scale": 1.0 if "df" in family else 1.3, "sd": 1.3}[name]
        assert inner * problem_slopes[0][name].sum() == pytest.approx(wanted, rel=1e-5)
    wanted = (fitted(t=0.6001).log_evidence - fitted(t=0.5999).log_evidence) / 2e-4
    assert problem_slopes[2]["scale"].sum() == pytest.approx(wanted, rel=1e-5)


def slopes(fit: lgm.Fit) -> tuple[dict[str, Array], ...]:
    """dbound/dparameter of each block at a fit's q."""
    from lgmdsl.contract.objectives.super_gaussian import parameter_slopes
    from lgmdsl.contract.problem import Problem
    from lgmdsl.inference.plan import plan

    problem = plan(fit.canonical, "double-loop").at(fit.theta)
    assert isinstance(problem, Problem)
    return tuple(map(dict, parameter_slopes(problem, fit.posterior.conditioned)))
