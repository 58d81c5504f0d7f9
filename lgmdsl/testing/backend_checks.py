"""Conformance of a back end: what any inference method must do, on a set of canned problems.

    check_backend(MyBackend)        # raises AssertionError that lists what fails

Each problem is small and dense. A back end that cannot run one of them (its routes say so) skips
it; one that can run none fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.fit.fitting import fit
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError
from lgmdsl.inference import registry
from lgmdsl.language.load import loads

_HEAD = "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\n"
_TAIL = "latent b[feat] ~ normal(sd = 1.5)\nlet eta[obs] = X @ b\n"


@dataclass(frozen=True)
class Canned:
    """A model and data; `truth` is the exact log evidence where it is known in closed form."""

    name: str
    text: str
    data: dict[str, AnyArray]
    truth: float | None = None


def canned(seed: int = 0) -> tuple[Canned, ...]:
    """The problems: Gaussian, logistic, probit, counts with levels, a singular GP."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2))
    binary = (rng.random(12) < 0.5).astype(np.int64)
    real = rng.normal(size=12)
    counts = rng.poisson(2.0, 12)
    who = np.arange(12) % 3
    duplicated = np.vstack([X, X[:3]])
    return (
        Canned(
            "gaussian",
            f"{_HEAD}data y[obs] : real\n{_TAIL}observe y ~ normal(mean = eta, sd = 0.6)\n",
            {"X": X, "y": real},
            _gaussian_evidence(X, real),
        ),
        Canned(
            "logistic",
            f"{_HEAD}data y[obs] : binary\n{_TAIL}observe y ~ bernoulli(logit = eta)\n",
            {"X": X, "y": binary},
        ),
        Canned(
            "probit",
            f"{_HEAD}data y[obs] : binary\n{_TAIL}observe y ~ bernoulli(probit = eta)\n",
            {"X": X, "y": binary},
        ),
        Canned(
            "counts",
            "lgm 1\nindex obs\nindex g\ndata who[obs] : g\ndata y[obs] : count\n"
            "latent m ~ normal(mean = 0.5, sd = 2)\nlatent u[g] ~ normal(sd = 0.5)\n"
            "let eta[obs] = m + u[who]\nobserve y ~ poisson(log_rate = eta)\n",
            {"who": who, "y": counts},
        ),
        Canned(
            "singular gp",
            "lgm 1\nindex obs\nindex dim\ndata X[obs, dim] : real\n"
            "data y[obs] : binary\n"
            "latent f[obs] ~ gp(at = X, kernel = se(sd = 1.3, length = 2))\n"
            "let eta[obs] = f\nobserve y ~ bernoulli(logit = eta)\n",
            {"X": duplicated, "y": np.r_[binary, binary[:3]]},
        ),
    )


def check_backend(backend: type[Backend[Any]], seed: int = 0) -> int:
    """Run every check; the back end must be registered. Returns how many problems it ran.

    Raises AssertionError with one line for each failure.
    """
    failures = list(_declarations(backend))
    ran = 0
    for case in canned(seed):
        try:
            first = _fit(backend, case)
        except MethodError:
            continue
        ran += 1
        failures += [f"{case.name}: {f}" for f in _case_failures(backend, case, first)]
    if not ran:
        failures.append("it can run none of the canned problems")
    if failures:
        raise AssertionError(f"{backend.spec.name}:\n" + "\n".join(f"- {f}" for f in failures))
    return ran


def _fit(backend: type[Backend[Any]], case: Canned, **change: Any) -> Fit:
    return fit(loads(case.text), change.pop("data", case.data), backend.spec.name, **change)


def _declarations(backend: type[Backend[Any]]) -> Iterator[str]:
    if registry.backends().get(backend.spec.name) is not backend:
        yield "it is not registered"
    kind: type = backend
    if not is_dataclass(kind):
        yield "it is no dataclass, so it has no options"
        return
    required = [f.name for f in fields(kind) if f.init and not _has_default(f)]
    if required:
        yield f"options without a default: {required}"


def _has_default(field: Any) -> bool:
    import dataclasses

    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _case_failures(backend: type[Backend[Any]], case: Canned, first: Fit) -> Iterator[str]:
    if not first.converged:
        yield f"did not converge: {first.status}"
        return
    mean, sd = _moments(first)
    if not (_evidence_sound(backend, case, first) and np.isfinite(mean).all() and (sd >= 0).all()):
        yield "a converged fit holds values that are not finite"
    if case.truth is not None:
        if abs(first.log_evidence - case.truth) > 1e-8 * max(1.0, abs(case.truth)):
            yield f"log evidence {first.log_evidence!r}, exact {case.truth!r}"
    elif first.guarantee is Guarantee.EXACT:
        yield "it claims an exact log evidence for sites that are not Gaussian"
    if backend.spec.monotone:
        steps = np.diff([e.objective for e in first.trace])
        if (steps < -1e-9 * max(1.0, abs(first.log_evidence))).any():
            yield "it declares itself monotone, and its objective fell"
    again = _fit(backend, case, start_from=first)
    if again.steps > max(2, first.steps // 2):
        yield f"started from its own optimum it took {again.steps} steps (cold: {first.steps})"
    yield from _same("a warm start", first, again)
    order = np.random.default_rng(1).permutation(len(case.data["y"]))
    permuted = _fit(backend, case, data={k: v[order] for k, v in case.data.items()})
    if abs(permuted.log_evidence - first.log_evidence) > 1e-5 * max(1.0, abs(first.log_evidence)):
        yield "the order of the rows changes the log evidence"
    stopped = _fit(backend, case, max_steps=0)
    if (
        stopped.converged
        and first.steps > 0
        and abs(stopped.log_evidence - first.log_evidence)
        > 1e-4 * max(1.0, abs(first.log_evidence))
    ):
        yield "it calls its first state converged"


def _evidence_sound(backend: type[Backend[Any]], case: Canned, fit: Fit) -> bool:
    """Finite; nan where the back end declares that it has none and the problem is not Gaussian."""
    if backend.spec.evidence or case.truth is not None:
        return math.isfinite(fit.log_evidence)
    return math.isnan(fit.log_evidence)


def _same(label: str, one: Fit, two: Fit) -> Iterator[str]:
    (m1, s1), (m2, s2) = _moments(one), _moments(two)
    if (np.abs(m1 - m2) > 1e-3 * s1).any() or (np.abs(s1 / s2 - 1) > 1e-3).any():
        yield f"{label} ends elsewhere"


def _moments(fit: Fit) -> tuple[Array, Array]:
    conditioned = fit.posterior.conditioned
    return conditioned.latent_mean, np.sqrt(conditioned.latent_variance)


def _gaussian_evidence(X: Array, y: Array) -> float:
    cov = 2.25 * X @ X.T + 0.36 * np.eye(len(y))
    _, logdet = np.linalg.slogdet(2.0 * np.pi * cov)
    return float(-0.5 * logdet - 0.5 * y @ np.linalg.solve(cov, y))
