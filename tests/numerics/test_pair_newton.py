"""The maximisers of many functions of two variables: closed forms, starts, accuracy, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.optimisation.newton import (
    PairMaxima,
    PairMoments,
    PairTerms,
    maximise_pairs,
)

Y, A = np.array([0.0, 3.0, 40.0]), np.array([-2.0, 2.999, 5.0])
WEIGHT, BEFORE, SIGMA0 = np.array([0.1, 2.0, 9.0]), np.array([1.0, 0.5, 3.0]), np.full(3, 0.7)
ZERO = np.zeros(3)
TERMS = PairTerms(A, WEIGHT * SIGMA0, BEFORE, ZERO, ZERO, ZERO, SIGMA0)


def exponential(counts: list[int]) -> PairMoments:
    """f = y h - e^{h + v/2}."""

    def moments(where: IntArray, h: Array, v: Array) -> tuple[Array, ...]:
        counts.append(len(where))
        e = np.exp(np.minimum(h + 0.5 * v, 700.0))
        return Y[where] * h - e, Y[where] - e, -0.5 * e, -e, -0.5 * e, -0.25 * e

    return moments


def check(found: PairMaxima) -> None:
    """Khan 2014, (21): sigma = (lambda + lambda_k) sigma_k / (y - a + lambda_k)."""
    sigma = (WEIGHT + BEFORE) * SIGMA0 / (Y - A + BEFORE)
    h = np.log(Y - A) - 0.5 * sigma**2
    assert found.settled.all()
    np.testing.assert_allclose(found.sigma, sigma, rtol=1e-8)
    np.testing.assert_allclose(found.h, h, atol=1e-8)
    value = Y * h - (Y - A) + TERMS.value(h, sigma)
    np.testing.assert_allclose(found.value, value, rtol=1e-13)


@pytest.mark.parametrize("start", [-30.0, 0.0, 6.0])
def test_pairs_of_the_exponential_link(start: float) -> None:
    check(maximise_pairs(exponential([]), TERMS, np.full(3, start), np.ones(3)))


def test_a_close_start_needs_one_evaluation() -> None:
    first = maximise_pairs(exponential([]), TERMS, ZERO, np.ones(3))
    counts: list[int] = []
    check(maximise_pairs(exponential(counts), TERMS, first.h + 1e-6, first.sigma - 1e-6))
    assert counts == [3]


def test_the_curvatures_are_those_of_phi() -> None:
    terms = PairTerms(A, WEIGHT, BEFORE, 0.2 + ZERO, 0.3 + ZERO, ZERO, SIGMA0)
    found = maximise_pairs(exponential([]), terms, ZERO, np.ones(3))
    everywhere, step = np.arange(3), 1e-4

    def phi(h: Array, sigma: Array) -> Array:
        return exponential([])(everywhere, h, sigma**2)[0] + terms.value(h, sigma)

    h, s = found.h, found.sigma
    middle = phi(h, s)
    hh = -(phi(h + step, s) - 2 * middle + phi(h - step, s)) / step**2
    ss = -(phi(h, s + step) - 2 * middle + phi(h, s - step)) / step**2
    corners = phi(h + step, s + step) - phi(h + step, s - step)
    corners += phi(h - step, s - step) - phi(h - step, s + step)
    np.testing.assert_allclose(found.hh, hh, rtol=1e-4)
    np.testing.assert_allclose(found.ss, ss, rtol=1e-4)
    np.testing.assert_allclose(found.hs, -corners / (4 * step**2), rtol=1e-4)
    whole = np.array([[found.hh[0], found.hs[0]], [found.hs[0], found.ss[0]]])
    up, across, down = (x[0] for x in found.inverse())
    np.testing.assert_allclose(whole @ [[up, across], [across, down]], np.eye(2), atol=1e-9)


def test_the_curvature_in_h_is_its_own() -> None:
    """Of bounds whose tangent moves, f_mm is not 2 f_v: Newton ends a quadratic in one step."""
    counts: list[int] = []

    def moments(where: IntArray, h: Array, v: Array) -> tuple[Array, ...]:
        counts.append(len(where))
        one = np.ones(len(where))
        return -h * h - 0.3 * v, -2.0 * h, -0.3 * one, -2.0 * one, 0.0 * one, 0.0 * one

    found = maximise_pairs(moments, TERMS, ZERO, np.ones(3))
    assert counts[0] == 3 and len(counts) == 2
    np.testing.assert_allclose(found.h, -0.5 * A)


def test_what_has_no_maximum_is_not_settled() -> None:
    """Slopes beyond the limit of f_m: phi grows for ever in -h."""
    terms = PairTerms(Y + 1.0, TERMS.b, BEFORE, ZERO, ZERO, ZERO, SIGMA0)
    assert not maximise_pairs(exponential([]), terms, ZERO, np.ones(3)).settled.any()
