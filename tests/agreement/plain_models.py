"""Small models as text and as dense arrays (`plain`), and how a fit is compared with an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl.learning.objective.gradient import evidence_gradient
from tests.agreement.plain import Answer, Density, Plain, joined

ROWS, GROUPS = 12, 3
RNG = np.random.default_rng(20)
X = RNG.normal(size=(ROWS, 2))
WHO = np.arange(ROWS) % GROUPS
O = 0.3 * RNG.normal(size=ROWS)
PLACE = np.linspace(0.0, 5.0, ROWS) + RNG.uniform(-0.1, 0.1, ROWS)
BINARY = RNG.integers(0, 2, ROWS).astype(float)
COUNT = RNG.poisson(2.0, ROWS).astype(float)
REAL = RNG.standard_t(3, ROWS)
KINDS = {"binary": BINARY, "count": COUNT, "real": REAL}

GROUPED = """lgm 1
index obs
index feat
index g
data X[obs, feat] : real
data who[obs] : g
data o[obs] : real
data y[obs] : {kind}
latent b[feat] ~ normal(mean = 0.3, sd = 1.2)
latent u[g] ~ normal(sd = 0.7)
let eta[obs] = X @ b + u[who] + o + 0.2
observe y ~ {site}
"""
FIELD = """lgm 1
index obs
data x[obs] : real
data o[obs] : real
data y[obs] : {kind}
latent f[obs] ~ gp(at = x, kernel = se(sd = 1.1, length = 0.5))
latent a ~ normal(mean = 0.3, sd = 1)
let eta[obs] = f + a + o
observe y ~ {site}
"""


def grouped() -> Plain:
    design = np.hstack([X, np.eye(GROUPS)[WHO]])
    return Plain(
        design,
        O + 0.2,
        np.r_[0.3, 0.3, np.zeros(GROUPS)],
        np.diag(np.r_[1.2, 1.2, 0.7 * np.ones(GROUPS)] ** 2),
    )


def field() -> Plain:
    gp = 1.1**2 * np.exp(-0.5 * ((PLACE[:, None] - PLACE) / 0.5) ** 2)
    return Plain(
        np.hstack([np.eye(ROWS), np.ones((ROWS, 1))]),
        O,
        np.r_[np.zeros(ROWS), 0.3],
        joined([gp, np.ones((1, 1))]),
        latents=("f", "a"),
    )


@dataclass(frozen=True)
class Site:
    kind: str
    text: str
    density: Density


SITES = {
    "logit": Site("binary", "bernoulli(logit = eta)", lambda s: BINARY * s - np.logaddexp(0.0, s)),
    "probit": Site(
        "binary", "bernoulli(probit = eta)", lambda s: special.log_ndtr((2 * BINARY - 1) * s)
    ),
    "poisson": Site(
        "count",
        "poisson(log_rate = eta)",
        lambda s: COUNT * s - np.exp(s) - special.gammaln(COUNT + 1.0),
    ),
    "student_t": Site(
        "real",
        "student_t(mean = eta, scale = 1.5, df = 6)",
        lambda s: stats.t.logpdf((s - REAL) / 1.5, 6) - np.log(1.5),
    ),
    "laplace": Site(
        "real",
        "laplace(mean = eta, scale = 1.5)",
        lambda s: -np.abs(s - REAL) / 1.5 - np.log(3.0),
    ),
}
TEXTS = {GROUPED: grouped, FIELD: field}


def fitted(
    text: str,
    site: str,
    method: str,
    *,
    kind: str = "",
    y: Any = None,
    options: dict[str, Any] | None = None,
    bound: str | None = None,
    fixed: dict[str, Any] | None = None,
    **columns: Any,
) -> lgm.Fit:
    """A text with one of `SITES`, or another statement as `site`, with its data."""
    its = SITES.get(site, Site(kind, site, lambda s: s))
    data = {"X": X, "who": WHO, "o": O, "x": PLACE, "y": y if y is not None else KINDS[its.kind]}
    used = {n: v for n, v in data.items() if f"data {n}[" in text}
    return lgm.fit(
        lgm.loads(text.format(kind=kind or its.kind, site=its.text)),
        used | columns,
        method,
        bound=bound,
        fixed=fixed,
        tol=1e-9,
        options={"correction": "off", **(options or {})},
    )


def check(fit: lgm.Fit, wanted: Answer, close: float = 1e-6, evidence: float = 1e-8) -> None:
    assert fit.converged, f"{fit.status}: {fit.trace[-1]}"
    names, seen = wanted.model.latents, wanted.model.seen
    mean = np.concatenate([np.ravel(fit.mean(n).values) for n in names])
    sd = np.concatenate([np.ravel(fit.sd(n).values) for n in names])
    known = np.sqrt(wanted.covariance.diagonal())
    np.testing.assert_allclose((mean - wanted.mean) / known, 0.0, atol=close)
    np.testing.assert_allclose(sd / known, 1.0, atol=close)
    m, s = wanted.predictor
    found = np.stack([fit.mean(n).values for n in seen], axis=-1).reshape(-1)
    np.testing.assert_allclose((found - m) / s, 0.0, atol=close)
    found = np.stack([fit.sd(n).values for n in seen], axis=-1).reshape(-1)
    np.testing.assert_allclose(found / s, 1.0, atol=close)
    # The whole covariance of the latents, and the distances of draws in it.
    q = fit.posterior.conditioned
    np.testing.assert_allclose(
        q.solve(np.eye(len(mean))) / known / known[:, None],
        wanted.covariance / known / known[:, None],
        atol=close,
    )
    drawn = q.draw(np.random.default_rng(1), 3)
    away = drawn.z - mean
    radius = np.einsum("ij,ji->i", away, np.linalg.solve(wanted.covariance, away.T))
    np.testing.assert_allclose(drawn.radius, radius, rtol=10.0 * close)
    if not np.isnan(fit.log_evidence):
        assert fit.log_evidence == pytest.approx(wanted.evidence, abs=evidence)


def few(fit: lgm.Fit, steps: int) -> None:
    """Steps towards an optimum that is another one, or by slopes that are not its own, still come
    near it; they are many."""
    assert fit.steps <= steps + steps // 8


def slopes_hold(
    fit: lgm.Fit,
    method: str,
    bound: str | None,
    at: dict[str, Array],
    names: tuple[str, ...] = (),
    close: float = 1e-5,
    **options: Any,
) -> None:
    """That slopes of the evidence in hypers, all of `at` or `names`, are those of its differences
    from fit to fit: of four, or where they need not be so close of two."""
    planned = plan(fit.canonical, method, bound, options)

    def solved(values: dict[str, Array]) -> GaussianPosterior:
        posterior = run(planned.backend, planned.at(values), Tolerances(1e-13, 1e-8)).posterior
        assert posterior is not None
        return posterior

    def evidence(name: str, value: Array) -> float:
        return solved({**at, name: value}).log_evidence

    found = evidence_gradient(planned, solved(at), at, {})
    for name in names or at:
        for i in range(at[name].size):
            move = np.zeros(at[name].shape)
            move.reshape(-1)[i] = 2e-3
            one, two = (evidence(name, at[name] + k * move) for k in (-1, 1))
            known = (two - one) / 4e-3
            if close < 1e-4:
                far = [evidence(name, at[name] + k * move) for k in (-2, 2)]
                known = (4.0 * known - (far[1] - far[0]) / 8e-3) / 3.0
            slope = np.reshape(found[name], -1)[i]
            assert slope == pytest.approx(known, rel=close, abs=0.1 * close), (name, i)
