"""Observations whose weights are all 0."""

from __future__ import annotations

import lgmdsl as lgm

TEXT = """lgm 1
index obs
data y[obs] : count
data w[obs] : nonnegative
latent a ~ normal(sd = 1)
observe y ~ poisson(log_rate = a, weight = w)
"""


def test_rows_that_all_have_no_weight_are_reported() -> None:
    fit = lgm.fit(lgm.loads(TEXT), {"y": [1, 2, 0], "w": [0.0, 0.0, 0.0]})
    (warning,) = [w for w in fit.warnings if w.code == "W103"]
    assert "all weights of `y` are 0" in warning.message
    some = lgm.fit(lgm.loads(TEXT), {"y": [1, 2, 0], "w": [0.0, 0.0, 0.1]})
    assert "W103" not in {w.code for w in some.warnings}
