"""Five solvers, one objective: log evidence, means and sds agree; the order of the evidences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgmdsl as lgm

SOLVERS = ("natural-gradient", "opper-archambeau", "cholesky", "coordinate-ascent", "lcl")
FAMILIES = {
    "logit": ("binary", "bernoulli(logit = eta)"),
    "probit": ("binary", "bernoulli(probit = eta)"),
    "poisson": ("count", "poisson(log_rate = eta)"),
    "cloglog": ("binary", "bernoulli(cloglog = eta)"),
}


def problem(seed: int, family: str) -> tuple[lgm.Model, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10, 2))
    type_, site = FAMILIES[family]
    y = rng.integers(0, 2 if type_ == "binary" else 5, 10)
    text = (
        f"lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : {type_}\n"
        "latent b[feat] ~ normal(mean = 0.2, sd = 1.5)\nlatent f[obs] ~ gp(at = X, "
        "kernel = se(sd = 1, length = 1.5))\nlet eta[obs] = X @ b + f\n"
        f"observe y ~ {site}\n"
    )
    return lgm.loads(text), {"X": X, "y": y}


@given(st.integers(0, 2**20), st.sampled_from(sorted(FAMILIES)))
@settings(max_examples=6)
def test_solvers_that_share_an_objective_agree(seed: int, family: str) -> None:
    model, data = problem(seed, family)
    fits = {m: lgm.fit(model, data, m, tol=1e-9) for m in SOLVERS}
    best = fits["natural-gradient"]
    for name, fit in fits.items():
        assert fit.log_evidence == pytest.approx(best.log_evidence, rel=1e-6), name
        np.testing.assert_allclose(
            (fit.mean("b") - best.mean("b")) / best.sd("b"), 0.0, atol=2e-3, err_msg=name
        )
        np.testing.assert_allclose(fit.sd("eta") / best.sd("eta"), 1.0, atol=2e-3, err_msg=name)


@given(st.integers(0, 2**20))
@settings(max_examples=8)
def test_tighter_bounds_give_higher_evidences(seed: int) -> None:
    model, data = problem(seed, "logit")
    found = [
        lgm.fit(model, data, "natural-gradient", bound=b).log_evidence
        for b in ("bohning", "jaakkola", "piecewise-quadratic-20", "quadrature")
    ]
    assert found[0] <= found[3] + 1e-7 and found[1] <= found[3] + 1e-7
    assert found[2] <= found[3] + 1e-7
    assert found[3] - found[2] < 10 * 1.5e-4
