"""log Gamma(x + y) - log Gamma(x) with its derivatives: compiled sums of many whole y."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.numerics import log_gamma


def test_sums_of_whole_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-600.0, 600.0, 40)), rng.uniform(0.01, 50.0, 40)])
    y = rng.integers(0, 60, 80).astype(np.float64)
    monkeypatch.setattr(log_gamma, "_MANY", 1)
    found = log_gamma.log_risings(x, y, 3)
    with mp.workdps(60), np.errstate(all="ignore"):
        for i in range(len(x)):
            terms = [mp.mpf(x[i]) + j for j in range(int(y[i]))]
            exact = [
                mp.fsum(mp.log(z) for z in terms), mp.fsum(1 / z for z in terms),
                -mp.fsum(z**-2 for z in terms), mp.fsum(2 * z**-3 for z in terms),
            ]  # fmt: skip
            for part, value in zip(found, exact, strict=True):
                if abs(value) < 1e300:
                    assert part[i] == pytest.approx(float(value), rel=1e-13, abs=1e-13)


def test_many_are_as_few() -> None:
    rng = np.random.default_rng(1)
    x, y = np.exp(rng.normal(size=6_000)), rng.integers(0, 60, 6_000).astype(np.float64)
    for k, part in enumerate(log_gamma.log_risings(x, y, 3)):
        np.testing.assert_allclose(part, log_gamma.log_rising(x, y, k), rtol=1e-11, atol=1e-13)
