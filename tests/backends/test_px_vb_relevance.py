"""Automatic relevance determination by px-vb: against dense mean field and quadrature, alone and
with a factor over the noise; its expansions; robust and binary responses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.contract.problem import Problem
from lgmdsl_backends.px_vb.bound import at, conditioned_on
from lgmdsl_backends.px_vb.scaling import Weights, _r, joint, moments
from tests.backends.relevance_models import (
    BINARY,
    DATA,
    INTERCEPT,
    KNOWN,
    LEARNED,
    RNG,
    ROBUST,
    WAYS,
    M,
    N,
    X,
    fitted,
    problem_of,
)


def rises(fit: Fit) -> bool:
    """Of a fit at fixed hypers its trace, else the rounds of all factors."""
    entries = fit.trace if fit.learning is None else fit.learning.steps
    values = np.array([e.objective for e in entries])
    return bool((np.diff(values) >= -1e-10 * np.abs(values[1:])).all())


@pytest.mark.parametrize("way", WAYS)
def test_the_dense_mean_field_of_weights_precisions_and_noise(way: str) -> None:
    fit = fitted(LEARNED, hyper="vb", tol=1e-12, options=WAYS[way])
    bound, mean, shape, rate = _dense()
    assert fit.converged and rises(fit)
    assert fit.log_evidence == pytest.approx(bound, abs=1e-7)
    np.testing.assert_allclose(fit.mean("w"), mean, atol=1e-4)
    assert float(fit.mean("tau")) == pytest.approx(shape / rate, rel=1e-5)
    assert float(fit.sd("tau")) == pytest.approx(np.sqrt(shape) / rate, rel=1e-4)


def _dense() -> tuple[float, Array, float, float]:
    """Bishop and Tipping 2000: E[log joint] + entropies at the fixed point, by the definitions."""
    y, a, b, c, d = DATA["y"], 0.5, 0.5 * 0.25, 1.0, 0.5
    alpha, shape, rate = np.ones(M), c + N / 2, 1.0
    for _ in range(4000):
        v = np.linalg.inv(np.diag(alpha) + shape / rate * X.T @ X)
        mean = shape / rate * v @ X.T @ y
        below = b + 0.5 * (mean**2 + np.diag(v))
        alpha = (a + 0.5) / below
        squares = float(((y - X @ mean) ** 2).sum() + np.trace(X @ v @ X.T))
        rate = d + squares / 2
    log_alpha = special.digamma(a + 0.5) - np.log(below)
    tau, log_tau = shape / rate, special.digamma(shape) - np.log(rate)
    joint_ = 0.5 * N * (log_tau - np.log(2 * np.pi)) - 0.5 * tau * squares
    joint_ += (0.5 * (log_alpha - np.log(2 * np.pi)) - alpha * (below - b)).sum()
    joint_ += (a * np.log(b) - special.gammaln(a) + (a - 1) * log_alpha - b * alpha).sum()
    joint_ += c * np.log(d) - special.gammaln(c) + (c - 1) * log_tau - d * tau
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * math.e * v)[1]
    entropy += stats.gamma.entropy(a + 0.5, scale=1 / below).sum()
    entropy += stats.gamma.entropy(shape, scale=1 / rate)
    return float(joint_ + entropy), mean, shape, rate


def test_at_a_known_noise_it_is_the_double_loops_bound() -> None:
    one, two = fitted(KNOWN, tol=1e-12), fitted(KNOWN, method="double-loop", tol=1e-12)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-8)
    np.testing.assert_allclose(one.mean("w"), two.mean("w"), atol=1e-5)
    np.testing.assert_allclose(one.sd("w"), two.sd("w"), rtol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("text", [KNOWN, INTERCEPT, BINARY])
@pytest.mark.parametrize("way", ["each", "joint", "separate"])
def test_an_expansion_stands_still_where_plain_does(text: str, way: str) -> None:
    data = DATA if text != BINARY else {"X": X, "y": DATA["y"] > 0}
    plain = fitted(text, data, tol=1e-13, options=WAYS["plain"], max_steps=50_000)
    again = fitted(text, data, tol=1e-13, options=WAYS[way], start_from=plain)
    assert plain.converged and rises(plain) and rises(again)
    assert again.log_evidence == pytest.approx(plain.log_evidence, abs=1e-9)
    np.testing.assert_allclose(again.mean("w"), plain.mean("w"), atol=1e-5)
    other = fitted(text, data, tol=1e-11, options=WAYS[way])
    assert rises(other)
    assert other.log_evidence == pytest.approx(plain.log_evidence, abs=1e-7)


@pytest.mark.parametrize(
    "text", [KNOWN, INTERCEPT, INTERCEPT.replace("b0 ~ flat", "b0 ~ normal(mean = 3, sd = 2)")]
)
def test_the_moments_of_scaled_weights(text: str) -> None:
    """Against draws' own algebra: the dense covariance, its weights scaled."""
    problem = problem_of(text)
    q = conditioned_on(problem, *_sites(problem))
    assert not hasattr(q, "reason")
    weights = Weights.of(problem)
    assert weights is not None and weights.blocks == ("w",) and weights.count == M
    known = moments(problem, weights, q)
    linear = problem.engine.linear
    conditioned = q.conditioned()
    mean, cov = conditioned.latent_mean, conditioned.solve(np.eye(linear.size))
    for c in (1.0, 0.3, 2.0):
        scale = np.ones(linear.size)
        scale[linear.slices["w"]] = c
        for p, m, v in zip(linear.predictors, *known.at(c), strict=True):
            dense = np.zeros((p.rows, linear.size))
            for name, operator in p.columns.items():
                dense[:, linear.slices[name]] = operator.dense()
            dense = dense * scale
            np.testing.assert_allclose(m, dense @ mean + p.offset, atol=1e-10)
            np.testing.assert_allclose(v, np.diag(dense @ cov @ dense.T), atol=1e-10)


def _sites(problem: Problem) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    first = list(problem.engine.prior_mean)
    weight = tuple(0.5 + RNG.random(len(m)) for m in first)
    return weight, tuple(RNG.normal(size=len(m)) for m in first)


@pytest.mark.parametrize("text", [KNOWN, INTERCEPT])
def test_the_joint_expansion_is_the_best_of_all_scales(text: str) -> None:
    """Its bound is that of q with the weights scaled, computed from entropy and expectations."""
    problem = problem_of(text)
    q = conditioned_on(problem, *_sites(problem))
    point, weights = at(problem, q), Weights.of(problem)  # type: ignore[arg-type]
    assert weights is not None
    found = joint(problem, weights, point)
    known = moments(problem, weights, point.q)

    def rise(c: float) -> float:
        out = M * np.log(c)
        for k in (1.0, c):
            sign = 1.0 if k == c else -1.0
            for site, m, v in zip(problem.sites, *known.at(k), strict=True):
                x = np.sqrt(m * m + v) if site.spec.potential else m
                value = site.log_density(x)
                out += sign * float((value - (0 if site.spec.potential else 0.5 * v / 0.25)).sum())
        return float(out)

    best = max(rise(c) for c in np.exp(np.linspace(-3, 3, 2001)))
    assert found is not None and found.bound - point.bound == pytest.approx(best, abs=1e-4)
    assert found.bound - point.bound >= best - 1e-9


@pytest.mark.parametrize("text", [KNOWN, INTERCEPT])
def test_r_is_the_best_scale_at_the_precisions_held(text: str) -> None:
    """(19), and with an intercept what it becomes, at auxiliaries held."""
    problem = problem_of(text)
    first, other = (conditioned_on(problem, *_sites(problem)) for _ in range(2))
    weights, answers = Weights.of(problem), at(problem, other).answers  # type: ignore[arg-type]
    assert weights is not None
    known = moments(problem, weights, first)  # type: ignore[arg-type]

    def bound(c: float) -> float:
        out = M * np.log(c)
        for a, m, v in zip(answers, *known.at(c), strict=True):
            out += float((a.shift * m - 0.5 * a.precision * (m * m + v)).sum())
        return float(out)

    r = _r(problem, weights, first, answers)  # type: ignore[arg-type]
    assert r is not None
    assert max(bound(0.999 * r), bound(1.001 * r)) < bound(r)
    if text == KNOWN:  # as printed
        tau, alpha = 4.0, answers[0].precision
        f = tau * float((known.mean[1] ** 2 + known.variance[1]).sum())
        f += float((alpha * (known.mean[0] ** 2 + known.variance[0])).sum())
        g = 2.0 * tau * float(known.mean[1] @ DATA["y"])
        assert r == pytest.approx((g + np.sqrt(g * g + 16.0 * M * f)) / (4.0 * f), rel=1e-10)


@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "most"), [(10, 40), (65, 250)])
def test_vague_precisions_of_many_weights_converge(shared: Path, columns: int, most: int) -> None:
    """Diabetes with all products of two: plain rounds are not there after 20,000 of them."""
    found = np.load(shared / "data" / "diabetes_lars.npz")
    own = (found["X"] - found["X"].mean(axis=0)) / found["X"].std(axis=0)
    pairs = np.triu_indices(10)
    whole = np.hstack([own, own[:, pairs[0]] * own[:, pairs[1]]])[:, :columns]
    text = INTERCEPT.replace("df = 1", "df = 2e-6").replace("sd = 0.5)", "sd = 1 / sqrt(tau))")
    text = text.replace(
        "latent b0", "hyper tau : positive ~ gamma(shape = 1e-6, rate = 1e-6)\nlatent b0"
    )
    data = {"X": (whole - whole.mean(axis=0)) / whole.std(axis=0), "y": found["y"]}
    fit = fitted(text, data, hyper="vb")
    plain = fitted(text, data, hyper="vb", options=WAYS["plain"], max_steps=400)
    assert fit.converged and rises(fit) and fit.steps < most
    assert not plain.converged and fit.log_evidence > plain.log_evidence


def test_features_in_other_units() -> None:
    """X_j in units of u_j, with the scale of its weight in 1 / u_j: nothing else changes."""
    units = np.array([1e-3, 1.0, 20.0, 500.0, 0.1, 3.0])
    text = LEARNED.replace("scale = 0.5", "scale = k").replace(
        "hyper", "data k[feat] : real\nhyper"
    )
    text = text.replace("data k[feat] : real", "data k[feat] : positive")
    one = fitted(text, {**DATA, "k": np.full(M, 0.5)}, hyper="vb", tol=1e-11)
    two = fitted(text, {**DATA, "X": X * units, "k": 0.5 / units}, hyper="vb", tol=1e-11)
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=1e-6)
    np.testing.assert_allclose(two.mean("w") * units, one.mean("w"), atol=1e-4)


GRID = np.linspace(-12.0, 12.0, 4801)


def test_the_bound_of_one_weight_and_its_noise_is_below_the_evidence() -> None:
    data = {"X": X[:5, :1], "y": 0.7 * X[:5, 0] + 0.3}
    fit = fitted(LEARNED, data, hyper="vb")
    prior = stats.t.logpdf(GRID, 1, scale=0.5)
    squares = ((data["y"] - GRID[:, None] * data["X"].T) ** 2).sum(axis=1)
    # tau ~ gamma(1, 0.5) integrates in closed form
    log_data = np.log(0.5) + special.gammaln(3.5) - 3.5 * np.log(0.5 + 0.5 * squares)
    log_data -= 2.5 * np.log(2 * np.pi)
    exact = special.logsumexp(prior + log_data) + np.log(GRID[1] - GRID[0])
    assert exact - 1.5 < fit.log_evidence < exact


def test_the_bound_of_one_probit_weight_is_below_the_evidence() -> None:
    data = {"X": X[:8, :1], "y": (X[:8, 0] + 0.3 > 0).astype(int)}
    fit = fitted(BINARY, data)
    sign = 2.0 * data["y"] - 1.0
    logs = special.log_ndtr(sign * GRID[:, None] * data["X"].T).sum(axis=1)
    logs += stats.t.logpdf(GRID, 1, scale=0.5)
    exact = special.logsumexp(logs) + np.log(GRID[1] - GRID[0])
    assert exact - 2.0 < fit.log_evidence < exact


def test_student_t_responses_are_the_same_site_moved() -> None:
    data = {**DATA, "y": DATA["y"] + np.where(np.arange(N) == 4, 15.0, 0.0)}
    one = fitted(ROBUST, data, fixed={"s": 0.5}, tol=1e-12)
    two = fitted(ROBUST, data, fixed={"s": 0.5}, tol=1e-12, method="double-loop")
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-8)
    np.testing.assert_allclose(one.mean("w"), two.mean("w"), atol=1e-5)
    learned = fitted(ROBUST, data, hyper="vb", tol=1e-11)
    assert rises(learned) and abs(float(learned.mean("w")[0]) - 2.0) < 0.3
    loop = fitted(ROBUST, data, hyper="vb", tol=1e-11, method="double-loop")
    assert learned.log_evidence == pytest.approx(loop.log_evidence, abs=1e-6)


def test_the_scale_of_robust_noise_against_quadrature() -> None:
    text = ROBUST.replace("normal(sd = 2)", "normal(sd = 1)")
    data = {"X": X[:6, :1], "y": X[:6, 0] + np.array([0.1, -0.2, 0.3, 0.0, -0.1, 2.0])}
    fit = fitted(text, data, hyper="vb")
    w = np.linspace(-5, 5, 401)
    logs = []
    for x in (grid := np.linspace(-6, 2, 161)):
        s = np.exp(x)
        inside = stats.t.logpdf(data["y"] - w[:, None] * data["X"].T, 3, scale=s).sum(axis=1)
        inside += stats.norm.logpdf(w) + stats.halfnorm.logpdf(s) + x
        logs.append(special.logsumexp(inside) + np.log(w[1] - w[0]))
    exact = special.logsumexp(logs) + np.log(grid[1] - grid[0])
    assert exact - 2.0 < fit.log_evidence < exact


def test_the_builder_says_the_same() -> None:
    m = lgm.Model()
    obs, feat = m.index("obs"), m.index("feat")
    x, y = m.data("X", [obs, feat], "real"), m.data("y", [obs], "real")
    tau = m.hyper("tau", "positive", lgm.gamma(shape=1, rate=0.5))
    w = m.latent("w", [feat], lgm.flat())
    m.potential(w, lgm.student_t(scale=0.5, df=1))
    m.observe(y, lgm.normal(mean=x @ w, sd=1 / lgm.sqrt(tau)))
    assert lgm.loads(m.to_lgm()) == m
    built = lgm.fit(m, DATA, "px-vb", hyper="vb")
    assert built.log_evidence == fitted(LEARNED, hyper="vb").log_evidence


def test_a_file_holds_it_all(tmp_path: Path) -> None:
    fit = fitted(LEARNED, hyper="vb")
    fit.save(tmp_path / "a.nc")
    back = lgm.load_fit(tmp_path / "a.nc")
    assert back.log_evidence == fit.log_evidence and back.hyper == "vb"
    np.testing.assert_array_equal(back.quantile("w", [0.1]), fit.quantile("w", [0.1]))
    text = " ".join(back.summary().split())
    assert "mean field over hyperparameters" in text and "lower bound" in text


def test_words_that_are_no_auxiliaries_are_refused() -> None:
    with pytest.raises(lgm.MethodError, match="one of each, joint, separate"):
        fitted(KNOWN, options={"auxiliaries": "both"})
