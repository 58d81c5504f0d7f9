"""Priors with expressions as arguments: log prior and gradient, starts, draws, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from lgmdsl.errors import DataError, MethodError, ModelError
from lgmdsl.priors import catalogue
from lgmdsl.structures.spatial.besag import besag_spectrum
from tests.learning.hierarchies import full, space


def test_the_log_prior_is_the_sum_of_densities() -> None:
    found = space(
        "index k = 2\ndata b : positive\nhyper t : positive ~ half_normal(sd = b)\n"
        "hyper v : positive = t ^ 2\nhyper x[k] : real ~ normal(mean = 1, sd = v)\n",
        b=2.0,
    )
    theta = found.theta({"t": 1.5, "x": np.array([0.3, 4.0])})
    own = stats.halfnorm(scale=2.0).logpdf(1.5)
    rest = stats.norm(1, 2.25).logpdf([0.3, 4.0]).sum()
    assert found.log_prior(theta)[0] == pytest.approx(own + rest, rel=1e-13)
    value, gradient = found.log_prior(theta, pinned=("t",))
    assert value == pytest.approx(rest, rel=1e-13) and set(gradient) == {"x"}
    value, gradient = found.log_prior(theta, pinned={"x"})
    assert value == pytest.approx(own, rel=1e-13)
    assert gradient["t"] == pytest.approx(-1.5 / 4.0)
    # a computed hyper that is pinned stands between its ingredients and what depends on it
    theta = found.theta({"t": 1.5, "v": 3.0, "x": np.array([0.3, 4.0])})
    _, gradient = found.log_prior(theta, pinned=("v",))
    assert gradient["t"] == pytest.approx(-1.5 / 4.0) and set(gradient) == {"t", "x"}


def test_gradients_flow_to_the_hypers_in_arguments() -> None:
    """All hypers of a deep hierarchy, against differences on the natural scale."""
    found = full()
    rng = np.random.default_rng(8)
    free = {
        k: v
        for k, v in found.sample(rng, {"df": 6.0, "r": 0.4, "tau": 0.9, "g": 1}).items()
        if k != "s"
    }
    theta = found.theta(free)
    _, gradient = found.log_prior(theta)
    assert set(gradient) == set(free)

    for name, at in free.items():
        for i in np.ndindex(*at.shape):
            step = np.zeros_like(at)
            step[i] = 1e-6 * max(abs(float(at[i])), 1e-3)
            if name in "ST":
                step = 0.5 * (step + step.T)
            if name == "p":  # along the simplex
                step[i[0], (i[1] + 1) % 3] = -step[i]
            ahead, behind = (
                found.log_prior(found.theta({**free, name: at + s * step}))[0] for s in (1.0, -1.0)
            )
            got = float((gradient[name] * step).sum() / np.abs(step).max())
            want = (ahead - behind) / (2 * np.abs(step).max())
            assert got == pytest.approx(want, rel=2e-5, abs=1e-5), (name, i)


def test_a_hyper_that_is_a_transposed_product_pulls_back_by_name() -> None:
    """The value's axes stand in another order than the declaration's."""
    found = space(
        "index i = 2\nindex j = 3\nhyper q[i] : positive ~ exponential(rate = 1)\n"
        "hyper v[j] : positive ~ exponential(rate = 1)\nhyper T[i, j] : positive = v * q\n"
    )
    q, v = np.array([1.0, 2.0]), np.array([3.0, 5.0, 7.0])
    theta = found.theta({"q": q, "v": v})
    adjoint = np.arange(6.0).reshape(2, 3)
    pulled = found.pull({"T": adjoint}, theta, {})
    assert pulled["q"] == pytest.approx(adjoint @ v) and pulled["v"] == pytest.approx(q @ adjoint)


def test_starts_lie_in_the_middle_of_the_priors_of_earlier_starts() -> None:
    found = space(
        "hyper t : positive ~ exponential(rate = 2)\nhyper s : positive = 3 * t\n"
        "hyper x : positive ~ half_cauchy(scale = s)\n"
    )
    theta = found.start()
    assert theta["t"] == pytest.approx(np.log(2) / 2)
    assert theta["x"] == pytest.approx(1.5 * np.log(2))
    pinned = found.start({"t": 2.0})
    assert pinned["t"] == 2.0 and pinned["x"] == pytest.approx(6.0)
    with pytest.raises(DataError, match="E303"):
        found.start({"t": -1.0})
    assert np.isfinite(full().log_prior(full().start())[0])


def test_draws_follow_earlier_draws() -> None:
    found = space(
        "hyper t : positive ~ exponential(rate = 2)\nhyper s : positive = 3 * t\n"
        "hyper x : positive ~ exponential(rate = 1 / s)\n"
    )
    rng = np.random.default_rng(4)
    ratio = [float(d["x"] / d["s"]) for d in (found.sample(rng) for _ in range(800))]
    assert stats.kstest(ratio, stats.expon.cdf).pvalue > 0.01
    assert found.sample(rng, {"t": 2.0})["s"] == 6.0


def test_improper_priors_are_named() -> None:
    found = space(
        "index k = 2\nhyper e : positive ~ flat\nhyper b : unit ~ flat\n"
        "hyper S[k, k] : covariance ~ graphical_lasso(rate = 1)\n"
    )
    with pytest.raises(MethodError) as caught:
        found.sample(np.random.default_rng(0))
    assert caught.value.codes == ("E503", "E503")
    assert "hyper `e`" in str(caught.value) and "hyper `S`" in str(caught.value)
    assert 0 < found.sample(np.random.default_rng(0), {"e": 1.0, "S": 1.0})["b"] < 1


def test_pc_mix_reads_the_graph_as_besag_does() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5)]
    w = np.zeros((7, 7))
    for i, j in edges:
        w[i, j] = w[j, i] = 1.0
    found = space(
        "index area\ndata adj[area, area] : graph\n"
        "hyper mix : unit ~ pc_mix(graph = adj, u = 0.5, alpha = 0.6)\n",
        area=np.arange(7),
        adj=sp.csr_array(w),
    )
    prior = found.block("mix").prior
    assert prior.at({}) is prior.at({})  # its spectrum is found once
    g = besag_spectrum(sp.csr_array(w))
    assert np.sum(g == 0.0) == 2 and np.sum(g == 1.0) >= 1

    def d(mix: float) -> float:
        return float(np.sqrt((mix * (g - 1) - np.log1p(mix * (g - 1))).sum()))

    rate, h = -np.log(0.4) / d(0.5), 1e-6
    want = np.log(rate) - rate * d(0.3) + np.log((d(0.3 + h) - d(0.3 - h)) / (2 * h))
    assert found.log_prior({"mix": np.array(0.3)})[0] == pytest.approx(want, rel=1e-8)


def test_each_member_of_a_covariance_has_the_scale_of_its_name() -> None:
    """lkj_cov with a hyper over the members: density and gradient, by name."""
    found = space(
        "index k = 3\nindex g = 2\nhyper w[k] : positive ~ exponential(rate = 1)\n"
        "hyper S[g, k, k] : covariance ~ lkj_cov(eta = 2, u = 3 * w, alpha = 0.1)\n"
    )
    u, root = np.array([0.2, 1.0, 4.0]), np.tril(np.ones((3, 3))) + np.eye(3)
    free = {"w": u, "S": np.stack([root @ root.T, np.diag([1.0, 2.0, 9.0])])}
    block = found.block("S").prior
    want = catalogue.prior("lkj_cov", "covariance", eta=2.0, u=3.0 * u, alpha=0.1)
    assert block.at(found.theta(free)).log_density(free["S"]) == want.log_density(free["S"])
    _, gradient = found.log_prior(found.theta(free))
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        ahead, behind = (
            found.log_prior(found.theta({**free, "w": u + s * step}))[0] for s in (1.0, -1.0)
        )
        assert gradient["w"][k] == pytest.approx((ahead - behind) / 2e-6, rel=1e-7)


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ("hyper d : positive ~ pc_df(u = 1.5, alpha = 0.1)\n", "u = 1.5"),
        ("hyper r : correlation ~ pc_cor1(u = 0.5, alpha = 0.4)\n", "alpha = 0.4"),
        (
            "hyper v : unit ~ uniform(lower = 0, upper = 1)\n"
            "hyper w : real ~ uniform(lower = v, upper = 1 / 4)\n",
            "lower = v",
        ),
        (
            "index k = 3\nhyper P[k, k] : covariance ~ flat\n"
            "hyper S[k, k] : covariance ~ inv_wishart(df = 2, scale = P)\n",
            "df = 2",
        ),
    ],
)
def test_refusals_point_at_the_argument(statements: str, told: str) -> None:
    with pytest.raises(DataError) as caught:
        space(statements).start()
    assert caught.value.codes == ("E303",)
    (found,) = caught.value.diagnostics
    assert found.help and found.label
    written = found.span.source.text[found.span.start : found.span.end]
    assert written == told.partition("= ")[2]


def test_a_graph_without_edges_is_refused_as_besag_refuses_it() -> None:
    found = space(
        "index area\ndata adj[area, area] : graph\n"
        "hyper mix : unit ~ pc_mix(graph = adj, u = 0.5, alpha = 0.6)\n",
        area=np.arange(4),
        adj=sp.csr_array((4, 4)),
    )
    with pytest.raises(ModelError) as caught:
        found.start()
    assert caught.value.codes == ("E401",) and "`area`" in str(caught.value)


def test_a_covariance_of_low_rank_is_none_the_worse_for_rounding() -> None:
    found = space("index k = 3\nhyper S[k, k] : covariance ~ flat\n")
    rng = np.random.default_rng(0)
    for scale in (1e-8, 1.0, 1e8):
        for _ in range(20):  # about half of these have an eigenvalue below 0
            v = scale * rng.normal(size=3)
            assert found.theta({"S": np.outer(v, v)})["S"].shape == (3, 3)
    with pytest.raises(DataError, match="positive semi-definite"):
        found.theta({"S": np.diag([1.0, 1.0, -1e-12])})
