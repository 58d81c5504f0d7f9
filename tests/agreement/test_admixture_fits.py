"""Correlated topic models from their text: evidences, gradients, learned topics, predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl.learning.objective.gradient import evidence_gradient
from tests.compiled import canonical_form

TEXT = """lgm 1
index doc
index word
index topic = 2
data n[doc, word] : count?
hyper mu[topic]         : real       ~ normal(sd = 2)
hyper S[topic, topic]   : covariance ~ lkj_cov(eta = 1, u = 2, alpha = 0.05)
hyper beta[topic, word] : simplex    ~ dirichlet(alpha = 1.5)
latent z[doc, topic] ~ iid * dense(cov = S)
let eta[doc, topic] = mu + z
observe n ~ admixture(softmax = eta, emission = beta)
"""
MU, S = np.array([0.4, -0.3]), np.array([[1.5, -0.4], [-0.4, 0.8]])


def made(docs: int = 6, words: int = 7, length: int = 30) -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    beta = rng.dirichlet(np.full(words, 0.4), size=2)
    z = MU + rng.multivariate_normal(np.zeros(2), S, size=docs)
    n = [rng.multinomial(length, p) for p in special.softmax(z, axis=1) @ beta]
    return np.array(n, dtype=float), beta


def exact(n: Array, beta: Array) -> float:
    """Over the one contrast of two topics, by the trapezoidal rule."""
    sd = np.sqrt(S[0, 0] + S[1, 1] - 2.0 * S[0, 1])
    t = np.linspace(-9.0, 9.0, 2001)
    w = np.exp(-0.5 * t * t)
    first = special.expit(MU[0] - MU[1] + sd * t)[:, None]
    mixed = first * beta[0] + (1.0 - first) * beta[1]
    orders = special.gammaln(n.sum(axis=1) + 1.0) - special.gammaln(n + 1.0).sum(axis=1)
    l = orders[:, None] + n @ np.log(mixed).T
    return float(special.logsumexp(l, b=w / w.sum(), axis=1).sum())


def fit(n: Array, method: str = "natural-gradient", bound: str | None = None, **fixed: Any) -> Any:
    pinned = {"mu": MU, "S": S, **fixed}
    return lgm.fit(lgm.loads(TEXT), {"n": n}, method, bound=bound, fixed=pinned, tol=1e-10)


@pytest.mark.thorough
def test_evidences() -> None:
    n, beta = made()
    truth = exact(n, beta)
    found = {b: fit(n, bound=b, beta=beta) for b in ("tilted", "log", "bohning", "quadrature")}
    for name, f in found.items():
        assert f.converged and f.log_evidence <= truth + 1e-6, name
    assert found["log"].log_evidence < found["tilted"].log_evidence
    # A tenth of a nat for each of six documents at most, for KL(q, posterior) and for Laplace.
    assert found["quadrature"].log_evidence == pytest.approx(truth, abs=0.4)
    assert str(found["tilted"].guarantee) == "lower"
    assert fit(n, beta=beta).log_evidence == found["tilted"].log_evidence
    assert fit(n, "laplace", beta=beta).log_evidence == pytest.approx(truth, abs=0.7)
    other = fit(n, "cholesky", beta=beta)
    assert other.log_evidence == pytest.approx(found["tilted"].log_evidence, rel=1e-6)


@pytest.mark.thorough
def test_missing_documents_are_predicted() -> None:
    n, beta = made()
    some = n.copy()
    some[2] = np.nan
    a, b = fit(some, beta=beta), fit(np.delete(n, 2, 0), beta=beta)
    with pytest.warns(lgm.PredictionWarning, match="W305"):
        told = a.predict({"n": n}).response("n")
    np.testing.assert_allclose(told["mean"], 30.0 * told["probability"], rtol=1e-9)
    np.testing.assert_allclose(told["probability"].sum("word"), 1.0, rtol=1e-9)
    replicated = b.sample_predictive(2)["n"]
    assert (replicated.sum("word") == 30).all()


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "bound"), [("laplace", None), ("natural-gradient", "tilted")])
def test_gradients(method: str, bound: str | None) -> None:
    n, beta = made(4, 3, 12)
    canonical = canonical_form(TEXT, {"n": n})
    planned = plan(canonical, method, bound)

    def solved(values: dict[str, Any]) -> tuple[float, Any, Any]:
        theta = canonical.hypers.theta(values)
        done = run(planned.backend, planned.at(theta), Tolerances(1e-13, 1e-9), 300)
        assert done.posterior is not None
        return done.posterior.log_evidence, done.posterior, theta

    at = {"mu": MU, "S": S, "beta": beta}
    _, posterior, theta = solved(at)
    found = evidence_gradient(planned, posterior, theta, {})
    for name in ("mu", "beta"):
        for i in np.ndindex(2, 2):
            step = np.zeros_like(at[name])
            step[i[: step.ndim]] = 1e-3
            if name == "beta":
                step[i[0], 2] = -1e-3  # rows stay distributions
            ends = [solved({**at, name: at[name] + k * step})[0] for k in (-2, -1, 1, 2)]
            known = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / 12.0
            slope = float((found[name] * step).sum())
            assert slope == pytest.approx(known, rel=1e-4, abs=1e-6), (name, i)


@pytest.mark.thorough
def test_topics_are_learned_from_where_they_differ() -> None:
    n, beta = made(30, 8, 60)
    f = fit(n, "laplace")
    assert (
        f.log_evidence
        > fit(n, "laplace", beta=np.tile(n.mean(0) / n.mean(0).sum(), (2, 1))).log_evidence + 20.0
    )
    away = np.abs(f.mean("beta").values[:, None] - beta).sum(axis=2)
    assert sorted(away.argmin(axis=1)) == [0, 1] and away.min(axis=1).max() < 0.3


def test_simulated_texts_have_their_lengths() -> None:
    model, (n, _) = lgm.loads(TEXT), made()
    drawn = lgm.simulate(model, {"n": n}, fixed={"S": S}, seed=1)
    assert (drawn["n"].sum(axis=1) == 30).all() and drawn["n"].shape == n.shape
    free = lgm.simulate(model, sizes={"doc": 40, "word": 5}, fixed={"S": S}, seed=1)
    assert 90 < free["n"].sum(axis=1).mean() < 110


def test_predicted_counts_are_of_the_lengths_given() -> None:
    n, beta = made()
    f = fit(n, beta=beta)
    new = n * np.array([1, 2, 1, 1, 3, 1])[:, None]
    with pytest.warns(lgm.PredictionWarning, match="W305"):
        asked = f.predict({"n": new})
    told = asked.response("n")
    np.testing.assert_allclose(told["mean"].sum("word"), new.sum(axis=1), rtol=1e-9)
    drawn = asked.sample_response("n", 4000, seed=1)
    assert (drawn.sum("word") == new.sum(axis=1)).all()
    error = told["sd"].values / np.sqrt(4000)
    assert (np.abs(drawn.mean("sample").values - told["mean"].values) < 4.5 * error).all()
    np.testing.assert_allclose(drawn.std("sample"), told["sd"], rtol=0.08)
    some = new.copy()
    some[1] = np.nan
    with pytest.warns(lgm.PredictionWarning, match="W305"):
        part = f.predict({"n": some})
    mean = part.response("n")["mean"].values
    assert np.isnan(mean[1]).all() and np.isfinite(np.delete(mean, 1, 0)).all()
    with pytest.raises(lgm.DataError) as raised:
        part.sample_response("n", 3)
    assert raised.value.codes == ("E305",) and "its sums over word" in str(raised.value)


def test_texts_without_counts_have_no_length() -> None:
    text = TEXT.replace("data n[", "data x[doc] : real\ndata n[").replace("mu + z", "mu * x + z")
    n, beta = made()
    model = lgm.loads(text)
    f = lgm.fit(model, {"n": n, "x": np.ones(6)}, fixed={"mu": MU, "S": S, "beta": beta})
    with pytest.warns(lgm.PredictionWarning, match="W305"):
        asked = f.predict({"x": np.ones(6)})
    told = asked.response("n")
    assert np.isnan(told["mean"]).all()
    np.testing.assert_allclose(told["probability"].sum("word"), 1.0, rtol=1e-9)
    with pytest.raises(lgm.DataError) as raised:
        asked.sample_response("n", 3)
    assert raised.value.codes == ("E305",)
    with pytest.warns(lgm.PredictionWarning, match="W305"):
        long = f.predict({"x": np.ones(6), "n": 10 * n}).response("n")
    np.testing.assert_allclose(long["mean"].sum("word"), 300.0, rtol=1e-9)
