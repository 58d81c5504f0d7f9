"""Laplace beside scikit-learn. `pytest tests/benchmarks --benchmark-only -s`, one BLAS thread."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from tests.benchmarks.conftest import side_by_side

GP = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : binary
hyper ell : positive = {ell!r}
latent f[obs] ~ gp(at = X, kernel = se(sd = 2, length = ell))
let eta[obs] = f
observe y ~ bernoulli(logit = eta)
"""
LOGISTIC = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = 1)
let eta[obs] = X @ w
observe y ~ bernoulli(logit = eta)
"""


def test_gp_classification(benchmark: Any, peers: ModuleType) -> None:
    """N = 500, 1000, 1500: fit with evidence, beside GaussianProcessClassifier."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    sizes, seconds = (500, 1000, 1500), []
    for n in sizes:
        d = peers.gp(n)
        model, data = lgm.loads(GP.format(ell=d["ell"])), {"X": d["X"], "y": d["y"]}
        peer = GaussianProcessClassifier(ConstantKernel(d["var"]) * RBF(d["ell"]), optimizer=None)

        def own(model: lgm.Model = model, data: Any = data) -> lgm.Fit:
            return lgm.fit(model, data, method="laplace")

        def other(peer: Any = peer, d: Any = d) -> object:
            return peer.fit(d["X"], d["y"])

        a, b = side_by_side(own, other)
        assert own().log_evidence == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-6)
        seconds.append(a)
        print(f"\nN = {n}: lgmdsl {a:.4f} s, scikit-learn {b:.4f} s, ratio {a / b:.2f}")
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"exponent {exponent:.2f} (N^3 dense)")
    benchmark(own)


def test_sparse_logistic(benchmark: Any, peers: ModuleType) -> None:
    """32,561 x 123: evidence and all variances, of predictors too, beside liblinear's MAP."""
    from sklearn.linear_model import LogisticRegression

    rows, seconds = (8000, 16000, 32561), []
    model = lgm.loads(LOGISTIC)
    for n in rows:
        X, y, _ = peers.a9a_like(n)
        peer = LogisticRegression(
            C=1.0, solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=5000
        )

        def own(X: Any = X, y: Any = y) -> lgm.Fit:
            fit = lgm.fit(model, {"X": X, "y": y}, method="laplace")
            fit.sd("w"), fit.sd("eta")
            return fit

        def other(peer: Any = peer, X: Any = X, y: Any = y) -> object:
            return peer.fit(X, y)

        a, b = side_by_side(own, other)
        np.testing.assert_allclose(own().mean("w"), peer.coef_.ravel(), atol=1e-4)
        seconds.append(a)
        print(f"\n{n} rows: lgmdsl {a:.4f} s, liblinear MAP {b:.4f} s, ratio {a / b:.2f}")
    print(f"exponent {np.polyfit(np.log(rows), np.log(seconds), 1)[0]:.2f} (linear in rows)")
    benchmark(own)
