"""Gaussian sites: every method gives the closed form, and says that it is exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.contract.status import Guarantee
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel

from .methods import ON_GAUSSIANS, apart, few, predictors, solved
from .test_random_models import gaussian_evidence


def check_exact(case: RandomModel, method: str, moments: float) -> None:
    value, mean, sd = gaussian_evidence(case)
    fit = solved(case, method)
    assert fit is not None and fit.converged and fit.guarantee is Guarantee.EXACT
    assert fit.log_evidence == pytest.approx(value, rel=1e-8, abs=1e-8)
    assert apart(predictors(fit), (mean, sd)) < moments


@given(
    random_models(families=("normal.mean", "normal"), wild=False, missing=True),
    st.sampled_from(sorted(ON_GAUSSIANS)),
)
@few(24)
def test_every_method_is_exact(case: RandomModel, method: str) -> None:
    check_exact(case, method, 1e-8)


@given(
    random_models(families=("normal.mean", "normal"), missing=True),
    st.sampled_from(["laplace", "natural-gradient", "cholesky", "ep", "double-loop", "map"]),
)
@few(16)
def test_so_it_is_at_extreme_scales(case: RandomModel, method: str) -> None:
    check_exact(case, method, 1e-6)
