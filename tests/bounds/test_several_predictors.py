"""Expectations of sites with weights, and their third derivatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.several_predictors import SeveralByQuadrature
from lgmdsl.sites.combined.weighted import weighted
from tests.sites.test_predictors import cases


def with_weights(site: Any, weight: Array) -> Any:
    values: dict[str, Any] = {n: getattr(site, n) for n in ("y", *site.spec.parameters)}
    kind: Any = type(site)
    family: Any = weighted(kind)
    return family(**values, weight=weight)


def test_a_weight_multiplies_third_derivatives() -> None:
    site, mean = cases("gamma", 5, extreme=False)
    weight = np.array([0.0, 0.5, 1.0, 2.0, 3.0])
    rows = with_weights(site, weight)
    variance = np.broadcast_to(0.04 * np.eye(2), (5, 2, 2)).copy()
    third = SeveralByQuadrature().lift(site).third_expected(mean, variance)
    assert third is not None and np.abs(third).max() > 1e-3
    whole = SeveralByQuadrature().lift(rows).third_expected(mean, variance)
    assert whole is not None
    np.testing.assert_allclose(whole, weight[:, None, None, None] * third, rtol=1e-12)


def test_large_weights_keep_the_accuracy_of_expectations() -> None:
    """Two rules are compared before the weight: the rounding of a derivative that is nearly 0,
    times 1e12, is no disagreement, after which the bound was -inf."""
    weight = np.full(10, 1e12)
    given: Any = cases("negbinomial", 10)[0]
    site = replace(given, y=np.arange(10.0))
    variance = np.broadcast_to(1e-13 * np.eye(2), (10, 2, 2)).copy()
    plain = SeveralByQuadrature().lift(site).expected(np.zeros((10, 2)), variance)
    rows = with_weights(site, weight)
    answer = SeveralByQuadrature().lift(rows).expected(np.zeros((10, 2)), variance)
    np.testing.assert_allclose(answer.value, weight * plain.value, rtol=1e-14)
    np.testing.assert_allclose(answer.d_mean, weight[:, None] * plain.d_mean, rtol=1e-14)


def test_a_weight_of_zero_leaves_no_trace_of_a_row() -> None:
    site, mean = cases("negbinomial", 2, extreme=False)
    rows = with_weights(site, np.zeros(2))
    endless = np.broadcast_to(1e8 * np.eye(2), (2, 2, 2)).copy()
    assert not SeveralByQuadrature().lift(rows).expected(mean, endless).value.any()
