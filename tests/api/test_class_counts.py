"""Counts over classes: rows without counts, replicates, draws, predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lgmdsl as lgm

COUNTS = """lgm 1
index obs
index class = {"low", "mid", "high", "top"}
data x[obs] : real
data y[obs, class] : count?
data n[obs] : count
latent a[class] ~ normal(sd = 2)
latent b[class] ~ normal(sd = 1)
let eta[obs, class] = a + b * x
observe y ~ multinomial(n = n, softmax = eta)
"""


def test_counts_over_classes_keep_their_axis(tmp_path: Path) -> None:
    model = lgm.loads(COUNTS)
    made = lgm.simulate(model, {"x": np.linspace(-2.0, 2.0, 40), "n": np.full(40, 5)})
    assert made["y"].shape == (40, 4) and np.all(made["y"].sum(axis=1) == 5)
    given = {**made, "y": made["y"].astype(float)}
    given["y"][4::9] = np.nan
    fit = lgm.fit(model, given, method="laplace")
    again = fit.sample_predictive(3)["y"]
    assert again.dims == ("sample", "obs", "class")
    there = ~np.isnan(given["y"][:, 0])
    assert np.all(again.sum("class").values[:, there] == 5)
    tree = fit.to_arviz(3)
    np.testing.assert_array_equal(tree["observed_data"]["y"], given["y"])
    assert tree["posterior_predictive"]["y"].dims == ("chain", "draw", "obs", "class")
    assert tree["log_likelihood"]["y"].shape == (1, 3, 40)
    found = fit.predict({"x": [0.5], "n": [7]})
    told = found.response("y")
    np.testing.assert_allclose(told["mean"], 7 * told["probability"], rtol=1e-12)
    assert int(found.sample_response("y", 1).sum()) == 7
    fit.save(tmp_path / "f.nc")
    kept = lgm.load_fit(tmp_path / "f.nc").predict({"x": [0.5], "n": [7]}).response("y")
    np.testing.assert_allclose(kept["sd"], told["sd"], rtol=1e-9)
