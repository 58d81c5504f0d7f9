"""The yardsticks of `accuracy/` themselves, against closed forms and a second quadrature."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.sites.catalogue import families
from tests.benchmarks.accuracy.cases import CannotBuildError, Case, Hyper, Sites, small_case
from tests.benchmarks.accuracy.judge import outside
from tests.benchmarks.accuracy.loadings import LoadingCase
from tests.benchmarks.accuracy.outputs import distribution, moments, output_lines
from tests.benchmarks.accuracy.sampler import Density, drawn
from tests.benchmarks.accuracy.truth import LEVELS, exact, whitened
from tests.benchmarks.accuracy.warned import Surface, settled, table

Z = np.asarray(stats.norm.ppf(LEVELS))


def made(family: Any, *fields: Array) -> Site:
    """Sites of a family."""
    sites: Site = family(*fields)
    return sites


def normal_case(noise: float = 0.4) -> Case:
    """y = 2 + z1 + z2 x + noise, nothing learned."""
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(12), rng.normal(size=12)])[:, None, :]
    normal = next(f for f in families() if f.spec.name == "normal.mean")
    y = rng.normal(2.0, 1.0, 12)
    site = made(normal, y, np.full(12, noise))
    return Case(
        0, "normal.mean", "", {"y": y}, {}, design, np.array([2.0, 0.0]), np.array([3.0, 1.0]),
        (-1, -1), (("a", 0), ("b", 0)), (), (), (Sites(site, {}),),
    )  # fmt: skip


def closed_form(case: Case, sd: Array, noise: float) -> tuple[float, Array, Array]:
    """log p(y), and mean and covariance of z, of normal data under z ~ N(mean, diag(sd^2))."""
    b, y = case.design[:, 0], np.asarray(case.data["y"])
    whole = b * sd**2 @ b.T + noise**2 * np.eye(len(y))
    gain = np.linalg.solve(whole, b * sd**2).T
    mean = case.mean + gain @ (y - b @ case.mean)
    log = stats.multivariate_normal(b @ case.mean, whole).logpdf(y)
    return float(log), mean, np.diag(sd**2) - gain @ (b * sd**2)


def test_quadrature_of_a_normal_posterior_is_its_closed_form() -> None:
    case = normal_case()
    log, mean, covariance = closed_form(case, case.sd, 0.4)
    truth, sd = exact(case), np.sqrt(np.diag(covariance))
    assert truth.log_evidence == pytest.approx(log, abs=0.01)
    assert np.abs(truth.mean - mean).max() < 0.02 * sd.min()
    np.testing.assert_allclose(truth.sd, sd, rtol=0.02)
    assert np.abs(truth.quantiles - (mean + Z[:, None] * sd)).max() < 0.03 * sd.max()
    assert np.abs(truth.skewness).max() < 0.1


def test_quadrature_over_a_learned_sd_is_a_sum_over_closed_forms() -> None:
    """Latents integrated in closed form, the sd on a fine grid."""
    hyper = Hyper("h", "exponential", 1.5)
    case = dataclasses.replace(normal_case(), hypers=(hyper,), scale=(-1, 0))
    grid = np.exp(np.linspace(-14.0, 5.0, 1500))
    each = [closed_form(case, np.array([3.0, s]), 0.4) for s in grid]
    logs = np.array([e[0] for e in each]) + hyper.log_density(grid) + np.log(grid)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    log = logs.max() + np.log(np.exp(logs - logs.max()).sum() * 19.0 / 1499.0)
    truth = exact(case)
    assert truth.log_evidence == pytest.approx(log, abs=0.01)
    means = weight @ np.array([e[1] for e in each])
    squares = weight @ np.array([np.diag(e[2]) + e[1] ** 2 for e in each])
    sds = np.sqrt(squares - means**2)
    assert np.abs((truth.mean[:2] - means) / sds).max() < 0.02
    np.testing.assert_allclose(truth.sd[:2], sds, rtol=0.02)
    centre = weight @ grid
    spread = np.sqrt(weight @ grid**2 - centre**2)
    assert truth.mean[2] == pytest.approx(centre, abs=0.02 * spread)
    assert truth.sd[2] == pytest.approx(spread, rel=0.02)
    quantiles = np.interp(LEVELS, np.cumsum(weight) - 0.5 * weight, grid)
    assert np.abs(truth.quantiles[:, 2] - quantiles).max() < 0.03 * spread


@pytest.mark.parametrize("prior", ["exponential", "uniform", "flat", "half_cauchy"])
def test_the_density_of_an_sd_is_a_closed_form(prior: str) -> None:
    """At its mode and far out, and what follows for the hyperparameter over a grid of it."""
    hyper = Hyper("h", prior, 3.0)
    case = dataclasses.replace(normal_case(), hypers=(hyper,), scale=(-1, 0))
    places = np.linspace(-6.0, 7.0, 14)
    with np.errstate(divide="ignore"):
        priors = hyper.log_density(np.exp(places)) + places
        sds = [np.array([3.0, s]) for s in np.exp(places)]
        expected = np.array([closed_form(case, sd, 0.4)[0] for sd in sds]) + priors
        found = whitened(case).log_densities(places[:, None])
    np.testing.assert_allclose(found, expected, atol=0.05)
    surface = Surface.of(case)
    slope = {"exponential": -np.inf, "uniform": -np.inf, "flat": 0.0, "half_cauchy": -2.0}[prior]
    assert surface.slope < -20.0 if slope == -np.inf else abs(surface.slope - slope) < 0.1
    if prior in ("exponential", "uniform"):
        here, there = settled(case, surface), exact(case)
        assert np.abs((here.mean - there.mean) / there.sd).max() < 0.05
        np.testing.assert_allclose(here.sd, there.sd, rtol=0.05)
        assert np.abs((here.quantiles - there.quantiles) / there.sd).max() < 0.06


def test_the_density_of_loadings_is_that_of_their_rows() -> None:
    case = LoadingCase.of(7)

    def exactly(a: float, b: float) -> float:
        load = np.array([a, b])
        rows = stats.multivariate_normal(
            np.zeros(2), np.outer(load, load) + case.noise**2 * np.eye(2)
        )
        return float(np.sum(rows.logpdf(case.y)) - 0.5 * load @ load)

    gap = case.logs(np.array([0.7]), np.array([-0.2]))[0] - case.logs(np.zeros(1), np.ones(1))[0]
    assert gap == pytest.approx(exactly(0.7, -0.2) - exactly(0.0, 1.0), rel=1e-9)


def test_a_warning_is_counted_by_what_it_promised() -> None:
    line = dict.fromkeys(
        ("family", "codes", "name", "size", "status", "basis", "seconds"), ""
    ) | {"kind": "verdict", "code": "W609", "number": "1"}  # fmt: skip
    rows = [
        line | {"fit": "a", "warned": "1", "deserved": "1", "needed": "1"},
        line | {"fit": "b", "warned": "1", "deserved": "0", "needed": "0"},
        line | {"fit": "c", "warned": "0", "deserved": "1", "needed": "1"},
    ]
    assert "| W609 | 2 | 1 (50.0 %) | 1 | 2 | 1 (50.0 %) |" in table(rows)


def of_one_latent() -> list[Case]:
    cases = []
    for number in range(80):
        with contextlib.suppress(CannotBuildError):
            cases.append(small_case(number))
    return [c for c in cases if c.design.shape[2] == 1 and not c.hypers][::3]


@pytest.mark.parametrize("case", of_one_latent(), ids=lambda c: f"{c.family}-{c.rows}")
def test_quadrature_of_one_latent_is_a_fine_grid(case: Case) -> None:
    x = np.linspace(-9.0, 9.0, 4001)
    theta = np.ones((len(x), 0))
    logs = case.log_likelihood(x[:, None], theta) + stats.norm.logpdf(x)
    weight = np.exp(logs - logs.max())
    log = logs.max() + np.log(weight.sum() * (x[1] - x[0]))
    weight /= weight.sum()
    z = case.latents(x[:, None], theta)[:, 0]
    mean = weight @ z
    sd = np.sqrt(weight @ (z - mean) ** 2)
    quantiles = np.interp(LEVELS, np.cumsum(weight) - 0.5 * weight, z)
    truth = exact(case)
    assert truth.log_evidence == pytest.approx(log, abs=0.01)
    assert truth.mean[0] == pytest.approx(mean, abs=0.02 * sd)
    assert truth.sd[0] == pytest.approx(sd, rel=0.02)
    assert np.abs(truth.quantiles[:, 0] - quantiles).max() < 0.03 * sd


def test_the_sampler_agrees_with_the_quadrature() -> None:
    """A Poisson-like skewed posterior with a learned sd: no closed form, two methods."""
    poisson = next(f for f in families() if f.spec.name == "poisson.log_rate")
    y = np.array([0.0, 0.0, 1.0, 0.0, 3.0])
    site = made(poisson, y, np.ones(5))
    design = np.column_stack([np.ones(5), np.eye(2)[[0, 0, 0, 1, 1]]])
    hyper = Hyper("h", "half_normal", 1.0)
    case = Case(
        0, "", "", {}, {}, design[:, None, :], np.zeros(3), np.array([2.0, 1.0, 1.0]),
        (-1, 0, 0), (("a", 0), ("u", 0), ("u", 1)), (), (hyper,), (Sites(site, {}),),
    )  # fmt: skip
    truth = exact(case)
    columns = design * np.array([2.0, 1.0, 1.0])
    density = Density(
        site, np.zeros(5), columns, np.array([-1, 0, 0]), np.zeros(3, dtype=np.bool_), (hyper,)
    )

    def values(u: Array) -> Array:
        z = density.factors(u) * u[:, :3] * np.array([2.0, 1.0, 1.0])
        return np.column_stack([z, np.exp(u[:, 3])])

    draws = drawn(density, values, 1e4, 8000.0)
    assert draws.rhat < 1.01 and draws.ess > 4000.0
    every = draws.values.reshape(-1, 4)
    assert np.abs((every.mean(axis=0) - truth.mean) / truth.sd).max() < 0.06
    np.testing.assert_allclose(every.std(axis=0), truth.sd, rtol=0.06)
    gap = np.quantile(every, LEVELS, axis=0) - truth.quantiles
    assert np.abs(gap / truth.sd).max() < 0.08


@pytest.mark.parametrize("zeros", [("", 0.0), ("zero_inflation", 0.3), ("hurdle", 0.3)])
def test_counts_with_zeros_are_sums_over_their_values(zeros: tuple[str, float]) -> None:
    """Densities add up to 1, and to moments and distribution functions."""
    poisson = next(f for f in families() if f.spec.name == "poisson.log_rate")
    s, theta, values = np.array([[[-45.0], [-1.0], [0.5], [2.0]]]), np.ones((1, 0)), np.arange(80.0)
    sites = Sites(made(poisson, np.zeros(4), np.ones(4)), {}, None, zeros)
    law = np.array([np.exp(sites.observing(np.full(4, y)).each(s, theta)[0]) for y in values])
    np.testing.assert_allclose(law.sum(axis=0), 1.0, rtol=1e-10)
    first, second = moments(sites, s, theta)
    np.testing.assert_allclose(first[0], values @ law, rtol=1e-9)
    np.testing.assert_allclose(second[0], values**2 @ law, rtol=1e-9)
    for y in (-1.0, 0.0, 1.0, 4.0):
        upto = distribution(sites.observing(np.full(4, y)), s, theta)[0]
        np.testing.assert_allclose(upto, law[values <= y].sum(axis=0), atol=1e-12)
    twice = Sites(sites.site, {}, np.full(4, 2.0), zeros)
    np.testing.assert_allclose(twice.each(s, theta), 2.0 * sites.each(s, theta))


def test_outputs_are_compared_with_what_they_are() -> None:
    """Of a normal response, whose every answer is exact."""
    case = small_case(families_named("normal.mean"), varied=True)
    fit = lgm.fit(lgm.loads(case.text), case.data, fixed=case.fixed)
    lines = [*output_lines(fit, case, exact(case))]
    assert {r["kind"] for r in lines} >= {"response", "quantile", "alone", "loo", "pit"}
    assert not [r for r in lines if outside(r)]


def families_named(name: str) -> int:
    """The number of its first model."""
    return [f.spec.name for f in families()].index(name)
