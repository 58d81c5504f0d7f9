"""EP on vector sites: against scalar EP, quadrature of tiny models, and its own fixed point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Tilted
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from tests.agreement.plain_models import slopes_hold
from tests.compiled import canonical_form

HEAD = """lgm 1
index obs
index feat
data X[obs, feat] : real
hyper s : positive ~ half_normal(sd = 1)
"""
CLASSES = HEAD + 'index class = {"a", "b", "c"}\nindex cut = head(class)\ndata y[obs] : class\n'
SOFTMAX = (
    "latent W[feat, class] ~ normal(sd = s)\nlet eta[obs, class] = X @ W\n"
    "observe y ~ categorical(softmax = eta)\n"
)
PAIR = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper s : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = s)
latent c ~ normal(sd = 0.7)
let eta[obs] = a * x
let lam[obs] = c * x
observe y ~ normal(mean = eta, log_sd = lam)
"""
MODELS = {
    "all classes": CLASSES + SOFTMAX,
    "a reference": CLASSES
    + SOFTMAX.replace("W[feat, class]", "W[feat, cut]").replace("obs, class]", "obs, cut]"),
    "probit": CLASSES + SOFTMAX.replace("softmax = eta", "probit = eta"),
}


def data(n: int, classes: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    p = special.softmax(x @ rng.normal(size=(2, classes)) * 1.5, axis=1)
    return x, np.array([rng.choice(classes, p=q) for q in p])


def fit(text: str, given_data: dict[str, Any], method: str = "ep", **more: Any) -> lgm.Fit:
    more = {"fixed": {"s": 1.2}, "tol": 1e-9, **more}
    return lgm.fit(lgm.loads(text), given_data, method, **more)


def solved(text: str, given_data: dict[str, Any], s: float, engine: Any = None) -> Any:
    """The plan, theta, problem and result of a run to 1e-8."""
    canonical = canonical_form(text, given_data)
    theta, planned = canonical.hypers.theta({"s": s}), plan(canonical, "ep")
    chosen = None if engine is None else engine(canonical.linear(theta))
    problem = planned.at(theta, chosen)
    return planned, theta, problem, run(planned.backend, problem, Tolerances(1e-11, 1e-8))


@pytest.mark.thorough
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), s=st.floats(0.1, 8.0), n=st.integers(1, 25))
def test_two_classes_are_a_logistic_model(seed: int, s: float, n: int) -> None:
    x, y = data(n, 2, seed)
    two = (HEAD + 'index class = {"a", "b"}\nindex cut = head(class)\ndata y[obs] : class\n') + (
        "latent W[feat, cut] ~ normal(sd = s)\nlet eta[obs, cut] = X @ W\n"
        "observe y ~ categorical(softmax = eta)\n"
    )
    one = HEAD + (
        "data y[obs] : binary\nlatent W[feat] ~ normal(sd = s)\nlet eta[obs] = X @ W\n"
        "observe y ~ bernoulli(logit = eta)\n"
    )
    soft = fit(two, {"X": x, "y": np.array(["a", "b"])[y]}, fixed={"s": s})
    known = fit(one, {"X": x, "y": 1 - y}, fixed={"s": s})
    assert soft.converged and known.converged
    # Both stop within a small residual of the fixed point, not at it.
    assert soft.log_evidence == pytest.approx(known.log_evidence, abs=1e-6)
    assert np.allclose(np.ravel(soft.mean("W")), np.ravel(known.mean("W")), atol=1e-5)
    assert np.allclose(np.ravel(soft.sd("W")), np.ravel(known.sd("W")), rtol=1e-5)


def test_counts_of_two_classes_are_a_binomial_model() -> None:
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=(9, 2)), rng.integers(1, 30, 9)
    k = rng.binomial(n, 0.3)
    two = HEAD + (
        'index class = {"a", "b"}\nindex cut = head(class)\ndata y[obs, class] : count\n'
        "data n[obs] : count\nlatent W[feat, cut] ~ normal(sd = s)\nlet eta[obs, cut] = X @ W\n"
        "observe y ~ multinomial(n = n, softmax = eta)\n"
    )
    one = HEAD + (
        "data y[obs] : count\ndata n[obs] : count\nlatent W[feat] ~ normal(sd = s)\n"
        "let eta[obs] = X @ W\nobserve y ~ binomial(n = n, logit = eta)\n"
    )
    soft = fit(two, {"X": x, "y": np.stack([k, n - k], 1), "n": n})
    known = fit(one, {"X": x, "y": k, "n": n})
    assert soft.log_evidence == pytest.approx(known.log_evidence, abs=1e-7)
    assert np.allclose(np.ravel(soft.mean("W")), np.ravel(known.mean("W")), atol=1e-7)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_moments_match_at_the_fixed_point(name: str, power: float) -> None:
    """q's marginals are those of the tilted densities of its own cavities."""
    x, y = data(14, 3)
    found = fit(MODELS[name], {"X": x, "y": np.array(list("abc"))[y]}, options={"power": power})
    assert found.converged
    canonical = canonical_form(MODELS[name], {"X": x, "y": np.array(list("abc"))[y]})
    planned = plan(canonical, "ep", options={"power": power})
    problem = planned.at(canonical.hypers.theta({"s": 1.2}))
    result = run(planned.backend, problem, Tolerances(1e-12, 1e-8))
    assert result.posterior is not None
    q = result.posterior.conditioned
    v, w = q.variance[0], q.weight[0]
    k = v.shape[1]
    cavity = np.linalg.solve(np.eye(k) - power * v @ w, v)
    slope = q.shift[0] - np.einsum("nij,nj->ni", w, q.mean[0])
    centre = q.mean[0] - power * np.einsum("nij,nj->ni", cavity, slope)
    answer: Tilted = problem.tilting()[0]
    moments = answer.tilted(centre, 0.5 * (cavity + cavity.transpose(0, 2, 1)), power)
    assert np.allclose(moments.mean, q.mean[0], atol=1e-7)
    assert np.allclose(moments.variance, v, atol=1e-7)


def test_engines_share_a_fixed_point() -> None:
    x, y = data(20, 3)
    given_data = {"X": x, "y": np.array(list("abc"))[y]}
    values = []
    for engine in (CovarianceEngine, PrecisionEngine, SparseEngine):
        result = solved(MODELS["all classes"], given_data, 1.2, engine)[3]
        assert result.posterior is not None
        values.append(result.posterior.log_evidence)
    assert np.ptp(values) < 1e-8


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["all classes", "a reference", "pair"])
def test_the_evidence_has_this_gradient(name: str) -> None:
    x, y = data(12, 3)
    given_data: dict[str, Any] = {"X": x, "y": np.array(list("abc"))[y]}
    if name == "pair":
        noise = np.random.default_rng(1).normal(size=12)
        given_data = {"x": x[:, 0], "y": x[:, 0] + np.exp(0.5 * x[:, 0]) * noise}
    text = MODELS.get(name, PAIR)
    slopes_hold(fit(text, given_data), "ep", None, {"s": np.asarray(1.2)})


def exact(x: Array, y: Array, s: float) -> tuple[float, Array, Array]:
    """Of PAIR, over 801 x 801 points of (a, c)."""
    a, c = np.linspace(-6.0, 6.0, 801), np.linspace(-4.0, 4.0, 801)
    log = np.zeros((801, 801))
    for xi, yi in zip(x, y, strict=True):
        z = (yi - a[:, None] * xi) * np.exp(-c[None, :] * xi)
        log += -0.5 * np.log(2 * np.pi) - c[None, :] * xi - 0.5 * z * z
    log += (
        -0.5 * (a[:, None] / s) ** 2 - 0.5 * (c[None, :] / 0.7) ** 2 - np.log(2 * np.pi * s * 0.7)
    )
    weight = np.exp(log - log.max())
    evidence = log.max() + np.log(weight.sum() * (a[1] - a[0]) * (c[1] - c[0]))
    weight /= weight.sum()
    means = np.array([weight.sum(1) @ a, weight.sum(0) @ c])
    squares = np.array([weight.sum(1) @ a**2, weight.sum(0) @ c**2])
    return float(evidence), means, np.sqrt(squares - means**2)


@pytest.mark.thorough
def test_two_predictors_against_quadrature() -> None:
    """EP is nearer to the exact posterior than the variational Gaussian and Laplace."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=8)
    y = 0.8 * x + np.exp(0.5 * x) * rng.normal(size=8)
    evidence, means, sds = exact(x, y, 1.2)
    off = {}
    for method in ("ep", "natural-gradient", "laplace"):
        found = fit(PAIR, {"x": x, "y": y}, method)
        assert found.converged
        mean = np.array([float(found.mean(k)) for k in "ac"])
        sd = np.array([float(found.sd(k)) for k in "ac"])
        off[method] = (
            abs(found.log_evidence - evidence),
            float(np.abs((mean - means) / sds).max()),
            float(np.abs(sd / sds - 1.0).max()),
        )
    assert off["ep"][0] < 0.08 and off["ep"][1] < 0.1 and off["ep"][2] < 0.1
    assert off["ep"][0] < min(off["natural-gradient"][0], off["laplace"][0])
    assert off["ep"][2] < min(off["natural-gradient"][2], off["laplace"][2])


def test_one_site_is_exact() -> None:
    """Of one row there is no approximation: the evidence is its tilted mass."""
    text = MODELS["a reference"]
    x = np.array([[1.0, 0.5]])
    found = fit(text, {"X": x, "y": np.array(["b"])})
    variance = 1.2**2 * 1.25 * np.eye(2)
    t, w = special.roots_hermitenorm(80)
    s = np.stack(np.meshgrid(t, t, indexing="ij"), -1).reshape(-1, 2) * np.sqrt(variance[0, 0])
    p = special.softmax(np.column_stack([s, np.zeros(len(s))]), axis=1)[:, 1]
    weight = np.multiply.outer(w, w).reshape(-1)
    assert found.log_evidence == pytest.approx(np.log(weight @ p / weight.sum()), abs=1e-7)


@pytest.mark.thorough
def test_separated_classes_under_wide_priors() -> None:
    x, _ = data(12, 3)
    y = np.array(list("abc"))[(x[:, 0] > -0.4).astype(int) + (x[:, 0] > 0.4)]
    found = fit(MODELS["a reference"], {"X": x, "y": y}, fixed={"s": 50.0}, tol=1e-6)
    assert found.converged and np.isfinite(found.log_evidence)


@pytest.mark.parametrize("mode", ["sequential", "double-loop"])
def test_only_the_parallel_mode_takes_them(mode: str) -> None:
    x, y = data(6, 3)
    given_data = {"X": x, "y": np.array(list("abc"))[y]}
    with pytest.raises(lgm.MethodError, match=f"mode={mode} takes scalar sites") as error:
        fit(MODELS["a reference"], given_data, options={"mode": mode})
    assert error.value.diagnostics[0].code == "E501"


def test_five_classes_are_refused() -> None:
    x, y = data(12, 5)
    text = MODELS["a reference"].replace('"c"}', '"c", "d", "e"}')
    with pytest.raises(lgm.MethodError, match="directions") as error:
        fit(text, {"X": x, "y": np.array(list("abcde"))[y]})
    assert error.value.diagnostics[0].code == "E501"


def test_estimates_of_its_error_are_those_of_a_variational_fit() -> None:
    """Terms within a site are in EP's moments already: they used to be counted twice, as 0.4 nats
    of the evidence where the variational fit lacks 0.02."""
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "models/discrete_choice"
    model, table = lgm.load(folder / "model.lgm"), dict(np.load(folder / "data.npz"))
    hypers = {"S": [[1.0, 0.0], [0.0, 1.0]]}
    found = {m: lgm.fit(model, table, m, fixed=hypers) for m in ("ep", "natural-gradient")}
    estimates = {m: f.accuracy for m, f in found.items()}
    assert abs(estimates["ep"].evidence) < 0.1 and estimates["ep"].sd < 0.05
    corrected = [f.log_evidence_corrected for f in found.values()]
    assert corrected[0] == pytest.approx(corrected[1], abs=0.02)


@pytest.mark.parametrize("unit", [1e-20, 1e8, 1e20, 1e21])
def test_the_unit_of_a_mean_next_to_a_log_sd_is_free(unit: float) -> None:
    """y, its mean and sd in other units shift the log evidence by N log unit, and nothing else."""
    text = """lgm 1
index obs
data y[obs] : real
data q : positive
data n : real
latent a ~ normal(sd = q)
latent b ~ normal(mean = n, sd = 1)
observe y ~ normal(mean = a, log_sd = b)
"""
    y = np.array([-1.0, 0.2, 3.3, 0.1])
    data = {"y": y * unit, "q": 2.0 * unit, "n": float(np.log(unit))}
    fit = lgm.fit(lgm.loads(text), data, method="ep", options={"correction": "off"})
    assert fit.status.name == "converged" and not fit.posterior.notes
    assert fit.log_evidence + len(y) * np.log(unit) == pytest.approx(-9.7863669558, abs=1e-8)
    assert float(fit.sd("a")) / unit == pytest.approx(0.817867, rel=1e-4)
