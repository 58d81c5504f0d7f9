"""Khan 2012, figure 2.1: mean squared error of factor analysis with missing entries
against the strength of a ridge penalty on its loadings, for three ways to learn them.

The errors of each split are made by `splits.py`; the test makes the first split's again where they
are quick, and the table and the figure of all that are there.
"""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.reproductions.map_learning.splits import (
    FACTORS,
    FOLDER,
    GIVEN_FACTORS,
    GIVEN_LOADINGS,
    ITEMS,
    MISSING,
    STRENGTHS,
    VARIANCE,
    WAYS,
    by_both,
    cases,
    coefficients,
    errors,
    stored,
)
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
HEADER = [
    *("missing", "way", "strength", "test, missing", "standard error", "median"),
    *("training, missing", "training, observed", "CPU seconds a run"),
]


@pytest.mark.parametrize("missing", MISSING)
def test_stored_errors_are_those_of_the_code(missing: float) -> None:
    """EM on the first split."""
    for one in stored():
        if (one.split, one.missing, one.way) == (0, missing, "VM"):
            again = errors(0, missing, "VM", one.strength)
            assert again.test == pytest.approx(one.test, rel=1e-3)
            assert again.observed == pytest.approx(one.observed, rel=1e-3)


@pytest.mark.parametrize("missing", MISSING)
def test_each_given_the_other_is_the_mean_of_a_fit(missing: float) -> None:
    y = cases(0, missing)[0].y
    loads = np.random.default_rng(0).normal(size=(ITEMS, FACTORS))
    z, _ = coefficients(y, ~np.isnan(y), loads, 1.0)
    fit = lgm.fit(GIVEN_LOADINGS, {"y": y, "W": loads}, hyper="fixed")
    np.testing.assert_allclose(z, fit.mean("z").values, atol=1e-9)
    loads, _ = coefficients(y.T, ~np.isnan(y.T), z, 0.1)
    fit = lgm.fit(GIVEN_FACTORS, {"y": y, "z": z, "r": 0.1**-0.5}, hyper="fixed")
    np.testing.assert_allclose(loads, fit.mean("W").values, atol=1e-9)


def test_both_end_at_a_mode() -> None:
    """The slope of the joint log density in loadings and factors is zero there."""
    y, strength = cases(0, 0.5)[0].y, 1.0
    loads, has = by_both(y, strength), ~np.isnan(y)
    z, _ = coefficients(y, has, loads, 1.0)
    off = np.where(has, np.nan_to_num(y) - z @ loads.T, 0.0) / VARIANCE
    assert np.abs(off @ loads - z).max() < 1e-8
    assert np.abs(off.T @ z - strength * loads).max() < 0.05  # of sums of terms of up to 900


@pytest.mark.thorough
def test_figure_2_1() -> None:
    known = stored()
    rows: list[list[object]] = []
    test: dict[tuple[float, str], Array] = {}  # (strengths, splits)
    observed: dict[tuple[float, str], Array] = {}
    for missing in MISSING:
        for way in WAYS:
            of = [[e for e in known if (e.missing, e.way, e.strength) == (missing, way, s)]
                  for s in STRENGTHS]  # fmt: skip
            test[missing, way] = np.array([[e.test for e in es] for es in of])
            observed[missing, way] = np.array([[e.observed for e in es] for es in of])
            for strength, es in zip(STRENGTHS, of, strict=True):
                t = np.array([e.test for e in es])
                rows.append([
                    f"{missing:.0%}", way, strength, float(t.mean()),
                    float(t.std(ddof=1) / np.sqrt(len(t))), float(np.median(t)),
                    float(np.mean([e.filled for e in es])),
                    float(np.mean([e.observed for e in es])),
                    float(np.mean([e.seconds for e in es])),
                ])  # fmt: skip
    table(FOLDER, HEADER, rows, digits=3)
    with figure(FOLDER, 7.2, 4.6) as picture:
        panels = picture.subplots(2, 2, sharex=True, sharey="row")
        for column, missing in enumerate(MISSING):
            for way, colour, line in zip(WAYS, COLOURS, ("o-", "s-", "^:"), strict=False):
                look = {"color": colour, "markersize": 4}
                panels[0, column].loglog(
                    STRENGTHS, test[missing, way].mean(axis=1), line, label=way, **look
                )
                panels[1, column].loglog(
                    STRENGTHS, observed[missing, way].mean(axis=1), line, **look
                )
            panels[0, column].set_title(f"{missing:.0%} missing")
            panels[1, column].set_xlabel("strength of the penalty on loadings")
        panels[0, 0].set_ylabel("test: MSE of missing")
        panels[1, 0].set_ylabel("training: MSE of observed")
        panels[0, 0].legend()

    def range_of(missing: float, way: str) -> float:
        mean = test[missing, way][:4].mean(axis=1)
        return float(mean.max() / mean.min())

    half = MISSING[1]
    assert range_of(half, "MM") > 3.0 * max(range_of(half, "VM"), range_of(half, "SS"))
    assert range_of(half, "MM") > range_of(MISSING[0], "MM")
    assert np.all(test[half, "MM"][0] > test[half, "VM"][0])  # on every split
    for missing in MISSING:
        assert test[missing, "VM"][2].mean() < 1.1 * test[missing, "SS"][2].mean()
