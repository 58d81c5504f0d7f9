"""Every engine beside dense algebra: one posterior, one evidence, one slope in every hyper,
whichever conditions. (What else engines answer is checked by `testing.engine_checks`.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.entries import ENGINES
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse
from tests.agreement.plain import Answer, Plain, joined, laplace, through_tangents, variational
from tests.agreement.plain_models import BINARY, GROUPED, SITES, check, grouped, slopes_hold
from tests.agreement.plain_models import fitted as small

ROWS, GROUPS = 40, 16
RNG = np.random.default_rng(7)
WHO = np.arange(ROWS) % GROUPS
WHAT = (np.arange(ROWS) * 3) % 4
X = RNG.normal(size=(ROWS, 2))
PLACE = np.sort(RNG.uniform(0.0, 4.0, ROWS))
O = 0.3 * RNG.normal(size=ROWS)
COUNT = RNG.poisson(2.0, ROWS).astype(float)
PICKED = np.eye(GROUPS)[WHO]

HEAD = """lgm 1
index obs
index feat
index g
index t
data X[obs, feat] : real
data x[obs] : real
data who[obs] : g
data what[obs] : t
data o[obs] : real
data y[obs] : count
hyper m : real ~ normal(sd = 1)
hyper s : positive ~ half_normal(sd = 1)
hyper k : positive ~ half_normal(sd = 1)
hyper c : real ~ normal(sd = 1)
"""
TAIL = "observe y ~ poisson(log_rate = eta)\n"
AT = {"m": np.asarray(0.3), "s": np.asarray(0.8), "k": np.asarray(0.9), "c": np.asarray(0.2)}
M, S, K, C = (float(AT[n]) for n in "mskc")


@dataclass(frozen=True)
class Case:
    """A model as text and arrays, and the engines that take it."""

    text: str
    plain: Plain
    engines: tuple[str, ...]


def crossed() -> Case:
    """Coefficients and groups, joined by rows."""
    text = (
        "latent b[feat] ~ normal(mean = m, sd = s)\nlatent u[g] ~ normal(mean = 0.5, sd = k)\n"
        "let eta[obs] = k * (X @ b) + u[who] + c + o\n"
    )
    plain = Plain(
        np.hstack([K * X, PICKED]),
        O + C,
        np.r_[M, M, np.full(GROUPS, 0.5)],
        np.diag(np.r_[S, S, K * np.ones(GROUPS)] ** 2),
    )
    return Case(text, plain, ("covariance", "precision", "sparse", "nested"))


def apart() -> Case:
    """Groups of two latents that no row joins."""
    text = (
        "latent u[g] ~ normal(mean = m, sd = s)\nlatent v[g] ~ normal(sd = k)\n"
        "let eta[obs] = u[who] + k * x * v[who] + c + o\n"
    )
    plain = Plain(
        np.hstack([PICKED, K * PLACE[:, None] * PICKED]),
        O + C,
        np.r_[np.full(GROUPS, M), np.zeros(GROUPS)],
        np.diag(np.r_[np.full(GROUPS, S), np.full(GROUPS, K)] ** 2),
        latents=("u", "v"),
    )
    return Case(text, plain, ("covariance", "precision", "sparse", "batched"))


def long() -> Case:
    """Vectors with a covariance of their own, each seen in a few entries."""
    text = (
        "latent f[g, t] ~ iid * ar1(sd = s, rho = 0.6)\nlet eta[obs] = k * f[who, what] + c + o\n"
    )
    axis = np.arange(4)
    spread = S**2 * 0.6 ** np.abs(axis[:, None] - axis)
    plain = Plain(
        K * np.eye(4 * GROUPS)[WHO * 4 + WHAT],
        O + C,
        np.zeros(4 * GROUPS),
        joined([spread] * GROUPS),
        latents=("f",),
    )
    return Case(text, plain, ("covariance", "precision", "sparse", "batched", "wide"))


def smooth() -> Case:
    """A Gaussian process, whose precision is dense."""
    text = (
        "latent f[obs] ~ gp(at = x, kernel = matern(smoothness = 1.5, sd = s, length = k))\n"
        "latent a ~ normal(mean = m, sd = 1)\nlet eta[obs] = k * f + a + c + o\n"
    )
    away = np.sqrt(3.0) * np.abs(PLACE[:, None] - PLACE) / K
    plain = Plain(
        np.hstack([K * np.eye(ROWS), np.ones((ROWS, 1))]),
        O + C,
        np.r_[np.zeros(ROWS), M],
        joined([S**2 * (1.0 + away) * np.exp(-away), np.ones((1, 1))]),
        latents=("f", "a"),
    )
    return Case(text, plain, ("covariance",))


CASES = {"crossed": crossed(), "apart": apart(), "long": long(), "smooth": smooth()}
PAIRS = [(name, engine) for name, case in CASES.items() for engine in case.engines]


def density(s: Array) -> Array:
    return COUNT * s - np.exp(s) - special.gammaln(COUNT + 1.0)


def fitted(text: str, method: str, **options: Any) -> lgm.Fit:
    text = HEAD + text + TAIL
    data = {"X": X, "x": PLACE, "who": WHO, "what": WHAT, "o": O, "y": COUNT, "t": np.arange(4)}
    data |= {"g": np.arange(GROUPS), "feat": np.arange(2)}
    return lgm.fit(
        lgm.loads(text), data, method, tol=1e-9, fixed=AT,
        options={"correction": "off", **options},
    )  # fmt: skip


@cache
def known(name: str) -> Answer:
    return laplace(CASES[name].plain, density)


def _sparse(a: Array) -> Operator:
    return Sparse(sp.csr_array(a))


def check_functionals(fit: lgm.Fit, wanted: Answer, wide: bool = True) -> None:
    """Rows that no data have seen: of three latents each, `wide` ones of all."""
    q: Any = fit.posterior.conditioned
    rng = np.random.default_rng(3)
    size = len(wanted.mean)
    rows = rng.normal(size=(4, size)) * (rng.permuted(np.tile(np.arange(size), (4, 1)), axis=1) < 3)
    operators: list[Callable[[Array], Operator]] = [_sparse]
    if wide:
        rows = np.vstack([rows, rng.normal(size=(3, size))])
        operators.append(Dense)
    square = rows @ wanted.covariance @ rows.T
    for operator in operators:
        columns = {n: operator(rows[:, at]) for n, at in q.linear.slices.items()}
        mean, variance = q.project(Predictor(columns, np.full(len(rows), 0.7)))
        np.testing.assert_allclose(mean, rows @ wanted.mean + 0.7, atol=1e-6)
        np.testing.assert_allclose(variance, square.diagonal(), rtol=1e-6)
        whole = q.project(Predictor(columns, np.zeros(len(rows))), full=True)[1]
        np.testing.assert_allclose(whole, square, atol=1e-6 * float(square.max()))


def check_draws(fit: lgm.Fit, count: int = 4000) -> None:
    """Their squared distances are chi-square, within 4.5 standard errors of the mean."""
    drawn = fit.posterior.conditioned.draw(np.random.default_rng(5), count)
    error = np.sqrt(2.0 * drawn.rank / count)
    assert drawn.radius.mean() == pytest.approx(drawn.rank, abs=4.5 * error)


@pytest.mark.parametrize(("name", "engine"), PAIRS)
def test_engines(name: str, engine: str) -> None:
    fit = fitted(CASES[name].text, "laplace", engine=engine)
    assert fit.engine == engine
    check(fit, known(name), 1e-6)
    check_functionals(fit, known(name))
    check_draws(fit)
    for method in ("laplace", "natural-gradient"):
        slopes_hold(fit, method, None, AT, engine=engine)


ALONE = "latent u[g] ~ normal(mean = m, sd = s)\nlet eta[obs] = k * u[who] + c + o\n"


def test_the_iterative_engine_where_its_estimates_are_exact() -> None:
    """Latents that no row joins have a diagonal precision, whose probes and samples all agree;
    where rows join two, the variances are still those of a small matrix."""
    model = Plain(K * PICKED, O + C, np.full(GROUPS, M), S**2 * np.eye(GROUPS), latents=("u",))
    fit, wanted = fitted(ALONE, "laplace", engine="iterative"), laplace(model, density)
    check(fit, wanted, 1e-6)
    check_functionals(fit, wanted, wide=False)
    by_samples = {"k"}  # a loading meets the covariance of rows with latents
    at = {n: v for n, v in AT.items() if n not in by_samples}
    slopes_hold(fit, "laplace", None, AT, tuple(at), engine="iterative")
    check_variances(fitted(CASES["apart"].text, "laplace", engine="iterative"), "apart", 1e-6)


def check_variances(fit: lgm.Fit, name: str, close: float) -> None:
    """Moments, and an evidence within five standard errors."""
    wanted = known(name)
    assert fit.converged
    m, s = wanted.predictor
    np.testing.assert_allclose((fit.mean("eta").values - m) / s, 0.0, atol=1e-6)
    np.testing.assert_allclose(fit.sd("eta").values / s, 1.0, atol=close)
    sd = np.concatenate([np.ravel(fit.sd(n).values) for n in wanted.model.latents])
    np.testing.assert_allclose(sd / np.sqrt(wanted.covariance.diagonal()), 1.0, atol=close)
    errors = fit.posterior.conditioned.errors
    assert errors is not None
    assert abs(fit.log_evidence - wanted.evidence) < 5.0 * errors.log_normaliser


def test_samples_of_the_iterative_engine() -> None:
    """10,000 of them: sds within three standard errors, of 1 in 140 at most."""
    options = {"engine": "iterative", "variances": "samples", "samples": 10_000}
    check_variances(fitted(CASES["crossed"].text, "laplace", **options), "crossed", 0.02)


def test_lanczos_vectors_that_span_all_latents() -> None:
    options = {"engine": "iterative", "variances": "lanczos", "vectors": 40}
    fit = small(GROUPED, "logit", "double-loop", options=options)
    wanted = variational(grouped(), through_tangents(SITES["logit"].density, BINARY - 0.5))
    np.testing.assert_allclose(fit.sd("eta").values, wanted.predictor[1], rtol=1e-6)
    np.testing.assert_allclose(
        fit.sd("b").values, np.sqrt(wanted.covariance.diagonal()[:2]), rtol=1e-6
    )
    assert fit.log_evidence == pytest.approx(wanted.evidence, abs=0.2)


def test_no_engine_is_left_out() -> None:
    named = {engine for _, engine in PAIRS} | {"iterative"}
    assert named == {entry.engine.name for entry in ENGINES}
