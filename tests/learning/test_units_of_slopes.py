"""Random slopes under flat priors: the maximum does not depend on the unit of responses, nor on the
unit or the origin of covariates."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.frames.framed import DegreesOfFreedom
from tests.api import mixed_models as mixed

ONES = ["a", "b", "S[level, level]", "S[level, slope]", "S[slope, slope]", "noise"]


@cache
def fitted(
    reml: bool, response: float = 1.0, covariate: float = 1.0, origin: float = 0.0
) -> lgm.Fit:
    data = mixed.slopes()
    data = {**data, "y": response * data["y"], "x": covariate * data["x"] + origin}
    text = mixed.restricted(mixed.SLOPES) if reml else mixed.SLOPES
    return lgm.fit(lgm.loads(text), data, hyper="map")


def numbers(fit: lgm.Fit) -> np.ndarray:
    """Means and standard errors of ONES, (6, 2)."""
    table = fit.tidy(quantiles=()).set_index("term")
    return table.loc[ONES, ["mean", "sd"]].to_numpy(dtype=float)


@pytest.mark.parametrize("reml", [True, False], ids=["REML", "ML"])
@pytest.mark.parametrize(
    ("response", "covariate"),
    [(1e-20, 1.0), (1e3, 1.0), (1e12, 1.0), (1.0, 1e-6), (1.0, 1e4), (1e-6, 1e3)],
)
def test_units_are_of_no_account(reml: bool, response: float, covariate: float) -> None:
    fit, near = fitted(reml, response, covariate), fitted(reml)
    assert fit.converged and not fit.warnings
    slope = response / covariate
    units = np.array([response, slope, response**2, response * slope, slope**2, response])
    assert numbers(fit) / units[:, None] == pytest.approx(numbers(near), rel=2e-3)
    rows = mixed.slopes()["y"].size
    change = -rows * np.log(response) + (np.log(response) + np.log(slope) if reml else 0.0)
    assert fit.log_evidence == pytest.approx(near.log_evidence + change, abs=1e-6)


@pytest.mark.parametrize("origin", [100.0, 2000.0])
def test_covariates_may_be_counted_from_anywhere(origin: float) -> None:
    fit = fitted(True, origin=origin)
    assert fit.converged and not fit.warnings
    assert fit.log_evidence == pytest.approx(fitted(True).log_evidence, abs=1e-5)


@pytest.mark.parametrize("unit", [1e-20, 1e12])
@pytest.mark.parametrize("way", ["satterthwaite", "kenward-roger"])
def test_degrees_of_freedom_in_any_unit(way: DegreesOfFreedom, unit: float) -> None:
    columns = ["mean", "sd", "df", "p_value"]
    found, near = (f.tidy(df=way)[columns].to_numpy() for f in (fitted(True, unit), fitted(True)))
    assert found / [unit, unit, 1.0, 1.0] == pytest.approx(near, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-20, 1e12])
def test_profiles_in_any_unit(unit: float) -> None:
    names = ["b", "noise"]
    found, near = (
        f.profile(names)[["lower", "upper"]].to_numpy()
        for f in (fitted(False, unit), fitted(False))
    )
    assert found / unit == pytest.approx(near, rel=1e-5)
