"""Answers of many rows, which are compiled, are those of few."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

import numpy as np
import pytest
from scipy import special

from lgmdsl.numerics import stable
from lgmdsl.numerics.stable import of_counts
from lgmdsl.sites.scalar.exponential_rate import ExponentialSite, GammaLogMean, PoissonLogRate

RNG = np.random.default_rng(3)
SITES = {
    "counts, some 0": PoissonLogRate(
        RNG.poisson(1.0, 400).astype(np.float64), RNG.uniform(0.0, 2.0, 400)
    ),
    "large counts": PoissonLogRate(RNG.poisson(1e9, 400).astype(np.float64), np.ones(400)),
    "counts alike": PoissonLogRate(RNG.poisson(1.0, 1200).astype(np.float64), np.full(1200, 0.7)),
    "lifetimes": GammaLogMean(RNG.gamma(2.0, size=400), np.full(400, 3.0)),
}


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("spread", [0.1, 20.0, 900.0])
def test_compiled_answers_agree(name: str, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    site: ExponentialSite = SITES[name]
    s = site.centre + RNG.normal(size=len(site)) * spread
    v = RNG.gamma(1.0, size=len(site))
    few = site.pointwise(s, v), site.expected(s, v, second=True)
    monkeypatch.setattr(stable, "COMPILED_FROM", 100)
    many = site.pointwise(s, v), site.expected(s, v, second=True)
    for a, b in zip(few, many, strict=True):
        known = {f.name: (getattr(a, f.name), getattr(b, f.name)) for f in fields(cast(Any, a))}
        for name_, (x, y) in known.items():
            if x is None:
                assert y is None
                continue
            # Exponents of hundreds have lost two or three digits before they are raised.
            assert y == pytest.approx(x, rel=1e-12, abs=1e-300), name_


@pytest.mark.parametrize("most", [200, 255, 256, 5000])
def test_tables_of_small_counts_have_the_same_bits(most: int) -> None:
    y = RNG.integers(0, most + 1, 3000).astype(np.float64)
    y[0] = most
    one_by_one = [PoissonLogRate(y[i : i + 1], np.ones(1)) for i in range(0, 3000, 7)]
    site = PoissonLogRate(y, np.ones(3000))
    assert np.array_equal(site.peak[::7], [float(s.peak[0]) for s in one_by_one])
    assert np.array_equal(site.log_factorial[::7], [float(s.log_factorial[0]) for s in one_by_one])


def test_what_is_no_small_count_has_no_table() -> None:
    y = np.concatenate([np.linspace(0.0, 3.0, 1000), [-1.0]])
    with np.errstate(all="ignore"):
        assert np.array_equal(of_counts(special.gammaln, y), special.gammaln(y), equal_nan=True)


@pytest.mark.parametrize("name", SITES)
def test_what_is_no_number_stays_in_its_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site: ExponentialSite = SITES[name]
    s = site.centre.copy()
    s[[3, 5, 8]] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        few = site.pointwise(s)
        monkeypatch.setattr(stable, "COMPILED_FROM", 100)
        many = site.pointwise(s)
    for x, y in ((few.value, many.value), (few.slope, many.slope), (few.curvature, many.curvature)):
        assert np.array_equal(np.isnan(x), np.isnan(y))
        assert y == pytest.approx(x, rel=1e-12, abs=1e-300, nan_ok=True)
