"""Every built-in family passes the shipped conformance check, and the check catches liars."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ConjugateAnswer, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.sites.catalogue import SITES, sites
from lgmdsl.sites.scalar.exponential_rate import PoissonLogRate
from lgmdsl.sites.scalar.logistic import LogisticPotential
from lgmdsl.sites.scalar.student_t import StudentTMean
from lgmdsl.testing.site_checks import check_site, site_failures
from tests.sites.examples import example

NAMES = [s.spec.name for s in SITES.shipped() if not s.spec.vector]


# Differences of quadratures, of quadratures: half a minute.
LONG = {
    f"{name}.censored"
    for name in ("lognormal.mean", "student_t.mean", "gamma.log_mean", "weibull.log_scale")
}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in NAMES]
)
def test_family_conforms(name: str) -> None:
    check_site(example(name))


def test_catalogue_names_are_unique() -> None:
    assert len({s.spec.name for s in sites()}) == len(sites()) >= 18


class WrongSlope(PoissonLogRate):
    """l' is 1% off."""

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = super().pointwise(s, variance)
        return PointwiseAnswer(a.value, 1.01 * a.slope, a.curvature, a.third)


class NotNormalised(PoissonLogRate):
    """log y! is forgotten."""

    def log_density(self, s: Array) -> Array:
        return super().log_density(s) + self.log_factorial

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = super().pointwise(s, variance)
        return PointwiseAnswer(a.value + self.log_factorial, a.slope, a.curvature, a.third)


class WrongDraws(PoissonLogRate):
    """Draws have the right mean but no noise."""

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        return self.conditional_mean(s)


class FalselyConcave(StudentTMean):
    """Declares what Student-t is not."""

    spec: ClassVar[SiteSpec] = SiteSpec(
        "false.mean",
        {"scale": None, "df": None},
        properties=Property.LOG_CONCAVE,
        observed=("real",),
    )


class FalselyNatural(StudentTMean):
    """The same of another promise."""

    spec: ClassVar[SiteSpec] = SiteSpec(
        "false.mean",
        {"scale": None, "df": None},
        properties=Property.NATURAL,
        observed=("real",),
    )


class WrongParameter(StudentTMean):
    """dl/dscale has the wrong sign."""

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {k: -x for k, x in super().parameter_slopes(s).items()}


class WrongConjugate(PoissonLogRate):
    """The closed form of exposure 1."""

    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        a = super().conjugate(slope, pull, penalty, centre)
        return ConjugateAnswer(a.h + self.log_factor, a.sigma, a.value)


@dataclass(frozen=True, eq=False)
class WrongG(LogisticPotential):
    """g' is not the derivative of g."""

    scale: Array

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        value, first, second = super().g(x)
        return value, 1.1 * first, second


@pytest.mark.parametrize(
    ("wrong", "named", "complaint"),
    [
        (WrongSlope, "poisson.log_rate", "slope"),
        (NotNormalised, "poisson.log_rate", "sums to"),
        (WrongDraws, "poisson.log_rate", "over draws"),
        (FalselyConcave, "student_t.mean", "LOG_CONCAVE"),
        (FalselyNatural, "student_t.mean", "declared NATURAL"),
        (WrongParameter, "student_t.mean", "slope in scale"),
        (WrongConjugate, "poisson.log_rate", "conjugate(): f_m"),
        (WrongG, "logistic", "g'"),
    ],
)
def test_the_check_catches(wrong: type, named: str, complaint: str) -> None:
    right = example(named)
    site = wrong(**{f.name: getattr(right, f.name) for f in dataclasses.fields(right)})
    assert any(complaint in failure for failure in site_failures(site))
    with pytest.raises(AssertionError, match="- "):
        check_site(site)
