"""Means and sds of responses against closed forms, however wide the predictor is."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.posterior.predictive.moments import response_moments
from lgmdsl.sites.catalogue import site
from lgmdsl.sites.observed import make_sites
from tests.sites.examples import example

SDS = np.array([0.0, 0.01, 0.3, 1.0, 3.0, 6.0, 9.7])
PLACES = np.linspace(-3.0, 2.0, len(SDS))
ONES = np.ones(len(SDS))


def test_lognormal_responses_of_wide_predictors() -> None:
    """log y is normal: y has the moments of a lognormal."""
    sites = make_sites(site("lognormal.mean"), ONES, {"sd": ONES})
    mean, sd = response_moments(sites, PLACES, SDS**2)[:2]
    wanted = np.exp(PLACES + 0.5 * (SDS**2 + 1.0))
    np.testing.assert_allclose(mean, wanted, rtol=1e-10)
    np.testing.assert_allclose(sd, wanted * np.sqrt(np.expm1(SDS**2 + 1.0)), rtol=1e-10)


def test_counts_of_wide_predictors() -> None:
    """Var y = E rate + Var rate, the rate lognormal."""
    sites = make_sites(site("poisson.log_rate"), ONES, {"exposure": ONES})
    mean, sd = response_moments(sites, PLACES, SDS**2)[:2]
    wanted = np.exp(PLACES + 0.5 * SDS**2)
    np.testing.assert_allclose(mean, wanted, rtol=1e-10)
    variance = wanted + wanted**2 * np.expm1(SDS**2)
    np.testing.assert_allclose(sd, np.sqrt(variance), rtol=1e-10)


def test_a_sd_that_no_number_holds_is_unknown_and_its_mean_is_not() -> None:
    sites = make_sites(site("lognormal.mean"), np.ones(1), {"sd": np.ones(1)})
    mean, sd = response_moments(sites, np.zeros(1), np.full(1, 15.0**2))[:2]
    assert mean == pytest.approx(np.exp(0.5 * (225.0 + 1.0)), rel=1e-10)
    assert np.isnan(sd).all()


@pytest.mark.parametrize("wide", [0.1, 10.0, 300.0])
def test_probabilities_of_wide_predictors(wide: float) -> None:
    """Against a sum over 200,001 nodes."""
    sites = make_sites(site("bernoulli.logit"), np.ones(1), {})
    mean = response_moments(sites, np.full(1, 0.3), np.full(1, wide**2)).mean
    z = np.linspace(-9.0, 9.0, 200_001)
    weight = np.exp(-0.5 * z * z)
    inside = 0.5 * (1.0 + np.tanh(0.5 * (0.3 + wide * z)))
    assert mean == pytest.approx((weight @ inside) / weight.sum(), abs=1e-9)


@pytest.mark.parametrize("name", ["gamma.log_mean", "negbinomial.log_mean", "weibull.log_scale"])
def test_moments_of_a_row_are_those_it_has_alone(name: str) -> None:
    sites = example(name, len(SDS), seed=2)
    among = response_moments(sites, PLACES, SDS**2)[:2]
    for row in range(len(SDS)):
        one = np.array([row])
        alone = response_moments(sites.take(one), PLACES[one], SDS[one] ** 2)[:2]
        for a, b in zip(alone, among, strict=True):
            np.testing.assert_allclose(a[0], b[row], rtol=1e-12)
