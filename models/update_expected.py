"""Fit the models in this folder and write what came out to their expected.json.

python models/update_expected.py [NAME...]
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm

HERE = Path(__file__).resolve().parent
KEPT = 5
# What hyperparameters are pinned at for the kept results; the models learn them.
FIXED: dict[str, dict[str, Any]] = {
    "correlated_topics": runpy.run_path(str(HERE / "correlated_topics" / "make_data.py"))["TRUTH"],
    "discrete_choice": {"S": [[3.0, 0.8], [0.8, 1.5]]},
    "disease_map": {"s": 0.4, "mix": 0.75},
    "gamma_responses": {"shape": 12},
    "gp_classification": {"s": 2, "ell": 0.8},
    "gp_sum": {"trend": 1, "cycle": 0.7, "noise": 0.2},
    "lifetimes": {"shape": 1.6, "s": 0.3},
    "linear_regression": {"s": 0.5, "noise": 0.55},
    "logistic_regression": {"s": 2.5},
    "monthly_counts": {"s_level": 0.15, "s_season": 0.03, "noise": 0.06},
    "negbinomial_counts": {"s": 0.5, "size": 4},
    "ordinal_ratings": {"c": [-1.5, 0.2, 2.0], "s": 0.8},
    "poisson_glmm": {"s": 0.6},
    "random_slopes": {"S": [[4.0, 0.6], [0.6, 0.25]], "noise": 0.7},
    "robust_regression": {"noise": 0.3},
    "space_time": {"s": 0.5, "rho": 0.8},
    "stochastic_volatility": {"s": 0.8, "ell": 20},
    "wet_days": {"s": 0.7},
}
# How models are fitted that are not by Laplace.
FACTORED: dict[str, Any] = {"method": "px-vb", "hyper": "vb", "tol": 1e-12}
SETTINGS: dict[str, dict[str, Any]] = {"relevance_vectors": FACTORED}


def settings(name: str) -> dict[str, Any]:
    """The method and its settings."""
    return SETTINGS.get(name, {"method": "laplace"})


def names() -> list[str]:
    """The models of this folder."""
    return sorted(path.parent.name for path in HERE.glob("*/model.lgm"))


def fit(name: str) -> lgm.Fit:
    """The fit of one model to its data."""
    model = lgm.load(HERE / name / "model.lgm")
    return lgm.fit(model, HERE / name / "data.npz", fixed=FIXED.get(name), **settings(name))


def outcome(fitted: lgm.Fit) -> dict[str, Any]:
    """Evidence, and the first means and sds of every latent, let and report."""
    checked = fitted.model.checked
    shown = [s.name for kind in ("latent", "let", "report") for s in checked.of_kind(kind)]
    return {
        "method": fitted.method,
        "log_evidence": float(fitted.log_evidence),
        "mean": {n: np.ravel(fitted.mean(n))[:KEPT].tolist() for n in shown},
        "sd": {n: np.ravel(fitted.sd(n))[:KEPT].tolist() for n in shown},
    }


def main(chosen: list[str]) -> None:
    """Write expected.json of the chosen models, or of all."""
    for name in chosen or names():
        fitted = fit(name)
        if not fitted.converged:
            raise SystemExit(f"{name}: {fitted.status.value}")
        text = json.dumps(outcome(fitted), indent=1)
        (HERE / name / "expected.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: log evidence {fitted.log_evidence:.6f} after {fitted.steps} steps")


if __name__ == "__main__":
    main(sys.argv[1:])
