"""The mode: against a linear programme, scikit-learn's sparse logistic regression and Laplace's;
what every page says of it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from scipy import optimize
from sklearn.linear_model import Lasso, LogisticRegression

import lgmdsl as lgm
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.testing.models import random_models, smooth_families
from lgmdsl.testing.random.model import RandomModel
from lgmdsl_backends import mode
from lgmdsl_backends.mode import HOLDS, NOTE
from tests.agreement.methods import few, predictors
from tests.backends.test_double_loop import HEAD

SPARSE = (
    f"{HEAD}data y[obs] : binary\nlatent b[feat] ~ flat\nlet eta[obs] = X @ b\n"
    "observe y ~ bernoulli(logit = eta)\npotential b ~ laplace(scale = 0.2)\n"
)
ROBUST = (
    f"{HEAD}data y[obs] : real\nlatent b[feat] ~ flat\nlet eta[obs] = X @ b\n"
    "observe y ~ laplace(mean = eta, scale = 0.7)\npotential b ~ laplace(scale = 0.3)\n"
)

LASSO = (
    f"{HEAD}data y[obs] : real\nlatent b[feat] ~ flat\nlet eta[obs] = X @ b\n"
    "observe y ~ normal(mean = eta, sd = 1)\npotential b ~ laplace(scale = 100)\n"
)


def regression(n: int, features: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    return {"X": X, "y": 3.0 * X[:, 0] + rng.normal(size=n)}


def made(n: int = 80, features: int = 20, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    eta = X[:, :4] @ [2.0, -1.5, 1.0, 0.5]
    return {"X": X, "y": (eta + rng.logistic(size=n) > 0).astype(int)}


def test_the_sparse_mode_of_a_logistic_regression() -> None:
    data = made()
    X, y = data["X"], data["y"]
    fit = lgm.fit(lgm.loads(SPARSE), data, "map")
    assert fit.converged
    peer = (
        LogisticRegression(
            solver="liblinear",
            l1_ratio=1.0,
            C=0.2,
            fit_intercept=False,
            tol=1e-12,
            max_iter=100_000,
            random_state=0,
        )
        .fit(X, y)
        .coef_[0]
    )

    def density(b: np.ndarray) -> float:
        s = X @ b
        value = float((y * s - np.logaddexp(0.0, s)).sum() - np.abs(b).sum() / 0.2)
        return value - 20.0 * math.log(0.4)

    b = fit.mean("b").values
    assert density(b) >= density(peer) - 1e-9
    assert fit.trace[-1].objective == pytest.approx(density(b), abs=1e-6)
    assert ((np.abs(b) < 1e-12) == (peer == 0.0)).all() and (peer == 0.0).sum() >= 5
    np.testing.assert_allclose(b, peer, atol=1e-5)
    # Off the kinks the curvature is the likelihood's in the latents that are free.
    free = peer != 0.0
    p = 1.0 / (1.0 + np.exp(-(X @ b)))
    sd = np.sqrt(np.diag(np.linalg.inv(X[:, free].T * (p * (1.0 - p)) @ X[:, free])))
    np.testing.assert_allclose(fit.sd("b").values[free], sd, rtol=1e-4)
    assert fit.sd("b").values[~free].max() < 1e-4


@pytest.mark.parametrize("size", [(200, 20), (50, 2), (80, 150), (31, 30)])
@pytest.mark.parametrize("scale", [1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4])
def test_the_lasso_at_every_scale(size: tuple[int, int], scale: float) -> None:
    data = regression(*size)
    X, y = data["X"], data["y"]
    fit = lgm.fit(lgm.loads(LASSO.replace("100", repr(scale))), data, "map")
    assert fit.converged
    b = fit.mean("b").values
    dual, held = scale * X.T @ (y - X @ b), np.abs(b) < 1e-9
    assert np.abs(dual[held]).max(initial=0.0) <= 1.0 + 1e-5
    np.testing.assert_allclose(dual[~held], np.sign(b[~held]), atol=1e-5)


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0, 1e4])
def test_scikit_learn_s_lasso(scale: float) -> None:
    data = regression(200, 20)
    X, y = data["X"], data["y"]
    fit = lgm.fit(lgm.loads(LASSO.replace("100", repr(scale))), data, "map")
    peer = Lasso(1.0 / (scale * len(y)), fit_intercept=False, tol=1e-14, max_iter=100_000)
    np.testing.assert_allclose(fit.mean("b").values, peer.fit(X, y).coef_, atol=1e-6)


def test_what_is_not_the_mode_has_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    """With z as wide as the coefficients themselves, rows are held that should be free."""
    monkeypatch.setattr(mode, "LEAST", mode.NARROWEST)
    fit = lgm.fit(lgm.loads(LASSO), regression(200, 20), "map")
    assert fit.status is Status.stalled and not fit.converged
    assert fit.trace[-1].residual > 100.0
    assert any(HOLDS in str(w) for w in fit.warnings)


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_kinks_alone_are_a_linear_programme(unit: float) -> None:
    """min |y - Xb| / 0.7 + |b| / 0.3: at its vertex as many rows are held as there are latents."""
    rng = np.random.default_rng(4)
    X, n, k = rng.normal(size=(30, 6)), 30, 6
    y = X[:, 0] * 2.0 + rng.laplace(size=n)
    text = ROBUST.replace("0.7", repr(0.7 * unit)).replace("0.3", repr(0.3 * unit))
    fit = lgm.fit(lgm.loads(text), {"X": X, "y": unit * y}, "map")
    assert fit.converged
    cost = np.r_[np.full(k, 1 / 0.3), np.full(k, 1 / 0.3), np.full(2 * n, 1 / 0.7)]
    rows = np.hstack([X, -X, np.eye(n), -np.eye(n)])
    exact = optimize.linprog(cost, A_eq=rows, b_eq=y, method="highs")
    b = fit.mean("b").values / unit
    own = np.abs(y - X @ b).sum() / 0.7 + np.abs(b).sum() / 0.3
    assert own == pytest.approx(float(exact["fun"]), rel=1e-9)


@pytest.mark.few(3)
@pytest.mark.parametrize("noise", [0.01, 0.7, 100.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0, 1e4])
def test_kinks_of_unlike_scales(noise: float, scale: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 6))
    y = X[:, 0] * 2.0 + rng.laplace(size=30)
    text = ROBUST.replace("0.7", repr(noise)).replace("0.3", repr(scale))
    fit = lgm.fit(lgm.loads(text), {"X": X, "y": y}, "map")
    if not fit.converged:  # vertices that rounding does not let it tell from their neighbours
        assert scale > 1.0 and fit.status is Status.stalled and fit.trace[-1].residual > 1e-4
        return
    cost = np.r_[np.full(12, 1.0 / scale), np.full(60, 1.0 / noise)] * min(noise, scale)
    rows = np.hstack([X, -X, np.eye(30), -np.eye(30)])
    exact = optimize.linprog(cost, A_eq=rows, b_eq=y, method="highs")
    b = fit.mean("b").values
    own = np.abs(y - X @ b).sum() / noise + np.abs(b).sum() / scale
    assert own * min(noise, scale) == pytest.approx(float(exact["fun"]), rel=1e-9)


@pytest.mark.thorough
@given(random_models(families=smooth_families(), rows=(1, 12), latents=(1, 6), wild=False))
@few(10)
def test_without_kinks_it_is_laplace_s_mode(case: RandomModel) -> None:
    one, two = case.fit("map", tol=1e-9), case.fit("laplace", tol=1e-9)
    if not (one.converged and two.converged and case.concave):
        return
    for a, b in zip(predictors(one), predictors(two), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6 * (1.0 + np.abs(b).max()))


@given(
    random_models(
        families=("laplace", "laplace.mean", "bernoulli.logit", "normal.mean"),
        rows=(1, 12),
        latents=(1, 6),
        wild=False,
        flat=True,
    )
)
@few(6)
def test_no_point_nearby_is_denser(case: RandomModel) -> None:
    fit = case.fit("map")
    assert fit.converged and fit.guarantee in (Guarantee.APPROXIMATE, Guarantee.EXACT)
    best = density(case, np.zeros(0), fit)
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1e-3, 0.3):
        moved = scale * rng.normal(size=(6, sum(b.size for b in case.blocks)))
        assert max(density(case, step, fit) for step in moved) <= best + 1e-6 * (1 + abs(best))


def density(case: RandomModel, step: np.ndarray, fit: lgm.Fit) -> float:
    """The log joint density at the fit's latents, moved by `step`."""
    value, at, eta = 0.0, 0, case.offset.copy()
    for block in case.blocks:
        z = fit.posterior.conditioned.latent_mean[at : at + block.size].copy()
        moved = step[at : at + block.size] if step.size else np.zeros(block.size)
        if block.covariance is None:
            z += moved
        else:
            values, vectors = np.linalg.eigh(block.covariance)
            z += vectors @ (np.sqrt(np.maximum(values, 0.0)) * moved)
            kept = values > 1e-12 * values.max()
            gap = vectors.T[kept] @ (z - block.mean)
            value -= 0.5 * float(np.sum(gap**2 / values[kept]))
        eta += block.columns @ z
        at += block.size
    return value + sum(float(s.bound.log_density(eta[s.present]).sum()) for s in case.sites)


@pytest.mark.thorough
def test_every_page_says_what_it_is(tmp_path: Path) -> None:
    fit = lgm.fit(lgm.loads(SPARSE), made(), "map")
    page = " ".join(fit.summary().split())
    assert NOTE in page and "log evidence none" in page
    assert math.isnan(fit.log_evidence) and fit.guarantee is Guarantee.APPROXIMATE
    fit.save(tmp_path / "m.nc")
    again = lgm.load_fit(tmp_path / "m.nc")
    assert math.isnan(again.log_evidence) and again.provenance["notes"] == NOTE
    np.testing.assert_allclose(again.mean("b"), fit.mean("b"), atol=1e-12)
    found = lgm.compare(lgm.loads(SPARSE), made(), ["map", "double-loop", "ep"])
    assert found.reference == "ep"
    row = next(line for line in found.table.splitlines() if line.startswith("map "))
    assert row.split()[1:3] == ["-", "none"]
    assert lgm.compare(lgm.loads(SPARSE), made(), ["map"]).reference == "map"
    found.plot(tmp_path / "c.png")


def test_on_gaussian_models_it_is_the_posterior() -> None:
    text = SPARSE.replace("binary", "real").replace("flat", "normal(sd = 1)")
    text = text.replace("bernoulli(logit = eta)", "normal(mean = eta, sd = 1)")
    text = "".join(line + "\n" for line in text.splitlines() if "potential" not in line)
    data = {"X": made()["X"], "y": made()["X"][:, 0]}
    one, two = (lgm.fit(lgm.loads(text), data, m) for m in ("map", "laplace"))
    assert one.guarantee is Guarantee.EXACT and "notes" not in one.provenance
    assert one.log_evidence == pytest.approx(two.log_evidence, rel=1e-12)
