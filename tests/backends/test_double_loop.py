"""The double loop: known answers, ascent, one optimum from any start, order among the bounds, the
sparse engine, units, what it says of convexity, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.contract.questions import SuperGaussian
from lgmdsl.contract.status import Status
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl.sites.catalogue import sites
from lgmdsl.testing.models import concave_families, random_models
from lgmdsl.testing.random.evidence import brute_log_evidence
from lgmdsl.testing.random.model import RandomModel
from lgmdsl_backends import double_loop
from tests.agreement.methods import apart, few, predictors
from tests.compiled import canonical_form

SUPER = (
    *(s.spec.name for s in sites() if issubclass(s, SuperGaussian)),
    "laplace.mean",  # a potential on the distance from y
    "student_t.mean",
)
CONCAVE = tuple(n for n in SUPER if n in concave_families())
HEAD = "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\n"


@pytest.mark.thorough
@given(random_models(families=SUPER, rows=(1, 12), latents=(1, 8), flat=True, missing=True))
@few(10)
def test_every_outer_step_raises_the_bound(case: RandomModel) -> None:
    fit = case.fit("double-loop", tol=1e-9)
    assert fit.converged
    steps = np.diff([e.objective for e in fit.trace])
    assert (steps >= -1e-10 * max(1.0, abs(fit.log_evidence))).all()


@pytest.mark.thorough
@given(
    random_models(families=CONCAVE, rows=(1, 12), latents=(1, 8), wild=False, flat=True),
    st.sampled_from(["natural-gradient", "ep", "double-loop"]),
)
@few(8)
def test_one_optimum_from_other_starts(case: RandomModel, method: str) -> None:
    """From another method's posterior, or from one on other responses."""
    assert case.concave
    own = case.fit("double-loop", tol=1e-10)
    turned = case.take(np.arange(case.rows)[::-1]) if method == "double-loop" else case
    start = turned.fit(method, max_steps=3)
    other = case.fit("double-loop", tol=1e-10, start_from=start)
    assert own.converged and other.converged
    assert other.log_evidence == pytest.approx(own.log_evidence, rel=1e-8, abs=1e-8)
    assert apart(predictors(own), predictors(other)) < 1e-4


@given(random_models(families=CONCAVE, rows=(1, 6), latents=(1, 2), wild=False, missing=True))
@few(6)
def test_it_is_below_the_elbo_and_that_below_the_evidence(case: RandomModel) -> None:
    low, middle = (case.fit(m, tol=1e-9).log_evidence for m in ("double-loop", "natural-gradient"))
    slack = 1e-7 * max(1.0, abs(middle))
    try:
        exact = brute_log_evidence(case)
    except (ValueError, ArithmeticError):
        reject()
    assert low <= middle + slack and middle <= exact + slack


@given(random_models(families=SUPER, rows=(1, 5), latents=(1, 1), wild=False))
@few(6)
def test_so_it_is_without_log_concavity(case: RandomModel) -> None:
    assert case.fit("double-loop", tol=1e-9).log_evidence <= brute_log_evidence(case) + 1e-7


def regression(family: str, type_: str = "real", prior: str = "normal(sd = 2)") -> str:
    return (
        f"{HEAD}data y[obs] : {type_}\nlatent b[feat] ~ {prior}\nlet eta[obs] = X @ b\n"
        f"observe y ~ {family}\n"
    )


def test_it_says_whether_the_optimum_is_global() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.standard_t(3, 20)
    convex = lgm.fit(
        lgm.loads(regression("laplace(mean = eta, scale = 1)")), {"X": X, "y": y}, "double-loop"
    )
    told = "all sites are log-concave: the problem is convex and the optimum global"
    assert convex.provenance["notes"] == told
    assert told in " ".join(convex.summary().split())
    open_ = lgm.fit(
        lgm.loads(regression("student_t(mean = eta, scale = 1, df = 4)")),
        {"X": X, "y": y},
        "double-loop",
    )
    assert "not certified to be the global optimum: student_t" in open_.provenance["notes"]
    assert len(open_.starts) == 2 and "W602" not in [w.code for w in open_.warnings]
    assert "find one mode" in open_.provenance["notes"]


@pytest.mark.parametrize(
    "family",
    [
        "laplace(mean = eta, scale = {unit})",
        "student_t(mean = eta, scale = {unit}, df = 4)",
        "normal(mean = eta, sd = {unit})",
    ],
)
def test_units_do_not_matter(family: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 2))
    y = X @ [2.0, -1.0] + rng.standard_t(3, 25)

    def fitted(unit: float) -> lgm.Fit:
        text = regression(family.format(unit=unit), prior=f"normal(sd = {3.0 * unit})")
        return lgm.fit(lgm.loads(text), {"X": X, "y": unit * y}, "double-loop", tol=1e-10)

    one = fitted(1.0)
    for unit in (1e6, 1e-6):
        other = fitted(unit)
        assert other.converged
        moved = other.log_evidence + 25 * np.log(unit)
        assert moved == pytest.approx(one.log_evidence, abs=1e-6)
        np.testing.assert_allclose(other.mean("b") / unit, one.mean("b"), atol=1e-6)
        np.testing.assert_allclose(other.sd("b") / unit, one.sd("b"), rtol=1e-5)


SMOOTHED = (
    "lgm 1\nindex site\nindex obs\ndata g[site, site] : graph\ndata at[obs] : site\n"
    "data y[obs] : real\ndata c[obs] : binary\nlatent m ~ normal(sd = 5)\n"
    "latent f[site] ~ besag(graph = g, sd = 1)\nlet eta[obs] = m + f[at]\n"
    "observe y ~ laplace(mean = eta, scale = 0.4)\nobserve c ~ bernoulli(logit = eta)\n"
    "potential f ~ student_t(scale = 2, df = 3)\n"
)


@pytest.mark.parametrize("method", ["double-loop", "coordinate-descent", "map"])
def test_the_sparse_engine_gives_what_dense_algebra_gives(method: str) -> None:
    """An intrinsic field with its constraint, Laplace, logistic and Student-t sites."""
    rng = np.random.default_rng(2)
    n, rows = 30, 90
    at = rng.integers(0, n, rows)
    truth = np.cumsum(rng.normal(size=n)) * 0.3
    edges = np.c_[np.arange(n), (np.arange(n) + 1) % n]
    data = {"g": np.vstack([edges, [[0, 7], [3, 20]]]), "at": at,
            "y": truth[at] + rng.laplace(size=rows) * 0.4, "site": np.arange(n),
            "c": (rng.random(rows) < 1.0 / (1.0 + np.exp(-truth[at]))).astype(int)}  # fmt: skip
    canonical = canonical_form(SMOOTHED, data)
    planned = plan(canonical, method)
    problem = planned.at(canonical.hypers.theta(None))
    linear = problem.engine.linear
    found = []
    for engine in (PrecisionEngine(linear), SparseEngine(linear)):
        result = run(planned.backend, replace(problem, engine=engine), Tolerances(1e-11, 1e-7))
        assert result.status is Status.converged and result.posterior is not None
        found.append((result.trace[-1].objective, result.posterior.conditioned))
    (one, q), (two, sparse) = found
    assert two == pytest.approx(one, rel=1e-9), method
    np.testing.assert_allclose(sparse.latent_mean, q.latent_mean, atol=1e-6)
    np.testing.assert_allclose(sparse.latent_variance, q.latent_variance, rtol=1e-5, atol=1e-12)


def test_separated_classes_are_refused_before_any_step() -> None:
    X = np.c_[np.ones(8), np.arange(8.0)]
    y = (X[:, 1] > 3.5).astype(int)
    steps: list[object] = []
    flat = regression("bernoulli(logit = eta)", "binary", "flat")
    kinked = flat + "latent e ~ flat\npotential e ~ laplace(scale = 1)\n"
    for text in (flat, kinked):
        with pytest.raises(lgm.ModelError) as caught:
            lgm.fit(lgm.loads(text), {"X": X, "y": y}, "double-loop", on_step=steps.append)
        assert caught.value.codes == ("E402",) and not steps
    bounded = flat + "potential b ~ laplace(scale = 3)\n"
    assert lgm.fit(lgm.loads(bounded), {"X": X, "y": y}, "double-loop").converged


def test_a_site_that_is_not_super_gaussian_is_refused() -> None:
    data = {"X": np.ones((3, 1)), "y": [0, 1, 4]}
    with pytest.raises(lgm.MethodError, match="not super-gaussian") as caught:
        lgm.fit(lgm.loads(regression("poisson(log_rate = eta)", "count")), data, "double-loop")
    assert caught.value.codes == ("E501",)


def test_extrapolated_variances_save_outer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same optimum in fewer steps than by the paper's iteration."""
    rng = np.random.default_rng(3)
    y = np.repeat([0.0, 1.0, 0.3], 20) + 0.1 * rng.normal(size=60)
    text = (
        "lgm 1\nindex t\ndata y[t] : real\nlatent u[t] ~ flat\n"
        "observe y ~ normal(mean = u, sd = 0.1)\npotential diff(u, t) ~ laplace(scale = 0.05)\n"
    )
    fast = lgm.fit(lgm.loads(text), {"y": y}, "double-loop", tol=1e-10)
    monkeypatch.setattr(double_loop, "_extrapolated", lambda _, state: (state.history, None))
    plain = lgm.fit(lgm.loads(text), {"y": y}, "double-loop", tol=1e-10)
    assert fast.converged and plain.converged
    assert fast.log_evidence == pytest.approx(plain.log_evidence, abs=1e-8)
    assert fast.steps <= 0.8 * plain.steps
    assert (np.diff([e.objective for e in fast.trace]) >= -1e-10 * abs(fast.log_evidence)).all()
