"""Scores against their definitions; the best is found without computing them all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special

from lgmdsl.acquisition.scores import OFF, SLOPE, best, include, labelled, probability, score
from lgmdsl.sites.scalar.logistic import BernoulliLogit

MAKE = labelled(BernoulliLogit)
MARGINALS = st.lists(
    st.tuples(st.floats(-20.0, 20.0), st.one_of(st.just(0.0), st.floats(1e-6, 500.0))),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 3.0), (0.7, 1e-4), (-2.5, 40.0), (12.0, 9.0)])
def test_probability_is_the_integral(mean: float, variance: float) -> None:
    sd = np.sqrt(variance)
    value, _ = integrate.quad(
        lambda t: special.expit(mean + sd * t) * np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi),
        -12,
        12,
        epsabs=1e-13,
        epsrel=1e-12,
        limit=400,
        points=[-mean / sd] if sd > 1 else None,
    )
    found = probability(MAKE, np.array([mean]), np.array([variance]))[0]
    assert found == pytest.approx(value, rel=1e-9)


def test_information_is_the_average_divergence() -> None:
    mean, variance = np.array([0.3, -4.0]), np.array([2.0, 7.0])
    p = probability(MAKE, mean, variance)
    yes = include(BernoulliLogit(np.ones(2)), mean, variance).information
    no = include(BernoulliLogit(np.zeros(2)), mean, variance).information
    assert np.allclose(score("information", MAKE, mean, variance), p * yes + (1 - p) * no, rtol=0)
    assert np.allclose(score("uncertainty", MAKE, mean, variance), -abs(p - 0.5), rtol=0)
    assert score("information", MAKE, -mean, variance) == pytest.approx(
        score("information", MAKE, mean, variance), rel=1e-9
    )


def test_the_closed_form_is_as_near_as_it_says() -> None:
    s = np.linspace(-12.0, 12.0, 200_001)
    assert 0.0094 < np.abs(special.expit(s) - special.ndtr(SLOPE * s)).max() < OFF


@given(MARGINALS, st.sampled_from(["uncertainty", "information"]))
def test_the_best_is_the_first_of_the_highest(cases: list[tuple[float, float]], kind: str) -> None:
    mean, variance = (np.array(c) for c in zip(*cases, strict=True))
    scores = score(kind, MAKE, mean, variance)
    row, value = best(kind, MAKE, mean, variance)
    assert value == pytest.approx(scores.max(), rel=1e-12, abs=1e-15)
    assert scores[row] == pytest.approx(scores.max(), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("kind", "level"), [("uncertainty", -0.2), ("information", 0.2)])
def test_the_best_among_scores_that_are_all_but_equal(kind: str, level: float) -> None:
    """On a level set, where the closed form puts others first."""

    def off(variance: float, mean: float) -> float:
        return float(score(kind, MAKE, np.array([mean]), np.array([variance]))[0]) - level

    mean = np.linspace(0.9, 4.0, 40)
    variance = np.array([optimize.brentq(off, 1e-6, 500.0, args=(m,), xtol=1e-13) for m in mean])
    for k in range(0, 40, 3):
        variance[k] *= 1.0 + 1e-6  # both scores rise with the variance
        assert best(kind, MAKE, mean, variance)[0] == k
        variance[k] /= 1.0 + 1e-6


def test_equals_are_taken_in_order() -> None:
    mean, variance = np.array([3.0, 0.5, 0.5, 0.5]), np.ones(4)
    for kind in ("uncertainty", "information"):
        assert best(kind, MAKE, mean, variance)[0] == 1


@pytest.mark.parametrize("kind", ["uncertainty", "information"])
def test_scores_do_not_depend_on_what_is_scored_with_them(kind: str) -> None:
    """To the bit: chunks of candidates are scored in different processes."""
    rng = np.random.default_rng(3)
    mean, variance = 3.0 * rng.normal(size=203), np.exp(2.0 * rng.normal(size=203))
    whole = score(kind, MAKE, mean, variance)
    for size in (1, 7, 64):
        parts = [
            score(kind, MAKE, mean[k : k + size], variance[k : k + size])
            for k in range(0, 203, size)
        ]
        assert np.array_equal(np.concatenate(parts), whole)
