"""Models of any size whose posteriors are known, and all methods that can run them.

Chains (`ar1`) of several families, by forward and backward filters; counts and binary answers of
groups of three rows with a level, by quadrature over each group given the level; `rw1` with a
level, whose truth is EP's; chains of a learned sd, by filters over a grid of sds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

import lgmdsl as lgm
from lgmdsl.accuracy.limits import LEVELS
from lgmdsl.arrays import Array
from tests.accuracy.chains import Marginals, filtered

SIZES = (50, 200, 500, 1000, 2000, 5000)
SMALL = 0.02  # true errors that a claim need not reach half of
OFFSET = -1.5


@dataclass(frozen=True)
class Family:
    """How an answer is written, drawn and weighed, given predictors."""

    kind: str
    text: str
    draw: Callable[[np.random.Generator, Array], Any]
    log_density: Callable[[Array, Array], Any]


def _heavy(rng: np.random.Generator, s: Array) -> Array:
    return np.asarray(np.round(s + 0.5 * rng.standard_t(4, len(s)), 3))


FAMILIES: dict[str, Family] = {
    "poisson": Family(
        "count", "poisson(log_rate = eta)",
        lambda rng, s: rng.poisson(np.exp(s)), lambda y, s: stats.poisson.logpmf(y, np.exp(s)),
    ),
    "logit": Family(
        "binary", "bernoulli(logit = eta)",
        lambda rng, s: rng.binomial(1, expit(s)),
        lambda y, s: -np.logaddexp(0.0, np.where(y == 1, -s, s)),
    ),
    "probit": Family(
        "binary", "bernoulli(probit = eta)",
        lambda rng, s: rng.binomial(1, stats.norm.cdf(s)),
        lambda y, s: stats.norm.logcdf(np.where(y == 1, s, -s)),
    ),
    "negbinomial": Family(
        "count", "negbinomial(log_mean = eta, size = 2)",
        lambda rng, s: rng.poisson(np.exp(s) * rng.gamma(2.0, 0.5, len(s))),
        lambda y, s: stats.nbinom.logpmf(y, 2, 2.0 / (2.0 + np.exp(s))),
    ),
    "student_t": Family(
        "real", "student_t(mean = eta, scale = 0.5, df = 4)", _heavy,
        lambda y, s: stats.t.logpdf(y, 4, s, 0.5),
    ),
    "gamma": Family(
        "positive", "gamma(log_mean = eta, shape = 0.6)",
        lambda rng, s: np.exp(s) * rng.gamma(0.6, 1.0 / 0.6, len(s)) + 1e-9,
        lambda y, s: stats.gamma.logpdf(y, 0.6, scale=np.exp(s) / 0.6),
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Known:
    """A model with its data and the exact posteriors of its names: means and sds, and 5 and 95 %
    points or none, flat; the log evidence, or NaN."""

    text: str
    data: Mapping[str, Any]
    names: Mapping[str, tuple[Array, Array, Array | None]]
    log_evidence: float = math.nan

    def errors(self, fit: lgm.Fit) -> tuple[float, float, float, float]:
        """The largest errors of means, sds and quantiles (NaN where these are not known), and that
        of the evidence."""
        top = np.array([0.0, 0.0, np.nan])
        for name, (mean, sd, quantiles) in self.names.items():
            m, s = np.ravel(fit.mean(name).values), np.ravel(fit.sd(name).values)
            here = [np.abs(m - mean) / sd, np.abs(s / sd - 1.0)]
            if quantiles is not None:
                q = np.reshape(fit.quantile(name, list(LEVELS)).values, (len(LEVELS), -1))
                here.append((np.abs(q - quantiles) / sd).max(axis=0))
            top[: len(here)] = np.fmax(top[: len(here)], [h.max() for h in here])
        of_means, of_sds, of_quantiles = map(float, top)
        return of_means, of_sds, of_quantiles, self.log_evidence - fit.log_evidence


def _walk(rng: np.random.Generator, size: int, sd: float, rho: float) -> Array:
    z = sd * rng.standard_normal(size)
    for k in range(1, size):
        z[k] = rho * z[k - 1] + math.sqrt(1.0 - rho**2) * z[k]
    return z


CHAIN = """lgm 1
index t
data y[t] : {kind}
{hyper}latent f[t] ~ ar1(sd = {sd}, rho = {rho})
let eta[t] = f - 1.5
observe y ~ {text}
"""


def _drawn_chain(
    family: Family, sd: float, rho: float, size: int
) -> tuple[Array, Callable[[Array], Array]]:
    rng = np.random.default_rng(size)
    y = family.draw(rng, _walk(rng, size, sd, rho) + OFFSET)
    return y, lambda grid: np.asarray(family.log_density(y[:, None], grid + OFFSET))


def _shifted(name: str, of: Marginals, by: float = 0.0) -> dict[str, Any]:
    return {name: (of.mean + by, of.sd, of.quantiles + by)}


def chain(name: str, sd: float, rho: float, size: int) -> Known:
    """A chain of this family."""
    family = FAMILIES[name]
    y, log_density = _drawn_chain(family, sd, rho, size)
    exact = filtered(size, sd, rho, log_density)
    text = CHAIN.format(kind=family.kind, text=family.text, hyper="", sd=sd, rho=rho)
    names = _shifted("f", exact) | _shifted("eta", exact, OFFSET)
    return Known(text, {"y": y}, names, exact.log_evidence)


def learned_chain(name: str, size: int) -> Known:
    """A chain whose sd is integrated over: a sum over a grid of log sds."""
    family = FAMILIES[name]
    y, log_density = _drawn_chain(family, 1.0, 0.9, size)
    log_sd, every, logs = np.linspace(-10.0, 2.0, 31), list[Marginals](), np.zeros(0)
    for last in (False, True):
        every = [filtered(size, s, 0.9, log_density) for s in np.exp(log_sd)]
        logs = np.array([e.log_evidence for e in every]) - 0.5 * np.exp(2.0 * log_sd) + log_sd
        if not last:  # on what matters of the range
            inside = np.flatnonzero(logs > logs.max() - 12.0)
            low, high = np.clip(inside[[0, -1]] + [-1, 1], 0, len(log_sd) - 1)
            log_sd = np.linspace(log_sd[low], log_sd[high], 41)
    grid, w = np.exp(log_sd), np.exp(logs - logs.max())
    step = math.log(grid[1] / grid[0])
    constant = math.log(2.0 * step / math.sqrt(2.0 * math.pi) * w.sum())
    w /= w.sum()
    means = np.array([e.mean for e in every])
    mean = w @ means
    sd = np.sqrt(w @ (np.array([e.sd for e in every]) ** 2 + (means - mean) ** 2))
    centre = float(w @ grid)
    spread = math.sqrt(float(w @ (grid - centre) ** 2))
    hyper = "hyper s : positive ~ half_normal(sd = 1)\n"
    text = CHAIN.format(kind=family.kind, text=family.text, hyper=hyper, sd="s", rho=0.9)
    names: dict[str, Any] = {
        "f": (mean, sd, None), "eta": (mean + OFFSET, sd, None),
        "s": (np.array([centre]), np.array([spread]), None),
    }  # fmt: skip
    return Known(text, {"y": y}, names, float(logs.max()) + constant)


GROUPS = """lgm 1
index obs
index g
data y[obs] : {kind}
data who[obs] : g
latent b ~ normal(sd = 3)
latent u[g] ~ normal(sd = 1.5)
let eta[obs] = b + u[who]
observe y ~ {text}
"""


def _moments(weight: Array, x: Array) -> tuple[Array, Array, Array]:
    """Of weights (m, k) that sum to 1, at x."""
    mean = weight @ x
    below = np.cumsum(weight, axis=1) - 0.5 * weight
    quantiles = np.array([[np.interp(a, row, x) for row in below] for a in LEVELS])
    return mean, np.sqrt(weight @ x**2 - mean**2), quantiles


def groups(name: str, size: int) -> Known:
    """Groups of three rows about a level: given the level b each is an integral over its own
    predictor s, whose prior is N(b, 1.5^2)."""
    family, sd = FAMILIES[name], 1.5
    rng = np.random.default_rng(size)
    who = np.arange(size) // 3
    count = int(who[-1]) + 1
    y = family.draw(rng, OFFSET + sd * rng.standard_normal(count)[who])
    s = np.linspace(-14.0, 11.0, 1001)
    rows = family.log_density(y[:, None], s)
    logs = np.add.reduceat(rows, np.arange(0, size, 3), axis=0)
    top = logs.max(axis=1)
    likelihood = np.exp(logs - top[:, None])  # (groups, s)
    b, total, kernel = np.linspace(-8.0, 6.0, 201), np.zeros(0), np.zeros((0, 0))
    for last in (False, True):  # on what matters of the level's range
        kernel = stats.norm.pdf(s[:, None], b, sd) * (s[1] - s[0])
        total = np.log(likelihood @ kernel).sum(axis=0) + stats.norm.logpdf(b, 0.0, 3.0)
        if not last:
            inside = b[total > total.max() - 40.0]
            b = np.linspace(inside[0] - 0.1, inside[-1] + 0.1, 201)
    w = np.exp(total - total.max())
    evidence = float(total.max() + math.log(w.sum() * (b[1] - b[0])) + top.sum())
    w /= w.sum()
    share = w / (likelihood @ kernel)  # (groups, b)
    of_s = likelihood * (share @ kernel.T)
    mean, spread, points = _moments(of_s, s)
    level, level_sd, level_points = _moments(w[None], b)
    # u = s - b: E u and E u^2 given b, by the moments of s.
    first, second = (((likelihood * s**k) @ kernel) * share for k in (1, 2))
    u = first.sum(axis=1) - w @ b
    square = (second - 2.0 * b * first + w * b**2).sum(axis=1)
    names: dict[str, Any] = {
        "b": (level, level_sd, level_points), "u": (u, np.sqrt(square - u**2), None),
        "eta": (mean[who], spread[who], points[:, who]),
    }  # fmt: skip
    text = GROUPS.format(kind=family.kind, text=family.text)
    return Known(text, {"y": y, "who": who}, names, evidence)


LEVEL = """lgm 1
index t
data y[t] : {kind}
latent f[t] ~ rw1(sd = 1)
latent b ~ normal(sd = 5)
let eta[t] = b + f
observe y ~ {text}
"""


def level(name: str, size: int) -> Known:
    """Small slopes of many rows: EP is close to the truth."""
    family, rng = FAMILIES[name], np.random.default_rng(0)
    y = family.draw(rng, np.sin(6.0 * np.arange(size) / size) + OFFSET)
    text = LEVEL.format(kind=family.kind, text=family.text)
    fit = lgm.fit(lgm.loads(text), {"y": y}, method="ep", options={"correction": "off"})
    names = {v: (fit.mean(v).values, fit.sd(v).values, None) for v in ("f", "b", "eta")}
    return Known(text, {"y": y}, names, fit.log_evidence_corrected)


MODELS: dict[str, tuple[Callable[[int], Known], tuple[int, ...]]] = {
    **{f"ar1 {name}": (partial(chain, name, 1.5, 0.9), SIZES) for name in FAMILIES},
    "slow ar1 poisson": (partial(chain, "poisson", 3.0, 0.999), SIZES),
    "slow ar1 logit": (partial(chain, "logit", 3.0, 0.999), SIZES),
    **{f"groups {name}": (partial(groups, name), SIZES) for name in ("poisson", "logit", "probit")},
    **{f"rw1 {name}": (partial(level, name), SIZES) for name in ("poisson", "logit")},
    "learned poisson": (partial(learned_chain, "poisson"), (50, 500, 2000)),
    "learned logit": (partial(learned_chain, "logit"), (50, 500, 2000)),
}


def asked(model: lgm.Model) -> Iterator[tuple[str, str, str | None, dict[str, Any]]]:
    """Methods that can run a model, with the bounds and options that change what they find: a name,
    and what `fit` is given. A method that is named is corrected on request alone."""
    off = {"correction": "off"}
    yield "auto", "auto", None, {}
    yield "auto, off", "auto", None, off
    yield "laplace, on", "laplace", None, {"correction": "on"}
    yield "laplace correct_mean", "laplace", None, off | {"correct_mean": True}
    yield "ep power=0.5", "ep", None, off | {"power": 0.5}
    for of in lgm.methods(model):
        if of.method == "map" and "\nhyper " in model.to_lgm():
            continue  # it has no evidence to learn by
        if of.runs:
            yield of.method, of.method, None, off
        if of.runs and of.method == "natural-gradient":
            for bound in (b.replace("-R", "-3") for b in of.bounds if b != "quadrature"):
                yield f"{of.method} {bound}", of.method, bound, off
