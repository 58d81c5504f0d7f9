"""The gradient of the log evidence in all hyperparameters, against central differences of fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.engines.choose import ENGINES
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.learning.objective.gradient import evidence_gradient
from tests.compiled import canonical_form

HYPERS = {
    "t": "positive ~ half_normal(sd = 1)",
    "m": "real ~ normal(sd = 1)",
    "c": "real ~ normal(sd = 1)",
    "scale": "positive ~ half_normal(sd = 1)",
    "df": "positive ~ half_normal(sd = 1)",
    "s": "positive ~ half_normal(sd = 1)",
    "length": "positive ~ half_normal(sd = 1)",
    "e": "real ~ normal(sd = 1)",
    "rho": "correlation ~ uniform(lower = -1, upper = 1)",
    "mix": "unit ~ uniform(lower = 0, upper = 1)",
    "S[term, term]": "covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)",
    "L[item]": "real ~ normal(sd = 1)",
    "cuts[cut]": "ordered ~ normal(sd = 2)",
}
AT: dict[str, Any] = {
    "t": 1.3, "m": 0.8, "c": 0.4, "scale": 0.7, "df": 1.4, "s": 0.8, "length": 1.3, "e": 0.6,
    "rho": 0.45, "mix": 0.7, "S": np.array([[1.2, 0.4], [0.4, 0.7]]),
    "L": np.array([0.7, -0.5, 1.2]), "cuts": np.array([-0.8, 0.1, 1.5]),
}  # fmt: skip
HEAD = """lgm 1
index row
index subject = 3
index region = 7
index year = 5
index item = 3
index term = {"a", "b"}
index class = {"p", "q", "r", "s"}
index cut = head(class)
data x[row] : real
data who[row] : subject
data where[row] : region
data when[row] : year
data which[row] : item
data adj[region, region] : graph
"""


def model(body: str, kind: str) -> str:
    """The text with the hypers that it uses, and the type of y."""
    used = [f"hyper {n} : {t}\n" for n, t in HYPERS.items() if f"{{{n.partition('[')[0]}}}" in body]
    names = {n.partition("[")[0]: n.partition("[")[0] for n in HYPERS}
    return HEAD + f"data y[row] : {kind}?\n" + "".join(used) + body.format(**names) + "\n"


GLMM = (
    "latent u[subject] ~ normal(mean = {m}, sd = {t})\n"
    "let eta[row] = {c}^2 + {t} * x + x * u[who]\nobserve y ~ "
)
FAMILIES = {
    "logit": ("binary", "bernoulli(logit = eta)"),
    "poisson": ("count", "poisson(log_rate = eta, exposure = {scale})"),
    "negbinomial": ("count", "negbinomial(log_mean = eta, size = {scale})"),
    "gamma": ("positive", "gamma(log_mean = eta, shape = {scale})"),
    "student_t": ("real", "student_t(mean = eta, scale = {scale}, df = {df})"),
    "normal": ("real", "normal(mean = eta, sd = {scale})"),
    "log_var": ("real", "normal(mean = {e}, log_var = eta)"),
    "ordinal logit": ("class", "ordinal(logit = eta, cuts = {cuts})"),
    "ordinal probit": ("class", "ordinal(probit = eta, cuts = {cuts})"),
    "continuation": ("class", 'ordinal(logit = eta, cuts = {cuts}, model = "continuation")'),
    "passing": ("class", 'ordinal(probit = eta, cuts = {cuts}, model = "continuation")'),
    "adjacent": ("class", 'ordinal(logit = eta, cuts = {cuts}, model = "adjacent")'),
    "adjacent probit": ("class", 'ordinal(probit = eta, cuts = {cuts}, model = "adjacent")'),
    "laplace": ("real", "laplace(mean = eta, scale = {scale})"),
    "sech2": ("real", "normal(mean = eta, sd = 0.5)\npotential eta ~ sech2(scale = {scale})"),
    "exp_power": (
        "real",
        "normal(mean = eta, sd = 0.5)\npotential eta ~ exp_power(scale = {scale}, power = {df})",
    ),
}
SMOOTH = [f for f in FAMILIES if f not in ("laplace", "exp_power")]
SUPER_GAUSSIAN = ["logit", "student_t", "laplace", "sech2", "exp_power"]
# Method, families. lcl and the two that need log-concave sites or the identity as B stand below.
BY_FAMILY = {
    "laplace": SMOOTH,
    "natural-gradient": list(FAMILIES),
    "ep": ["poisson", "student_t", "laplace", "ordinal logit", "ordinal probit"],
    "opper-archambeau": ["logit", "poisson", "gamma"],
    "cholesky": ["negbinomial", "student_t"],
    "lcl": ["logit", "poisson"],
    "double-loop": [*SUPER_GAUSSIAN, "ordinal logit", "continuation"],
    "coordinate-descent": ["logit", "student_t"],
}
COUNT = "\nobserve y ~ poisson(log_rate = eta)"
PRIORS = {
    "besag * ar1": "latent v[region, year] ~ besag(graph = adj, sd = {s}) * ar1(rho = {rho})\n"
    "latent b ~ normal(sd = 2)\nlet eta[row] = b + v[where, when]",
    "bym2": "latent v[region] ~ bym2(graph = adj, sd = {s}, mix = {mix})\nlatent b ~ flat\n"
    "let eta[row] = b + v[where]",
    "rw1": "latent v[year] ~ rw1(sd = {s}, sum_to_zero = false)\nlet eta[row] = v[when]",
    "rw2": "latent v[year] ~ rw2(sd = {s})\nlatent b ~ flat\nlet eta[row] = b + v[when]",
    "constrained": "latent v[region] ~ normal(sd = {s})\nlatent b ~ flat\n"
    "constrain sum(v, region) = 2 * {e}\nlet eta[row] = b + v[where]",
    "constrained mean": "latent v[region] ~ normal(mean = {e}, sd = {s})\n"
    "latent w[year] ~ rw1(sd = {s}, sum_to_zero = false)\nconstrain sum(v, region) + {e} = 1\n"
    "constrain sum(w, year) = {e}^2\nlet eta[row] = w[when] + v[where]",
    "constrained walk": "latent w[year] ~ rw1(sd = {s})\nlatent b ~ flat\n"
    "constrain w[0] = {e}^2\nlet eta[row] = b + w[when]",
    "correlated": "latent v[region, term] ~ besag(graph = adj) * dense(cov = {S})\n"
    'latent b ~ normal(sd = 2)\nlet eta[row] = b + v[where, "a"] + x * v[where, "b"]',
    "loadings": "latent f[region] ~ normal(sd = 1)\nlet eta[row] = {c} * x + {L}[which] * f[where]",
    "gp": "latent f[row] ~ gp(at = x, kernel = se(sd = {s}, length = {length}))\n"
    "latent b ~ flat\nlet eta[row] = b + f",
}


def data(kind: str, rows: int = 12, missing: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    draws = {
        "binary": rng.integers(0, 2, rows), "count": rng.poisson(2.0, rows),
        "positive": rng.gamma(2.0, size=rows), "real": rng.normal(size=rows),
        "class": np.array(list("pqrs"))[np.arange(rows) * 7 % 4],
    }  # fmt: skip
    y = draws[kind] if kind == "class" else np.asarray(draws[kind], dtype=float)
    if missing:
        y[1::4] = "" if kind == "class" else np.nan
    return {
        "x": rng.normal(size=rows), "who": np.arange(rows) % 3, "y": y,
        "where": rng.integers(0, 7, rows), "when": np.arange(rows) % 5,
        "which": rng.integers(0, 3, rows),
        "adj": np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [5, 6]]),
    }  # fmt: skip


def compiled(text: str, given: Mapping[str, Any]) -> CanonicalModel:
    load_entry_points()
    return canonical_form(text, dict(given))


def fitted(
    planned: Plan, free: Mapping[str, Array], engine: str = "", tight: float = 1e-12
) -> GaussianPosterior:
    theta = planned.canonical.hypers.theta(free)
    made = None
    if engine:
        entry = next(e for e in ENGINES if e.engine.name == engine)
        linear = planned.canonical.linear(theta)
        reason = entry.engine.refuses(linear)
        if reason:
            pytest.skip(reason)
        made = entry.build(linear, 0)
    found = run(planned.backend, planned.at(theta, made), Tolerances(tight, 1e-8), max_steps=400)
    assert found.posterior is not None
    return found.posterior


def free_of(canonical: CanonicalModel) -> dict[str, Array]:
    return {n: np.asarray(AT[n], dtype=float) for n in canonical.hypers.free}


def check(
    canonical: CanonicalModel,
    method: str,
    engine: str = "",
    rel: float = 1e-6,
    options: Mapping[str, object] | None = None,
    bound: str | None = None,
    tight: float = 1e-12,
) -> None:
    """Every entry against fourth-order differences."""
    planned, free = plan(canonical, method, bound, options), free_of(canonical)
    theta = canonical.hypers.theta(free)
    found = evidence_gradient(planned, fitted(planned, free, engine, tight), theta, {})
    assert set(found) == set(free) and free
    h = 1e-3
    for name, at in free.items():
        assert found[name].shape == at.shape
        for i in np.ndindex(*at.shape):
            turn = np.zeros_like(at)
            turn[i] = 1.0
            turn = (turn + turn.T) / 2 if at.ndim == 2 else turn
            low2, low, high, high2 = (
                fitted(planned, {**free, name: at + k * h * turn}, engine, tight).log_evidence
                for k in (-2, -1, 1, 2)
            )
            measured = (low2 - 8 * low + 8 * high - high2) / (12 * h)
            got = float(np.sum(found[name] * turn))
            assert got == pytest.approx(measured, rel=rel, abs=1e-8), (name, i)


@pytest.mark.few(14)
@pytest.mark.parametrize(
    ("method", "family"), [(m, f) for m, families in BY_FAMILY.items() for f in families]
)
def test_families(method: str, family: str) -> None:
    """Prior mean and sd, offset, coefficients of latents and of covariates, site parameters."""
    kind, site = FAMILIES[family]
    check(compiled(model(GLMM + site, kind), data(kind)), method)


@pytest.mark.few(12)
@pytest.mark.parametrize("engine", ["covariance", "precision", "sparse"])
@pytest.mark.parametrize("prior", PRIORS)
def test_priors(prior: str, engine: str) -> None:
    """Laplace, whose adjoints have one more part than those of all other methods."""
    check(compiled(model(PRIORS[prior] + COUNT, "count"), data("count")), "laplace", engine)


@pytest.mark.parametrize("prior", ["besag * ar1", "constrained walk", "loadings"])
def test_priors_by_a_bound(prior: str) -> None:
    check(compiled(model(PRIORS[prior] + COUNT, "count"), data("count")), "natural-gradient")


def test_coordinate_ascent() -> None:
    """It converges linearly, so a model in which it does so soon."""
    text = model(
        "latent f[row] ~ gp(at = x, kernel = se(sd = {s}, length = {length}))\n"
        "let eta[row] = f\nobserve y ~ gamma(log_mean = eta, shape = {scale})",
        "positive",
    )
    given = data("positive", 3, missing=False)
    check(compiled(text, given | {"x": np.array([0.0, 2.0, 5.0])}), "coordinate-ascent")


def test_a_corrected_mean_leaves_the_gradient() -> None:
    """The evidence is Laplace's, and so is its gradient."""
    canonical = compiled(model(GLMM + FAMILIES["negbinomial"][1], "count"), data("count"))
    free = free_of(canonical)
    theta = canonical.hypers.theta(free)
    found = []
    for options in ({}, {"correct_mean": True}):
        planned = plan(canonical, "laplace", options=options)
        found.append(evidence_gradient(planned, fitted(planned, free), theta, {}))
    for name in free:
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-12)


@pytest.mark.parametrize("family", ["sech2", "ordinal logit", "continuation"])
@pytest.mark.parametrize("bound", ["jaakkola", "bohning", "piecewise-quadratic-5"])
def test_slopes_are_those_of_the_bound(bound: str, family: str) -> None:
    """A logistic potential has a scale, ordered classes their cuts: their slopes are those of the
    bound, not of the expectation."""
    kind, site = FAMILIES[family]
    check(compiled(model(GLMM + site, kind), data(kind)), "natural-gradient", bound=bound)


def test_what_is_pinned_or_computed() -> None:
    """`fixed` takes a hyper out; a computed one hands its slope on, unless it is pinned itself."""
    text = model(GLMM + FAMILIES["poisson"][1], "count").replace(
        "hyper m : real ~ normal(sd = 1)", "hyper m : real = t^2"
    )
    canonical = compiled(text, data("count"))
    check(canonical, "laplace")
    free = free_of(canonical)
    planned = plan(canonical, "laplace")
    theta = canonical.hypers.theta(free)
    whole = evidence_gradient(planned, fitted(planned, free), theta, {})
    some = evidence_gradient(planned, fitted(planned, free), theta, {"c": free["c"], "m": 1.69})
    assert set(some) == {"t", "scale"}
    assert some["scale"] == pytest.approx(whole["scale"], rel=1e-12)
    assert abs(float(some["t"] - whole["t"])) > 1e-3


def test_estimates_of_the_iterative_engine() -> None:
    """As near as the variances that the samples estimate."""
    body = "latent v[year] ~ ar1(rho = {rho}, sd = {s})\nlet eta[row] = {c} + v[when]" + COUNT
    canonical = compiled(model(body, "count"), data("count"))
    planned, free = plan(canonical, "laplace"), free_of(canonical)
    theta = canonical.hypers.theta(free)
    exact = evidence_gradient(planned, fitted(planned, free), theta, {})
    engine = IterativeEngine(canonical.linear(theta), samples=4000)
    found = run(planned.backend, planned.at(theta, engine), Tolerances(1e-9, 1e-6))
    assert found.posterior is not None
    near = evidence_gradient(planned, found.posterior, theta, {})
    for name in free:
        assert near[name] == pytest.approx(exact[name], rel=0.05, abs=0.05), name


def test_refusals() -> None:
    canonical = compiled(model(GLMM + FAMILIES["normal"][1], "real"), data("real"))
    planned, free = plan(canonical, "map"), free_of(canonical)
    theta = canonical.hypers.theta(free)
    with pytest.raises(lgm.MethodError, match="no log evidence"):
        evidence_gradient(planned, fitted(planned, free), theta, {})
    turning = "latent v[region] ~ normal(sd = 1)\nconstrain sum({s} * v, region) = 0\n"
    canonical = compiled(model(turning + "let eta[row] = v[where]" + COUNT, "count"), data("count"))
    planned, free = plan(canonical, "laplace"), free_of(canonical)
    with pytest.raises(lgm.MethodError, match="coefficients of its latents"):
        evidence_gradient(planned, fitted(planned, free), canonical.hypers.theta(free), {})
