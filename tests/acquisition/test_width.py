"""The width of a site that joins, against scalar minimisation and integrals by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize

from lgmdsl.acquisition.scores import include
from lgmdsl.sites.scalar.logistic import BernoulliLogit, BinomialLogit, LogisticSite, Sech2Potential

MEANS = st.floats(-30.0, 30.0)
VARIANCES = st.one_of(st.just(0.0), st.floats(1e-9, 1e4))


def height(site: LogisticSite, gamma: float) -> float:
    """h(gamma) = -min over x >= 0 of x / gamma + 2 g(x), on log x."""

    def line(log_x: float) -> float:
        x = np.exp(log_x)
        return float(x / gamma + 2.0 * site.g(np.array([x]))[0][0])

    found = optimize.minimize_scalar(
        line, bounds=(-30, 14), method="bounded", options={"xatol": 1e-10}
    )
    return -min(float(found.fun), float(2.0 * site.g(np.zeros(1))[0][0]))


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (2.0, 0.3), (-6.0, 20.0), (1.0, 200.0)])
def test_the_paper_s_criterion_is_at_its_minimum(y: float, mean: float, variance: float) -> None:
    """phi(gamma) = h + log kappa - (mu + rho beta)^2 / (rho kappa), from the two definitions."""
    site = BernoulliLogit(np.array([y]))
    beta = y - 0.5

    def phi(log_gamma: float) -> float:
        gamma = np.exp(log_gamma)
        kappa = 1.0 + variance / gamma
        square = (mean + variance * beta) ** 2 / (variance * kappa)
        return float(height(site, gamma) + np.log(kappa) - square)

    best = optimize.minimize_scalar(
        phi, bounds=(np.log(4.0), 8.0), method="bounded", options={"xatol": 1e-9}
    )
    found = include(site, np.array([mean]), np.array([variance]))
    assert found.weight[0] == pytest.approx(np.exp(-best.x), rel=1e-5)
    assert phi(-np.log(found.weight[0])) == pytest.approx(best.fun, abs=1e-12)
    # The gain has the constant that phi leaves out: mu^2 / rho.
    assert found.gain[0] == pytest.approx(-0.5 * (best.fun + mean**2 / variance), abs=1e-10)


@pytest.mark.parametrize(("mean", "variance"), [(0.4, 1.3), (-3.0, 5.0), (2.0, 0.02)])
def test_moments_gain_and_divergence_are_those_of_the_integrals(
    mean: float, variance: float
) -> None:
    for y in (0.0, 1.0):
        site = BernoulliLogit(np.array([y]))
        found = include(site, np.array([mean]), np.array([variance]))
        w, beta = found.weight[0], y - 0.5
        s = mean + np.sqrt(variance) * np.linspace(-14.0, 14.0, 40001)
        q = np.exp(-0.5 * (s - mean) ** 2 / variance) / np.sqrt(2.0 * np.pi * variance)
        bound = np.exp(beta * s - 0.5 * w * s * s - 0.5 * height(site, 1.0 / w))
        assert (bound <= np.exp(BernoulliLogit(np.full_like(s, y)).log_density(s)) + 1e-12).all()
        mass = integrate.simpson(q * bound, x=s)
        new = q * bound / mass
        first = integrate.simpson(new * s, x=s)
        second = integrate.simpson(new * (s - first) ** 2, x=s)
        apart = integrate.simpson(new * np.log(np.maximum(new, 1e-300) / q), x=s)
        assert found.gain[0] == pytest.approx(np.log(mass), abs=1e-9)
        assert found.mean[0] == pytest.approx(first, abs=1e-9)
        assert found.variance[0] == pytest.approx(second, abs=1e-9)
        assert found.information[0] == pytest.approx(apart, abs=1e-9)


@given(st.lists(st.tuples(MEANS, VARIANCES, st.sampled_from([0.0, 1.0])), min_size=1, max_size=6))
def test_the_weight_is_a_fixed_point_everywhere(cases: list[tuple[float, float, float]]) -> None:
    mean, variance, y = (np.array(c) for c in zip(*cases, strict=True))
    site = BernoulliLogit(y)
    found = include(site, mean, variance)
    asked = -2.0 * site.g(found.variance + found.mean**2)[1]
    assert np.allclose(found.weight, asked, rtol=1e-9, atol=0.0)
    assert (found.weight > 0.0).all() and (found.weight <= 0.25).all()
    assert (found.information >= -1e-12).all() and (found.gain <= 1e-12).all()
    assert np.allclose(
        found.kappa,
        variance / np.where(found.variance > 0, found.variance, 1) + (variance == 0),
        rtol=1e-12,
    )


def test_other_sites_without_a_kink_too() -> None:
    mean, variance = np.array([0.5, -4.0]), np.array([2.0, 9.0])
    for site in (
        BinomialLogit(np.array([3.0, 0.0]), np.array([7.0, 2.0])),
        Sech2Potential(np.array([0.3, 2.0])),
    ):
        found = include(site, mean, variance)
        asked = -2.0 * site.g(found.variance + found.mean**2)[1]
        assert np.allclose(found.weight, asked, rtol=1e-12)
