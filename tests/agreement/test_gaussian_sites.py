"""Gaussian sites: every method gives the closed form, and says that it is exact."""

from __future__ import annotations

import pytest
from hypothesis import given

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


@pytest.mark.parametrize("method", ON_GAUSSIANS)
def test_every_method_is_exact(method: str) -> None:
    @given(random_models(families=("normal.mean", "normal"), wild=False, missing=True))
    @few(6)
    def check(case: RandomModel) -> None:
        check_exact(case, method, 1e-8)

    check()


@pytest.mark.parametrize(
    "method", ["laplace", "natural-gradient", "cholesky", "ep", "double-loop", "map"]
)
def test_so_it_is_at_extreme_scales(method: str) -> None:
    @given(random_models(families=("normal.mean", "normal"), missing=True))
    @few(4)
    def check(case: RandomModel) -> None:
        check_exact(case, method, 1e-6)

    check()
