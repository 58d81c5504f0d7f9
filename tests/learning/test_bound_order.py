"""The order of bounds in what is learned under them (Khan 2012, figure 4.5)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array

MODEL = """lgm 1
index case
index item
data y[case, item] : binary
data scale[item, item] : real
hyper S[item, item] : covariance ~ inv_wishart(df = 3, scale = scale)
latent z[case, item] ~ iid * dense(cov = S)
observe y ~ bernoulli(logit = z)
"""
TRUTH = np.array([[10.0, 8.0], [8.0, 10.0]])
PATTERNS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def _chances(cov: Array) -> Array:
    """p(y) of the four patterns, by Gauss-Hermite quadrature in two dimensions."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = np.outer(weight, weight).reshape(-1) / weight.sum() ** 2
    points = np.stack(np.meshgrid(node, node, indexing="ij"), axis=-1).reshape(-1, 2)
    z = points @ np.linalg.cholesky(cov).T
    signs = 2.0 * PATTERNS - 1.0
    return np.array([weight @ special.expit(z * s).prod(axis=1) for s in signs])


@pytest.mark.thorough
def test_distributions_learned_under_pieces_are_nearer_than_under_parabolas() -> None:
    true = _chances(TRUTH)
    count = np.rint(1000 * true).astype(int)
    data = {"y": np.repeat(PATTERNS, count, axis=0), "scale": 6.0 * np.eye(2)}
    kl, variance = [], []
    for bound in ("piecewise-quadratic-5", "piecewise-linear-5", "jaakkola", "bohning"):
        fit = lgm.fit(lgm.loads(MODEL), data, hyper="em", bound=bound)
        assert fit.converged
        s = np.asarray(fit.theta["S"])
        kl.append(float(true @ np.log(true / _chances(s))))
        variance.append(float(s[0, 0]))
    assert 0.0 < kl[0] < kl[1] < 0.5 * kl[2] and kl[2] < 0.8 * kl[3]
    assert TRUTH[0, 0] > variance[0] > variance[1] > variance[2] > variance[3]


def test_a_kink_of_linear_pieces_holds_the_offset_of_an_item_without_loadings() -> None:
    """Where a predictor hardly varies, the bound's kink at log 4 is a corner of the evidence: the
    offset stays there for every share of ones from 0.5 to 1. Quadratic pieces move with the share.
    """
    text = (
        "lgm 1\nindex obs\ndata y[obs] : binary\nhyper c : real ~ normal(sd = 10)\n"
        "latent z[obs] ~ normal(sd = 0.001)\nlet eta[obs] = c + z\n"
        "observe y ~ bernoulli(logit = eta)\n"
    )

    def offset(ones: int, kind: str) -> float:
        data = {"y": (np.arange(100) < ones).astype(float)}
        fit = lgm.fit(lgm.loads(text), data, hyper="map", bound=f"piecewise-{kind}-3")
        return float(fit.mean("c"))

    np.testing.assert_allclose([offset(k, "linear") for k in (60, 90)], np.log(4.0), atol=3e-3)
    assert offset(90, "quadratic") > offset(60, "quadratic") + 1.0
