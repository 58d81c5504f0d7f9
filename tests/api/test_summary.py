"""The page of a fit: the numbers are the fit's, the layout holds in 80 columns."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lgmdsl as lgm

TEXT = (
    "lgm 1\nindex obs\nindex g\ndata y[obs] : real\ndata who[obs] : g\n"
    "latent tiny ~ normal(sd = 0.00002)\nlatent huge ~ normal(sd = 300000)\n"
    "latent u[g] ~ normal(sd = 1)\nlet e[obs] = tiny + huge + u[who]\n"
    "observe y ~ normal(mean = e, sd = 1)\nreport up = exp(tiny)\n"
)


@pytest.fixture(scope="module")
def fitted() -> lgm.Fit:
    rng = np.random.default_rng(0)
    data = {"y": 5e5 + rng.normal(size=60), "who": [f"label number {k % 20}" for k in range(60)]}
    return lgm.fit(lgm.loads(TEXT), data)


def test_width_and_rows(fitted: lgm.Fit) -> None:
    page = fitted.summary()
    assert all(len(line) <= 80 and line == line.rstrip() for line in page.splitlines())
    assert "12 more (--full)" in page
    full = fitted.summary(full=True)
    assert "more (--full)" not in full
    assert sum(line.lstrip().startswith("label number") for line in full.splitlines()) == 20


def test_numbers_are_the_fits(fitted: lgm.Fit) -> None:
    page = fitted.summary(full=True)
    row = next(line for line in page.splitlines() if "label number 7 " in line)
    numbers = [float(v) for v in re.findall(r"-?\d+\.\d+", row)]
    mean, sd = float(fitted.mean("u").sel(g="label number 7")), float(fitted.sd("u")[0])
    quantiles = fitted.quantile("u", [0.05, 0.5, 0.95]).sel(g="label number 7").values
    assert numbers == pytest.approx([mean, sd, *quantiles], abs=2e-3)
    assert f"{fitted.log_evidence:.4f}" in page


def test_digits_follow_the_scale(fitted: lgm.Fit) -> None:
    page = fitted.summary()
    tiny = next(line for line in page.splitlines() if line.split()[:1] == ["tiny"])
    assert "e-05" in tiny and "e-05" not in page.replace(tiny, "")
    assert "1.0000000  0.0000200" in page
    huge = next(line for line in page.splitlines() if line.split()[:1] == ["huge"])
    assert float(huge.split()[1]) == pytest.approx(5e5, rel=1e-3)
    assert "-0.000" not in page


def test_early_stop_is_said() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : count\nlatent u[a] ~ normal(sd = 3)\n"
        "observe y ~ poisson(log_rate = u)\n"
    )
    fit = lgm.fit(model, {"y": [40, 0, 7]}, max_steps=1)
    assert "step limit" in fit.summary() and "W601" in fit.summary()
