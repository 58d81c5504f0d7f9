"""Natural gradients on the ELBO: known answers, a hard GP, bounds, kinks and heavy tails."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm


def hard_gp(n: int) -> tuple[str, dict[str, np.ndarray]]:
    """Prior sd e^4 and length e^-1 on two features: prior condition above 1e8."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 2))
    g = np.sin(2 * x[:, 0]) + x[:, 1] ** 2 - 1 + 0.5 * rng.standard_normal(n)
    text = (
        "lgm 1\nindex obs\nindex dim\ndata x[obs, dim] : real\ndata y[obs] : binary\n"
        "latent f[obs] ~ gp(at = x, kernel = se(sd = 54.6, length = 0.368))\n"
        "observe y ~ bernoulli(logit = f)\n"
    )
    return text, {"x": x, "y": (g > 0).astype(int)}


def test_a_hard_gp_converges_and_never_falls() -> None:
    """Where the undamped fixed point oscillates for ever and L-BFGS peers report success early."""
    text, data = hard_gp(250)
    fit = lgm.fit(lgm.loads(text), data, method="natural-gradient", tol=1e-9)
    assert fit.converged
    steps = np.diff([e.objective for e in fit.trace])
    assert (steps > -1e-10).all()
    further = lgm.fit(lgm.loads(text), data, method="natural-gradient", tol=1e-11, start_from=fit)
    assert further.log_evidence == pytest.approx(fit.log_evidence, rel=1e-8)
    assert fit.steps < 40


@pytest.mark.parametrize(
    "family", ["laplace(mean = s, scale = 0.4)", "student_t(mean = s, scale = 0.4, df = 4)"]
)
def test_kinked_and_heavy_tailed_sites(family: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    y[0] = 40.0
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : real\n"
        f"latent b[feat] ~ normal(sd = 2)\nlet s[obs] = X @ b\nobserve y ~ {family}\n"
    )
    fit = lgm.fit(lgm.loads(text), {"X": X, "y": y}, method="natural-gradient", tol=1e-9)
    assert fit.converged, (fit.status, fit.trace[-2:])
    assert (np.diff([e.objective for e in fit.trace]) > -1e-9).all()
    assert abs(float(fit.mean("b").values.max())) < 2.0
