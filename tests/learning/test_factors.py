"""Factors over scales: closed forms against integration, bounds against dense mean field and exact
evidences, marginals, refusals, files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.learning.mean_field.factors import GammaFactor, NumericFactor, ScaleFactor, factor
from lgmdsl.learning.mean_field.mean_field import _refreshed
from lgmdsl.priors.catalogue import prior
from lgmdsl.priors.prior import Prior
from tests.compiled import canonical_form
from tests.learning.factor_models import DATA, GAMMAS, LINEAR, RNG, X, fitted, rises


def _prior(name: str, **arguments: float) -> Prior:
    return prior(name, "positive", **{n: np.asarray(a) for n, a in arguments.items()})


@pytest.mark.parametrize(
    ("name", "arguments", "k"),
    [
        ("inv_gamma", {"shape": 2.0, "scale": 3.0}, 0.5),
        ("inv_gamma", {"shape": 1e-3, "scale": 1e-3}, 0.5),
        ("gamma", {"shape": 2.0, "rate": 0.1}, -0.5),
    ],
)
def test_conjugate_factors_equal_integrated_ones(
    name: str, arguments: dict[str, float], k: float
) -> None:
    own = _prior(name, **arguments)
    n, squares = np.array([[5.0], [300.0]]), np.array([[3.0], [80.0]])
    closed = factor(own, k, k * n, 0.5 * squares)
    assert isinstance(closed, GammaFactor)
    numeric = NumericFactor(own, k, k * n, 0.5 * squares)
    _same(closed, numeric)
    # shape = a + n / 2, rate = b + S / 2 (Bishop and Tipping 2000)
    a, b = arguments.values()
    np.testing.assert_allclose(closed.shape, a + n / 2)
    np.testing.assert_allclose(closed.scale_rate, b + squares / 2)


def test_the_flat_prior_on_an_sd_takes_one_from_the_count() -> None:
    flat, wide = _prior("flat"), _prior("uniform", lower=0.0, upper=1e4)
    n, squares = np.array([8.0, 300.0]), np.array([3.0, 80.0])
    closed = factor(flat, 1.0, n, 0.5 * squares)
    assert isinstance(closed, GammaFactor)
    np.testing.assert_allclose(closed.shape, (n - 1.0) / 2.0)
    numeric = factor(wide, 1.0, n, 0.5 * squares)
    np.testing.assert_allclose(closed.expected_power, numeric.expected_power, rtol=1e-9)
    np.testing.assert_allclose(closed.log_normaliser - np.log(1e4), numeric.log_normaliser)


def _same(a: ScaleFactor, b: ScaleFactor) -> None:
    levels = np.array([0.01, 0.5, 0.99])
    np.testing.assert_allclose(a.log_normaliser, b.log_normaliser, rtol=1e-10)
    np.testing.assert_allclose(a.expected_power, b.expected_power, rtol=1e-10)
    np.testing.assert_allclose(a.quantile(levels), b.quantile(levels), rtol=1e-9)
    np.testing.assert_allclose(a.correction, b.correction, rtol=1e-9)


def test_linear_regression_is_the_dense_mean_field() -> None:
    fit = fitted(LINEAR.format(v=GAMMAS[0], u=GAMMAS[1]), tol=1e-12)
    bound, mean, noise, weights = _dense()
    assert fit.converged and fit.guarantee.value == "lower bound"
    np.testing.assert_allclose(fit.log_evidence, bound, rtol=1e-10)
    np.testing.assert_allclose(fit.mean("w"), mean, rtol=1e-6)
    for name, (shape, rate) in {"v": noise, "u": weights}.items():
        np.testing.assert_allclose(fit.mean(name), rate / (shape - 1), rtol=1e-6)
        sd = rate / ((shape - 1) * np.sqrt(shape - 2))
        np.testing.assert_allclose(fit.sd(name), sd, rtol=1e-5)
        median = rate / special.gammaincinv(shape, 0.5)
        np.testing.assert_allclose(fit.quantile(name, [0.5])[0], median, rtol=1e-6)
    assert rises(fit)


def _dense() -> tuple[float, Array, tuple[float, float], tuple[float, float]]:
    """q(w) q(1/v) q(1/u) to convergence and E[log joint] + entropies, by the definitions."""
    y, (n, m) = DATA["y"], X.shape
    a, b, c, d = 2.0, 1.0, 3.0, 0.5
    shape, rate, own, scale = a + n / 2, 1.0, c + m / 2, 1.0
    for _ in range(500):
        v = np.linalg.inv(own / scale * np.eye(m) + shape / rate * X.T @ X)
        mean = shape / rate * v @ X.T @ y
        squares = float(((y - X @ mean) ** 2).sum() + np.trace(X @ v @ X.T))
        length = float(mean @ mean + np.trace(v))
        rate, scale = b + squares / 2, d + length / 2

    def logs(s: float, r: float) -> tuple[float, float]:
        return s / r, float(special.digamma(s) - np.log(r))

    (t, log_t), (p, log_p) = logs(shape, rate), logs(own, scale)
    joint = 0.5 * n * (log_t - np.log(2 * np.pi)) - 0.5 * t * squares
    joint += 0.5 * m * (log_p - np.log(2 * np.pi)) - 0.5 * p * length
    for e, log_e, s0, r0 in ((t, log_t, a, b), (p, log_p, c, d)):
        joint += s0 * np.log(r0) - special.gammaln(s0) + (s0 - 1) * log_e - r0 * e
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * math.e * v)[1]
    for s, r in ((shape, rate), (own, scale)):
        entropy += s - np.log(r) + special.gammaln(s) + (1 - s) * special.digamma(s)
    return float(joint + entropy), mean, (shape, rate), (own, scale)


@pytest.mark.parametrize(
    ("v", "u"),
    [
        GAMMAS,
        ("half_cauchy(scale = 1)", "pc_sd(u = 1, alpha = 0.05)"),
        ("exponential(rate = 1)", "uniform(lower = 0.01, upper = 4)"),
    ],
)
def test_the_bound_lies_below_the_exact_evidence(v: str, u: str) -> None:
    text = LINEAR.format(v=v, u=u)
    fit, model = fitted(text), lgm.loads(text)
    space = lgm.fit(model, DATA, fixed={"v": 1.0, "u": 1.0}).canonical.hypers
    grid = np.linspace(-6.0, 5.0, 56)  # of log v and log u
    logs = []
    for a in np.exp(grid):
        noisy = a * np.eye(25)
        for b in np.exp(grid):
            total = noisy + b * X @ X.T
            fixed = {"v": np.asarray(a), "u": np.asarray(b)}
            value = -0.5 * np.linalg.slogdet(2 * np.pi * total)[1]
            value -= 0.5 * DATA["y"] @ np.linalg.solve(total, DATA["y"])
            logs.append(value + space.log_prior(fixed)[0] + np.log(a * b))
    exact = special.logsumexp(logs) + 2 * np.log(grid[1] - grid[0])
    assert exact - 0.5 < fit.log_evidence < exact
    assert rises(fit)


def test_ways_of_writing_one_precision_agree() -> None:
    written = [
        "hyper v : positive ~ inv_gamma(shape = 2, scale = 1)\nhyper s : positive = sqrt(v)\n",
        "hyper t : positive ~ gamma(shape = 2, rate = 1)\nhyper s : positive = 1 / sqrt(t)\n",
        "hyper t : positive ~ gamma(shape = 2, rate = 1)\nhyper s : positive = t ^ -0.5\n",
    ]
    text = "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : real\n"
    more = "latent w[feat] ~ normal(sd = 2)\nobserve y ~ normal(mean = X @ w, sd = s)\n"
    fits = [fitted(text + hyper + more, tol=1e-11) for hyper in written]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.log_evidence, fits[0].log_evidence, rtol=1e-9)
        np.testing.assert_allclose(fit.mean("s"), fits[0].mean("s"), rtol=1e-6)


@pytest.mark.thorough
def test_indexed_scales_walks_and_products_are_factors_too() -> None:
    text = """lgm 1
index day
index kind
data y[day] : real?
data k[day] : kind
hyper s[kind] : positive ~ half_normal(sd = 2)
hyper r : positive ~ gamma(shape = 500, rate = 1000)
hyper step : positive ~ pc_sd(u = 1, alpha = 0.1)
latent level ~ flat
latent f[day] ~ rw1(sd = step)
observe y ~ normal(mean = level + f, sd = 2 * r * s[k])
"""
    days = np.arange(60)
    y = np.sin(days / 9) + np.where(days % 3 == 0, 0.5, 0.1) * RNG.standard_normal(60)
    y[7] = np.nan
    data = {"y": y, "k": (days % 3 == 0).astype(int)}
    fit = lgm.fit(lgm.loads(text), data, hyper="vb", tol=1e-5)
    assert fit.converged and rises(fit)
    assert fit.mean("s").values[1] > 2 * fit.mean("s").values[0]
    # stationary: the sd of the walk satisfies its own update, by differences of the bound
    other = lgm.fit(lgm.loads(text), data, hyper="vb", tol=1e-5, fixed={"step": fit.theta["step"]})
    assert abs(float(other.mean("r")) / float(fit.mean("r")) - 1.0) < 1e-2
    assert 0.3 < float(fit.mean("r")) < 0.7


def test_a_sites_noise_and_a_blocks_sd_scale_with_the_data() -> None:
    """With flat priors on the sds a change of unit changes nothing but the constant."""
    flat = LINEAR.format(v="flat", u="flat").replace("sqrt(v)", "v").replace("sqrt(u)", "u")
    one = fitted(flat, tol=1e-12)
    scaled = lgm.fit(lgm.loads(flat), {**DATA, "y": 100.0 * DATA["y"]}, hyper="vb", tol=1e-12)
    for name in ("v", "u", "w"):
        np.testing.assert_allclose(scaled.mean(name), 100.0 * one.mean(name), rtol=1e-5)
    jacobian = -25 * np.log(100.0) + 2 * np.log(100.0)  # of y, and of both sds
    np.testing.assert_allclose(scaled.log_evidence, one.log_evidence + jacobian, rtol=1e-8)


@pytest.mark.thorough
def test_marginals_of_functions_of_the_hypers() -> None:
    text = LINEAR.format(v=GAMMAS[0], u=GAMMAS[1])
    text += "report sd = sqrt(v)\nreport share = u / (u + v)\n"
    fit = fitted(text)
    shape = 2.0 + 12.5
    factors = cast("dict[str, GammaFactor]", fit.hyper_marginals.factors)
    rate = float(factors["v"].scale_rate)
    exact = np.exp(0.5 * np.log(rate) + special.gammaln(shape - 0.5) - special.gammaln(shape))
    np.testing.assert_allclose(fit.mean("sd"), exact, rtol=1e-8)
    rng = np.random.default_rng(1)
    v, u = (f.scale_rate / rng.gamma(f.shape, size=400_000) for f in (factors["v"], factors["u"]))
    np.testing.assert_allclose(fit.mean("share"), (u / (u + v)).mean(), atol=2e-3)
    np.testing.assert_allclose(fit.sd("share"), (u / (u + v)).std(), atol=2e-3)
    levels = [0.05, 0.5, 0.95]
    np.testing.assert_allclose(
        fit.quantile("share", levels), np.quantile(u / (u + v), levels), atol=5e-3
    )
    drawn = fit.sample(20_000, seed=3, names=["v", "share", "w"])
    for name in ("v", "share"):
        np.testing.assert_allclose(drawn[name].mean(), fit.mean(name), rtol=0.02)
        np.testing.assert_allclose(drawn[name].std(), fit.sd(name), rtol=0.1)
    density = fit.density("v")
    mass = np.trapezoid(density["density"].values, density["x"].values)
    np.testing.assert_allclose(mass, 1.0, atol=1e-3)


def test_a_file_holds_the_factors(tmp_path: Path) -> None:
    fit = fitted(LINEAR.format(v=GAMMAS[0], u="half_cauchy(scale = 1)"))
    fit.save(tmp_path / "a.nc")
    back = lgm.load_fit(tmp_path / "a.nc")
    assert back.hyper == "vb" and back.log_evidence == fit.log_evidence
    assert back.guarantee is fit.guarantee
    for name in ("v", "u"):
        np.testing.assert_array_equal(
            back.quantile(name, [0.1, 0.9]), fit.quantile(name, [0.1, 0.9])
        )
    assert "mean field over hyperparameters" in " ".join(back.summary().split())
    pinned = fitted(LINEAR.format(v=GAMMAS[0], u="half_cauchy(scale = 1)"), fixed={"u": 2.0})
    assert float(pinned.sd("u")) == 0.0 and float(pinned.sd("v")) > 0.0


@pytest.mark.parametrize("method", ["px-vb", "double-loop"])
def test_coordinate_ascent_reaches_the_same_bound_and_rises(method: str) -> None:
    text = LINEAR.format(v=GAMMAS[0], u="half_cauchy(scale = 1)")
    text = text.replace("observe", "potential w ~ student_t(scale = 2, df = 4)\nobserve")
    fit = fitted(text, method=method, tol=1e-11)
    other = fitted(text, method="px-vb", tol=1e-11, options={"expand": False})
    assert rises(fit) and fit.converged
    assert fit.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)


def test_each_fit_has_one_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks before the first fit, the fit, and the result share it."""
    plans: list[str] = []
    unplanned = Plan.at

    def counted(self: Plan, *arguments: Any, **named: Any) -> Problem:
        plans.append(self.method)
        return unplanned(self, *arguments, **named)

    monkeypatch.setattr(Plan, "at", counted)
    fit = fitted(LINEAR.format(v=GAMMAS[0], u=GAMMAS[1]))
    assert fit.learning is not None and fit.learning.fits > 2
    assert len(plans) == fit.learning.fits and set(plans) == {fit.method}


def test_a_round_starts_from_gaussian_sites_as_they_now_are() -> None:
    """Else q at the earlier noise would be no coordinate ascent for the new one."""
    text = LINEAR.format(v=GAMMAS[0], u=GAMMAS[1])
    canonical = canonical_form(text, DATA)
    planned = plan(canonical, "px-vb")
    earlier = fitted(text, method="px-vb", fixed={"v": 1.0, "u": 1.0}).posterior
    now = _refreshed(planned.at({"v": np.asarray(0.25), "u": np.asarray(1.0)}), earlier)
    np.testing.assert_allclose(earlier.weight[0], 1.0)
    np.testing.assert_allclose(now.weight[0], 4.0)
    np.testing.assert_allclose(now.shift[0], 4.0 * DATA["y"])
