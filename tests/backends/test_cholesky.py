"""Cholesky: gradients, the canonical form it hands back, hard priors, refusals, statuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

import lgmdsl as lgm
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.objectives.elbo import ElboPoint, begin
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import ExpectedAnswer
from lgmdsl.contract.status import Status
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.operators.explicit import Dense
from lgmdsl.structures.catalogue import structure
from lgmdsl_backends import cholesky as module
from lgmdsl_backends.cholesky import Cholesky
from tests.backends import climbing

# A Gaussian process whose kernel can be inverted, although two of its points are there twice.
APART = climbing.GP.replace("se(sd = 3, length = 2)", "se(sd = 3, length = 0.2) + white(sd = 0.5)")
NEARLY = APART.replace("white(sd = 0.5)", "white(sd = 1e-7)")
MODELS = [climbing.FLAT, climbing.TIED, climbing.TWO, climbing.GP, climbing.KINKED]


@pytest.mark.parametrize("text", [*MODELS, climbing.HEAVY])
def test_the_gradient_is_that_of_finite_differences(text: str) -> None:
    given = climbing.problem(text, "cholesky")
    back = Cholesky(refresh=2)
    state = back.start(given)
    for _ in range(3):  # past a second whitening
        state = back.step(given, state)
    assert state.frame is not None
    function = module._evaluate(given, state.frame)
    x = state.iterate.x
    rng = np.random.default_rng(0)
    x = x + 0.05 * rng.normal(size=x.shape)
    directions = rng.normal(size=(5, *x.shape))
    climbing.slopes_agree(function, x, directions, 1e-5, rel=1e-6, abs=1e-7)


PROPER = [climbing.TWO, climbing.KINKED, climbing.HEAVY, APART]


@pytest.mark.parametrize("text", PROPER)
def test_the_papers_own_form_has_the_same_objective_and_gradient(text: str) -> None:
    """(m - mu, L) of z itself: the ELBO from its definition, and finite differences."""
    given = climbing.problem(text, "cholesky")
    back = Cholesky(whitened=False, refresh=1)
    state, first = back.start(given), begin(given)
    assert isinstance(first, ElboPoint)
    assert state.objective == pytest.approx(first.elbo, rel=1e-9)
    state = back.step(given, back.step(given, state))
    assert state.frame is not None and state.frame.turn is None  # never whitened on the way
    h, factor = state.frame.seen(state.iterate.x)
    mean = np.concatenate([b.mean for b in given.engine.linear.blocks]) + h
    want = climbing.dense_elbo(given, mean, factor @ factor.T)
    assert state.objective == pytest.approx(want, rel=1e-9)
    function, x = module._evaluate(given, state.frame), state.iterate.x
    rng = np.random.default_rng(0)
    x = x + 0.01 * rng.normal(size=x.shape) * np.abs(x).max()
    directions = rng.normal(size=(5, *x.shape))
    climbing.slopes_agree(function, x, directions, 1e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("text", PROPER)
def test_the_papers_own_form_reaches_the_same_optimum(text: str) -> None:
    options = {"whitened": False}
    fit = climbing.solved(text, "cholesky", options=options, max_steps=3000)
    climbing.same_optimum(fit, climbing.best(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [(climbing.FLAT, "proper prior"), (climbing.GP, "singular"), (NEARLY, "singular")],
)
def test_a_prior_that_the_papers_form_cannot_invert_is_a_status(text: str, reason: str) -> None:
    """Rows that are there twice make the kernel singular, or as good as."""
    state = Cholesky(whitened=False).start(climbing.problem(text, "cholesky"))
    assert state.failed is Status.numerical_error and reason in str(state.reason)


def test_the_objective_is_the_elbo_of_mean_and_covariance() -> None:
    given = climbing.problem(climbing.TWO, "cholesky")
    state = Cholesky().start(given)
    state = Cholesky().step(given, state)
    white = state.frame
    assert white is not None
    h, factor = white.seen(state.iterate.x)
    q0 = white.reference.conditioned
    v0 = q0.solve(np.eye(2))
    # The root of the correlations, up to its order: any root does for the covariance's check.
    b = given.engine.linear.predictors[0].columns["b"].dense()
    root = np.linalg.lstsq(np.vstack([b, b]), np.asarray(white.design), rcond=None)[0]
    np.testing.assert_allclose(root @ root.T, v0, rtol=1e-8)
    mean = q0.latent_mean + root @ h
    half = root @ factor
    want = climbing.dense_elbo(given, mean, half @ half.T)
    assert state.objective == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("text", [*MODELS, climbing.HEAVY])
def test_the_canonical_form_shares_mean_and_covariance(text: str) -> None:
    given = climbing.problem(text, "cholesky")
    back = Cholesky()
    state = back.start(given)
    for _ in range(200):
        following = back.step(given, state)
        if following.failed is not None:
            break
        state = following
    found = back.posterior(given, state)
    at = state.iterate.at.kept
    for m, v, m2, v2 in zip(
        at.mean, at.variance, found.conditioned.mean, found.conditioned.variance, strict=True
    ):
        np.testing.assert_allclose(m, m2, atol=1e-5)
        np.testing.assert_allclose(v, v2, rtol=1e-5)
    assert found.log_evidence == pytest.approx(state.objective, abs=1e-8)


@pytest.mark.parametrize("text", [*MODELS, climbing.HEAVY])
def test_it_reaches_the_optimum_of_the_natural_gradient(text: str) -> None:
    fit = climbing.solved(text, "cholesky")
    climbing.same_optimum(fit, climbing.best(text))


def test_latents_of_very_different_scales_are_all_whitened() -> None:
    text = climbing.TWO.replace("normal(sd = 2)", "normal(sd = scale)").replace(
        "latent", "data scale[feat] : positive\nlatent", 1
    )
    given = climbing.data(climbing.TWO)
    scales = np.array([1e-5, 1e5])
    fit = lgm.fit(lgm.loads(text), {**given, "scale": scales, "X": given["X"] / scales}, "cholesky")
    plain = lgm.fit(lgm.loads(text), {**given, "scale": np.ones(2)}, "cholesky")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(plain.log_evidence, rel=1e-7)


def test_a_wide_prior_on_a_log_variance_has_a_start() -> None:
    """f overflows at the prior's variance."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent z ~ normal(sd = 100)\nlet s[obs] = z\n"
        "observe y ~ normal(mean = 0, log_var = s)\n"
    )
    y = np.array([1e-6, 2e-6])
    fit = lgm.fit(lgm.loads(text), {"y": y}, "cholesky")
    other = lgm.fit(lgm.loads(text), {"y": y}, "opper-archambeau")
    assert fit.converged and other.converged
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-7)

    def joint(z: float) -> float:
        return float(
            np.exp(
                stats.norm.logpdf(y, 0, np.exp(z / 2)).sum() + stats.norm.logpdf(z, 0, 100) - 19.0
            )
        )

    z0 = np.log(2.5e-12)
    truth = 19.0 + np.log(integrate.quad(joint, z0 - 15, z0 + 60, points=[z0], limit=500)[0])
    assert truth - 0.5 < fit.log_evidence < truth


def test_too_many_latents_are_refused_with_e501() -> None:
    with pytest.raises(lgm.MethodError) as caught:
        climbing.solved(climbing.GP, "cholesky", options={"largest": 5})
    assert caught.value.codes == ("E501",)
    assert "14 latents" in str(caught.value) and "natural-gradient" in str(caught.value)


def test_stopping_early_is_said_and_the_bound_is_one() -> None:
    climbing.says_that_it_stopped("cholesky")


def test_a_broken_engine_is_a_status() -> None:
    climbing.fails_with_its_engine(Cholesky())


class LogSum:
    """A vector site's bound: f = m_y - log sum_k exp(m_k + V_kk / 2) <= E[s_y - log sum exp s]."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def expected(self, mean: np.ndarray, variance: np.ndarray, second: bool = False) -> object:
        top = mean + 0.5 * np.einsum("nii->ni", variance)
        p = special.softmax(top, axis=1)
        one = np.eye(mean.shape[1])[self.y]
        value = (one * mean).sum(axis=1) - special.logsumexp(top, axis=1)
        return ExpectedAnswer(value, one - p, -0.5 * p[:, :, None] * np.eye(mean.shape[1]))


def test_vector_sites() -> None:
    """The gradient, and the fixed point W = -2 f_v in blocks of 3 x 3."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    block = PriorBlock("z", (structure("dense", 6, cov=root @ root.T),), np.zeros(6))
    predictor = Predictor({"z": Dense(rng.normal(size=(12, 6)))}, rng.normal(size=12), event=3)
    engine = CovarianceEngine(LinearGaussian((block,), (predictor,)))
    given = Problem((), (LogSum(np.array([0, 2, 1, 1])),), engine)
    back = Cholesky()
    state = back.step(given, back.start(given))
    assert state.frame is not None
    function, x = module._evaluate(given, state.frame), state.iterate.x
    d = rng.normal(size=x.shape)
    at, ahead, behind = (function(x + h * d) for h in (0.0, 1e-5, -1e-5))
    assert at is not None and ahead is not None and behind is not None
    assert at.gradient @ d == pytest.approx((ahead.value - behind.value) / 2e-5, rel=1e-6)
    for _ in range(100):
        following = back.step(given, state)
        if following.failed is not None:
            break
        state = following
    assert back.residual(given, state) < 1e-6
