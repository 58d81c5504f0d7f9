"""Exact draws against quadrature, on posteriors that no Gaussian is near enough to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.assess.estimator import ExactDraws, MixturePoint
from lgmdsl.assess.sampling.draws import Chains, Run, exact_draws
from tests.assess.small_models import small_model, truth

QUANTILES = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """Means, sds and 5 and 95 % points, (n,) and (2, n), of a density of n latents given at the
    nodes of a regular grid (or of functions `lift` of these nodes)."""

    mean: Array
    sd: Array
    quantiles: Array


def on_grid(
    log_density: Callable[[Array], Array],
    ends: list[tuple[float, float]],
    points: int,
    lift: Callable[[Array], Array] = lambda z: z,
) -> GridPosterior:
    axes = [np.linspace(a, b, points) for a, b in ends]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(ends))
    level = log_density(nodes)
    weight = np.exp(level - level.max())
    weight /= weight.sum()
    edge = np.any((nodes == nodes.min(axis=0)) | (nodes == nodes.max(axis=0)), axis=1)
    assert weight[edge].sum() < 1e-5  # the grid holds the posterior
    z = lift(nodes)
    mean = weight @ z
    sd = np.sqrt(weight @ (z - mean) ** 2)
    return GridPosterior(mean, sd, np.array([_quantiles(x, weight) for x in z.T]).T)


def _quantiles(x: Array, weight: Array) -> Array:
    values, place = np.unique(np.round(x, 9), return_inverse=True)
    mass = np.bincount(place, weight)
    return np.interp(QUANTILES, np.cumsum(mass) - 0.5 * mass, values)


def drawn(fit: Fit, draws: int = 10000, seed: int = 0, budget: float | None = None) -> ExactDraws:
    theta = fit.theta
    out = exact_draws(
        fit.canonical.sites(theta),
        fit.canonical.linear(theta),
        fit.posterior.conditioned,
        draws,
        seed,
        budget,
    )
    assert out is not None
    return out


def fitted(text: str, data: dict[str, Any], method: str = "natural-gradient") -> Fit:
    return lgm.fit(lgm.loads("lgm 1\n" + text), data, method=method)


def close(z: Array, exact: GridPosterior) -> None:
    """To 0.05 sd, 4 % and 0.1 sd."""
    assert np.max(np.abs(z.mean(axis=0) - exact.mean) / exact.sd) < 0.05
    assert np.max(np.abs(z.std(axis=0) / exact.sd - 1.0)) < 0.04
    apart = np.quantile(z, QUANTILES, axis=0) - exact.quantiles
    assert np.max(np.abs(apart) / exact.sd) < 0.1


ZEROS = """data y : count
latent w ~ normal(sd = 10)
observe y ~ binomial(n = 47, logit = w)
"""


def zeros_exact() -> GridPosterior:
    def density(z: Array) -> Array:
        return np.asarray(-0.005 * z[:, 0] ** 2 - 47.0 * np.logaddexp(0.0, z[:, 0]))

    return on_grid(density, [(-80.0, 5.0)], 40001)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["natural-gradient", "laplace", "ep"])
def test_zero_of_47(method: str) -> None:
    """The variational sd is 0.6 and Laplace's 0.68 of the truth."""
    out = drawn(fitted(ZEROS, {"y": 0}, method))
    close(out.z, zeros_exact())
    assert out.r_hat < 1.03 and 1000 < out.ess <= 12000


@pytest.mark.parametrize("method", ["natural-gradient", "laplace"])
def test_counts_near_zero(method: str) -> None:
    text = """index obs
data x[obs] : real
data y[obs] : count
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
let eta[obs] = a + b * x
observe y ~ poisson(log_rate = eta)
"""
    x, y = np.array([-1.0, -0.3, 0.4, 1.0]), np.array([0, 0, 0, 1])

    def density(z: Array) -> Array:
        eta = z[:, :1] + z[:, 1:] * x
        return np.asarray((y * eta - np.exp(eta)).sum(axis=1) - 0.02 * (z**2).sum(axis=1))

    out = drawn(fitted(text, {"x": x, "y": y}, method))
    close(out.z, on_grid(density, [(-28.0, 6.0), (-25.0, 28.0)], 601))


def test_a_student_site_with_two_modes() -> None:
    text = """index obs
data y[obs] : real
latent w ~ normal(sd = 4)
let eta[obs] = w
observe y ~ student_t(mean = eta, scale = 0.7, df = 3)
"""
    y = np.array([-1.5, -1.0, 1.2, 1.8])

    def density(z: Array) -> Array:
        level = stats.t.logpdf((y - z) / 0.7, 3).sum(axis=1)
        return np.asarray(level - z[:, 0] ** 2 / 32.0)

    out = drawn(fitted(text, {"y": y}))
    close(out.z, on_grid(density, [(-15.0, 15.0)], 40001))


@pytest.mark.thorough
def test_a_kinked_potential() -> None:
    """Laplace potentials have no slope at zero, and flat blocks no prior."""
    text = """index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ flat()
let eta[obs] = X @ w
observe y ~ bernoulli(logit = eta)
potential w ~ laplace(scale = 0.7)
"""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=12) > 0).astype(int)

    def density(z: Array) -> Array:
        eta = z @ X.T
        level = (y * eta - np.logaddexp(0.0, eta)).sum(axis=1)
        return np.asarray(level - np.abs(z).sum(axis=1) / 0.7)

    out = drawn(fitted(text, {"X": X, "y": y}))
    close(out.z, on_grid(density, [(-5.0, 14.0), (-9.0, 9.0)], 801))


@pytest.mark.few(1)
@pytest.mark.parametrize("link", ["softmax", "stick"])
def test_vector_sites(link: str) -> None:
    axis = "class" if link == "softmax" else "cut"
    text = f"""index obs
index class = {{"a", "b", "c"}}
index cut = head(class)
data y[obs] : class
latent w[{axis}] ~ normal(sd = 3)
let eta[obs, {axis}] = w
observe y ~ categorical({link} = eta)
"""
    counts = np.array([6, 0, 1])

    def softmax(z: Array) -> Array:
        level = z @ counts - 7.0 * special.logsumexp(z, axis=1)
        return np.asarray(level - (z**2).sum(axis=1) / 18.0)

    def stick(z: Array) -> Array:
        level = z @ counts[:2] - np.logaddexp(0.0, z) @ np.array([7, 1])
        return np.asarray(level - (z**2).sum(axis=1) / 18.0)

    ends = [(-13.0, 16.0), (-18.0, 14.0), (-15.0, 15.0)]
    fit = fitted(text, {"y": np.repeat(["a", "c"], [6, 1])})
    if link == "softmax":
        close(drawn(fit).z, on_grid(softmax, ends, 101))
    else:
        close(drawn(fit).z, on_grid(stick, ends[:2], 601))


def test_flat_priors_on_a_constraint() -> None:
    """Cov_q is singular: draws keep the constraint to rounding."""
    text = """index g
data y[g] : count
latent u[g] ~ flat()
constrain sum(u, g) = 0
observe y ~ poisson(log_rate = u)
"""
    y = np.array([1, 0, 3])

    def lifted(z: Array) -> Array:
        return np.column_stack([z, -z.sum(axis=1)])

    def density(z: Array) -> Array:
        eta = lifted(z)
        return np.asarray((y * eta - np.exp(eta)).sum(axis=1))

    out = drawn(fitted(text, {"y": y}))
    np.testing.assert_allclose(out.z.sum(axis=1), 0.0, atol=1e-9)
    close(out.z, on_grid(density, [(-7.0, 4.0), (-12.0, 4.0)], 801, lifted))


@pytest.mark.thorough
def test_lupus(shared: Path) -> None:
    exact = json.loads((shared / "reference" / "lupus_probit_exact.json").read_text())
    exact = exact["normal_var_25"]
    kept = np.load(shared / "data" / "lupus.npz")
    text = """index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = 5)
let eta[obs] = X @ w
observe y ~ bernoulli(probit = eta)
"""
    out = drawn(fitted(text, {"X": kept["X"], "y": kept["y"]}))
    quantiles = np.array(exact["q5_50_95"])[:, [0, 2]].T
    close(out.z, GridPosterior(np.array(exact["mean"]), np.array(exact["sd"]), quantiles))


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(8))
def test_random_models(seed: int) -> None:
    model = small_model(300 + seed)
    fit = model.fit("laplace" if seed % 2 else "natural-gradient")
    exact, out = truth(model, fit), drawn(fit, seed=seed)
    assert np.max(np.abs(out.z.mean(axis=0) - exact.mean) / exact.sd) < 0.07
    assert np.max(np.abs(out.z.std(axis=0) / exact.sd - 1.0)) < 0.05


def gaussian_process(rows: int) -> Fit:
    text = """index obs
data x[obs] : real
data y[obs] : binary
latent f[obs] ~ gp(at = x, kernel = se(sd = 4, length = 0.2))
observe y ~ bernoulli(logit = f)
"""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 1.0, rows))
    y = (rng.random(rows) < special.expit(4.0 * np.sin(9.0 * x))).astype(int)
    return fitted(text, {"x": x, "y": y})


@pytest.mark.thorough
def test_a_binary_process_with_200_latents() -> None:
    """Counted: 4,000 draws worth 1,000 for fewer than 16 slopes a draw."""
    out = drawn(gaussian_process(200), 4000)
    assert out.ess > 1000 and out.r_hat < 1.03
    assert out.operations < 16 * 4000 * 400


def test_gaussian_posteriors_are_drawn_at_once() -> None:
    """Where q is exact every trajectory of one kick is accepted."""
    text = """index obs
data y[obs] : real
latent a ~ normal(sd = 3)
latent u[obs] ~ normal(sd = 1)
let eta[obs] = a + u
observe y ~ normal(mean = eta, sd = 0.5)
"""
    fit = fitted(text, {"y": np.array([0.2, 1.0, -0.4])})
    out = drawn(fit, 4000)
    assert out.r_hat < 1.02 and out.ess > 2000
    assert out.operations == (64 + 64 * (24 + 63)) * (4 + 3)
    sites, linear = fit.canonical.sites(fit.theta), fit.canonical.linear(fit.theta)
    run = Run(sites, linear, fit.posterior.conditioned, 0, 1e6)
    assert run.warmed() and run.kicks == 1 and run.moved() > 1.0 - 1e-9
    mean, sd = fit.posterior.conditioned.latent_mean, fit.posterior.conditioned.latent_variance**0.5
    assert np.max(np.abs(out.z.mean(axis=0) - mean) / sd) < 0.06


def test_the_same_seed_gives_the_same_digits() -> None:
    fit = fitted(ZEROS, {"y": 0})
    first, second, other = drawn(fit, 500), drawn(fit, 500), drawn(fit, 500, seed=1)
    np.testing.assert_array_equal(first.z, second.z)
    assert len(first.z) == 500 and np.abs(first.z - other.z).max() > 0.1


def test_a_budget_is_kept() -> None:
    """Fewer draws, or none; what is passed is at most what one round of warm-up counts."""
    fit = fitted(ZEROS, {"y": 0})
    args = fit.canonical.sites(fit.theta), fit.canonical.linear(fit.theta)
    q = fit.posterior.conditioned
    assert exact_draws(*args, q, budget=64 * 2 * 20) is None
    seen = []
    for budget in (64 * 2 * 60, 64 * 2 * 200, 64 * 2 * 2000):
        out = exact_draws(*args, q, budget=budget)
        if out is not None:
            assert out.operations <= budget + 64 * 2
            seen.append(len(out.z))
    assert seen and seen == sorted(seen) and seen[-1] == 4000 and seen[0] < 4000


def test_a_budget_is_shared_by_the_points() -> None:
    fit = fitted(ZEROS, {"y": 0})
    q = fit.posterior.conditioned
    sites, linear = fit.canonical.sites(fit.theta), fit.canonical.linear(fit.theta)
    points = [MixturePoint(share, sites, linear, lambda: q) for share in (0.5, 0.3, 0.2)]
    for price in (1.0, 7.0):
        budget = price * 64 * 2 * 800
        out = Chains(0, price).draws(points, [0.5, 0.3, 0.2], 20000, budget)
        assert out is not None and 0.3 * budget < out.operations <= budget + price * 64 * 2 * 3


@pytest.mark.thorough
def test_modes_too_far_apart_are_noticed() -> None:
    """Two modes with nothing between them: chains stay where they started, and R-hat says so."""
    text = """index obs
data y[obs] : real
latent w ~ normal(sd = 30)
let eta[obs] = w
observe y ~ student_t(mean = eta, scale = 0.1, df = 4)
"""
    fit = fitted(text, {"y": np.array([-20.0, -20.1, 20.0, 20.1])})
    mode = np.sign(fit.posterior.conditioned.latent_mean[0])
    out = drawn(fit, 2000)
    assert out.r_hat > 1.2 or np.all(np.sign(out.z) == mode)


@pytest.mark.thorough
def test_mixtures_over_hyperparameters() -> None:
    """Draws come in proportion to the weights, and their moments are those of the mixture."""
    fits = [fitted(ZEROS.replace("10", sd), {"y": 0}) for sd in ("1", "10", "3")]
    weights = (0.25, 0.74999, 0.00001)
    points = [
        MixturePoint(w, f.canonical.sites(f.theta), f.canonical.linear(f.theta),
                     partial(getattr, f.posterior, "conditioned"))
        for w, f in zip(weights, fits, strict=True)
    ]  # fmt: skip
    out = Chains().draws(points, weights, 24000)
    assert out is not None
    np.testing.assert_array_equal(np.bincount(out.point), [6000, 18000])

    def density(sd: float) -> Callable[[Array], Array]:
        return lambda z: np.asarray(-0.5 * (z / sd) ** 2 - 47.0 * np.logaddexp(0.0, z))[:, 0]

    parts = [on_grid(density(sd), [(-80.0, 5.0)], 40001) for sd in (1.0, 10.0)]
    for k, part in enumerate(parts):
        close(out.z[out.point == k], part)
    assert out.r_hat < 1.03 and 6000 < out.ess < 24000
    assert Chains().draws(points, weights, 8000, budget=64 * 2 * 40) is None


class Undefined:
    """A potential that answers for nothing but its density, and that only for s < 1."""


@pytest.mark.thorough
def test_sites_without_slopes_and_with_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes by differences; beyond the end of the support moves are rejected, never nan."""
    from lgmdsl.assess.sampling import dynamics as residual

    fit = fitted(ZEROS, {"y": 0})
    site = fit.canonical.sites(fit.theta)[0]
    s = np.linspace(-9.0, 3.0, len(site))
    monkeypatch.setattr(residual, "Pointwise", Undefined)
    monkeypatch.setattr(residual, "Sloped", Undefined)
    np.testing.assert_allclose(
        residual.site_slope(site, s), -47.0 * special.expit(s), rtol=1e-7, atol=1e-7
    )
    plain = type(site).log_density
    monkeypatch.setattr(
        type(site), "log_density", lambda self, s: np.where(s < -5.0, plain(self, s), np.nan)
    )
    out = drawn(fit)

    def density(z: Array) -> Array:
        level = -0.005 * z[:, 0] ** 2 - 47.0 * np.logaddexp(0.0, z[:, 0])
        return np.where(z[:, 0] < -5.0, level, -np.inf)

    axis = np.linspace(-80.0, -5.0, 40001)[:, None]
    level = density(axis)
    weight = np.exp(level - level.max())
    weight /= weight.sum()
    mean = weight @ axis
    sd = np.sqrt(weight @ (axis - mean) ** 2)
    close(out.z, GridPosterior(mean, sd, _quantiles(axis[:, 0], weight)[:, None]))
    assert out.z.max() < -5.0


@pytest.mark.thorough
def test_large_models_move_fewer_chains() -> None:
    """So that no temporary is larger than about 4 million entries."""
    rng = np.random.default_rng(0)
    rows = 100_000
    text = """index obs
data x[obs] : real
data y[obs] : count
latent b ~ normal(sd = 1)
let eta[obs] = b * x
observe y ~ poisson(log_rate = eta)
"""
    x = rng.normal(size=rows)
    data: dict[str, AnyArray] = {"x": x, "y": rng.poisson(np.exp(0.2 * x))}
    out = drawn(fitted(text, data), 100)
    assert out.chains < 64 and len(out.z) == 100
    assert abs(out.z.mean() - 0.2) < 0.02
