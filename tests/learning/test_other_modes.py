"""Modes of the hyperparameters besides the one that is integrated around: W607, and where not."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from lgmdsl.errors import Diagnostic

FACTOR = """lgm 1
index p
index item = 3
data y[p, item] : real
hyper l[item] : LOADING
hyper t : positive ~ half_normal(sd = 1)
latent u[p] ~ normal(sd = 1)
let eta[p, item] = l[item] * u[p]
observe y ~ normal(mean = eta, sd = t)
"""
# Rasmussen and Williams 2006, figure 5.5: a short length with little noise, or noise alone.
CURVE = """lgm 1
index i
data x[i] : real
data y[i] : real
hyper a : positive ~ lognormal(mean = 0, sd = 1)
hyper len : positive ~ lognormal(mean = 0, sd = 2)
hyper t : positive ~ lognormal(mean = -1, sd = 2)
latent f[i] ~ gp(at = x, kernel = se(sd = a, length = len))
observe y ~ normal(mean = f, sd = t)
"""
TWO = """lgm 1
index t
data y[t] : real
hyper r1 : correlation ~ uniform(lower = -1, upper = 1)
hyper r2 : correlation ~ uniform(lower = -1, upper = 1)
latent a[t] ~ ar1(sd = 1, rho = r1)
latent b[t] ~ ar1(sd = 1, rho = r2)
let eta[t] = a + b
observe y ~ normal(mean = eta, sd = 0.1)
"""


def answers() -> dict[str, AnyArray]:
    """Of FACTOR with loadings 1, 0.8 and 0.7."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=120)
    return {"y": np.outer(u, [1.0, 0.8, 0.7]) + 0.4 * rng.normal(size=(120, 3))}


def warned(fit: lgm.Fit) -> Diagnostic | None:
    return next((w for w in fit.warnings if w.code == "W607"), None)


@pytest.mark.thorough
def test_loadings_that_may_change_their_signs() -> None:
    model = lgm.loads(FACTOR.replace("LOADING", "real ~ normal(sd = 1)"))
    fit = lgm.fit(model, answers(), hyper="integrate")
    warning = warned(fit)
    assert warning is not None and "as high as this one" in warning.message
    assert "l[item 0]" in warning.message and "`t`" not in warning.message
    assert "signs changed" in " ".join(warning.details)
    other = {"l": -fit.mean("l").values, "t": float(fit.mean("t"))}
    here = {"l": fit.mean("l").values, "t": float(fit.mean("t"))}
    evidences = [lgm.fit(model, answers(), fixed=f).log_evidence for f in (here, other)]
    assert evidences[0] == pytest.approx(evidences[1])


def test_positive_loadings_have_one_mode() -> None:
    model = lgm.loads(FACTOR.replace("LOADING", "positive ~ half_normal(sd = 1)"))
    assert warned(lgm.fit(model, answers(), hyper="integrate")) is None


def test_terms_that_may_change_places() -> None:
    rng = np.random.default_rng(0)
    y = np.zeros(300)
    for rho in (0.95, -0.5):
        z = rng.normal()
        for t in range(300):
            z = rho * z + np.sqrt(1.0 - rho**2) * rng.normal()
            y[t] += z
    told = warned(lgm.fit(lgm.loads(TWO), {"y": y}, hyper="integrate"))
    assert told is not None and "`r1` and `r2`" in told.message
    assert "exchanged" in " ".join(told.details)


@pytest.mark.thorough
def test_noise_that_may_pass_for_signal() -> None:
    """A short length with little noise, or noise alone: the integral is over both, and agrees with
    a sum over a grid of the three logs."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(-5, 5, 7))
    y = np.sin(1.5 * x) + 0.1 * rng.normal(size=7)
    fit = lgm.fit(lgm.loads(CURVE), {"x": x, "y": y}, hyper="integrate")
    assert warned(fit) is None
    assert fit.converged
    axes = [np.arange(-3.5, 3.51, 0.25), np.arange(-6.0, 8.01, 0.25), np.arange(-9.0, 4.01, 0.25)]
    a, length, t = (g.reshape(-1) for g in np.meshgrid(*axes, indexing="ij"))
    square = (x[:, None] - x) ** 2
    cov = np.exp(2 * a)[:, None, None] * np.exp(
        -0.5 * square * np.exp(-2 * length)[:, None, None]
    ) + np.exp(2 * t)[:, None, None] * np.eye(7)
    root = np.linalg.cholesky(cov)
    z = np.linalg.solve(root, y[:, None])[..., 0]
    logs = -0.5 * (z**2).sum(axis=1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    logs -= 3.5 * np.log(2 * np.pi)
    for value, mean, sd in ((a, 0.0, 1.0), (length, 0.0, 2.0), (t, -1.0, 2.0)):
        logs -= 0.5 * ((value - mean) / sd) ** 2 + np.log(sd * np.sqrt(2 * np.pi))
    weight = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weight.sum() * 0.25**3)
    weight /= weight.sum()
    assert fit.log_evidence == pytest.approx(evidence, abs=0.1)
    long = float(weight[length > np.log(3.0)].sum())
    assert 0.1 < long < 0.9  # both matter
    assert fit.hyper_marginals is not None
    share = fit.hyper_marginals.mean(
        lambda theta: np.asarray(float(theta["len"]) > 3.0, dtype=float)
    )
    assert float(share) == pytest.approx(long, abs=0.05)


RANGE = """lgm 1
index obs
data x[obs] : real
data y[obs] : count
hyper s : positive ~ pc_sd(u = 2, alpha = 0.05)
hyper r : positive ~ pc_range(u = {unit!r}, alpha = 0.05)
latent f[obs] ~ gp(at = x, kernel = matern(sd = s, length = r, smoothness = 0.5))
observe y ~ poisson(log_rate = f)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("unit", [1e-5, 1e4])
def test_the_unit_of_places_changes_no_fit(unit: float) -> None:
    """A range in another unit: the same fits and the same steps, wherever modes are looked for."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 10.0, 40))
    y = rng.poisson(np.exp(1.0 + np.sin(x)))
    fits = [
        lgm.fit(lgm.loads(RANGE.format(unit=u)), {"x": u * x, "y": y}, hyper="integrate")
        for u in (1.0, unit)
    ]
    one, other = (f.learning for f in fits)
    assert other.fits == one.fits and abs(other.iterations - one.iterations) <= 3
    assert fits[1].log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-6)
    assert fits[1].status is fits[0].status
