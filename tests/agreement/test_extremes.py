"""Data and parameters at the edge of what a user can write: a fit, or a refusal, never a wrong
number under `converged`. One latent and one row, so that EP is exact and the truth a sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import LgmError

from .methods import METHODS

MODEL = """lgm 1
index i
{declared}
latent x ~ normal(mean = {mean!r}, sd = {sd!r})
{statement}
"""


@dataclass(frozen=True)
class Case:
    """`log_likelihood`: l(s), of arrays."""

    name: str
    statement: str
    declared: str
    data: dict[str, float]
    log_likelihood: Callable[[Array], Array]
    mean: float = 0.0
    sd: float = 1.0


def poisson(y: float, exposure: float, mean: float = 0.0, sd: float = 2.0) -> Case:
    def log_likelihood(s: Array) -> Array:
        rate = s + math.log(exposure)
        # log y! less y log y - y, so that large counts keep their digits
        rest = (
            math.lgamma(y + 1.0) - (y * math.log(y) - y)
            if y < 1e7
            else 0.5 * math.log(2.0 * math.pi * y)
        )
        d = rate - math.log(y)
        return np.asarray(-y * (np.expm1(d) - d) - rest)

    return Case(
        f"{y:g} of exposure {exposure:g}, sd {sd:g}",
        "observe y ~ poisson(log_rate = x, exposure = e)",
        "data y[i] : count\ndata e[i] : positive",
        {"y": y, "e": exposure},
        log_likelihood,
        mean,
        sd,
    )


def binomial(y: float, link: str) -> Case:
    n = 1e9
    ways = float(special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1))
    log_p: Callable[[Array], Array] = special.log_ndtr if link == "probit" else special.log_expit
    return Case(
        f"{y:g} of 1e9, {link}",
        f"observe y ~ binomial({link} = x, n = n)",
        "data y[i] : count\ndata n[i] : count",
        {"y": y, "n": n},
        lambda s: np.asarray(y * log_p(s) + (n - y) * log_p(-s) + ways),
        0.0,
        5.0,
    )


def binary(mean: float, link: str) -> Case:
    log_p: Callable[[Array], Array] = special.log_ndtr if link == "probit" else special.log_expit
    return Case(
        f"{link} at {mean:g}",
        f"observe y ~ bernoulli({link} = x)",
        "data y[i] : binary",
        {"y": 1.0},
        log_p,
        mean,
    )


def student(df: float) -> Case:
    return Case(
        f"df {df:g}",
        f"observe y ~ student_t(mean = x, scale = 1, df = {df!r})",
        "data y[i] : real",
        {"y": 2.0},
        lambda s: np.asarray(stats.t.logpdf(2.0 - s, df)),
    )


def shaped(shape: float) -> Case:
    return Case(
        f"gamma of shape {shape:g}",
        f"observe y ~ gamma(log_mean = x, shape = {shape!r})",
        "data y[i] : positive",
        {"y": 2.0},
        lambda s: np.asarray(stats.gamma.logpdf(2.0, shape, scale=np.exp(s) / shape)),
    )


def wide(sd: float) -> Case:
    return Case(
        f"prior sd {sd:g}",
        "observe y ~ bernoulli(logit = x)",
        "data y[i] : binary",
        {"y": 1.0},
        special.log_expit,
        0.0,
        sd,
    )


CASES = [
    *(poisson(3.0, e) for e in (1e-300, 1e-100, 1e100, 1e300)),
    *(poisson(3.0, e, sd=800.0) for e in (1e-300, 1e300)),
    *(poisson(y, 1.0, math.log(y), 1.0) for y in (1e9, 1e12, 1e15)),
    *(poisson(y, 1.0, 0.0, 30.0) for y in (1e9, 1e12, 1e15)),
    *(binomial(y, link) for y in (0.0, 1.0, 5e8, 1e9) for link in ("logit", "probit")),
    *(binary(mean, link) for mean in (1e3, -1e3, 1e8, -1e8) for link in ("logit", "probit")),
    *(student(df) for df in (1e-3, 1e-2, 1e4, 1e8)),
    *(shaped(shape) for shape in (1e-3, 1e3, 1e6)),
    *(wide(sd) for sd in (1e-100, 1e-20, 1e20, 1e100)),
]


def truth(case: Case) -> float:
    """log int exp(l(s)) N(s; mean, sd^2) ds: the peak is looked for, then the trapezoidal rule."""

    def log_joint(s: Array) -> Array:
        x = (s - case.mean) / case.sd
        value = case.log_likelihood(s) - 0.5 * x * x
        constant = 0.5 * math.log(2.0 * math.pi) + math.log(case.sd)
        return np.asarray(np.nan_to_num(value - constant, nan=-np.inf, posinf=-np.inf))

    if case.sd > 1e19:  # the step from 0 to 1 is at the prior's middle
        return math.log(0.5)
    if case.sd < 1e-19:
        return float(case.log_likelihood(np.array([case.mean]))[0])
    reach = max(1200.0 * case.sd, 2.0 * abs(case.mean))
    low, high = case.mean - reach, case.mean + reach
    with np.errstate(all="ignore"):
        for _ in range(90):
            s = np.linspace(low, high, 4001)
            v = log_joint(s)
            near = np.flatnonzero(v > v.max() - 60.0)
            a, b = s[max(near[0] - 1, 0)], s[min(near[-1] + 1, 4000)]
            if b - a > 0.5 * (high - low):
                break
            low, high = a, b
        s = np.linspace(low, high, 200_001)
        v = log_joint(s)
    return float(v.max() + np.log(np.trapezoid(np.exp(v - v.max()), s)))


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_fit_or_a_refusal(case: Case) -> None:
    wanted, ended = truth(case), 0
    text = MODEL.format(
        declared=case.declared, mean=case.mean, sd=case.sd, statement=case.statement
    )
    data = {name: np.array([value]) for name, value in case.data.items()}
    for method, (name, options) in METHODS.items():
        try:
            fit = lgm.fit(lgm.loads(text), data, method=name, options=options, max_steps=50)
        except LgmError:
            continue
        if not fit.converged:
            continue
        ended += 1
        off, size = fit.log_evidence - wanted, max(1.0, abs(wanted))
        assert math.isfinite(off), method
        if fit.guarantee is Guarantee.LOWER:  # but for rounding: terms of 2e10 nats, of 1e9 counts
            assert off <= 1e-6 * size + fit.posterior.conditioned.lost, method
        if name == "opper-archambeau":
            assert off >= -0.1 * size - 1.0, method
        if name == "ep":
            assert abs(off) <= 1e-5 * size, method
    # Counts without digits, and a prior that is a step: refusals are welcome there.
    assert ended or case.data["y"] >= 1e12 or case.sd >= 1e100
