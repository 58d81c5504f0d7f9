"""Gauss-Hermite where the spread is small beside the site's scale, against the sinh rule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations import expectation
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.observed import make_sites
from lgmdsl.sites.quadrature import expected_by_quadrature

CASES: dict[str, tuple[float | None, dict[str, float]]] = {
    "bernoulli.logit": (1.0, {}),
    "bernoulli.probit": (0.0, {}),
    "bernoulli.cloglog": (1.0, {}),
    "negbinomial.log_mean": (40.0, {"size": 2.0, "exposure": 1.0}),
    "student_t.mean": (0.0, {"scale": 2.0, "df": 0.5}),
    "logistic": (None, {"scale": 0.3}),
}
X = np.linspace(-6.0, 6.0, 61)  # (mean - centre) / scale


def made(name: str) -> Site:
    y, parameters = CASES[name]
    family = find_site(name)
    assert family is not None
    full = {k: np.full(len(X), v) for k, v in parameters.items()}
    return make_sites(family, None if y is None else np.full(len(X), y), full)


def answers(site: Site, mean: Array, sd: Array) -> Array:
    a = expected_by_quadrature(site, mean, sd * sd, second=True)
    assert a.d_mean_variance is not None and a.d_variance2 is not None
    return np.stack([a.value, a.d_mean, a.d_variance, a.d_mean_variance, a.d_variance2])


@pytest.mark.parametrize("name", CASES)
def test_both_rules_agree_at_the_largest_spread_of_each_count(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = made(name)
    landmark = site.landmark()
    assert landmark is not None
    centre, scale = landmark
    mean = centre + X * scale
    for largest in list(expectation.GAUSS_HERMITE.values()):
        sd = 0.999 * largest * scale
        found = answers(site, mean, sd)
        with monkeypatch.context() as patched:
            patched.setattr(expectation, "GAUSS_HERMITE", {})
            known = answers(site, mean, sd)
        gap = np.abs(found - known) / np.maximum(1.0, np.abs(known))
        assert gap[:3].max() < 5e-12
        assert gap[3:].max() < 1e-9


def test_every_row_is_served_once_whatever_its_rule() -> None:
    site = made("bernoulli.logit")
    sd = np.geomspace(1e-6, 30.0, len(X))
    mixed = answers(site, X, sd)
    for k in (0, 20, 40, 60):
        alone = answers(site.take(np.array([k])), X[k : k + 1], sd[k : k + 1])
        np.testing.assert_allclose(mixed[:, k], alone[:, 0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sd", [30.0, 1e4, 3e6, 1e9])
@pytest.mark.parametrize("ratio", [-7.0, -1.6, -0.1, 0.0, 1.6, 5.0])
def test_wide_spreads_keep_their_digits(sd: float, ratio: float) -> None:
    """E[softplus(s)] = m Phi(m/sd) + sd phi(m/sd) and a bump at 0, in which the density is flat:
    int log(1 + e^-|s|) ds = pi^2 / 6. Beyond c the nodes must not cancel (s - m + m)."""
    mean = ratio * sd
    site = made("bernoulli.logit").take(np.array([0]))
    found = expected_by_quadrature(site, np.array([mean]), np.array([sd * sd]))
    bend = 2.0 * (np.pi**2 / 12.0) * np.exp(-0.5 * ratio**2) / (sd * np.sqrt(2.0 * np.pi))
    ramp = sd * np.exp(-0.5 * ratio**2) / np.sqrt(2.0 * np.pi) - mean * special.ndtr(-ratio)
    known = -(ramp + bend)  # y = 1: -softplus(-s)
    assert abs(found.value[0] - known) <= 2e-12 * abs(known) + 200.0 * bend / sd**2
    slack = 3.0 * abs(ratio) * bend / sd
    assert found.d_mean[0] == pytest.approx(special.ndtr(-ratio), rel=1e-9, abs=slack)
