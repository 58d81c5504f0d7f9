"""Fits with learned hyperparameters through files, predictions and the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from tests.learning.glmm import CROSSED, GLMM, counts, crossed, load


@pytest.mark.few(1)
@pytest.mark.parametrize("hyper", ["map", "integrate"])
def test_a_file_holds_what_was_learned(hyper: str, tmp_path: Path) -> None:
    fit = lgm.fit(load(CROSSED), crossed(), hyper=hyper)
    fit.save(tmp_path / "f.nc")
    read = lgm.load_fit(tmp_path / "f.nc")
    levels = [0.1, 0.5, 0.9]
    for name in ("v", "w", "ratio", "a", "eta"):
        np.testing.assert_array_equal(read.mean(name), fit.mean(name))
        np.testing.assert_array_equal(read.sd(name), fit.sd(name))
        np.testing.assert_allclose(read.quantile(name, levels), fit.quantile(name, levels), 1e-9)
    assert read.learning == fit.learning and read.hyper == hyper
    assert read.summary() == fit.summary()
    drawn = [f.sample(50, seed=1, names=["v", "a"]) for f in (fit, read)]
    np.testing.assert_allclose(drawn[0]["a"], drawn[1]["a"], rtol=1e-6, atol=1e-8)


def test_predictions_are_mixtures() -> None:
    data, gaussian = counts(groups=10), {"marginals": "gaussian"}
    fit = lgm.fit(load(GLMM), data, hyper="integrate", options=gaussian)
    new = {"x": np.array([0.0, 1.0]), "who": np.array([3, 99])}  # 99 is new
    with pytest.warns(lgm.PredictionWarning, match="W307"):
        found = fit.predict(new)
    means, variances = [], []
    for point in fit.points:
        s = float(point.theta["s"])
        with pytest.warns(lgm.PredictionWarning, match="W307"):
            at = lgm.fit(load(GLMM), data, fixed={"s": s}, options=gaussian).predict(new)
        means.append(at.mean("eta").values)
        variances.append(at.sd("eta").values ** 2)
    share = np.array([p.share for p in fit.points])
    mean = share @ np.array(means)
    second = share @ (np.array(variances) + np.array(means) ** 2)
    np.testing.assert_allclose(found.mean("eta"), mean, atol=1e-4)
    np.testing.assert_allclose(found.sd("eta"), np.sqrt(second - mean**2), rtol=1e-4)
    response = found.response("y")
    assert float(response["probability"][1].sum()) == pytest.approx(1.0, abs=1e-2)
    assert float(response["mean"][1]) > np.exp(mean[1])
