"""Standard errors after map and em, against closed forms and a numerical Hessian of the exact
likelihood; none for what is not identified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm

REGRESSION = """lgm 1
index obs
index k = 2
data X[obs, k] : real
data y[obs] : real
hyper c : real ~ flat
hyper b[k] : real ~ flat
hyper s : positive ~ flat
latent w ~ normal(sd = 1e-6)
let eta[obs] = c + X @ b + w
observe y ~ normal(mean = eta, sd = s)
"""
FACTOR = """lgm 1
index p
index i
index f = {factors}
data y[p, i] : real
hyper c[i] : real ~ flat
hyper L[i, f] : real ~ {prior}
hyper s[i] : positive ~ half_normal(sd = 2)
latent z[p, f] ~ normal(sd = 1)
let eta[p, i] = c + L @ z
observe y ~ normal(mean = eta, sd = s)
report shared[i] = sum(L * L, f)
"""


@pytest.mark.parametrize("hyper", ["map", "em"])
def test_a_regression_has_those_of_maximum_likelihood(hyper: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = 0.5 + x @ [1.0, -0.7] + 0.6 * rng.normal(size=80)
    fit = lgm.fit(lgm.loads(REGRESSION), {"X": x, "y": y}, hyper=hyper, tol=1e-10)
    assert fit.converged and fit.hyper == hyper
    design = np.column_stack([np.ones(80), x])
    sigma = np.sqrt(np.mean((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2))
    assert float(fit.mean("s")) == pytest.approx(sigma, rel=1e-6)
    assert float(fit.sd("s")) == pytest.approx(sigma / np.sqrt(160), rel=1e-3)
    cov = sigma**2 * np.linalg.inv(design.T @ design)
    found = np.r_[float(fit.sd("c")), fit.sd("b").values]
    np.testing.assert_allclose(found, np.sqrt(np.diag(cov)), rtol=1e-3)


def _factors(factors: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    loads = rng.normal(size=(5, factors)) + 0.5
    return rng.normal(size=(200, factors)) @ loads.T + 0.7 * rng.normal(size=(200, 5))


def _information(y: np.ndarray, fit: lgm.Fit) -> tuple[np.ndarray, np.ndarray]:
    """Minus the Hessian of the exact log likelihood + log prior in (c, L, s), by differences, and
    the point."""
    factors = fit.theta["L"].shape[1]

    def value(x: np.ndarray) -> float:
        c, loads, s = x[:5], x[5:-5].reshape(5, factors), x[-5:]
        cov = loads @ loads.T + np.diag(s**2)
        off = y - c
        inside = np.trace(np.linalg.solve(cov, off.T @ off))
        log_prior = -0.5 * np.sum(loads**2) / 9.0 - 0.5 * np.sum(s**2) / 4.0
        return float(-0.5 * len(y) * np.linalg.slogdet(cov)[1] - 0.5 * inside + log_prior)

    x = np.r_[fit.theta["c"], fit.theta["L"].reshape(-1), fit.theta["s"]]
    h, units = 1e-4, np.eye(len(x))
    out = np.zeros((len(x), len(x)))
    for i, u in enumerate(units):
        for j, v in enumerate(units[: i + 1]):
            ends = [a * b * value(x + h * (a * u + b * v)) for a in (1, -1) for b in (1, -1)]
            out[i, j] = out[j, i] = -sum(ends) / (4 * h * h)
    return out, x


@pytest.mark.parametrize("hyper", ["map", "em"])
def test_one_factor_has_those_of_the_exact_likelihood(hyper: str) -> None:
    y = _factors(1)
    model = lgm.loads(FACTOR.format(factors=1, prior="normal(sd = 3)"))
    fit = lgm.fit(model, {"y": y}, hyper=hyper, tol=1e-9)
    assert fit.converged
    sds = np.sqrt(np.diag(np.linalg.inv(_information(y, fit)[0])))
    found = np.r_[fit.sd("c"), fit.sd("L").values.reshape(-1), fit.sd("s")]
    np.testing.assert_allclose(found, sds, rtol=5e-3)


@pytest.mark.parametrize("hyper", ["map", "em"])
def test_loadings_that_turn_have_none_and_what_does_not_turn_has(
    hyper: str, tmp_path: Path
) -> None:
    """Two factors: offsets, noise sds and communalities are identified. Their sds are those by the
    pseudo-inverse of the information, whose null direction is the rotation."""
    y = _factors(2)
    model = lgm.loads(FACTOR.format(factors=2, prior="normal(sd = 3)"))
    fit = lgm.fit(model, {"y": y}, hyper=hyper, tol=1e-9)
    assert fit.converged and np.isnan(fit.sd("L").values).all()
    information, x = _information(y, fit)
    values, vectors = np.linalg.eigh(information)
    assert abs(values[0]) < 1e-3 * values[1]
    cov = (vectors[:, 1:] / values[1:]) @ vectors[:, 1:].T
    found = np.r_[fit.sd("c"), fit.sd("s")]
    own = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(found, np.r_[own[:5], own[-5:]], rtol=1e-2)
    slope = np.zeros((5, len(x)))
    for i in range(5):
        slope[i, 5 + 2 * i : 7 + 2 * i] = 2.0 * x[5 + 2 * i : 7 + 2 * i]
    sds = np.sqrt(np.diag(slope @ cov @ slope.T))
    np.testing.assert_allclose(fit.sd("shared").values, sds, rtol=1e-2)
    page = " ".join(fit.summary().split())
    assert "none where `L` may turn" in page and "`s`" not in page.partition("none where")[2][:40]
    assert not [w for w in fit.warnings if w.code == "W604"]
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    np.testing.assert_array_equal(again.sd("L").values, fit.sd("L").values)
    np.testing.assert_allclose(again.marginals.quantity("s").sd, fit.sd("s").values)


def test_loadings_whose_prior_tells_the_factors_apart_have_theirs() -> None:
    y = _factors(2)
    text = FACTOR.format(factors=2, prior="normal(mean = m, sd = 0.3)")
    text = text.replace("hyper c[i]", "data m[i, f] : real\nhyper c[i]")
    mean = np.random.default_rng(2).normal(size=(5, 2)) + 0.5
    fit = lgm.fit(lgm.loads(text), {"y": y, "m": mean}, hyper="em")
    assert fit.converged and np.isfinite(fit.sd("L").values).all()


def test_a_value_at_its_edge_has_none() -> None:
    from tests.learning.test_ends import HEYWOOD, heywood

    fit = lgm.fit(lgm.loads(HEYWOOD), {"y": heywood()}, hyper="em")
    sd = fit.sd("s").values
    assert np.isnan(sd[0]) and np.isfinite(sd[1:]).all()
