"""The third derivative of E[log sum exp s] against differences of the second one."""

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.bounds.softmax import SoftmaxExpected
from lgmdsl.numerics.expectations.log_sum_exp import expected_log_sum_exp, third_of_log_sum_exp

STEP = 1e-4


@pytest.mark.parametrize("size", [4, 6])
def test_against_differences(size: int) -> None:
    rng = np.random.default_rng(size)
    mean, root = rng.normal(size=(5, size)), rng.normal(size=(5, size, size))
    variance = 0.5 * root @ root.transpose(0, 2, 1) / size
    offered = np.ones((5, size), dtype=np.bool_)
    if size == 6:  # one class is not on offer in one row
        offered[2, 1] = False
        mean[2, 1] = variance[2, 1] = variance[2, :, 1] = 0.0
    third = third_of_log_sum_exp(mean, variance, offered)
    assert third is not None
    for j in range(size):
        step = np.zeros((5, size))
        step[:, j] = STEP * offered[:, j]
        ends = [expected_log_sum_exp(mean + s * step, variance, offered).bend for s in (1, -1)]
        np.testing.assert_allclose(third[:, j], (ends[0] - ends[1]) / (2 * STEP), atol=1e-8)
    np.testing.assert_allclose(third, third.transpose(0, 3, 1, 2), atol=1e-14)
    assert np.abs(third.sum(axis=1)).max() < 1e-14  # nothing moves with a constant
    assert third_of_log_sum_exp(mean[:, :3], variance[:, :3, :3], offered[:, :3]) is None


TEXT = """lgm 1
index obs
index k
data x[obs] : real
data y[obs] : k
latent a[k] ~ normal(sd = 2)
latent b[k] ~ normal(sd = 2)
let eta[obs, k] = a + b * x
observe y ~ categorical(softmax = eta)
"""


@pytest.mark.thorough
def test_estimates_of_errors_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One expectation after the fit, and the same errors as by differences."""
    rng = np.random.default_rng(2)
    data = {"x": rng.normal(size=40), "y": rng.choice(list("abcde"), 40)}
    calls = 0
    plain = SoftmaxExpected.expected

    def counted(self: SoftmaxExpected, *rest: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return plain(self, *rest, **more)

    monkeypatch.setattr(SoftmaxExpected, "expected", counted)
    model = lgm.loads(TEXT)
    first = lgm.fit(model, data, options={"correction": "off"}).accuracy
    few, calls = calls, 0
    monkeypatch.setattr(SoftmaxExpected, "third_expected", lambda *_: None)
    second = lgm.fit(model, data, options={"correction": "off"}).accuracy
    assert calls - few == 10  # two for each of the classes
    assert first.evidence == pytest.approx(second.evidence, rel=5e-3)
    assert first.sd == pytest.approx(second.sd, rel=2e-2, abs=1e-4)
