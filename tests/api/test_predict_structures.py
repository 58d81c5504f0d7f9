"""New members of a structured axis: a stationary chain goes on, an intrinsic one takes none."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index year
index obs
data y[obs] : real
data when[obs] : year
latent b0 ~ normal(sd = 5)
latent f[year] ~ {prior}
let eta[obs] = b0 + f[when]
observe y ~ normal(mean = eta, sd = 0.5)
"""
WHEN = np.repeat(np.arange(5), 3)
DATA = {"y": np.random.default_rng(3).normal(size=15) + WHEN, "when": WHEN}


@pytest.mark.parametrize(
    "prior", ["rw1(sd = 1)", "rw2(sd = 1)", "rw1(sd = 1, cyclic = true)",
              "seasonal(sd = 1, period = 2)"]
)  # fmt: skip
def test_an_intrinsic_structure_takes_no_new_members(prior: str) -> None:
    fit = lgm.fit(lgm.loads(MODEL.format(prior=prior)), DATA)
    known = fit.predict({"when": np.array([4, 0])})
    np.testing.assert_allclose(known.mean("eta"), fit.mean("eta").values[[12, 0]], atol=1e-10)
    with pytest.raises(lgm.DataError, match="cannot take new members") as caught:
        fit.predict({"when": np.array([4, 5])})
    assert caught.value.codes == ("E302",)


def test_a_stationary_chain_goes_on() -> None:
    fit = lgm.fit(lgm.loads(MODEL.format(prior="ar1(sd = 1, rho = 0.8)")), DATA)
    ahead = fit.predict({"when": np.array([4, 5])})
    last, variance = float(fit.mean("f")[4]), float(fit.sd("f")[4]) ** 2
    b0 = float(fit.mean("b0"))
    np.testing.assert_allclose(ahead.mean("eta"), [b0 + last, b0 + 0.8 * last], atol=1e-9)
    assert float(ahead.sd("f")[5]) ** 2 == pytest.approx(0.36 + 0.64 * variance, rel=1e-9)
