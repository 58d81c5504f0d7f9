"""Small models with everything drawn at random, and their posteriors by quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array

FAMILIES = {
    "logit": ("binary", "bernoulli(logit = eta)"),
    "probit": ("binary", "bernoulli(probit = eta)"),
    "cloglog": ("binary", "bernoulli(cloglog = eta)"),
    "binomial": ("count", "binomial(n = 4, logit = eta)"),
    "poisson": ("count", "poisson(log_rate = eta)"),
    "negbinomial": ("count", "negbinomial(log_mean = eta, size = 2)"),
    "gamma": ("positive", "gamma(log_mean = eta, shape = 2)"),
    "student_t": ("real", "student_t(mean = eta, scale = 0.5, df = 4)"),
    "log_var": ("real", "normal(mean = 0, log_var = eta)"),
}
LOGISTIC = ("logit", "binomial")
TEXT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : {type}
latent w[feat] ~ normal(sd = {sd})
let eta[obs] = X @ w
observe y ~ {family}
"""


@dataclass(frozen=True, eq=False)
class SmallModel:
    """One to three weights of prior sd `sd` on up to 20 rows."""

    family: str
    size: int
    sd: float
    data: dict[str, AnyArray]

    def fit(self, method: str, **settings: Any) -> Fit:
        kind, family = FAMILIES[self.family]
        text = TEXT.format(type=kind, family=family, sd=self.sd)
        return lgm.fit(lgm.loads(text), self.data, method=method, **settings)


def small_model(seed: int) -> SmallModel:
    """From its seed."""
    rng = np.random.default_rng(seed)
    size, rows = int(rng.integers(1, 4)), int(rng.integers(1, 21))
    sd, family = float(rng.choice([0.5, 1.0, 2.0, 5.0])), str(rng.choice(list(FAMILIES)))
    X = rng.normal(size=(rows, size))
    if rng.random() < 0.5:
        X[:, 0] = 1.0
    s = X @ (rng.normal(size=size) * min(sd, 2.0))
    return SmallModel(family, size, sd, {"X": X, "y": _response(family, s, rng)})


def _response(family: str, s: Array, rng: np.random.Generator) -> AnyArray:
    n, rate = len(s), np.exp(np.clip(s, -9.0, 4.0))
    chance = 1.0 / (1.0 + np.exp(-s))
    match family:
        case "logit":
            return (rng.random(n) < chance).astype(int)
        case "probit":
            return (s + rng.normal(size=n) > 0).astype(int)
        case "cloglog":
            return (rng.random(n) < -np.expm1(-np.exp(s))).astype(int)
        case "binomial":
            return rng.binomial(4, chance)
        case "poisson":
            return rng.poisson(rate)
        case "negbinomial":
            return rng.negative_binomial(2, 2.0 / (2.0 + rate))
        case "gamma":
            return np.maximum(rng.gamma(2.0, rate / 2.0), 1e-8)
        case "student_t":
            return s + 0.5 * rng.standard_t(4, size=n)
    return rng.normal(size=n) * np.exp(0.5 * s)


@dataclass(frozen=True)
class Truth:
    """Posterior means and sds of the weights, the log evidence, and the nodes of the grid, (k,
    size), with their shares of the posterior."""

    mean: Array
    sd: Array
    log_evidence: float
    nodes: Array
    shares: Array


POINTS = {1: 801, 2: 121, 3: 41}


def truth(model: SmallModel, fit: Fit) -> Truth:
    """The trapezoidal rule on a grid that is moved and stretched to the posterior until it rests:
    to about 1e-5 sd. Raises ArithmeticError where it never does."""
    site = fit.canonical.sites(fit.theta)[0]
    offset = fit.canonical.linear(fit.theta).predictors[0].offset
    X, k = np.asarray(model.data["X"]), model.size
    mean, covariance = fit.mean("w").values, fit.posterior.conditioned.solve(np.eye(k))
    axis = np.linspace(-9.0, 9.0, POINTS[k])
    grid = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    before = np.full(2 * k + 1, np.inf)
    for _ in range(12):
        root = np.linalg.cholesky(covariance)
        z = mean + grid @ root.T
        level = _likelihood(site, z @ X.T + offset) - 0.5 * (z**2).sum(axis=1) / model.sd**2
        top = level.max()
        weight = np.exp(level - top)
        total = weight.sum()
        mean = weight @ z / total
        centred = z - mean
        covariance = (centred * (weight / total)[:, None]).T @ centred + 1e-14 * np.eye(k)
        sd = np.sqrt(covariance.diagonal())
        evidence = top + np.log(total) + np.log(np.diag(root)).sum()
        evidence += k * (np.log(axis[1] - axis[0]) - np.log(model.sd) - 0.5 * np.log(2 * np.pi))
        now = np.concatenate([mean, sd, [evidence]])
        if np.abs(now - before).max() < 1e-5 * max(1.0, sd.max()):
            return Truth(mean, sd, float(evidence), z, weight / total)
        before = now
    raise ArithmeticError("the grid does not come to rest")


def _likelihood(site: Any, s: Array) -> Array:
    """(points,) sums over the rows of s (points, rows)."""
    rows, out = s.shape[1], []
    for part in np.array_split(s, max(1, s.size // 200_000)):
        many = site.take(np.tile(np.arange(rows), len(part)))
        with np.errstate(all="ignore"):
            level = many.log_density(part.reshape(-1)).reshape(part.shape).sum(axis=1)
        out.append(np.where(np.isnan(level), -np.inf, level))
    return np.concatenate(out)
