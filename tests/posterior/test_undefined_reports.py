"""W603 looks at all draws that a report's mean is made of."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs = 1
latent a ~ normal(sd = 1)
data y[obs] : real
let eta[obs] = a
observe y ~ normal(mean = eta, sd = 1)
report above = log(a + {least})
"""


@pytest.mark.parametrize("sds", [2.0, 2.4, 2.7, 3.0])
def test_a_report_that_is_seldom_undefined_is_warned_of(sds: float) -> None:
    """Undefined in 2.3 to 0.13 % of 4,000 draws: its mean is NaN."""
    fit = lgm.fit(lgm.loads(MODEL.format(least=sds * np.sqrt(0.5))), {"y": [0.0]})
    assert np.isnan(fit.mean("above").values)
    assert "W603" in [w.code for w in fit.warnings]
