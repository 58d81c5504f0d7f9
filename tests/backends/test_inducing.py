"""q(z) = p(z | u) q(u), against closed forms, brute force, differences and the whole bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.numerics.cholesky import partial_root
from tests.agreement.plain_models import slopes_hold

TEXT = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : {kind}
latent m ~ normal(mean = 0.5, sd = 2)
latent f[obs] ~ gp(at = X, kernel = se(sd = 1.3, length = 1.1))
let eta[obs] = m + f
observe y ~ {site}
"""
SITES = {
    "real": "normal(mean = eta, sd = 0.4)",
    "count": "poisson(log_rate = eta)",
    "binary": "bernoulli(logit = eta)",
}


def model(kind: str) -> lgm.Model:
    return lgm.loads(TEXT.format(kind=kind, site=SITES[kind]))


def data(kind: str, rows: int = 12, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (rows, 2))
    eta = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
    y = {
        "real": eta + 0.4 * rng.normal(size=rows),
        "count": rng.poisson(np.exp(eta)),
        "binary": (rng.random(rows) < special.expit(eta)).astype(np.int64),
    }[kind]
    return {"X": X, "y": y}


def kernel(X: Array, sd: float = 1.3, length: float = 1.1) -> Array:
    square = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.asarray(sd**2 * np.exp(-0.5 * square / length**2))


def fitted(kind: str, values: dict[str, Any], directions: int, **more: Any) -> lgm.Fit:
    options = {"directions": directions, "correction": "off"}
    return lgm.fit(model(kind), values, "inducing", options=options, **more)


def split(K: Array, count: int) -> tuple[Array, Array]:
    """R and D of the latents that a greedy choice picks, by the conditional covariance itself."""
    picked = [int(np.argmax((K**2).sum(axis=0)))]  # all variances are equal
    while len(picked) < count:
        rest = K - K[:, picked] @ np.linalg.solve(K[np.ix_(picked, picked)], K[picked])
        picked.append(int(np.argmax(rest.diagonal())))
    lower = np.linalg.cholesky(K[np.ix_(picked, picked)])
    R = np.linalg.solve(lower, K[picked]).T
    return R, K - R @ R.T


@pytest.mark.parametrize("count", [1, 4, 7])
def test_gaussian_sites_have_the_closed_form(count: int) -> None:
    """Titsias 2009, (9): log N(y; mean, RR' + 4 11' + noise) - tr D / (2 noise), and its q."""
    values, noise = data("real"), 0.4**2
    fit = fitted("real", values, count, tol=1e-12)
    R, D = split(kernel(values["X"]), count)
    T = np.column_stack([np.ones(12), R])  # of (m, x), whose prior sds are 2 and 1
    prior = np.diag(np.r_[4.0, np.ones(count)])
    S = T @ prior @ T.T + noise * np.eye(12)
    away = values["y"] - 0.5
    bound = stats.multivariate_normal(np.zeros(12), S).logpdf(away) - 0.5 * np.trace(D) / noise
    assert fit.converged and fit.guarantee is Guarantee.LOWER
    assert fit.log_evidence == pytest.approx(bound, abs=1e-8)
    V = np.linalg.inv(np.linalg.inv(prior) + T.T @ T / noise)
    x = V @ T.T @ away / noise
    lift = np.zeros((13, 1 + count))
    lift[0, 0], lift[1:, 1:] = 1.0, R
    covariance = lift @ V @ lift.T
    covariance[1:, 1:] += D
    q = fit.posterior.conditioned
    np.testing.assert_allclose(q.latent_mean, lift @ x + np.r_[0.5, np.zeros(12)], atol=1e-8)
    np.testing.assert_allclose(q.solve(np.eye(13)), covariance, atol=1e-9)
    np.testing.assert_allclose(q.latent_variance, covariance.diagonal(), atol=1e-9)
    eta = np.column_stack([np.ones(12), np.eye(12)])
    np.testing.assert_allclose(fit.sd("eta") ** 2, (eta @ covariance @ eta.T).diagonal(), rtol=1e-8)
    # Draws, and how far out they lie: all 13 latents vary.
    drawn = q.draw(np.random.default_rng(0), 20_000)
    gaps = drawn.z - q.latent_mean
    assert drawn.rank == 13
    inverse = np.linalg.inv(covariance)
    lengths = np.einsum("ij,jk,ik->i", gaps, inverse, gaps)
    np.testing.assert_allclose(drawn.radius, lengths, rtol=1e-4)
    np.testing.assert_allclose(np.cov(drawn.z.T), covariance, atol=0.1)


@pytest.mark.thorough
@settings(max_examples=6, deadline=None)
@given(st.sampled_from(["count", "binary"]), st.integers(0, 9999))
def test_the_bound_rises_with_the_directions_to_that_of_all(kind: str, seed: int) -> None:
    values = data(kind, rows=10, seed=seed)
    whole = lgm.fit(model(kind), values, "natural-gradient", options={"correction": "off"})
    bounds = [fitted(kind, values, k, tol=1e-10).log_evidence for k in (1, 3, 6, 9, 10)]
    assert (np.diff(bounds) > -1e-8).all()
    assert bounds[-2] <= whole.log_evidence + 1e-8 and bounds[0] < whole.log_evidence - 1e-4
    assert bounds[-1] == pytest.approx(whole.log_evidence, abs=1e-8)


def test_a_singular_prior_needs_no_more_than_its_rank() -> None:
    values = data("binary", rows=6)
    values = {name: np.concatenate([x, x]) for name, x in values.items()}
    whole = lgm.fit(model("binary"), values, "natural-gradient", options={"correction": "off"})
    fit = fitted("binary", values, 8)  # of rank 6
    assert fit.converged
    assert fit.log_evidence == pytest.approx(whole.log_evidence, abs=1e-6)
    np.testing.assert_allclose(fit.mean("f"), whole.mean("f"), atol=1e-4)


def test_gradients_in_hyperparameters_are_those_of_the_bound() -> None:
    """Scales in K, in B and of a mean, at fixed directions."""
    text = TEXT.replace("index obs", "hyper s : positive ~ half_normal(sd = 1)\nindex obs", 1)
    text = text.replace("sd = 1.3, length = 1.1", "sd = s, length = 0.5 + s")
    text = text.replace("mean = 0.5, sd = 2", "mean = s, sd = 2 * s")
    text = text.format(kind="count", site="poisson(log_rate = s * eta)")
    fit = lgm.fit(lgm.loads(text), data("count"), "natural-gradient", fixed={"s": 0.9})
    slopes_hold(fit, "inducing", None, {"s": np.asarray(0.9)}, directions=4)
    along_a_tilt(plan(fit.canonical, "inducing", options={"directions": 4}), 0.9)


def along_a_tilt(planned: Plan, s: float) -> None:
    """Derivatives of log_normaliser + t'E[s] at fixed (W, b), in what depends on a hyper `s`."""
    q = run(planned.backend, planned.at({"s": np.asarray(s)}), Tolerances(1e-6, 1e-6)).posterior
    assert q is not None
    tilt = tuple(np.cos(np.arange(len(b)) + 1.0) for b in q.shift)

    def tilted(x: float) -> float:
        there = planned.at({"s": np.asarray(x)}).engine.condition(q.weight, q.shift)
        assert not isinstance(there, Failed)
        moved = zip(tilt, there.mean, strict=True)
        return there.log_normaliser + sum(float(t @ m) for t, m in moved)

    theta = {"s": np.asarray(s)}
    known = q.conditioned.adjoints(tilt)
    slope = pull(planned.canonical, known, ({},) * len(q.shift), theta)["s"]
    difference = (tilted(s + 1e-5) - tilted(s - 1e-5)) / 2e-5
    assert float(slope) == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("grid", ["line", "plane"])
@pytest.mark.parametrize("count", [1, 3, 6])
def test_rows_in_another_order_choose_the_same_directions(grid: str, count: int) -> None:
    """Mirror images are equal in K, and rows decided by where they stand: fits to a
    shuffled table had other bounds."""
    axis = np.linspace(-1.0, 1.0, 4)
    X = np.c_[np.linspace(-2.0, 2.0, 16), np.zeros(16)]
    if grid == "plane":
        X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    y = np.random.default_rng(2).poisson(np.exp(0.5 + X[:, 0]))
    fits = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(16) if seed else np.arange(16)
        fit = fitted("count", {"X": X[order], "y": y[order]}, count, tol=1e-10)
        assert fit.converged
        fits.append((fit.log_evidence, fit.mean("f").values[np.argsort(order)]))
    for evidence, mean in fits[1:]:
        assert evidence == pytest.approx(fits[0][0], abs=1e-8)
        np.testing.assert_allclose(mean, fits[0][1], atol=1e-6)


def test_a_file_keeps_the_directions(tmp_path: Path) -> None:
    fit = fitted("count", data("count"), 4)
    fit.save(tmp_path / "one.fit.nc")
    again = lgm.load_fit(tmp_path / "one.fit.nc")
    for name in ("m", "f"):
        np.testing.assert_allclose(again.mean(name), fit.mean(name), rtol=1e-10)
        np.testing.assert_allclose(again.sd(name), fit.sd(name), rtol=1e-10)
    assert "free in 4 directions of f" in fit.provenance["notes"]


def test_new_places_follow_the_confined_q() -> None:
    """q's own covariance is what is continued."""
    values = data("count")
    new = {"X": values["X"][:3] + 1e-6}
    fit = fitted("count", values, 4)
    np.testing.assert_allclose(
        fit.predict(new).sd("eta"), fit.sd("eta").isel(obs=slice(3)), rtol=1e-3
    )


def test_what_is_kept_whole() -> None:
    text = """lgm 1
index obs
index time
data y[obs] : count
data t[obs] : time
latent m ~ flat
latent f[time] ~ rw1(sd = 0.4)
latent u[obs] ~ normal(sd = 0.5)
observe y ~ poisson(log_rate = m + f[t] + u)
"""
    values = {"y": np.random.default_rng(0).poisson(3.0, 30), "t": np.arange(30) % 10}
    options = {"directions": 2, "correction": "off"}
    fit = lgm.fit(lgm.loads(text), values, "inducing", options=options)
    whole = lgm.fit(lgm.loads(text), values, "natural-gradient", options={"correction": "off"})
    assert fit.log_evidence == whole.log_evidence


def test_what_divides_by_q_is_refused() -> None:
    fit = fitted("count", data("count"), 4)
    for asked in (fit.loo, fit.pit, fit.audit):
        with pytest.raises(MethodError, match="confines q"):
            asked()
    with pytest.raises(MethodError, match="E104"):
        fitted("count", data("count"), 0)


@pytest.mark.parametrize("count", [0, 3, 9, 20])
def test_partial_roots(count: int) -> None:
    X = np.random.default_rng(1).normal(size=(12, 2))
    X[6:9] = X[:3]  # of rank 9
    K = kernel(X)
    R, picked = partial_root(K, count)
    assert R.shape == (12, min(count, 9)) and len(picked) == R.shape[1]
    np.testing.assert_array_equal(np.triu(R[picked], 1), 0.0)
    np.testing.assert_allclose((R @ R.T)[picked], K[picked], atol=1e-12)
    np.testing.assert_array_equal(R[:, :2], partial_root(K, 2)[0][:, :count])
    if 0 < count < 9:
        np.testing.assert_allclose(R @ R.T, kernel(X) - split(K, count)[1], atol=1e-9)
    assert partial_root(np.zeros((3, 3)), 2)[0].shape == (3, 0)
