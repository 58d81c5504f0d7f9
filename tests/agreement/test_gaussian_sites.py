"""Gaussian sites: every method gives the closed form, and says that it is exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.contract.status import Guarantee
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random_model import RandomModel

from .methods import METHODS, apart, few, predictors, solved
from .test_random_models import gaussian_evidence


@given(random_models(families=("normal.mean", "normal"), missing=True),
       st.sampled_from(sorted(METHODS)))  # fmt: skip
@few(30)
def test_every_method_is_exact(case: RandomModel, method: str) -> None:
    value, mean, sd = gaussian_evidence(case)
    fit = solved(case, method)
    assert fit is not None and fit.converged and fit.guarantee is Guarantee.EXACT
    assert fit.log_evidence == pytest.approx(value, rel=1e-8, abs=1e-8)
    assert apart(predictors(fit), (mean, sd)) < 1e-7
