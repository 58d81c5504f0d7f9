"""Units of the data do not decide whether a posterior is proper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import LgmError

MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent w[feat] ~ flat()
let eta[obs] = X @ w
observe y ~ normal(mean = eta, sd = {noise})
{potential}
"""
PULL = "potential w ~ normal(sd = 1)"


def wide(unit: float, noise: float = 0.3, potential: str = PULL, **settings: Any) -> lgm.Fit:
    """Thirty flat coefficients, twenty rows; X and y in the same units."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 30))
    y = X[:, :3] @ [1.0, -1.0, 2.0] + 0.3 * rng.normal(size=20)
    text = MODEL.format(noise=noise * unit, potential=potential)
    return lgm.fit(lgm.loads(text), {"X": X * unit, "y": y * unit}, **settings)


@pytest.mark.parametrize("unit", [1e-6, 1e6, 1e9])
def test_units_that_cancel_change_nothing(unit: float) -> None:
    known, found = wide(1.0), wide(unit)
    np.testing.assert_allclose(found.mean("w"), known.mean("w"), atol=1e-6)
    np.testing.assert_allclose(found.sd("w"), known.sd("w"), rtol=1e-6)
    assert found.log_evidence == pytest.approx(known.log_evidence - 20 * np.log(unit), abs=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_what_nothing_determines_is_refused_in_all_units(unit: float) -> None:
    with pytest.raises(LgmError) as caught:
        wide(unit, potential="")
    assert caught.value.codes == ("E402",)


@pytest.mark.parametrize("method", ["laplace", "natural-gradient", "px-vb"])
def test_what_rounding_hides_is_not_called_improper(method: str) -> None:
    """Noise of 3e-7 of the data's size beside a potential of sd 1: 1e13 and 1 in one matrix."""
    with pytest.raises(LgmError) as caught:
        wide(1e6, noise=3e-7, potential=PULL, method=method)
    (found,) = caught.value.diagnostics
    assert found.code == "E601" and "rounding hides what determines" in found.details[0]
    assert "divide features" in found.help and "`y`" in found.note


ZERO = """lgm 1
index obs
data y[obs] : real
hyper v : positive ~ {v}
hyper s : positive ~ inv_gamma(shape = 2, scale = 1)
latent a ~ normal(sd = s)
let eta[obs] = a
observe y ~ normal(mean = eta, sd = v)
"""


@pytest.mark.few(1)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["natural-gradient", "px-vb"])
def test_data_that_are_all_alike_leave_no_bound(method: str) -> None:
    given = {"y": np.zeros(6)}
    with pytest.raises(LgmError) as caught:
        text = ZERO.format(v="half_normal(sd = 2)")
        lgm.fit(lgm.loads(text), given, method=method, hyper="vb")
    (found,) = caught.value.diagnostics
    assert found.code == "E601" and "as `v` goes to 0" in found.message
    assert "inv_gamma" in found.help and 'fixed={"v": VALUE}' in found.help
    text = ZERO.format(v="inv_gamma(shape = 2, scale = 1)")
    assert lgm.fit(lgm.loads(text), given, method=method, hyper="vb").converged
