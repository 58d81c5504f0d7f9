"""Quantiles, densities and draws of hyperparameters on a lattice that is rotated against them: the
values of one have few clusters there, and were read off as steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.cells import Cells
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior
from tests.benchmarks.accuracy.cases import small_case_of
from tests.compiled import canonical_form

PAIR = """lgm 1
index obs
data y[obs] : real
hyper a : positive ~ half_normal(sd = 1)
hyper b : real ~ normal(sd = 1)
latent m ~ normal(mean = b, sd = a)
observe y ~ normal(mean = m, sd = 1)
"""
LEVELS = np.array([0.005, 0.025, 0.05, 0.3, 0.5, 0.7, 0.95, 0.975, 0.995])
STEP = 0.25  # of the lattice, as coarse as integration makes it


def log_a(theta: Theta) -> Array:
    return np.asarray(np.log(theta["a"]))


def a(theta: Theta) -> Array:
    return np.asarray(theta["a"])


def variance(theta: Theta) -> Array:
    return np.asarray(theta["a"]) ** 2


def b(theta: Theta) -> Array:
    return np.asarray(theta["b"])


def product(theta: Theta) -> Array:
    return np.asarray(theta["a"] * np.exp(theta["b"]))


@dataclass(frozen=True)
class Rotated:
    """log a = cos u - sin v, b = sin u + cos v, for independent u and v of these laws: on a lattice
    in (u, v), and as exact distributions."""

    angle: float
    u: Any
    v: Any

    @property
    def axes(self) -> Array:
        c, s = np.cos(self.angle), np.sin(self.angle)
        return np.array([[c, -s], [s, c]])

    def posterior(self, step: float = STEP) -> HyperPosterior:
        lines = [
            np.arange(np.floor(law.ppf(1e-10) / step), np.ceil(law.isf(1e-10) / step) + 1) * step
            for law in (self.u, self.v)
        ]
        z = np.stack([g.reshape(-1) for g in np.meshgrid(*lines, indexing="ij")], axis=1)
        log = self.u.logpdf(z[:, 0]) + self.v.logpdf(z[:, 1])
        weights = np.exp(log - log.max())
        kept = weights > 1e-12
        grounded = canonical_form(PAIR, {"y": [0.1]})
        coordinates = Coordinates(grounded.hypers, {}, False)
        frame = Standardised(np.zeros(2), self.axes, np.zeros(2, dtype=bool))
        weights = weights[kept] / weights[kept].sum()
        return HyperPosterior(coordinates, frame, z[kept], weights, 0.0, lattice=True)

    def quantiles(self, direction: Array, levels: Array = LEVELS) -> Array:
        """Of direction'(log a, b), by quadrature over u of the distribution of v."""
        along = direction @ self.axes
        p = (np.arange(8000) + 0.5) / 8000
        u = self.u.ppf(p)

        def below(q: float) -> float:
            ends = np.clip((q - along[0] * u) / along[1], -60.0, 60.0)
            return float(np.mean(self.v.cdf(ends) if along[1] > 0.0 else self.v.sf(ends)))

        if abs(along[1]) < 1e-9:
            return np.asarray(along[0] * self.u.ppf(levels if along[0] > 0.0 else 1.0 - levels))
        return np.array([optimize.brentq(lambda q, p=p: below(q) - p, -40, 40) for p in levels])


NORMAL = stats.norm(0.0, 1.0)
SKEWED = stats.loggamma(0.8, scale=0.7)  # an exponential left tail
MILD = stats.loggamma(3.0, scale=1.2)
ANGLES = [0.0, 0.002, 0.3, np.pi / 4, np.pi / 2 - 0.004]
LAWS = {"normal": (NORMAL, NORMAL), "skewed": (SKEWED, MILD), "mixed": (MILD, NORMAL)}
FUNCTIONS: list[tuple[Callable[[Theta], Array], tuple[float, float], Callable[[Array], Array]]] = [
    (log_a, (1.0, 0.0), np.asarray),
    (a, (1.0, 0.0), np.log),
    (variance, (2.0, 0.0), np.log),
    (b, (0.0, 1.0), np.asarray),
    (product, (1.0, 1.0), np.log),
]


@pytest.mark.few(5)
@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("laws", LAWS)
def test_quantiles_on_a_rotated_lattice_are_exact(laws: str, angle: float) -> None:
    """In sds of each function or its log; steps of the lattice left up to 0.1."""
    rotated = Rotated(angle, *LAWS[laws])
    posterior = rotated.posterior()
    for of, direction, line in FUNCTIONS:
        exact = rotated.quantiles(np.array(direction))
        quantiles = line(posterior.quantile(of, LEVELS))
        sd = (exact[-2] - exact[1]) / 3.92
        np.testing.assert_allclose(quantiles, exact, atol=0.01 * sd)


@pytest.mark.parametrize("angle", [0.0, 0.01, 0.3])
def test_cells_have_the_moments_of_the_nodes(angle: float) -> None:
    """Spreading the mass of nodes over their cells leaves means and sds as they were."""
    posterior = Rotated(angle, SKEWED, NORMAL).posterior()
    assert posterior.cells is not None
    masses = posterior.cells.masses
    assert masses.sum() == pytest.approx(1.0) and (masses > 0.0).all()
    for of in (log_a, a, b, product):
        parts = posterior.cells.values(posterior.values(of))
        mean = float(np.sum(masses * parts))
        sd = float(np.sqrt(np.sum(masses * (parts - mean) ** 2)))
        assert mean == pytest.approx(float(posterior.mean(of)), abs=2e-3 * sd)
        assert sd == pytest.approx(float(posterior.sd(of)), rel=4e-3)


@pytest.mark.parametrize("angle", [0.0, 0.003, 0.5])
def test_quantiles_densities_and_draws_agree(angle: float) -> None:
    posterior = Rotated(angle, SKEWED, MILD).posterior()
    levels = np.linspace(1e-4, 1.0 - 1e-4, 999)
    chosen = np.zeros(20_000, dtype=np.int64)
    start = posterior.coordinates.unpack(np.zeros(2))
    drawn = posterior.draws([start], np.ones(1), chosen, np.random.default_rng(1))
    assert posterior.cells is not None
    for of in (log_a, a, variance, b, product):
        quantiles = posterior.quantile(of, levels)
        assert (np.diff(quantiles) > 0.0).all()
        law = posterior.cells.distribution(posterior.values(of))
        np.testing.assert_allclose(law.probability(quantiles), levels, atol=1e-9)
        x, p = posterior.density(of, 401)
        steps = 0.5 * (p[1:] + p[:-1]) * np.diff(x)
        below = np.concatenate([[0.0], np.cumsum(steps)])
        np.testing.assert_allclose(np.interp(quantiles, x, below), levels, atol=6e-3)
        values = np.array([of(theta) for theta in drawn])
        assert stats.kstest(np.interp(values, quantiles, levels), "uniform").pvalue > 1e-3
    np.testing.assert_allclose(  # of a monotone function, its values at the quantiles
        posterior.quantile(variance, LEVELS), posterior.quantile(a, LEVELS) ** 2, rtol=2e-3
    )


def test_wide_cells_of_a_positive_value() -> None:
    """Steps of 1.2 in its log: parabolas of the value itself would leave the cell."""
    wide = Rotated(0.01, stats.norm(0.0, 5.0), NORMAL)
    quantiles = np.log(wide.posterior(1.2).quantile(a, LEVELS))
    np.testing.assert_allclose(quantiles, wide.quantiles(np.array([1.0, 0.0])), atol=0.1)


def test_a_difference_of_long_tails() -> None:
    """Of values from -1e12 to 1e12, most of which are small."""
    rotated = Rotated(0.01, NORMAL, NORMAL)
    quantiles = rotated.posterior().quantile(lambda theta: np.sinh(4.0 * log_a(theta)), LEVELS)
    exact = rotated.quantiles(np.array([1.0, 0.0]))
    np.testing.assert_allclose(np.arcsinh(quantiles) / 4.0, exact, atol=0.02)


def test_what_is_constant_folds_or_overflows() -> None:
    posterior = Rotated(0.01, NORMAL, NORMAL).posterior()
    constant = posterior.quantile(lambda _: np.array([0.1, 7.0]), LEVELS)
    np.testing.assert_array_equal(constant, np.broadcast_to([0.1, 7.0], (len(LEVELS), 2)))
    folded = posterior.quantile(lambda theta: np.abs(log_a(theta)), LEVELS)
    np.testing.assert_allclose(folded, stats.norm.ppf(0.5 + 0.5 * LEVELS), atol=0.05)
    with np.errstate(over="ignore"):
        huge = posterior.quantile(lambda theta: np.exp(300.0 * b(theta)), np.array([0.1, 0.5]))
        np.testing.assert_allclose(np.log(huge) / 300.0, stats.norm.ppf([0.1, 0.5]), atol=0.15)


def test_one_axis_of_a_lattice_and_gaps_in_it() -> None:
    """Two peaks with nodes left out between them have no neighbours there."""
    line = np.arange(-10.0, 10.01, 0.25)
    weights = 0.5 * stats.norm.pdf(line, -7.0, 0.5) + 0.5 * stats.norm.pdf(line, 7.0, 0.5)
    kept = weights > 1e-12
    z = line[kept][:, None]
    cells = Cells.of(z, weights[kept])
    assert (np.diff(z[:, 0]) > 1.0).sum() == 1
    law = cells.distribution(z[:, 0])
    np.testing.assert_allclose(law.quantile(np.array([0.25, 0.75])), [-7.0, 7.0], atol=2e-3)
    assert law.probability(np.array([-3.0, 3.0])) == pytest.approx([0.5, 0.5], abs=1e-3)


ONE_WAY = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
hyper t : positive ~ half_normal(sd = 1)
hyper s : positive ~ half_normal(sd = 2)
latent m ~ normal(sd = 3)
latent u[g] ~ normal(sd = t)
let eta[obs] = m + u[who]
observe y ~ normal(mean = eta, sd = s)
report share = t^2 / (t^2 + s^2)
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("design", ["grid", "ccd", "gauss-hermite"])
def test_sds_of_two_groups_against_quadrature(design: str) -> None:
    """Their axes are turned by a hundredth against the logs of the sds."""
    groups, each = 3, 8
    y = np.random.default_rng(4).normal(size=(groups, each)) + np.array([[0.0], [0.7], [-0.2]])
    data = {"y": y.reshape(-1), "who": np.repeat(np.arange(groups), each)}
    fit = lgm.fit(
        lgm.loads(ONE_WAY), data, hyper="integrate", options={"integration": design}, seed=0
    )
    assert fit.converged
    log_t, log_s = np.meshgrid(np.linspace(-12, 2, 1401), np.linspace(-1.5, 1.5, 601))
    t, s = np.exp(log_t), np.exp(log_s)
    between = s**2 + each * t**2
    means = y.mean(axis=1)
    parts = (
        (groups * (each - 1), np.sum((y - means[:, None]) ** 2), s**2),
        (groups - 1, each * np.sum((means - means.mean()) ** 2), between),
        (1, y.size * means.mean() ** 2, between + y.size * 9.0),
    )
    log = log_t + log_s - 0.5 * t**2 - 0.125 * s**2
    for df, squares, var in parts:
        log = log - 0.5 * (df * np.log(var) + squares / var)
    weights = np.exp(log - log.max())
    jitter = np.random.default_rng(0).random((2, *t.shape)) - 0.5
    t, s = t * np.exp(0.01 * jitter[0]), s * np.exp(0.005 * jitter[1])
    for name, value in (("t", t), ("s", s), ("share", t**2 / (t**2 + s**2))):
        order = np.argsort(value.reshape(-1))
        w = weights.reshape(-1)[order] / weights.sum()
        ordered = value.reshape(-1)[order]
        exact = np.interp(LEVELS[1:-1], np.cumsum(w) - 0.5 * w, ordered)
        sd = np.sqrt(w @ (ordered - w @ ordered) ** 2)
        quantiles = fit.quantile(name, LEVELS[1:-1].tolist()).values
        np.testing.assert_allclose(quantiles, exact, atol=0.05 * sd)


@pytest.mark.thorough
def test_model_61_of_the_campaign() -> None:
    """Its 95 % quantile was 0.27 sds too high, and its median 0.06. The truth is by quadrature over
    hyperparameters and latents (`exact` of the benchmarks' `truth.py`)."""
    case = small_case_of("normal.mean.censored", 1)
    fit = lgm.fit(lgm.loads(case.text), case.data, fixed=case.fixed)
    assert fit.converged
    sd = 0.4358356
    quantiles = fit.quantile("h0", [0.05, 0.95]).values
    np.testing.assert_allclose(quantiles, [0.02024893, 1.246428], atol=0.05 * sd)
    assert float(fit.mean("h0")) == pytest.approx(0.3965908, abs=0.02 * sd)
    assert float(fit.sd("h0")) == pytest.approx(sd, rel=0.02)
