"""Bounds of softmax sites: one another, the logistic ones, and theorem 5.5.1 of the thesis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special
from scipy.stats import qmc

from lgmdsl.arrays import Array
from lgmdsl.bounds import tilted
from lgmdsl.bounds.catalogue import applicable, bound
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.numerics.expectations.log_sum_exp import expected_log_sum_exp
from lgmdsl.site_questions import expected
from lgmdsl.sites.vector.softmax import CategoricalSoftmax

LOWER = (
    "bohning",
    "log",
    "tilted",
    "product-of-sigmoids",
    "product-of-sigmoids-piecewise-linear-12",
    "product-of-sigmoids-piecewise-quadratic-12",
)
seeds, classes = st.integers(0, 2**30), st.integers(2, 3)
spreads = st.floats(-2.0, 2.0).map(lambda x: float(np.exp(x)))


def moments(seed: int, k: int, sd: float, n: int = 4) -> tuple[Array, Array, Array]:
    """y, means and correlated covariances, every second one of rank k - 1."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, k, k)) * sd
    root[::2, :, 0] = 0.0
    y = rng.integers(0, k, n).astype(np.float64)
    return y, 3.0 * rng.normal(size=(n, k)), root @ root.transpose(0, 2, 1) / k


def ask(rule: str, y: Array, m: Array, v: Array, available: Array | None = None) -> ExpectedAnswer:
    offered = np.ones((len(y), m.shape[1])) if available is None else available
    lift = bound(rule, Expected, CategoricalSoftmax).lift(CategoricalSoftmax(y, offered))
    assert isinstance(lift, Expected)
    return lift.expected(m, v)


@given(seeds, classes, spreads)
def test_lower_is_a_promise(seed: int, k: int, sd: float) -> None:
    y, m, v = moments(seed, k, sd)
    exact = ask("quadrature", y, m, v)
    for rule in LOWER:
        a = ask(rule, y, m, v)
        assert np.all(a.value <= exact.value + 1e-9 * (1.0 + np.abs(exact.value))), rule
        assert np.all(a.d_mean.sum(axis=1) < 1e-9)


@given(seeds, st.integers(2, 8), spreads)
def test_the_thesis_brackets_the_log_bound_by_boehnings(seed: int, k: int, sd: float) -> None:
    """Theorem 5.5.1 as its proof (A.65, A.66) gives it:
    tr(AV)/2 - max V_kk/2 <= f_log - f_Boehning <= tr(AV)/2 - min V_kk/2."""
    y, m, v = moments(seed, k, sd)
    gap = ask("log", y, m, v).value - ask("bohning", y, m, v).value
    half = 0.25 * (np.einsum("nii->n", v) - v.sum(axis=(1, 2)) / k)
    diagonal = 0.5 * np.einsum("nii->ni", v)
    slack = 1e-9 * (1.0 + np.abs(m).max() + half)
    assert np.all(half - diagonal.max(axis=1) <= gap + slack)
    assert np.all(gap <= half - diagonal.min(axis=1) + slack)


def least(loose: Callable[[Array], float], start: Array) -> float:
    found = optimize.minimize(loose, start, method="BFGS", options={"gtol": 1e-9})
    return float(found.fun)


@pytest.mark.parametrize("rule", ["bohning", "log", "tilted", "product-of-sigmoids", "delta"])
def test_values_are_the_formulas_of_the_thesis(rule: str) -> None:
    """Bounds of E[lse(s)], with variational parameters minimised over numerically: Boehning (5.19),
    log (5.6), tilted (5.8, with all of V), product of sigmoids (5.9, Jaakkola's bound inside), and
    the delta approximation (5.13)."""
    y, m, v = moments(5, 4, 1.3)
    found = m[np.arange(len(y)), y.astype(int)] - ask(rule, y, m, v).value
    for row, (mean, cov) in enumerate(zip(m, v, strict=True)):
        k, chance = len(mean), special.softmax(mean)
        lse, half = special.logsumexp(mean), 0.5 * np.diag(cov)

        def tilted(a: Array, mean: Array = mean, cov: Array = cov) -> float:
            rest = np.eye(len(mean)) - a
            spread = 0.5 * np.einsum("ki,ij,kj->k", rest, cov, rest)
            return float(a @ mean + special.logsumexp(rest @ mean + spread))

        def sigmoids(shift: Array, mean: Array = mean, cov: Array = cov) -> float:
            square = (mean - shift[0]) ** 2 + np.diag(cov)
            xi = np.sqrt(square)  # the best one
            return float(shift[0] + (0.5 * (mean - shift[0] - xi) + np.logaddexp(0.0, xi)).sum())

        wanted = {
            "bohning": lse + 0.25 * (np.trace(cov) - cov.sum() / k),
            "log": special.logsumexp(mean + half),
            "tilted": least(tilted, chance),
            "product-of-sigmoids": least(sigmoids, np.array([lse])),
            "delta": lse + 0.5 * (chance @ np.diag(cov) - chance @ cov @ chance),
        }[rule]
        assert found[row] == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("rule", ["quadrature", "bohning"])
def test_two_classes_are_logistic(rule: str) -> None:
    """With a reference and with two predictors."""
    m, v = np.linspace(-6.0, 6.0, 5), np.array([0.01, 0.5, 3.0, 20.0, 90.0])
    known = expected("bernoulli.logit", 0, m, v, rule=rule)
    free = expected(
        "categorical.softmax", 1, m[:, None], v[:, None, None], rule=rule, available=[1, 1]
    )
    np.testing.assert_allclose(free.value, known.value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(free.d_mean[:, 0], known.d_mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(free.d_variance[:, 0, 0], known.d_variance, rtol=1e-8, atol=1e-12)
    two = np.stack([m, 0.0 * m], axis=1)
    spread = 0.25 * v[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    both = expected("categorical.softmax", 1, two, spread, rule=rule)
    np.testing.assert_allclose(both.value, known.value, rtol=1e-10, atol=1e-12)


def test_the_tilted_bound_sees_the_covariance() -> None:
    """V = [[1, -1], [-1, 1]]/2: the thesis's diagonal form gives 0.818 for a truth of 0.903."""
    v = 0.5 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    truth, tilted = (
        -expected("categorical.softmax", 0, np.zeros(2), v, rule=r).value
        for r in ("quadrature", "tilted")
    )
    assert truth == pytest.approx(0.903, abs=5e-4) and tilted > truth
    a = 0.5  # the best one, by symmetry
    diagonal = 0.5 * a * a * 1.0 + np.log(2.0 * np.exp(0.5 * (1.0 - 2.0 * a) * 0.5))
    assert diagonal == pytest.approx(0.818, abs=5e-4)


@given(seeds, spreads)
@settings(max_examples=10)
def test_shifts_permutations_and_masks(seed: int, sd: float) -> None:
    """A constant added to all predictors, classes renamed, a class that is not on offer. Quadratic
    pieces jump, and may leave a product of sigmoids several stationary points: not them."""
    y, m, v = moments(seed, 3, sd)
    rng = np.random.default_rng(seed)
    order = rng.permutation(3)
    for rule in ("quadrature", *LOWER[:-1], "delta"):
        a = ask(rule, y, m, v)
        moved = ask(rule, y, m + 50.0, v)
        np.testing.assert_allclose(moved.value, a.value, rtol=1e-9, atol=1e-9)
        other = ask(
            rule, np.argsort(order)[y.astype(int)] * 1.0, m[:, order], v[:, order][:, :, order]
        )
        np.testing.assert_allclose(other.value, a.value, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(other.d_mean, a.d_mean[:, order], rtol=1e-6, atol=1e-8)
        more = rng.normal(size=(4, 4, 4))
        wide, spread = np.zeros((4, 4)), more @ more.transpose(0, 2, 1)
        wide[:, :3], wide[:, 3], spread[:, :3, :3] = m, 9.0, v
        masked = ask(rule, y, wide, spread, np.array([[1.0, 1.0, 1.0, 0.0]] * 4))
        np.testing.assert_allclose(masked.value, a.value, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(masked.d_variance[:, :3, :3], a.d_variance, atol=1e-12)
        assert not masked.d_mean[:, 3].any() and not masked.d_variance[:, 3].any()


def test_many_classes_within_the_stated_error() -> None:
    """Quasi-Monte Carlo against 32 times as many points; its own slopes by differences."""
    rng = np.random.default_rng(5)
    error = bound("quadrature", Expected, CategoricalSoftmax).spec.error
    for k in (4, 7):
        root = rng.normal(size=(3, k, k)) * np.array([0.5, 2.0, 4.0])[:, None, None] / np.sqrt(k)
        m, v = rng.normal(size=(3, k)), root @ root.transpose(0, 2, 1)
        offered = np.ones((3, k), dtype=bool)
        found = expected_log_sum_exp(m, v, offered)
        u = np.concatenate([qmc.Sobol(k, seed=s).random(2**14) for s in (1, 2, 3, 4)])
        z = np.concatenate([special.ndtri(u), -special.ndtri(u)])
        truth = [special.logsumexp(m[i] + z @ root[i].T, axis=1).mean() for i in range(3)]
        assert np.all(np.abs(found.value - truth) <= error * np.maximum(1.0, np.abs(truth)))
        move = rng.normal(size=(k, k))
        step = 1e-5 * (move + move.T)
        ahead, behind = (expected_log_sum_exp(m, v + t * step, offered).value for t in (1, -1))
        slope = np.einsum("nij,ij->n", found.d_variance, step)
        np.testing.assert_allclose(0.5 * (ahead - behind), slope, rtol=1e-4, atol=1e-12)


def test_wide_predictors_stay_accurate() -> None:
    """Three classes at sds to 60: the nested rule against a fine grid of the two contrasts."""
    m, offered = np.array([[0.0, 2.0, -1.0]]), np.ones((1, 3), dtype=bool)
    for sd in (0.0, 1e-4, 1.0, 12.0, 60.0):
        v = sd**2 * np.array([[[1.0, 0.4, 0.1], [0.4, 1.2, -0.3], [0.1, -0.3, 0.8]]])
        t = np.linspace(-8.5, 8.5, 1501)
        w = np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()
        contrast = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
        root = np.linalg.cholesky(contrast @ v[0] @ contrast.T + 1e-300 * np.eye(2))
        x = contrast[0] @ m[0] + root[0, 0] * t[:, None]
        y = contrast[1] @ m[0] + root[1, 0] * t[:, None] + root[1, 1] * t
        truth = w @ np.logaddexp(np.logaddexp(0.0, x), y) @ w
        found = expected_log_sum_exp(m, v, offered)
        assert found.value[0] == pytest.approx(truth, rel=1e-7 if sd > 20 else 1e-9)
        assert found.d_mean.sum() == pytest.approx(1.0, rel=1e-9)


def test_applicable() -> None:
    able = applicable(CategoricalSoftmax, Expected)
    assert able[0] == "quadrature" and "delta" in able and "jaakkola" not in able
    assert len(able) == len(set(able)) == 8


@given(seeds, st.integers(2, 6), st.floats(-4.0, 4.0).map(lambda x: float(np.exp(x))))
@settings(max_examples=20)
def test_compiled_tilts_are_those_of_arrays(seed: int, k: int, sd: float) -> None:
    """Narrow, wide and singular covariances, some classes not on offer."""
    rng = np.random.default_rng(seed)
    y, m, v = moments(seed, k, sd, n=10)
    available = (rng.random((10, k)) < 0.7).astype(float)
    available[np.arange(10), y.astype(int)] = 1.0
    plain = ask("tilted", y, m, v, available)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tilted, "COMPILED_FROM", 1)
        compiled = ask("tilted", y, m, v, available)
    np.testing.assert_allclose(compiled.value, plain.value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(compiled.d_mean, plain.d_mean, atol=1e-9)
    np.testing.assert_allclose(compiled.d_variance, plain.d_variance, atol=1e-9)
    np.testing.assert_allclose(compiled.curvature, plain.curvature, atol=1e-9)
