"""A covariance by its sds and partial correlations: the map, its Jacobian, and integrals that
quadrature knows, where the data leave an sd near 0 or know little of the correlation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.learning.coordinates.restricted import SdsAndCorrelations

TEXT = """lgm 1
index obs
index g
index k
data y[obs] : real
data a[obs] : g
data Z[obs, k] : real
hyper S[k, k] : covariance ~ {prior}
latent b[k] ~ normal(sd = 10)
latent u[g, k] ~ iid * dense(cov = S)
let eta[obs] = sum(Z[obs, k] * b[k], k) + sum(Z[obs, k] * u[a, k], k)
observe y ~ normal(mean = eta, sd = 1)
"""
LKJ = "lkj_cov(eta = 2, u = 3, alpha = 0.05)"
RATE, ETA = np.log(20.0) / 3.0, 2.0
STEP = 1e-6


def entries(form: SdsAndCorrelations, x: Array) -> Array:
    """What the Jacobian is of."""
    k, out = form.shape[-1], []
    for s in form.value(x).reshape(-1, k, k):
        sds = np.sqrt(np.diag(s))
        natural = s / np.outer(sds, sds) if form.separated else s
        below = natural[np.tril_indices(k, -1)]
        out += [sds if form.separated else np.diag(s), below]
    return np.concatenate(out)


@pytest.mark.parametrize("separated", [True, False])
@pytest.mark.parametrize("leading", [0, -1])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 4), (2, 3, 3)])
def test_the_map(shape: tuple[int, ...], leading: int, separated: bool) -> None:
    rng = np.random.default_rng(0)
    form = SdsAndCorrelations(shape, separated, leading % shape[-1])
    x, adjoint = rng.normal(size=form.size), rng.normal(size=shape)
    moves = STEP * np.eye(form.size)

    def slope(f: Any) -> Array:
        return np.array([(f(x + d) - f(x - d)) / (2.0 * STEP) for d in moves])

    np.testing.assert_allclose(form.coordinates(form.value(x)), x, rtol=1e-9)
    pulled = form.pull(adjoint, x).x
    np.testing.assert_allclose(pulled, slope(lambda v: (adjoint * form.value(v)).sum()), atol=1e-7)
    log, slopes = form.log_jacobian(x)
    assert log == pytest.approx(np.linalg.slogdet(slope(lambda v: entries(form, v)))[1], abs=1e-7)
    np.testing.assert_allclose(slopes.x, slope(lambda v: form.log_jacobian(v)[0]), atol=1e-7)
    several = rng.normal(size=(5, form.size))
    wanted = [form.value(one) for one in several]
    np.testing.assert_allclose(form.values(several), wanted, rtol=1e-12)


@pytest.mark.parametrize("leading", range(4))
def test_the_correlations_of_the_leading_member_are_coordinates(leading: int) -> None:
    form = SdsAndCorrelations((4, 4), leading=leading)
    x = np.random.default_rng(1).normal(size=form.size)
    value = form.value(x)
    sds = np.sqrt(np.diag(value))
    first = np.tanh(x[[1, 3, 6]])
    wanted = np.delete(value[leading] / sds / sds[leading], leading)
    np.testing.assert_allclose(first, wanted, rtol=1e-12)


@pytest.mark.parametrize("far", [-400.0, -40.0, 40.0, 400.0])
def test_far_out_there_is_no_nan(far: float) -> None:
    form = SdsAndCorrelations((3, 3), True)
    for j in range(form.size):
        x = np.zeros(form.size)
        x[j] = far
        log, slopes = form.log_jacobian(x)
        assert np.isfinite(log) and np.isfinite(slopes.x).all()
        assert not np.isnan(form.value(x)).any()
        with np.errstate(over="ignore", invalid="ignore"):
            pulled = form.pull(np.eye(3), x).x
        assert np.isfinite(pulled).all() or abs(far) > 340.0


def test_not_definite() -> None:
    assert np.isnan(
        SdsAndCorrelations((2, 2)).coordinates(np.ones((2, 2)) * [[1, 2], [2, 1]])
    ).all()


def responses(seed: int, sds: tuple[float, float], groups: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    cov = np.outer(sds, sds) * np.array([[1.0, 0.4], [0.4, 1.0]])
    u = rng.multivariate_normal([0.0, 0.0], cov, size=groups)
    a = np.repeat(np.arange(groups), 6)
    z = np.c_[np.ones(len(a)), rng.normal(size=len(a))]
    y = (z * (u[a] + [2.0, 1.0])).sum(axis=1) + rng.normal(size=len(a))
    return {"y": y, "a": a, "Z": z}


def log_density(data: dict[str, Any], s: Array) -> Array:
    """(n,) log p(y | S), S (n, 2, 2), by the sums of each group."""
    y, z = data["y"], data["Z"]
    total = np.full(len(s), -0.5 * len(y) * np.log(2.0 * np.pi) - 0.5 * y @ y)
    whole, mixed = np.tile(np.eye(2) / 100.0, (len(s), 1, 1)), np.zeros((len(s), 2))
    for g in np.unique(data["a"]):
        own = data["a"] == g
        a, c = z[own].T @ z[own], z[own].T @ y[own]
        inner = np.linalg.inv(np.eye(2) + a @ s)
        total += 0.5 * np.einsum("i,nij,j->n", c, s @ inner, c) + 0.5 * np.linalg.slogdet(inner)[1]
        whole, mixed = whole + inner @ a, mixed + inner @ c
    solved = np.linalg.solve(whole, mixed[..., None])[..., 0]
    total += 0.5 * (solved * mixed).sum(axis=1) - 0.5 * np.linalg.slogdet(100.0 * whole)[1]
    return total


def quadrature(data: dict[str, Any], wishart: bool) -> tuple[float, Array, Array]:
    """log p(y), and the nodes (3, n) and weights of both sds and the covariance."""
    logs, z = np.linspace(-9.0, 3.5, 71), np.linspace(-4.5, 4.5, 30)
    one, two, r = (v.ravel() for v in np.meshgrid(np.exp(logs), np.exp(logs), np.tanh(z)))
    s = np.array([[one * one, one * two * r], [one * two * r, two * two]]).transpose(2, 0, 1)
    log = log_density(data, s)
    if wishart:  # a density of the lower triangle of S
        log += stats.invwishart(df=5, scale=np.eye(2)).logpdf(s.transpose(1, 2, 0))
        log += np.log(4.0 * one**2 * two**2)
    else:
        norm = (2.0 * ETA - 1.0) * np.log(2.0) + special.betaln(ETA, ETA)
        log += 2.0 * np.log(RATE) - RATE * (one + two) + (ETA - 1.0) * np.log1p(-r * r) - norm
    log += np.log(one * two) + np.log1p(-r * r)  # of the logs and of atanh
    cell = (logs[1] - logs[0]) ** 2 * (z[1] - z[0])
    weights = np.exp(log - log.max())
    total = float(np.log(weights.sum() * cell) + log.max())
    return total, np.array([one, two, one * two * r]), weights / weights.sum()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("seed", "sds", "groups", "wishart"),
    [
        (1, (1.0, 0.5), 5, False),
        (3, (2.0, 0.02), 5, False),
        (2, (0.15, 0.2), 8, False),
        (1, (1.0, 0.5), 5, True),
        (1, (1.0, 0.5), 8, False),
    ],
)
def test_integrals_are_those_of_quadrature(
    seed: int, sds: tuple[float, float], groups: int, wishart: bool
) -> None:
    """In the entries of a Cholesky factor the first three under lkj_cov ended `stalled` (W605,
    W606), without an evidence. The sds of variances were off by 22 % in the first and by 51 % in
    the last, where no fit said how fast the density falls far out."""
    data = responses(seed, sds, groups)
    prior = "inv_wishart(df = 5, scale = W)" if wishart else LKJ
    text = TEXT.format(prior=prior)
    if wishart:
        text = text.replace("data y[obs]", "data W[k, k] : real\ndata y[obs]")
        data = {**data, "W": np.eye(2)}
    fit = lgm.fit(lgm.loads(text), data, hyper="integrate")
    assert fit.converged and not fit.warnings
    total, nodes, weights = quadrature(data, wishart)
    assert fit.log_evidence == pytest.approx(total, abs=0.02)
    levels = [0.025, 0.5, 0.975]
    s, sds_of = fit.quantile("S", levels).values, fit.sd("S").values
    for row, (i, j) in enumerate(((0, 0), (1, 1), (0, 1))):
        values = nodes[row] ** 2 if i == j else nodes[row]
        spread = np.sqrt(weights @ (values - weights @ values) ** 2)
        assert sds_of[i, j] == pytest.approx(spread, rel=0.1)
        places, which = np.unique(values.round(12), return_inverse=True)
        mass = np.bincount(which, weights)  # each node's lies on both sides of it
        level = np.interp(s[:, i, j], places, np.cumsum(mass) - 0.5 * mass)
        assert (np.abs(level - levels) < [0.012, 0.04, 0.012]).all()
