"""Third derivatives of expectations of sites with weights and of sites without an expansion."""

from __future__ import annotations

from typing import Any

import numpy as np

from lgmdsl.bounds.several_predictors import SeveralByQuadrature
from lgmdsl.sites.combined.weighted import weighted
from tests.sites.test_predictors import cases


def test_a_weight_multiplies_third_derivatives() -> None:
    site, mean = cases("gamma", 5, extreme=False)
    weight = np.array([0.0, 0.5, 1.0, 2.0, 3.0])
    values: dict[str, Any] = {n: getattr(site, n) for n in ("y", *site.spec.parameters)}
    family: Any = weighted(type(site))
    rows = family(**values, weight=weight)
    variance = np.broadcast_to(0.04 * np.eye(2), (5, 2, 2)).copy()
    third = SeveralByQuadrature().lift(site).third_expected(mean, variance)
    assert third is not None and np.abs(third).max() > 1e-3
    whole = SeveralByQuadrature().lift(rows).third_expected(mean, variance)
    assert whole is not None
    np.testing.assert_allclose(whole, weight[:, None, None, None] * third, rtol=1e-12)
