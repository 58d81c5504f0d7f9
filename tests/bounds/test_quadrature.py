"""The quadrature lift on a third party's site, which gives log_density and pointwise only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound, bounds, register_bound
from lgmdsl.bounds.quadrature import ExpectedByQuadrature, TiltedByQuadrature
from lgmdsl.contract.questions import Expected, Pointwise, PointwiseAnswer, Tilted
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import LgmError
from lgmdsl.sites import catalogue
from lgmdsl.sites.catalogue import register_site, site
from lgmdsl.testing.site_checks import check_site


@dataclass(frozen=True, eq=False)
class Cauchy(Site, Pointwise):
    """y ~ Cauchy(s, width): bends at y, which the lift is not told."""

    y: Array
    width: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "cauchy.location", {"width": None}, properties=Property.BOUNDED, observed=("real",)
    )

    def log_density(self, s: Array) -> Array:
        x = (s - self.y) / self.width
        return np.asarray(-np.log(np.pi * self.width) - np.log1p(x * x))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        x, a = (s - self.y) / self.width, self.width
        q = 1.0 / (1.0 + x * x)
        third = 4.0 * x * (3.0 - x * x) * q**3 / a**3 * variance
        return PointwiseAnswer(
            self.log_density(s), -2.0 * x * q / a, -2.0 * (1.0 - x * x) * q * q / a**2, third
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        x2 = ((s - self.y) / self.width) ** 2
        return {"width": (2.0 * x2 / (1.0 + x2) - 1.0) / self.width}

    def conditional_mean(self, s: Array) -> Array:
        return s

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        return np.asarray(s + self.width * rng.standard_cauchy(len(s)))


def cauchy() -> Cauchy:
    return Cauchy(np.array([-5.0, 0.0, 2.5, 7.0]), np.array([0.4, 1.0, 2.0, 0.2]))


def test_third_party_site_conforms() -> None:
    check_site(cauchy())


@pytest.mark.parametrize("sd", [0.0, 1e-4, 0.1, 1.0, 4.0, 10.0])
def test_it_agrees_with_student_t_of_one_degree(sd: float) -> None:
    """The dedicated rule of student_t.mean knows the centre; the lift must find out."""
    stranger = cauchy()
    known = site("student_t.mean")(stranger.y, stranger.width, np.ones(4))  # type: ignore[call-arg]
    m = np.array([1.0, -3.0, 2.0, 6.5])
    v = np.full(4, sd * sd)
    a = ExpectedByQuadrature().lift(stranger).expected(m, v, second=True)
    b = ExpectedByQuadrature().lift(known).expected(m, v, second=True)
    for name in ("value", "d_mean", "d_variance", "d_mean_variance"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-9)
    c = TiltedByQuadrature().lift(stranger).tilted(m, v)
    d = TiltedByQuadrature().lift(known).tilted(m, v)
    for name in ("log_mass", "mean", "variance"):
        np.testing.assert_allclose(getattr(c, name), getattr(d, name), rtol=1e-9, atol=1e-9)


def test_declarations() -> None:
    for gives in (Expected, Tilted):
        found = bound("quadrature", gives)
        assert found.spec.guarantee is Guarantee.NUMERICAL and found.spec.error == 1e-9
        assert found.applies_to(Cauchy) == ""
        assert "kink" in found.applies_to(site("laplace"))
        assert register_bound(type(found)()) is found
    assert {b.spec.gives for b in bounds()} >= {Expected, Tilted}
    with pytest.raises(LgmError, match="E103"):
        bound("quadratur", Expected)


def test_registering_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "SITES", dict(catalogue.SITES))
    assert register_site(Cauchy) is Cauchy
    assert site("cauchy.location") is Cauchy
    assert register_site(Cauchy) is Cauchy

    class Other(Cauchy):
        """Takes the same name."""

    with pytest.raises(LgmError, match="E106"):
        register_site(Other)
