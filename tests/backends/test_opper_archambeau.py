"""Opper-Archambeau: gradients, agreement, refusals, statuses, flat sites."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import elbo_at, resolved
from lgmdsl.contract.stacked import StackedPredictors, flatten
from lgmdsl.contract.status import Status
from lgmdsl_backends import opper_archambeau as module
from lgmdsl_backends.opper_archambeau import OpperArchambeau
from tests.backends import climbing

MODELS = [climbing.FLAT, climbing.TIED, climbing.TWO, climbing.GP, climbing.KINKED]


SIGNED = [
    climbing.HEAVY.replace("scale = 1, df = 4", "scale = 0.1, df = 1"),
    climbing.HEAVY.replace("y[obs] : real", "y[obs] : unit").replace(
        "student_t(mean = eta, scale = 1, df = 4)", "beta(logit_mean = eta, concentration = 0.7)"
    ),
    climbing.KINKED.replace("latent b[feat] ~ normal(sd = 2)", "latent b[feat] ~ flat").replace(
        "observe y ~ laplace(mean = eta, scale = 0.7)",
        "observe y ~ normal(mean = eta, sd = 0.7)\n"
        "potential b ~ exp_power(scale = 0.02, power = 0.5)",
    ),
    climbing.KINKED.replace(
        "observe y ~ laplace(mean = eta, scale = 0.7)",
        "observe y ~ normal(mean = eta, sd = 0.7)\npotential b ~ student_t(scale = 0.05, df = 1)",
    ),
]


@pytest.mark.parametrize("text", [*MODELS, climbing.HEAVY, *SIGNED[:2]])
def test_the_gradient_is_that_of_finite_differences(text: str) -> None:
    given = climbing.problem(text, "opper-archambeau")
    back = OpperArchambeau()
    state = back.step(given, back.start(given))
    assert state.reference is not None and state.iterate is not None
    function = module._evaluate(given, state.reference)
    size = len(state.reference.mean)
    rng = np.random.default_rng(0)

    def direction() -> np.ndarray:
        """Two rows: the direction and its image under the metric."""
        assert state.reference is not None
        a, omega = rng.normal(size=size), rng.normal(size=size)
        image = np.r_[state.reference.spread.times(a), state.reference.metric * omega]
        return np.array([np.r_[a, omega], image])

    x = state.iterate.x + 0.1 * direction()
    at = function(x)
    assert at is not None
    for _ in range(5):
        d, h = direction(), 1e-5
        ahead, behind = function(x + h * d), function(x - h * d)
        assert ahead is not None and behind is not None
        slope = (ahead.value - behind.value) / (2 * h)
        assert at.gradient[1] @ d[0] == pytest.approx(slope, rel=1e-5, abs=1e-6)
        assert module._inner(at.gradient, d) == pytest.approx(at.gradient[1] @ d[0], rel=1e-9)


PROPER = [climbing.TWO, climbing.GP, climbing.KINKED]


@pytest.mark.parametrize("text", PROPER)
def test_the_papers_own_form_has_the_same_objective_and_gradient(text: str) -> None:
    """m = s0 + S a and w = exp(omega): the ELBO there, and finite differences."""
    given = climbing.problem(text, "opper-archambeau")
    back = OpperArchambeau(whitened=False)
    state = back.step(given, back.start(given))
    assert state.reference is not None and state.iterate is not None
    a, omega = np.split(state.iterate.x, 2)
    point = state.iterate.at.kept.point
    b = StackedPredictors(given.engine.linear).matrix()
    s = np.asarray(b @ state.reference.spread.conditioned.solve(np.asarray(b.T @ a)))
    np.testing.assert_allclose(flatten(point.mean), flatten(given.engine.prior_mean) + s, atol=1e-8)
    np.testing.assert_allclose(flatten(point.weight), np.exp(omega), rtol=1e-10)
    function = module._evaluate_plain(given, state.reference)
    rng = np.random.default_rng(0)
    x = state.iterate.x + 0.05 * rng.normal(size=state.iterate.x.shape)
    directions = rng.normal(size=(5, *x.shape))
    climbing.slopes_agree(function, x, directions, 1e-5, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("text", PROPER)
def test_the_papers_own_form_reaches_the_same_optimum(text: str) -> None:
    options = {"whitened": False}
    fit = climbing.solved(text, "opper-archambeau", options=options)
    climbing.same_optimum(fit, climbing.best(text))


def test_the_papers_own_form_needs_a_proper_prior() -> None:
    state = OpperArchambeau(whitened=False).start(
        climbing.problem(climbing.FLAT, "opper-archambeau")
    )
    assert state.failed is Status.numerical_error and "proper prior" in str(state.reason)


def test_the_objective_is_the_elbo_of_mean_and_covariance() -> None:
    given = climbing.problem(climbing.TWO, "opper-archambeau")
    state = OpperArchambeau().step(given, OpperArchambeau().start(given))
    assert state.iterate is not None
    q = state.iterate.at.kept.point.conditioned
    want = climbing.dense_elbo(given, q.latent_mean, q.solve(np.eye(2)))
    assert state.objective == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("text", MODELS)
def test_products_with_the_squared_covariance(text: str) -> None:
    """Both forms, by rows and by latents, against C formed outright."""
    given = climbing.problem(text, "opper-archambeau")
    weight = tuple(np.full_like(m, 0.4) for m in given.engine.prior_mean)
    q = given.engine.condition(weight, weight)
    assert not isinstance(q, Failed)
    linear = given.engine.linear
    b = StackedPredictors(linear).matrix()
    dense = np.asarray(b @ np.eye(linear.size))
    c = dense @ q.solve(np.ascontiguousarray(dense.T))
    x = np.random.default_rng(1).normal(size=len(c))
    for design in (b, dense):
        spread = module.Spread(design, q)
        np.testing.assert_allclose(spread.times(x), c @ x, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(spread.squared_times(x), c**2 @ x, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(c.diagonal(), flatten(q.variance), rtol=1e-9)


@pytest.mark.few(4)
@pytest.mark.parametrize("text", [*MODELS, climbing.HEAVY, *SIGNED])
def test_it_reaches_the_optimum_of_the_natural_gradient(text: str) -> None:
    fit = climbing.solved(text, "opper-archambeau")
    climbing.same_optimum(fit, climbing.best(text))


def test_an_outlier_of_students_t_has_a_negative_weight() -> None:
    """One latent: the ELBO of N(m, v) by quadrature, maximised without weights; v is above the
    prior's, as no positive weight can make it."""
    text = """lgm 1
index obs
data y[obs] : real
latent z ~ normal(sd = 1)
observe y ~ student_t(mean = z, scale = 0.3, df = 2)
"""
    fit = lgm.fit(lgm.loads(text), {"y": [4.0]}, method="opper-archambeau")
    t = np.linspace(-9.0, 9.0, 4001)
    weight = stats.norm.pdf(t) / stats.norm.pdf(t).sum()

    def loss(x: np.ndarray) -> float:
        m, sd = x[0], np.exp(x[1])
        log_t = stats.t.logpdf(4.0 - m - sd * t, 2, scale=0.3)
        return float(0.5 * (m * m + sd * sd - 1.0) - x[1] - weight @ log_t)

    starts = ([0.0, 0.0], [4.0, -1.0])
    best = min((optimize.minimize(loss, x, tol=1e-12) for x in starts), key=lambda r: r.fun)
    assert fit.converged and fit.log_evidence == pytest.approx(-best.fun, abs=1e-6)
    assert float(fit.mean("z")) == pytest.approx(best.x[0], abs=1e-3)
    assert float(fit.sd("z")) == pytest.approx(np.exp(best.x[1]), rel=1e-3)
    assert float(fit.sd("z")) > 1.0 and flatten(fit.posterior.weight)[0] < 0.0


def test_the_papers_form_takes_signed_weights() -> None:
    text = climbing.HEAVY
    fit = climbing.solved(text, "opper-archambeau", options={"whitened": False})
    other = climbing.solved(text, "natural-gradient")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)


def test_the_residual_sees_weights_that_are_wrong_at_the_best_mean() -> None:
    """With f_m = alpha the undamped step moves no mean; the sds tell that w is not -2 f_v."""
    given = climbing.problem(climbing.GP, "opper-archambeau")
    back = OpperArchambeau()
    best = climbing.solved(climbing.GP, "opper-archambeau", tol=1e-10).posterior
    weight = tuple(3.0 * w for w in best.weight)
    alpha = [
        b - w * m for b, w, m in zip(best.shift, best.weight, best.conditioned.mean, strict=True)
    ]
    shift = tuple(a + w * m for a, w, m in zip(alpha, weight, best.conditioned.mean, strict=True))
    conditioned = given.engine.condition(weight, shift)
    assert not isinstance(conditioned, Failed)
    np.testing.assert_allclose(conditioned.mean[0], best.conditioned.mean[0], atol=1e-8)
    wrong = type(best)(weight, shift, conditioned, 0.0, best.guarantee)
    assert back.residual(given, back.start(given, wrong)) > 1e-2
    assert back.residual(given, back.start(given, best)) < 1e-4


def test_a_site_that_says_nothing_is_no_obstacle() -> None:
    """Rows of binomial trials 0 have weight 0, whose logarithm does not exist."""
    text = climbing.TWO.replace("data y[obs] : binary", "data y[obs] : count\ndata n[obs] : count")
    text = text.replace("bernoulli(probit = eta)", "binomial(n = n, logit = eta)")
    given = climbing.data(climbing.TWO)
    trials = np.r_[np.zeros(4, int), np.ones(10, int)]
    y = given["y"] * trials
    fit = lgm.fit(lgm.loads(text), {**given, "y": y, "n": trials}, "opper-archambeau")
    other = lgm.fit(lgm.loads(text), {**given, "y": y, "n": trials}, "natural-gradient")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)


def test_stopping_early_is_said_and_the_bound_is_one() -> None:
    climbing.says_that_it_stopped("opper-archambeau")


def test_weights_that_drown_the_bound_are_not_taken() -> None:
    """At w = 1e30 the bound's digits are gone: a rise there is rounding."""
    given = climbing.problem(climbing.GP, "opper-archambeau")
    point = elbo_at(given, (np.full(14, 1e30),), (np.full(14, 1e30),))
    assert isinstance(point, Failed) or not resolved(point)


def test_a_broken_engine_is_a_status() -> None:
    climbing.fails_with_its_engine(OpperArchambeau())
