"""Priors that are vast, or on another scale than the data, cost nothing: the mode is that of flat
priors, and data in other units shift the evidence by their logarithm."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index obs
index group
data y[obs] : real
data who[obs] : group
hyper s : positive ~ PRIOR
hyper e : positive ~ PRIOR
latent m ~ flat
latent u[group] ~ normal(sd = s)
let eta[obs] = m + u[who]
observe y ~ normal(mean = eta, sd = e)
"""
GROUPS, REPEATED = 8, 6
PRIORS = (
    "uniform(lower = 0, upper = 1e9)",
    "uniform(lower = 0, upper = 1e30)",
    "uniform(lower = 1e-10, upper = 1e12)",
    "half_cauchy(scale = 1e12)",
    "exponential(rate = 1e-12)",
)


def responses(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(GROUPS), REPEATED)
    return rng.normal(0.0, 2.0, GROUPS)[who] + rng.normal(0.0, 1.0, len(who)) + 3.0, who


def sums_of_squares(y: np.ndarray) -> tuple[float, float, int, int]:
    """Within groups and between them, and their degrees of freedom."""
    table = y.reshape(GROUPS, REPEATED)
    within = float(((table - table.mean(axis=1, keepdims=True)) ** 2).sum())
    between = REPEATED * float(((table.mean(axis=1) - y.mean()) ** 2).sum())
    return within, between, GROUPS * (REPEATED - 1), GROUPS - 1


def flat_means(y: np.ndarray) -> tuple[float, float]:
    """Posterior means of s and e under flat priors, by a grid over both."""
    within, between, inner, outer = sums_of_squares(y)
    s, e = np.meshgrid(np.linspace(1e-3, 60.0, 20_000), np.linspace(0.5, 2.0, 200), indexing="ij")
    spread = e**2 + REPEATED * s**2
    log = -0.5 * (inner * np.log(e**2) + outer * np.log(spread) + within / e**2 + between / spread)
    density = np.exp(log - log.max())
    mean_s, mean_e = (float((x * density).sum() / density.sum()) for x in (s, e))
    return mean_s, mean_e


def balanced_maximum(y: np.ndarray) -> tuple[float, float, float]:
    """The balanced one-way model in closed form: s, e and log evidence with a flat level, all at
    the maximum (restricted maximum likelihood)."""
    within, between, inner, outer = sums_of_squares(y)
    noise, spread = within / inner, between / outer
    log = -0.5 * (inner * np.log(noise) + outer * np.log(spread) + inner + outer)
    log -= 0.5 * (len(y) - 1) * np.log(2.0 * np.pi) + 0.5 * np.log(len(y))
    return np.sqrt((spread - noise) / REPEATED), np.sqrt(noise), float(log)


@pytest.mark.parametrize("hyper", ["map", "em", "integrate"])
@pytest.mark.parametrize("prior", PRIORS)
def test_vast_priors_leave_the_mode_to_the_data(prior: str, hyper: str) -> None:
    y, who = responses(1)
    fit = lgm.fit(lgm.loads(MODEL.replace("PRIOR", prior)), {"y": y, "who": who}, hyper=hyper)
    s, e, log_evidence = balanced_maximum(y)
    assert fit.converged
    if hyper == "integrate":  # near the data these priors are flat
        means = flat_means(y)
        assert float(fit.mean("s")) == pytest.approx(means[0], abs=0.02)
        assert float(fit.mean("e")) == pytest.approx(means[1], abs=2e-3)
        return
    assert fit.log_evidence == pytest.approx(log_evidence, abs=1e-4)
    assert float(fit.mean("s")) == pytest.approx(s, rel=1e-3)
    assert float(fit.mean("e")) == pytest.approx(e, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize(
    "prior", ["uniform(lower = 0, upper = 1e30)", "uniform(lower = 0, upper = 1e22)"]
)
def test_units_of_the_data_matter_as_little(prior: str, unit: float) -> None:
    y, who = responses(1)
    fit = lgm.fit(
        lgm.loads(MODEL.replace("PRIOR", prior)), {"y": unit * y, "who": who}, hyper="map"
    )
    s, _, log_evidence = balanced_maximum(y)
    assert fit.converged
    assert fit.log_evidence + (len(y) - 1) * np.log(unit) == pytest.approx(log_evidence, abs=1e-3)
    assert float(fit.mean("s")) / unit == pytest.approx(s, rel=1e-3)
