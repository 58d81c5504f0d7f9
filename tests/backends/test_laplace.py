"""Laplace: the mode, its curvature, hard starts, refusals, statuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.contract.status import Guarantee, Status


def laplace(model: lgm.Model, data: Any, **options: Any) -> lgm.Fit:
    return lgm.fit(model, data, method="laplace", **options)


ONE = """lgm 1
index obs
data y[obs] : {type}
latent z ~ normal(sd = {sd})
let s[obs] = z
observe y ~ {family}
"""


@pytest.mark.parametrize(
    ("type_", "family", "y"),
    [
        ("count", "poisson(log_rate = s)", [30000, 29000]),
        ("count", "poisson(log_rate = s)", [0, 0, 0]),
        ("real", "normal(mean = 0, log_var = s)", [1e-6, 2e-6]),
        ("real", "normal(mean = 0, log_var = s)", [1e5, -2e5]),
        ("positive", "gamma(log_mean = s, shape = 3)", [1e-5, 4e4]),
        ("binary", "bernoulli(cloglog = s)", [1, 1, 1, 1]),
        ("binary", "bernoulli(probit = s)", [0] * 50),
        ("count", "negbinomial(log_mean = s, size = 0.1)", [5000, 0]),
        ("real", "student_t(mean = s, scale = 0.1, df = 2)", [100.0, 100.1, -3.0]),
    ],
)
@pytest.mark.parametrize("sd", [0.5, 5.0, 100.0])
def test_the_mode_is_found_from_far_away(
    type_: str, family: str, y: list[float], sd: float
) -> None:
    """Newton from the prior mean reaches the mode that a bracketing search finds."""
    fit = laplace(lgm.loads(ONE.format(type=type_, sd=sd, family=family)), {"y": np.array(y)})
    assert fit.converged, (fit.status, fit.trace[-3:])
    site = fit.canonical.blocks[0].bind(fit.theta)
    offset = fit.canonical.linear(fit.theta).predictors[0].offset

    def energy(z: float) -> float:
        return -float(site.log_density(z + offset).sum()) + 0.5 * (z / sd) ** 2

    # The nearest mode: sites that are not log-concave have others.
    start = fit.mean("z").item()
    found = optimize.minimize_scalar(energy, bracket=(start - 0.05, start, start + 0.05), tol=1e-12)
    assert fit.mean("z").item() == pytest.approx(found.x, abs=2e-5 * max(1, abs(found.x)))


def test_far_up_an_exponential_link_no_convergence_is_claimed() -> None:
    """Newton moves by one a step there, and the decrement drowns in rounding: e^300 a weight."""
    text = ONE.format(type="count", sd=5, family="poisson(log_rate = s)").replace(
        "normal(sd", "normal(mean = 300, sd"
    )
    y = {"y": np.array([3, 4])}
    assert laplace(lgm.loads(text), y).status is Status.iteration_limit
    fit = laplace(lgm.loads(text), y, max_steps=400)
    assert fit.converged
    z = fit.mean("z").item()
    assert 7 - 2 * np.exp(z) - (z - 300) / 25 == pytest.approx(0.0, abs=1e-6)


def test_a_nearly_flat_log_variance_reaches_its_mode() -> None:
    text = ONE.format(type="real", sd=1, family="normal(mean = 0, log_var = s)").replace(
        "normal(sd = 1)", "flat"
    )
    fit = laplace(lgm.loads(text), {"y": np.array([1e-8, 2e-8])})
    assert fit.converged
    assert fit.mean("z").item() == pytest.approx(np.log(2.5e-16), abs=1e-6)


def test_the_evidence_is_laplace_s() -> None:
    y = np.array([3, 5, 2])
    fit = laplace(
        lgm.loads(ONE.format(type="count", sd=2, family="poisson(log_rate = s)")), {"y": y}
    )
    z = fit.mean("z").item()
    curvature = 3 * np.exp(z) + 0.25
    joint = stats.poisson.logpmf(y, np.exp(z)).sum() + stats.norm.logpdf(z, 0, 2)
    want = joint + 0.5 * np.log(2 * np.pi / curvature)
    assert fit.log_evidence == pytest.approx(want, rel=1e-10)
    assert fit.sd("z").item() == pytest.approx(curvature**-0.5, rel=1e-8)
    assert fit.guarantee is Guarantee.APPROXIMATE


def test_kinked_sites_are_refused_with_e502() -> None:
    text = ONE.format(type="real", sd=2, family="laplace(mean = s, scale = 1)")
    with pytest.raises(lgm.MethodError) as caught:
        laplace(lgm.loads(text), {"y": np.ones(3)})
    assert caught.value.codes == ("E502",)


def test_a_hyper_without_a_value_is_e503_and_names_the_option() -> None:
    text = ONE.format(type="count", sd="s0", family="poisson(log_rate = s)").replace(
        "latent", "hyper s0 : positive ~ pc_sd(u = 1, alpha = 0.01)\nlatent"
    )
    with pytest.raises(lgm.MethodError) as caught:
        laplace(lgm.loads(text), {"y": np.ones(3, int)}, hyper="fixed")
    assert caught.value.codes == ("E503",)
    assert 'fixed={"s0": ' in str(caught.value)
    fit = laplace(lgm.loads(text), {"y": np.ones(3, int)}, fixed={"s0": 0.5})
    assert fit.mean("s0").item() == 0.5


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan, "x", [1.0, 2.0]])
def test_wrong_pinned_values_are_refused(value: object) -> None:
    text = ONE.format(type="count", sd="s0", family="poisson(log_rate = s)").replace(
        "latent", "hyper s0 : positive = 1\nlatent"
    )
    with pytest.raises(lgm.DataError):
        laplace(lgm.loads(text), {"y": np.ones(3, int)}, fixed={"s0": value})


def test_an_unknown_pinned_name_is_refused() -> None:
    text = ONE.format(type="count", sd=1, family="poisson(log_rate = s)")
    with pytest.raises(lgm.MethodError, match="no hyper"):
        laplace(lgm.loads(text), {"y": np.ones(3, int)}, fixed={"zz": 1})


def test_stopping_early_says_so() -> None:
    text = ONE.format(type="count", sd=50, family="poisson(log_rate = s)")
    fit = laplace(lgm.loads(text), {"y": np.array([10**6])}, max_steps=2)
    assert fit.status is Status.iteration_limit and not fit.converged
    assert [w.code for w in fit.warnings] == ["W601"]
    resumed = laplace(lgm.loads(text), {"y": np.array([10**6])}, start_from=fit)
    assert resumed.converged
    whole = laplace(lgm.loads(text), {"y": np.array([10**6])})
    assert resumed.log_evidence == pytest.approx(whole.log_evidence, rel=1e-9)
    assert resumed.steps < whole.steps


def test_separated_classes_under_a_flat_prior_are_no_result() -> None:
    """The likelihood has no maximum; Newton's decrement alone would call that converged."""
    text = (
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : binary\nlatent b ~ flat\n"
        "let s[obs] = x * b\nobserve y ~ bernoulli(logit = s)\n"
    )
    x = np.linspace(-1, 1, 10)
    with pytest.raises(lgm.ModelError, match="goes to infinity") as caught:
        laplace(lgm.loads(text), {"x": x, "y": (x > 0).astype(int)})
    assert caught.value.codes == ("E402",)
    overlapping = (x > 0).astype(int)
    overlapping[4:6] = [1, 0]
    assert laplace(lgm.loads(text), {"x": x, "y": overlapping}).converged


def test_an_undetermined_flat_block_is_e402() -> None:
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : count\n"
        "latent b[feat] ~ flat\nlet s[obs] = X @ b\nobserve y ~ poisson(log_rate = s)\n"
    )
    X = np.ones((6, 2))  # two equal columns
    with pytest.raises(lgm.ModelError, match="nothing fixes `b`") as caught:
        laplace(lgm.loads(text), {"X": X, "y": np.arange(6)})
    assert caught.value.codes == ("E402",)
    assert laplace(lgm.loads(text), {"X": X * [1, 0.5] + np.eye(6, 2), "y": np.arange(6)}).converged


def test_vector_statistics_take_blocks() -> None:
    """Laplace on a vector-valued site (softmax over three classes), built by hand."""
    from lgmdsl.contract.engine import Conditioned
    from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
    from lgmdsl.contract.problem import Problem
    from lgmdsl.engines.choose import choose
    from lgmdsl.inference.driver import Tolerances, run
    from lgmdsl.operators.explicit import Identity
    from lgmdsl.structures.catalogue import structure
    from lgmdsl_backends.laplace import Laplace
    from tests.backends.softmax import Softmax

    rng = np.random.default_rng(0)
    n, k = 5, 3
    y = rng.integers(0, k, n).astype(float)
    block = PriorBlock("f", (structure("normal", n * k, sd=1.5),), np.zeros(n * k))
    linear = LinearGaussian((block,), (Predictor({"f": Identity(n * k)}, np.zeros(n * k), k),))
    engine, _ = choose(linear)
    assert engine is not None
    site = Softmax(y)
    result = run(Laplace(), Problem((site,), (site,), engine), Tolerances(1e-12, 1e-8))
    assert result.status is Status.converged and result.posterior is not None

    def energy(z: np.ndarray) -> float:
        return -float(site.log_density(z.reshape(n, k)).sum()) + 0.5 * float(z @ z) / 1.5**2

    found = optimize.minimize(energy, np.zeros(n * k), method="BFGS", options={"gtol": 1e-9})
    conditioned: Conditioned = result.posterior.conditioned
    np.testing.assert_allclose(conditioned.latent_mean, found.x, atol=1e-5)
    assert conditioned.variance[0].shape == (n, k, k)


def test_the_mean_correction_takes_most_of_the_error_away() -> None:
    """A GP of prior variance e^4: Laplace's mean is half an sd off, the corrected one a tenth."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 2))
    y = (np.sin(2 * x[:, 0]) + 0.5 * rng.standard_normal(60) > 0).astype(int)
    text = (
        "lgm 1\nindex obs\nindex dim\ndata x[obs, dim] : real\ndata y[obs] : binary\n"
        "latent f[obs] ~ gp(at = x, kernel = se(sd = 7.39, length = 1))\n"
        "observe y ~ bernoulli(logit = f)\n"
    )

    def fit(method: str, **options: object) -> lgm.Fit:
        return lgm.fit(lgm.loads(text), {"x": x, "y": y}, method, options=options)

    plain, corrected = fit("laplace"), fit("laplace", correct_mean=True)
    best = fit("natural-gradient")
    assert corrected.log_evidence == plain.log_evidence
    np.testing.assert_allclose(corrected.sd("f"), plain.sd("f"), rtol=1e-8)
    errors = [
        float((abs(f.mean("f") - best.mean("f")) / best.sd("f")).mean()) for f in (plain, corrected)
    ]
    assert errors[0] > 0.3 and errors[1] < 0.3 * errors[0], errors


@pytest.mark.parametrize("method", ["laplace", "natural-gradient", "coordinate-ascent"])
def test_far_up_a_flat_direction_the_way_back_is_found(method: str) -> None:
    """At the prior's predictors, 90 above the data, the curvature is 1e-40 and Newton's step as
    long; the search for the mode that guards against improper posteriors starts there too."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : positive\nlatent a ~ flat\nlet eta[obs] = a + 90\n"
        "observe y ~ gamma(log_mean = eta, shape = 3)\n"
    )
    fit = lgm.fit(lgm.loads(text), {"y": [0.006, 0.01]}, method)
    assert fit.converged
    assert float(fit.mean("eta")[0]) == pytest.approx(np.log(0.008), abs=0.2)
