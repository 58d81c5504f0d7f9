"""Mean field between blocks of latents, against closed forms, quadrature and brute force."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError
from lgmdsl.inference.plan import plan
from tests.agreement.plain_models import slopes_hold
from tests.backends.test_inducing import along_a_tilt

TEXT = """lgm 1
index obs
index g
index feat
data X[obs, feat] : real
data who[obs] : g
data y[obs] : {kind}
latent m ~ normal(mean = 0.5, sd = 2)
latent u[g] ~ normal(sd = 0.7)
latent b[feat] ~ normal(sd = 1)
let eta[obs] = m + u[who] + X @ b
observe y ~ {site}
"""
# Entries of m, u and b among the latents.
PLACES = {"m": [0], "u": [1, 2, 3, 4], "b": [5, 6]}
SITES = {
    "real": "normal(mean = eta, sd = 1.3)",
    "count": "poisson(log_rate = eta)",
    "binary": "bernoulli(logit = eta)",
}


def model(kind: str) -> lgm.Model:
    return lgm.loads(TEXT.format(kind=kind, site=SITES[kind]))


def data(kind: str, rows: int = 30, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X, who = rng.normal(size=(rows, 2)) + 0.8, np.arange(rows) % 4
    eta = 0.3 + 0.6 * rng.normal(size=4)[who] + X @ [0.5, -0.4]
    y = {
        "real": eta + 1.3 * rng.normal(size=rows),
        "count": rng.poisson(np.exp(eta)),
        "binary": (rng.random(rows) < special.expit(eta)).astype(np.int64),
    }[kind]
    return {"X": X, "who": who, "y": y}


def design(values: Mapping[str, Any]) -> Array:
    """B of eta, by the columns of m, u and b."""
    who = np.asarray(values["who"])
    return np.column_stack([np.ones(len(who)), np.eye(4)[who], values["X"]])


PRIOR = np.diag(1.0 / np.r_[4.0, np.full(4, 0.49), 1.0, 1.0])
MEAN = np.r_[0.5, np.zeros(6)]


def covariance(fit: lgm.Fit) -> Array:
    return fit.posterior.conditioned.solve(np.eye(7))


def blocks_of(text: str) -> list[list[int]]:
    parts = [[PLACES[n.strip()] for n in part.split(",")] for part in text.split(";")]
    return [[k for places in part for k in places] for part in parts]


@pytest.mark.parametrize("blocks", ["m; u; b", "m, u; b", "b, m; u"])
@pytest.mark.parametrize("expand", [True, False])
def test_gaussian_sites_have_the_closed_form(blocks: str, expand: bool) -> None:
    """The mean is exact, the precision of a block that of its rows and columns of A, and the bound
    log p(y) + 1/2 log|A| - 1/2 sum log|A_kk|."""
    values, options = data("real"), {"blocks": blocks, "expand": expand}
    fit = lgm.fit(model("real"), values, method="mean-field", options=options, tol=1e-12)
    exact = lgm.fit(model("real"), values, method="natural-gradient")
    B = design(values)
    A = PRIOR + B.T @ B / 1.3**2
    groups = blocks_of(blocks)
    expected = np.zeros((7, 7))
    gap = 0.5 * np.linalg.slogdet(A)[1]
    for group in groups:
        own = A[np.ix_(group, group)]
        expected[np.ix_(group, group)] = np.linalg.inv(own)
        gap -= 0.5 * np.linalg.slogdet(own)[1]
    assert fit.converged and fit.guarantee is Guarantee.LOWER
    np.testing.assert_allclose(covariance(fit), expected, atol=1e-12)
    h = PRIOR @ MEAN + B.T @ np.asarray(values["y"]) / 1.3**2
    q = fit.posterior.conditioned
    np.testing.assert_allclose(q.latent_mean, np.linalg.solve(A, h), atol=1e-9)
    assert fit.log_evidence - exact.log_evidence == pytest.approx(gap, abs=1e-9)
    assert fit.accuracy.evidence == pytest.approx(-gap, abs=1e-8)
    # What q says of functionals, and its draws.
    eta = np.einsum("ij,jk,ik->i", B, expected, B)
    np.testing.assert_allclose(fit.sd("eta").values ** 2, eta, rtol=1e-10)
    drawn = q.draw(np.random.default_rng(0), 40_000)
    assert drawn.rank == 7
    away = drawn.z - q.latent_mean
    lengths = np.einsum("ij,jk,ik->i", away, np.linalg.inv(expected), away)
    np.testing.assert_allclose(drawn.radius, lengths, rtol=1e-8)
    np.testing.assert_allclose(np.cov(drawn.z.T), expected, atol=0.02)
    shifted = q.with_shift(tuple(1.1 * b for b in q.shift))
    again = fit_engine(values, blocks).condition(q.weight, tuple(1.1 * b for b in q.shift))
    assert shifted.log_normaliser == pytest.approx(again.log_normaliser, rel=1e-12)


def fit_engine(values: Mapping[str, Any], blocks: str) -> Any:
    canonical = lgm.fit(model("real"), values).canonical
    return plan(canonical, "mean-field", options={"blocks": blocks}).at({}).engine


@pytest.mark.parametrize("kind", ["real", "count", "binary"])
def test_one_block_is_the_variational_gaussian(kind: str) -> None:
    options = {"blocks": "u, m, b"}
    one = lgm.fit(model(kind), data(kind), method="mean-field", options=options)
    all_of_them = lgm.fit(model(kind), data(kind), method="natural-gradient")
    assert one.log_evidence == all_of_them.log_evidence
    assert one.guarantee is all_of_them.guarantee
    np.testing.assert_array_equal(covariance(one), covariance(all_of_them))
    assert "sds are too small" not in one.provenance.get("notes", "")


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_below_quadrature(seed: int) -> None:
    """Two latents in two blocks: mean field < variational Gaussian < log p(y)."""
    text = """lgm 1
index obs
data x[obs] : real
data y[obs] : count
latent a ~ normal(sd = 1.5)
latent b ~ normal(sd = 1)
observe y ~ poisson(log_rate = a + b * x)
"""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=5) + 1.0
    y = rng.poisson(np.exp(0.3 + 0.4 * x))
    fits = [
        lgm.fit(lgm.loads(text), {"x": x, "y": y}, method=m)
        for m in ("mean-field", "natural-gradient")
    ]
    nodes = np.linspace(-6.0, 6.0, 601)
    a, b = np.meshgrid(1.5 * nodes, nodes, indexing="ij")
    s = a[..., None] + b[..., None] * x
    level = (y * s - np.exp(s) - special.gammaln(y + 1.0)).sum(axis=-1)
    level -= 0.5 * (a / 1.5) ** 2 + 0.5 * b**2 + np.log(2.0 * np.pi * 1.5)
    exact = special.logsumexp(level) + np.log(1.5 * (nodes[1] - nodes[0]) ** 2)
    mean_field, wider = (f.log_evidence for f in fits)
    assert mean_field < wider < exact
    # The errors that a fit claims of itself: what the best of all Gaussians, corrected, has.
    assert fits[0].accuracy.evidence == pytest.approx(exact - mean_field, abs=0.02)
    assert fits[0].accuracy.sd > 0.1


def test_plain_sweeps_converge_at_the_rate_of_gauss_seidel() -> None:
    """Theorem 4.1 of Qi and Jaakkola: for the means, the spectral radius of (D + L)^-1 L'."""
    values, groups = data("real"), blocks_of("m; u, b")
    options = {"blocks": "m; u, b", "expand": False}
    fit = lgm.fit(model("real"), values, method="mean-field", options=options, tol=1e-13)
    A = PRIOR + design(values).T @ design(values) / 1.3**2
    low = np.zeros((7, 7))
    for k, group in enumerate(groups):
        for other in groups[: k + 1]:
            low[np.ix_(group, other)] = A[np.ix_(group, other)]
    radius = float(np.abs(np.linalg.eigvals(np.linalg.solve(low, low - A))).max())
    residuals = np.array([t.residual for t in fit.trace])
    seen = residuals[(residuals < 1e-2) & (residuals > 1e-8)]
    assert len(seen) > 4
    np.testing.assert_allclose(seen[2:] / seen[1:-1], radius, rtol=1e-3)  # a block of one latent
    expanded = lgm.fit(model("real"), values, method="mean-field")
    assert expanded.steps == 0  # the first point is the last


def test_gradients_in_hyperparameters_are_those_of_the_bound() -> None:
    """A scale in K and in B."""
    text = TEXT.replace("index obs", "hyper s : positive ~ half_normal(sd = 1)\nindex obs", 1)
    text = text.replace("sd = 0.7", "sd = s").format(
        kind="count", site="poisson(log_rate = s * eta)"
    )
    fit = lgm.fit(lgm.loads(text), data("count"), method="mean-field", fixed={"s": 0.6})
    slopes_hold(fit, "mean-field", None, {"s": np.asarray(0.6)}, close=1e-6)
    along_a_tilt(plan(fit.canonical, "mean-field"), 0.6)


def test_a_file_and_new_members_keep_the_confinement(tmp_path: Path) -> None:
    values = data("count")
    fit = lgm.fit(model("count"), values, method="mean-field", options={"blocks": "u, b"})
    fit.save(tmp_path / "one.fit.nc")
    again = lgm.load_fit(tmp_path / "one.fit.nc")
    np.testing.assert_array_equal(covariance(again), covariance(fit))
    assert again.guarantee is Guarantee.LOWER
    assert not covariance(again)[0, 1:].any()


def test_new_places_of_a_process_follow_the_confined_q() -> None:
    """f at new places given f, with q's own covariance of f; m apart."""
    text = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : real
latent m ~ normal(sd = 3)
latent f[obs] ~ gp(at = X, kernel = se(sd = 1, length = 2))
let eta[obs] = m + f
observe y ~ normal(mean = eta, sd = 0.5)
"""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (12, 1))
    values = {"X": X, "y": np.sin(X[:, 0] / 2.0) + 0.5 * rng.normal(size=12)}
    fit = lgm.fit(lgm.loads(text), values, method="mean-field")
    new = np.linspace(-2.0, 12.0, 5)[:, None]

    def kernel(a: Array, b: Array) -> Array:
        return np.asarray(np.exp(-0.5 * ((a[:, None, 0] - b[None, :, 0]) / 2.0) ** 2))

    K, cross = kernel(X, X), kernel(new, X)
    of_f = np.linalg.inv(np.linalg.inv(K) + np.eye(12) / 0.25)
    of_m = 1.0 / (1.0 / 9.0 + 12.0 / 0.25)
    gain = np.linalg.solve(K, cross.T).T
    variance = of_m + 1.0 - np.einsum("ij,jk,ik->i", gain, K - of_f, gain)
    found = fit.predict({"X": new}).sd("eta").values
    np.testing.assert_allclose(found, np.sqrt(variance), rtol=1e-6)


def test_constraints_and_signed_weights() -> None:
    """A sum to zero inside a block, negative weights: below the best of all Gaussians."""
    text = """lgm 1
index obs
index g
data who[obs] : g
data x[obs] : real
data y[obs] : real
latent m ~ normal(sd = 3)
latent u[g] ~ normal(sd = 0.8)
constrain sum(u, g) = 0
latent b ~ normal(sd = 1)
observe y ~ student_t(mean = m + u[who] + b * x, scale = 0.5, df = 3)
"""
    rng = np.random.default_rng(1)
    values = {"who": np.arange(24) % 4, "x": rng.normal(size=24) + 1.0, "y": rng.standard_t(3, 24)}
    narrow, wide = (
        lgm.fit(lgm.loads(text), values, method=m) for m in ("mean-field", "natural-gradient")
    )
    assert narrow.converged and narrow.log_evidence < wide.log_evidence - 0.01
    q = narrow.posterior.conditioned
    assert q.draw(np.random.default_rng(0), 3).rank == 5
    V = q.solve(np.eye(6))
    assert abs(V[1:5, 1:5].sum()) < 1e-12 and abs(V[0, 1:]).max() < 1e-12


def test_levels_far_from_zero() -> None:
    """y at 1e8 is solved in other units: the same sds, and the bound's gap."""
    values = data("real")
    moved = values | {"y": np.asarray(values["y"]) + 1e8}
    text = TEXT.format(kind="real", site=SITES["real"]).replace("sd = 2)", "sd = 1e9)")
    near, far = (lgm.fit(lgm.loads(text), v, method="mean-field") for v in (values, moved))
    np.testing.assert_allclose(far.sd("eta").values, near.sd("eta").values, rtol=1e-6)
    wide = lgm.fit(lgm.loads(text), moved, method="natural-gradient")
    known = lgm.fit(lgm.loads(text), values, method="natural-gradient")
    gap = near.log_evidence - known.log_evidence
    assert far.log_evidence - wide.log_evidence == pytest.approx(gap, abs=1e-5)


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ("m; v", "names `v`, which is no latent"),
        ("m; m, u", "m stands in it more than once"),
        ("m; ; u", "separated by `;`"),
    ],
)
def test_wrong_blocks_are_refused(blocks: str, said: str) -> None:
    with pytest.raises(MethodError, match="E104") as caught:
        lgm.fit(model("real"), data("real"), method="mean-field", options={"blocks": blocks})
    assert said in str(caught.value)


def test_constraints_between_blocks_are_refused() -> None:
    text = TEXT.format(kind="real", site=SITES["real"]) + "constrain m + sum(u, g) = 0\n"
    with pytest.raises(MethodError, match="E501") as caught:
        lgm.fit(lgm.loads(text), data("real"), method="mean-field")
    assert 'blocks="m, u"' in str(caught.value)
    fit = lgm.fit(lgm.loads(text), data("real"), method="mean-field", options={"blocks": "m, u"})
    assert fit.converged


def test_what_divides_by_q_is_refused() -> None:
    """Importance weights and cavities take q for p(z) exp(-1/2 s'Ws + b's)."""
    fit = lgm.fit(model("count"), data("count"), method="mean-field")
    for asked in (fit.loo, fit.pit, fit.audit):
        with pytest.raises(MethodError, match="confines q"):
            asked()
    assert np.isfinite(fit.waic().elpd)
    with pytest.raises(MethodError, match="confines q"):
        lgm.fit(model("count"), data("count"), method="mean-field", options={"correction": "on"})


@pytest.mark.thorough
def test_rows_that_a_block_does_not_enter() -> None:
    """Two data, one of which sees no group: every engine has the same bound."""
    text = """lgm 1
index obs
index g
index t
data who[obs] : g
data when[obs] : t
data y[obs] : real
data x[t] : count
latent a ~ normal(sd = 3)
latent u[g] ~ normal(sd = 1)
latent f[t] ~ rw1(sd = 0.5)
latent c ~ normal(sd = 2)
observe y ~ normal(mean = a + u[who] + f[when], sd = 0.7)
observe x ~ poisson(log_rate = c + f)
"""
    rng = np.random.default_rng(0)
    values = {
        "who": np.arange(60) % 6,
        "when": np.arange(60) % 10,
        "y": rng.normal(size=60),
        "x": rng.poisson(2.0, 10),
    }
    bounds = [
        lgm.fit(lgm.loads(text), values, method="mean-field", options={"engine": engine})
        for engine in ("covariance", "precision", "sparse", "nested")
    ]
    assert [f.engine for f in bounds] == ["covariance", "precision", "sparse", "nested"]
    for fit in bounds:
        assert fit.converged
        assert fit.log_evidence == pytest.approx(bounds[0].log_evidence, abs=1e-8)
    with pytest.raises(MethodError, match="E501"):
        lgm.fit(lgm.loads(text), values, method="mean-field", options={"engine": "iterative"})
