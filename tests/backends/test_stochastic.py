"""Natural gradients from batches: dense algebra, the optimum of all rows, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.status import Status
from lgmdsl.errors import MethodError
from lgmdsl_backends.stochastic import Batches, StochasticGradient, StochasticState, Visits
from tests.compiled import problem_for

HEAD = """lgm 1
index obs
index g
index h
index feat
index few
data X[obs, feat] : real
data who[obs] : g
data item[obs] : h
data y[obs] : {kind}
data z[few] : real
latent m ~ {level}
latent u[g] ~ normal(sd = 0.8)
latent w[h] ~ normal(sd = 0.6)
latent b[feat] ~ normal(sd = 2)
let eta[obs] = m + u[who] + w[item] + X @ b
observe y ~ {site}
observe z ~ normal(mean = m, sd = 0.3)
"""
WALK = """lgm 1
index obs
index time
data y[obs] : count
data t[obs] : time
latent m ~ flat
latent f[time] ~ rw1(sd = 0.4)
observe y ~ poisson(log_rate = m + f[t])
"""
CHOICES = """lgm 1
index obs
index feat
index k
data X[obs, feat] : real
data y[obs] : k
latent B[feat, k] ~ normal(sd = 1)
observe y ~ categorical(softmax = X @ B)
"""
SITES = {
    "gaussian": ("real", "normal(mean = eta, sd = 0.5)"),
    "logit": ("binary", "bernoulli(logit = eta)"),
    "separable": ("binary", "bernoulli(logit = eta)"),
    "counts": ("count", "poisson(log_rate = eta)"),
    "large counts": ("count", "poisson(log_rate = 2 * eta + 5)"),
    "robust": ("real", "student_t(mean = eta, scale = 0.5, df = 3)"),
    "kinks": ("real", "laplace(mean = eta, scale = 0.5)"),
}
ROWS = 200


def case(name: str, level: str = "normal(sd = 3)") -> tuple[lgm.Model, dict[str, Any]]:
    rng = np.random.default_rng(3)
    X, t = rng.normal(size=(ROWS, 3)), np.arange(ROWS) % 20
    if name == "walk":
        return lgm.loads(WALK), {"t": t, "y": rng.poisson(np.exp(1 + np.sin(t / 4)))}
    if name == "choices":
        return lgm.loads(CHOICES), {"X": X, "y": rng.integers(0, 3, ROWS)}
    who, item = rng.integers(0, 12, ROWS), rng.integers(0, 7, ROWS)
    eta = 0.3 + X @ [0.5, -1.0, 0.2] + 0.7 * rng.normal(size=12)[who] + rng.normal(size=7)[item] / 2
    kind, site = SITES[name]
    y: Any
    if kind == "real":
        noise = rng.standard_t(3, ROWS) if name == "robust" else rng.normal(size=ROWS)
        y = eta + 0.5 * noise
    elif kind == "count":
        y = rng.poisson(np.exp(eta if name == "counts" else 2 * eta + 5))
    else:
        y = X[:, 0] > 0.0 if name == "separable" else rng.random(ROWS) < special.expit(eta)
        y = y.astype(np.int64)
    data = {"X": X, "who": who, "item": item, "y": y, "z": np.array([0.1, 0.5])}
    return lgm.loads(HEAD.format(kind=kind, level=level, site=site)), data


def problem_of(name: str) -> Problem:
    model, data = case(name)
    return problem_for("stochastic", model, data)


def fitted(model: lgm.Model, data: dict[str, Any], method: str, **options: Any) -> lgm.Fit:
    return lgm.fit(model, data, method, options={**options, "correction": "off"})


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [*SITES, "walk", "choices"])
def test_the_optimum_is_that_of_all_rows(name: str) -> None:
    model, data = case(name)
    whole = fitted(model, data, "natural-gradient")
    for minibatch, seed in ((10, 0), (60, 1)):
        fit = fitted(model, data, "stochastic", minibatch=minibatch, order=seed)
        assert fit.converged and fit.guarantee is whole.guarantee
        assert fit.steps <= 12
        assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-8, abs=2e-6)
        for latent in whole.names:
            far = np.abs(fit.mean(latent) - whole.mean(latent)) / whole.sd(latent)
            assert float(far.max()) < 1e-3
            np.testing.assert_allclose(fit.sd(latent), whole.sd(latent), rtol=1e-3)


def test_flat_priors() -> None:
    model, data = case("logit", level="flat")
    whole, fit = (
        fitted(model, data, name, **options)
        for name, options in (("natural-gradient", {}), ("stochastic", {"minibatch": 20}))
    )
    assert fit.converged
    assert fit.log_evidence == pytest.approx(whole.log_evidence, abs=1e-6)


def dense(problem: Problem) -> tuple[Array, Array, Array]:
    """(prior precision, B, c) of the crossed model, of y and z; prior means are 0."""
    linear = problem.engine.linear
    scales = {"m": 3.0, "u": 0.8, "w": 0.6, "b": 2.0}
    sds = np.concatenate([np.full(b.size, scales[b.name]) for b in linear.blocks])
    where = linear.slices
    B = np.concatenate([p.times(np.eye(linear.size), where) for p in linear.predictors])
    return np.diag(sds**-2.0), B, np.concatenate([p.offset for p in linear.predictors])


@pytest.mark.parametrize("name", ["counts", "robust"])
def test_a_visit_is_a_step_along_the_variance_reduced_gradient(name: str) -> None:
    """By |S| / N of it: q becomes that of the new sites of S and the old ones of the others. Over
    the batches the estimates of the gradient average to that of all rows."""
    problem = problem_of(name)
    Q, B, c = dense(problem)
    rng = np.random.default_rng(0)
    weight = tuple(rng.uniform(0.5, 2.0, len(m)) for m in problem.engine.prior_mean)
    shift = tuple(rng.normal(size=len(m)) for m in problem.engine.prior_mean)
    q = problem.engine.condition(weight, shift)
    batches = Batches(problem, 50, 0)
    assert batches.count == 5 and not isinstance(q, Failed)

    def natural(w: Array, b: Array) -> tuple[Array, Array]:
        return Q + B.T @ (w[:, None] * B), B.T @ (b - w * c)

    expecting = zip(problem.expecting(), q.mean, q.variance, strict=True)
    answers = [a.expected(m, v) for a, m, v in expecting]
    w, b = np.concatenate(weight), np.concatenate(shift)
    target_w = np.concatenate([-2.0 * a.d_variance for a in answers])
    target_b = np.concatenate([a.d_mean for a in answers]) + target_w * np.concatenate(q.mean)
    start, first = natural(w, b), slice(0, batches.sizes[0])
    estimates = []
    for k in range(batches.count):
        visits = Visits(q, weight, shift, batches)
        batch = batches.batch(k)
        assert visits.visit(batch)
        S = np.concatenate([batch.rows[0], batches.sizes[0] + batch.rows[1]])
        new_w, new_b = w.copy(), b.copy()
        new_w[S], new_b[S] = target_w[S], target_b[S]
        np.testing.assert_allclose(np.concatenate(visits.weight), new_w, rtol=1e-9)
        np.testing.assert_allclose(np.concatenate(visits.shift), new_b, rtol=1e-9, atol=1e-12)
        A, h = natural(new_w, new_b)
        u, factor = visits.now  # the q that has followed, from u to z
        mean = visits.mean + visits.root @ u
        covariance = visits.root @ factor.solve(visits.root.T)
        np.testing.assert_allclose(mean, np.linalg.solve(A, h), atol=1e-9)
        np.testing.assert_allclose(covariance, np.linalg.inv(A), atol=1e-10)
        new_w[first.stop :] = w[first.stop :]  # of two rows, one in each batch
        estimates.append(batches.count * (natural(new_w, new_b)[0] - start[0]))
    target_w[first.stop :] = w[first.stop :]
    every = natural(target_w, b)[0] - start[0]
    np.testing.assert_allclose(np.mean(estimates, axis=0), every, atol=1e-8)


def test_rows_that_were_not_visited_count_as_those_that_were() -> None:
    """In the first pass: after some batches q is that of their sites, N / (rows seen) of each."""
    problem = problem_of("gaussian")
    Q, B, _ = dense(problem)
    batches = Batches(problem, 30, 0)
    sample = batches.batch(0, 3)
    factors = [n / len(few) for n, few in zip(batches.sizes, sample.rows, strict=True)]
    sites = problem.engine.remade(sample.linear)
    weight = tuple(f * np.full(len(few), 1.7) for f, few in zip(factors, sample.rows, strict=True))
    q = sites.condition(weight, tuple(np.zeros_like(w) for w in weight))
    assert not isinstance(q, Failed)
    nothing = tuple(np.zeros(n) for n in batches.sizes)
    visits = Visits(q, nothing, nothing, batches, sample)
    for batch in (sample, batches.batch(2)):
        assert visits.visit(batch)
    noise = np.r_[np.full(batches.sizes[0], 0.5), np.full(batches.sizes[1], 0.3)]
    seen = np.concatenate(visits.seen)
    share = [n / int(s.sum()) for n, s in zip(batches.sizes, visits.seen, strict=True)]
    w = np.where(seen, np.repeat(share, batches.sizes) / noise**2, 0.0)
    _, factor = visits.now
    covariance = visits.root @ factor.solve(visits.root.T)
    np.testing.assert_allclose(covariance, np.linalg.inv(Q + B.T @ (w[:, None] * B)), atol=1e-10)


def test_steps_and_residuals_are_those_of_all_rows() -> None:
    """A stop at the limit is called one, and what a state says is true of its q."""
    model, data = case("counts")
    options = {"minibatch": 10, "correction": "off"}
    cut = lgm.fit(model, data, "stochastic", options=options, max_steps=1, tol=1e-12)
    assert cut.status is Status.iteration_limit
    problem, method = problem_of("counts"), StochasticGradient(minibatch=10, passes=2)
    state = method.start(problem)
    for made in (1, 3, 5):
        assert isinstance(state, StochasticState) and state.passes == made
        assert state.point is not None
        q = state.point
        again = elbo_at(problem, q.weight, q.shift)
        assert isinstance(again, ElboPoint)
        assert state.objective == pytest.approx(again.elbo, rel=1e-12)
        following = elbo_at(problem, *again.target)
        assert isinstance(following, ElboPoint)
        far = max(
            float((np.abs(new - old) / np.sqrt(v)).max())
            for new, old, v in zip(following.mean, again.mean, again.variance, strict=True)
        )
        assert method.residual(problem, state) >= 0.5 * far
        state = method.step(problem, state)


def test_a_row_that_no_other_is_like() -> None:
    """One batch in ten has all that is known of a latent; its residual is not overlooked."""
    rng = np.random.default_rng(1)
    who = np.zeros(100, dtype=np.int64)
    who[57] = 1
    y = rng.poisson(2.0, 100)
    y[57] = 90
    text = (
        "lgm 1\nindex obs\nindex g\ndata who[obs] : g\ndata y[obs] : count\n"
        "latent u[g] ~ normal(sd = 5)\nobserve y ~ poisson(log_rate = u[who])\n"
    )
    data = {"who": who, "y": y}
    whole = lgm.fit(lgm.loads(text), data, "natural-gradient", options={"merge": "off"})
    fit = fitted(lgm.loads(text), data, "stochastic", minibatch=10, merge="off")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(whole.log_evidence, abs=1e-6)
    np.testing.assert_allclose(fit.mean("u"), whole.mean("u"), atol=1e-4)


def test_hyperparameters_are_searched_as_with_any_method() -> None:
    model, data = case("counts")
    text = HEAD.format(kind="count", level="flat", site=SITES["counts"][1])
    text = text.replace("latent m", "hyper s : positive ~ half_normal(sd = 1)\nlatent m").replace(
        "0.8", "s"
    )
    model = lgm.loads(text)
    whole = lgm.fit(model, data, "natural-gradient", hyper="map")
    fit = lgm.fit(model, data, "stochastic", hyper="map", options={"minibatch": 40})
    assert fit.converged
    assert float(fit.mean("s")) == pytest.approx(float(whole.mean("s")), rel=1e-4)
    assert fit.log_evidence == pytest.approx(whole.log_evidence, abs=1e-5)


@pytest.mark.parametrize("name", ["minibatch", "passes", "order", "largest", "memory"])
def test_options_out_of_range(name: str) -> None:
    model, data = case("logit")
    with pytest.raises(MethodError, match="E104"):
        fitted(model, data, "stochastic", **{name: -1})


def test_what_is_refused() -> None:
    model, data = case("logit")
    with pytest.raises(MethodError, match="E501") as caught:
        fitted(model, data, "stochastic", largest=5)
    assert "23 latents" in str(caught.value) and "natural-gradient" in str(caught.value)
    with pytest.raises(MethodError, match="E501") as caught:
        fitted(model, data, "stochastic", engine="iterative")
    assert "iterative engine estimates" in str(caught.value)
    with pytest.raises(MethodError, match="E501"):
        fitted(model, data, "stochastic", rows="streamed")
