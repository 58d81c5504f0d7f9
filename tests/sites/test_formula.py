"""A family that is a formula in jets: all it answers follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import special, stats

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property, SiteSpec, curves_by_differences
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.formula import FormulaSite, Jets, expand
from lgmdsl.sites.scalar.negbinomial import NegbinomialLogMean
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Written(FormulaSite):
    """negbinomial.log_mean by its formula."""

    y: Array
    size: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "negbinomial.log_mean",
        signature=declared("family", "negbinomial"),
        takes=("size",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
    )

    def formula(self, s: Jet, p: Jets) -> Jet:
        x = s - jets.log(p["size"])
        rising = jets.log_rising(p["size"], self.y) - special.gammaln(self.y + 1.0)
        return rising - self.y * jets.softplus(-x) - p["size"] * jets.softplus(x)


def _sites(size: float) -> tuple[Written, NegbinomialLogMean, Array]:
    rng = np.random.default_rng(1)
    y, s = rng.poisson(4.0, 50).astype(float), rng.normal(size=50)
    return Written(y, np.full(50, size)), NegbinomialLogMean(y, np.full(50, size), np.ones(50)), s


@pytest.mark.parametrize("size", [0.3, 5.0, 1e6])
def test_the_formula_gives_what_the_closed_forms_give(size: float) -> None:
    written, closed, s = _sites(size)
    np.testing.assert_allclose(
        written.log_density(s),
        stats.nbinom.logpmf(written.y, size, size / (size + np.exp(s))),
        rtol=1e-9,
    )
    for a, b in zip(
        (getattr(written.pointwise(s, 0.7), n) for n in ("value", "slope", "curvature", "third")),
        (getattr(closed.pointwise(s, 0.7), n) for n in ("value", "slope", "curvature", "third")),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    slope = written.parameter_slopes(s)["size"]
    np.testing.assert_allclose(slope * size, closed.parameter_slopes(s)["size"] * size, atol=1e-8)


def test_curves_of_parameters_agree_with_differences() -> None:
    written, _, s = _sites(2.5)
    (curve,) = written.parameter_curves(s).values()
    (other,) = curves_by_differences(written, written.parameter_slopes(s), s).values()
    for a, b in zip(curve, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_fields_of_one_column_meet_many_points() -> None:
    written, _, s = _sites(2.5)
    wide = Written(written.y[:, None], written.size[:, None])
    points = s[:, None] + np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(
        wide.pointwise(points).curvature[:, 1], written.pointwise(s).curvature
    )
    assert wide.log_density(points).shape == (50, 3)


def test_any_scalar_family_expands_at_a_jet() -> None:
    written, closed, s = _sites(2.5)
    x = jets.sigmoid(jets.variable(s, 0))
    one, other = expand(written, x), expand(closed, x)
    for k in range(4):
        np.testing.assert_allclose(
            one.derivative(*(0,) * k), other.derivative(*(0,) * k), rtol=1e-9, atol=1e-10
        )
