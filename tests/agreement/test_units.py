"""Densities on the predictor's axis know no unit: everything times c moves the log evidence by
-log c for each density, and means and sds by c, for every such family, method and c; or the fit
says that it did not converge."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.sites.catalogue import sites
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random_model import RandomModel

from .methods import METHODS, apart, few, predictors, solved

SCALED = tuple(s.spec.name for s in sites() if s.spec.scales and not s.spec.vector)
UNITS = (1e-100, 1e-30, 1e-20, 1e-5, 1e3, 1e7, 1e20, 1e100)


def densities(case: RandomModel) -> int:
    """How many densities on the predictor's axis the evidence has."""
    return sum(int(np.count_nonzero(~s.bound.censored)) for s in case.sites)


def test_families_with_a_scale_declare_it() -> None:
    """A field on the axis of s that is not declared would keep its unit."""
    assert {"normal.mean", "student_t.mean", "laplace.mean", "normal.mean.censored", "sech2",
            "student_t.mean.censored", "normal", "laplace", "student_t", "logistic",
            "exp_power"} <= set(SCALED)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", SCALED)
def test_the_unit_is_irrelevant(family: str, method: str) -> None:
    tally = Counter[str]()

    @given(random_models(families=(family,), rows=(1, 6), latents=(1, 5), wild=False, flat=True,
                         missing=True), st.sampled_from(UNITS))  # fmt: skip
    @few(3)
    def holds(case: RandomModel, unit: float) -> None:
        one = solved(case, method)
        two = solved(case.measured(unit), method, extreme=True)
        if one is None or two is None:
            tally["refused" if one is None else "no state"] += 1
            return
        if not two.converged:
            tally[f"{one.status}, {two.status}"] += 1
            return
        assert one.converged, "in other units it converges"
        tally["compared"] += 1
        flats = sum(b.size for b in case.blocks if b.covariance is None)
        gain = (flats - densities(case)) * np.log(unit)
        size = max(1.0, abs(one.log_evidence))
        assert two.log_evidence - gain == pytest.approx(one.log_evidence, abs=1e-6 * size)
        mean, sd = predictors(two)
        assert apart(predictors(one), (mean / unit, sd / unit)) < 1e-3

    holds()
    assert tally["compared"] > 0 or set(tally) <= {"refused"}, tally
