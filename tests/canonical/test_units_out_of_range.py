"""Responses in a unit whose squares leave double precision: one message for large and small."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

GROUPS = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
hyper s : positive ~ half_normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
latent b0 ~ normal(sd = 10)
latent u[g] ~ normal(sd = t)
observe y ~ normal(mean = b0 + u[who], sd = s)
"""
LEVEL = """lgm 1
index obs
data y[obs] : real
hyper s : positive ~ flat
latent b0 ~ flat
observe y ~ normal(mean = b0, sd = s)
"""
Y = 2.0 + np.random.default_rng(0).normal(size=30)


@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e-150, 1e150, 1e300])
def test_out_of_range(unit: float) -> None:
    data = {"y": unit * Y, "who": np.arange(30) % 5}
    for hyper in ("map", "integrate"):
        with pytest.raises(lgm.DataError, match=r"E303.*`y` is out of range") as raised:
            lgm.fit(lgm.loads(GROUPS), data, hyper=hyper)
        (diagnostic,) = raised.value.diagnostics
        assert "change the unit of `y`" in diagnostic.help
        assert "1e-120 to 1e+120" in diagnostic.details[0]


@pytest.mark.parametrize("unit", [1e-100, 1e-20, 1e6])
def test_in_range(unit: float) -> None:
    fit = lgm.fit(lgm.loads(LEVEL), {"y": unit * Y}, hyper="map")
    assert fit.converged
    assert float(fit.mean("b0")) == pytest.approx(unit * Y.mean(), rel=1e-6)
    assert float(fit.mean("s")) == pytest.approx(unit * Y.std(ddof=1), rel=1e-4)


def test_a_high_level_is_determined() -> None:
    """E402 said that nothing fixes `b0`: next to 2e20, the lengths that were tried are rounding."""
    fit = lgm.fit(lgm.loads(LEVEL), {"y": 1e20 * Y}, hyper="map")
    assert float(fit.mean("b0")) == pytest.approx(1e20 * Y.mean(), rel=1e-6)


def test_zeros_are_in_range() -> None:
    data = {"y": np.where(np.arange(30) < 3, 0.0, Y)}
    assert lgm.fit(lgm.loads(LEVEL), data, hyper="map").converged
