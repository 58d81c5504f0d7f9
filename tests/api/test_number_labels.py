"""Labels that were numbers are numbers in results, also from a file and in predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.grounding.labels import reported

MODEL = lgm.loads(
    "lgm 1\nindex obs\nindex t\ndata y[obs] : real\ndata when[obs] : t\n"
    "latent u[t] ~ rw1(sd = 0.5)\nobserve y ~ normal(mean = u[when], sd = 1)\n"
)


def test_labels_with_a_fraction_come_back_as_numbers(tmp_path: Path) -> None:
    fit = lgm.fit(MODEL, {"y": [1.0, 2.0, 3.0, 2.0], "when": [0.5, 1.0, 2.5, 0.5]})
    mean = fit.mean("u")
    assert mean["t"].dtype == np.float64 and mean["t"].values.tolist() == [0.5, 1.0, 2.5]
    assert float(mean.sel(t=2.5)) == mean.values[2]
    assert float(mean.interp(t=1.75)) == pytest.approx(0.5 * (mean.values[1] + mean.values[2]))
    assert fit.sample(2)["t"].dtype == fit.quantile("u", [0.5])["t"].dtype == np.float64
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc").mean("u")
    assert again.identical(mean)
    asked = fit.predict({"t": np.array([2.5, 0.75])}).mean("u")
    assert asked["t"].values.tolist() == [2.5, 0.75]
    assert float(asked.sel(t=2.5)) == pytest.approx(float(mean.sel(t=2.5)))
    # What results give is taken again.
    same = fit.predict({"t": mean["t"].values}).mean("u")
    np.testing.assert_allclose(same.values, mean.values)


@pytest.mark.parametrize(
    "labels", [["a", "0.5"], ["1", "2"], ["01.5", "2"], ["1.50"], ["nan", "1.5"], ["1e999", "0.5"]]
)
def test_other_text_stays_text(labels: list[str]) -> None:
    given = np.array(labels)
    assert reported(given) is given


def test_whole_numbers_and_text_are_as_given() -> None:
    for labels, kind in (([3, 1, 2], "i"), ([3.0, 1.0, 2.0], "i"), (["x", "y", "z"], "U")):
        data = {"y": [1.0, 2.0, 3.0], "who": labels}
        text = MODEL.to_lgm().replace("rw1(sd = 0.5)", "normal(sd = 1)").replace("when", "who")
        assert lgm.fit(lgm.loads(text), data).mean("u")["t"].dtype.kind == kind
