"""Searches on evidences that an engine estimates: they end where chance hides what is left."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

MODEL = """lgm 1
index region
data W[region, region] : graph
data y[region] : count
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent u[region] ~ besag(graph = W, sd = s)
latent b ~ normal(sd = 3)
let eta[region] = b + u
observe y ~ poisson(log_rate = eta)
"""


def test_a_fit_by_estimates_converges_to_what_they_promise() -> None:
    """Slopes come from samples and evidences from probes, whose maxima lie apart: no step along the
    one raises the other."""
    rng, n = np.random.default_rng(0), 24
    y = rng.poisson(np.exp(0.3 + 0.4 * rng.normal(size=n)))
    drawn = np.random.default_rng(0)
    i, j = drawn.integers(0, n, 45), drawn.integers(0, n, 45)
    pairs = np.sort(np.stack([i, j], axis=1)[i != j], axis=1)
    data = {"W": np.unique(pairs, axis=0), "y": y}
    fits = {
        engine: lgm.fit(lgm.loads(MODEL), data, method="laplace", options={"engine": engine})
        for engine in ("sparse", "iterative")
    }
    exact, estimated = fits["sparse"], fits["iterative"]
    assert exact.status.name == estimated.status.name == "converged"
    assert "W601" not in [w.code for w in estimated.warnings]
    errors = estimated.posterior.conditioned.errors
    assert errors is not None and 0.0 < errors.log_normaliser < 1.0
    assert estimated.log_evidence == pytest.approx(
        exact.log_evidence, abs=3.0 * errors.log_normaliser
    )
    sd = float(exact.sd("s"))
    assert float(estimated.mean("s")) == pytest.approx(float(exact.mean("s")), abs=0.5 * sd)
    assert float(estimated.sd("s")) == pytest.approx(sd, rel=0.3)
