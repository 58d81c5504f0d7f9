"""Proposals and weights: against SciPy's multivariate t, and against brute integration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lgmdsl.accuracy.tails import effective_size
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.moments import Evidence, Functional, Moments, sums_of
from lgmdsl.assess.importance.weights import DF, best_proposal, log_normal_over_student


@given(st.integers(0, 2**20), st.integers(1, 8))
def test_the_student_has_q_s_moments(seed: int, size: int) -> None:
    """The ratio is that of SciPy's densities, t_5 with shape (DF - 2) / DF Cov."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size)) + np.eye(size)
    cov = root @ root.T + 0.1 * np.eye(size)
    z = 3.0 * rng.normal(size=(5, size)) @ root.T
    radius = np.einsum("ij,ij->i", z, np.linalg.solve(cov, z.T).T)
    student = stats.multivariate_t(np.zeros(size), (DF - 2) / DF * cov, df=DF)
    normal = stats.multivariate_normal(np.zeros(size), cov)
    want = np.atleast_1d(normal.logpdf(z) - student.logpdf(z))
    np.testing.assert_allclose(log_normal_over_student(radius, size), want, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("rank", [1, 3, 40])
def test_q_over_a_proposal_averages_to_one(rank: int) -> None:
    """E_g[q / g] = 1 and the stretched draws keep q's variance, for both proposals."""
    rng, n = np.random.default_rng(rank), 200_000
    x = rng.normal(size=(n, rank))
    radius, u = (x**2).sum(axis=1), np.sqrt((DF - 2.0) / rng.chisquare(DF, n))
    assert np.mean(u**2) == pytest.approx(1.0, abs=0.05)
    flat = np.zeros(n)
    mixture = best_proposal(flat, flat, radius, u, rank)  # an exact q: half of it is best
    student = best_proposal(flat - 50.0 * (np.arange(n) > 50), flat, radius, u, rank)
    assert mixture.name == "mixture" and student.name == "student-t"
    for g in (mixture, student):
        v = np.exp(g.log_own)
        assert v.mean() == pytest.approx(1.0, abs=6 * v.std() / np.sqrt(n))
    assert np.exp(mixture.log_own).max() <= 2.0


def test_the_larger_effective_size_is_taken() -> None:
    rng, n = np.random.default_rng(0), 4000
    x, u = rng.normal(size=n), np.sqrt((DF - 2.0) / rng.chisquare(DF, n))

    def wide(y: Array) -> Array:  # a target of twice the variance
        return 0.25 * y**2

    found = best_proposal(wide(x), wide(x * u), x**2, u, 1)
    sizes = {}
    for first in (0, n):  # as if all were q's, or all the Student's
        scale = np.where(np.arange(n) < first, u, 1.0)
        ratio = log_normal_over_student(scale**2 * x**2, 1)
        over = ratio if first else np.zeros(n)
        sizes[first] = effective_size(wide(x * scale) + over)
    assert found.effective >= sizes[n] > 0


@given(st.integers(0, 2**20), st.floats(-0.5, 0.5), st.floats(0.7, 1.4))
def test_one_dimension_against_closed_forms(seed: int, mean: float, sd: float) -> None:
    """Target N(mean, sd^2) times e^3, q = N(0, 1): corrected moments within five errors."""
    rng, n = np.random.default_rng(seed), 4000
    x, u = rng.normal(size=n), np.sqrt((DF - 2.0) / rng.chisquare(DF, n))

    def ratio(z: Array) -> Array:
        return np.asarray(3.0 + stats.norm.logpdf(z, mean, sd) - stats.norm.logpdf(z))

    g = best_proposal(ratio(x), ratio(x * u), x**2, u, 1)
    evidence = Evidence(g)
    assert abs(evidence.log - 3.0) <= 5.0 * evidence.error + 1e-12
    total = Moments(Functional("z", np.zeros(1), np.ones(1), lambda z: z))
    total.add(sums_of(total.functional, (g.draws * x)[:, None], evidence.columns))
    c = total.corrected(evidence)
    assert abs(c.mean[0] - mean) <= 5.0 * c.error[0] * c.sd[0] + 1e-12
    assert c.sd[0] == pytest.approx(sd, rel=0.15)
    assert c.shift[0] == pytest.approx(c.mean[0] / c.sd[0], rel=1e-12)


def test_stated_errors_are_those_of_repetition() -> None:
    """Over 400 seeds the estimates scatter by what they state."""
    n, means, errors, logs, stated = 500, [], [], [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x, u = rng.normal(size=n), np.sqrt((DF - 2.0) / rng.chisquare(DF, n))
        own, far = (0.4 * z - 0.1 * z**3 / (1 + z**2) - 0.05 * z**2 for z in (x, x * u))
        g = best_proposal(own, far, x**2, u, 1)
        evidence = Evidence(g)
        total = Moments(Functional("z", np.zeros(1), np.ones(1), lambda z: z))
        total.add(sums_of(total.functional, (g.draws * x)[:, None], evidence.columns))
        c = total.corrected(evidence)
        means.append(c.mean[0])
        errors.append(c.error[0] * c.sd[0])
        logs.append(evidence.log)
        stated.append(evidence.error)
    assert np.std(means) == pytest.approx(np.mean(errors), rel=0.15)
    assert np.std(logs) == pytest.approx(np.mean(stated), rel=0.15)


def test_no_draw_with_a_density() -> None:
    n = 200
    none = np.full(n, -np.inf)
    g = best_proposal(none, none, np.ones(n), np.ones(n), 1)
    evidence = Evidence(g)
    assert g.effective == 0.0 and evidence.log == -np.inf
