"""Automatic relevance determination beside scikit-learn's ARDRegression on its diabetes data:
errors and log densities of what was held out, bounds, CPU seconds. One BLAS thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from tests.benchmarks.conftest import side_by_side

FOLDS = 10
# The vague gammas of scikit-learn's defaults, 1e-6, on weights and noise.
ARD = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
hyper tau : positive ~ gamma(shape = 1e-6, rate = 1e-6)
latent b0 ~ flat
latent w[feat] ~ flat
potential w ~ student_t(scale = 1, df = 2e-6)
let f[obs] = b0 + X @ w
observe y ~ normal(mean = f, sd = 1 / sqrt(tau))
"""


def diabetes(shared: Path) -> tuple[Array, Array]:
    """Standardised measurements with all products of two beside them, 442 x 65; the response."""
    found = np.load(shared / "data" / "diabetes_lars.npz")
    own = found["X"]
    own = (own - own.mean(axis=0)) / own.std(axis=0)
    pairs = np.triu_indices(10)
    both = own[:, pairs[0]] * own[:, pairs[1]]
    whole = np.hstack([own, both])
    return (whole - whole.mean(axis=0)) / whole.std(axis=0), found["y"]


def own_fit(X: Array, y: Array) -> lgm.Fit:
    return lgm.fit(lgm.loads(ARD), {"X": X, "y": y}, "px-vb", hyper="vb")


def peer_fit(X: Array, y: Array) -> Any:
    from sklearn.linear_model import ARDRegression

    return ARDRegression().fit(X, y)


def predictions(fit: lgm.Fit, X: Array) -> tuple[Array, Array]:
    new = fit.predict({"X": X, "y": np.full(len(X), np.nan)})
    spread = np.sqrt(new.sd("f").values ** 2 + 1.0 / float(fit.theta["tau"]))
    return new.mean("f").values, spread


def test_diabetes_beside_scikit_learn(benchmark: Any, shared: Path) -> None:
    whole, y = diabetes(shared)
    for name, X in (("10 measurements", whole[:, :10]), ("65 with products", whole)):
        fold = np.random.default_rng(0).permutation(len(y)) % FOLDS
        errors: dict[str, list[AnyArray]] = {"lgmdsl": [], "scikit-learn": []}
        logs: dict[str, list[AnyArray]] = {"lgmdsl": [], "scikit-learn": []}
        kept: dict[str, list[int]] = {"lgmdsl": [], "scikit-learn": []}
        bounds = []
        for k in range(FOLDS):
            held = fold == k
            fit, peer = own_fit(X[~held], y[~held]), peer_fit(X[~held], y[~held])
            assert fit.converged
            bounds.append(fit.log_evidence)
            answers = {
                "lgmdsl": (predictions(fit, X[held]), fit.mean("w").values),
                "scikit-learn": (peer.predict(X[held], return_std=True), peer.coef_),
            }
            for who, ((mean, sd), w) in answers.items():
                errors[who].append((y[held] - mean) ** 2)
                logs[who].append(stats.norm.logpdf(y[held], mean, sd))
                kept[who].append(int((np.abs(w) > 0.5).sum()))
        seconds = side_by_side(lambda X=X: own_fit(X, y), lambda X=X: peer_fit(X, y))  # type: ignore[misc]
        print(f"\n{name}, {FOLDS} folds; bounds {min(bounds):.2f} to {max(bounds):.2f}")
        for who, s in zip(errors, seconds, strict=True):
            print(
                f"{who:13s} RMSE {np.sqrt(np.concatenate(errors[who]).mean()):.3f}, log density "
                f"{np.concatenate(logs[who]).mean():.4f}, weights beyond 0.5: "
                f"{np.mean(kept[who]):.1f}, CPU {s:.3f} s"
            )
        gap = np.concatenate(logs["lgmdsl"]) - np.concatenate(logs["scikit-learn"])
        error = gap.std() / np.sqrt(len(gap))
        print(f"difference {gap.mean():+.4f} +- {error:.4f}, ratio {seconds[0] / seconds[1]:.2f}")
        fit = own_fit(X, y)
        print(
            f"all data: {fit.steps} steps, bound {fit.log_evidence:.3f}; {fit.provenance['notes']}"
        )
    benchmark.pedantic(lambda: own_fit(whole[:, :10], y), rounds=1)
