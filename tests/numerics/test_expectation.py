"""Gauss-Hermite where the spread is small beside the site's scale, against the sinh rule."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.numerics import expectation
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.observed import make_sites
from lgmdsl.sites.quadrature import expected_by_quadrature

CASES: dict[str, tuple[float | None, dict[str, float]]] = {
    "bernoulli.logit": (1.0, {}),
    "bernoulli.probit": (0.0, {}),
    "bernoulli.cloglog": (1.0, {}),
    "negbinomial.log_mean": (40.0, {"size": 2.0}),
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
