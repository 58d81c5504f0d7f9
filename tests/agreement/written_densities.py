"""Densities of families as a model writes them, by SciPy and sums: nothing of this project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from lgmdsl.arrays import Array

ROWS = 8
X = np.linspace(-1.0, 1.0, ROWS)
COUNTS = np.array([0.0, 1.0, 0.0, 3.0, 2.0, 0.0, 5.0, 1.0])
TRIALS = np.array([5.0, 4.0, 6.0, 7.0, 4.0, 3.0, 6.0, 5.0])
SUCCESSES = np.minimum(COUNTS, TRIALS)
TIMES = np.array([0.3, 1.2, 2.5, 0.7, 0.05, 3.1, 1.0, 0.9])
WITH_ZEROS = np.where(np.arange(ROWS) % 3 == 0, 0.0, TIMES)
REAL = np.array([-1.2, 0.3, 0.5, 2.1, -0.4, 0.9, 1.5, 0.2])
SHARES = np.array([0.1, 0.5, 0.3, 0.8, 0.6, 0.25, 0.9, 0.4])
EVENT = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
ENTRY = np.array([0.1, 0.5, np.nan, 0.2, 0.01, 1.0, 0.3, 0.2])
LOWER = np.array([0.1, np.nan, 2.0, 0.5, np.nan, np.nan, 0.8, 0.5])
UPPER = np.array([0.5, 2.0, np.nan, 0.9, np.nan, 4.0, 1.2, np.nan])
WEIGHT = np.array([1.0, 2.0, 0.5, 0.0, 1.0, 1.0, 3.0, 1.0])

Density = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """`observe y ~ text`: log density at two predictors, s and t."""

    text: str
    kind: str
    y: Array
    density: Density
    data: dict[str, tuple[str, Array]] = field(default_factory=dict)


def _with_zeros(f: Density, y: Array, p: Array | float, *rest: Array | float) -> Any:
    """Of zero inflation."""
    zero = np.log(p + (1.0 - p) * np.exp(f(0.0 * y, *rest)))
    return np.where(y == 0.0, zero, np.log1p(-p) + f(y, *rest))


def _above_zero(f: Density, y: Array, *rest: Array | float) -> Any:
    """Of truncation."""
    return f(y, *rest) - np.log1p(-np.exp(f(0.0 * y, *rest)))


def _hurdle(above: Density, y: Array, p: Array | float, *rest: Array | float) -> Any:
    """Of a hurdle, `above` being the density of y > 0."""
    inner = above(np.where(y > 0.0, y, 1.0), *rest)
    return np.where(y == 0.0, np.log(p), np.log1p(-p) + inner)


def _poisson(y: Array, mean: Array) -> Any:
    return stats.poisson.logpmf(y, mean)


def _negbinomial(y: Array, mean: Array, size: Array | float) -> Any:
    return stats.nbinom.logpmf(y, size, size / (size + mean))


def _negbinomial1(y: Array, mean: Array, dispersion: Array | float) -> Any:
    return _negbinomial(y, mean, mean / dispersion)


def _binomial(y: Array, p: Array) -> Any:
    return stats.binom.logpmf(y, TRIALS, p)


def _betabinomial(y: Array, p: Any, concentration: Array | float) -> Any:
    return stats.betabinom.logpmf(y, TRIALS, p * concentration, (1.0 - p) * concentration)


def _generalized_poisson(y: Array, mean: Array, dispersion: float) -> Any:
    """Consul and Famoye (1992): theta (theta + lambda y)^(y - 1) e^-(theta + lambda y) / y!."""
    theta, share = mean / np.sqrt(dispersion), 1.0 - 1.0 / np.sqrt(dispersion)
    rate = theta + share * y
    return np.log(theta) + (y - 1.0) * np.log(rate) - rate - special.gammaln(y + 1.0)


SUPPORT = np.arange(4000.0)
LOG_FACTORIALS = special.gammaln(SUPPORT + 1.0)


@cache  # of sums over grids, whose points share most means
def _com_poisson_at(mean: float, nu: float) -> tuple[float, float]:
    """The log rate that has this mean, and the log of the normaliser there."""

    def off(log_rate: float) -> float:
        terms = SUPPORT * log_rate - nu * LOG_FACTORIALS
        shares = np.exp(terms - terms.max())
        return float(shares @ SUPPORT / shares.sum() - mean)

    rate = optimize.brentq(off, -40.0, 9.0 * nu + 2.0, xtol=1e-13)
    return rate, float(special.logsumexp(SUPPORT * rate - nu * LOG_FACTORIALS))


def _com_poisson(y: Array, mean: Array, dispersion: float) -> Any:
    nu, out = 1.0 / dispersion, []
    for k, m in zip(y, mean, strict=True):
        rate, total = _com_poisson_at(float(f"{m:.13g}"), nu)
        out.append(k * rate - nu * special.gammaln(k + 1.0) - total)
    return np.array(out)


def _tweedie(y: Array, mean: Array, dispersion: float, power: float) -> Any:
    """A Poisson number of gamma terms."""
    rate = mean ** (2.0 - power) / (dispersion * (2.0 - power))
    scale = dispersion * (power - 1.0) * mean ** (power - 1.0)
    terms = np.arange(1.0, 400.0)[:, None]
    shape = terms * (2.0 - power) / (power - 1.0)
    inner = stats.poisson.logpmf(terms, rate)
    inner = inner + stats.gamma.logpdf(np.where(y > 0.0, y, 1.0), shape, scale=scale)
    return np.where(y == 0.0, -rate, special.logsumexp(inner, axis=0))


def _gamma(y: Array, mean: Array, shape: Array | float) -> Any:
    return stats.gamma.logpdf(y, shape, scale=mean / shape)


def _skew_normal(y: Array, mean: Array, sd: float, skew: float) -> Any:
    a = abs(skew) ** (2.0 / 3.0)
    delta = np.sqrt(0.5 * np.pi * a / (a + (0.5 * (4.0 - np.pi)) ** (2.0 / 3.0)))
    scale = sd / np.sqrt(1.0 - 2.0 * delta**2 / np.pi)
    place = mean - scale * delta * np.sqrt(2.0 / np.pi)
    return stats.skewnorm.logpdf(y, delta / np.sqrt(1.0 - delta**2), place, scale)


@dataclass(frozen=True)
class Lifetime:
    """A positive family: log density and log survival at y and the predictor."""

    text: str
    density: Density
    survival: Density

    def with_entry(self, s: Array) -> Any:
        """With `event` and `entry`."""
        value = np.where(EVENT == 1.0, self.density(TIMES, s), self.survival(TIMES, s))
        start = self.survival(np.where(np.isnan(ENTRY), 1.0, ENTRY), s)
        return value - np.where(np.isnan(ENTRY), 0.0, start)

    def between(self, s: Array) -> Any:
        """With `lower`, `upper` and `entry`."""

        def alive(time: Array) -> Any:
            inner = np.exp(self.survival(np.where(time > 0.0, time, 1.0), s))
            return np.where(time > 0.0, inner, 1.0)

        entry = np.where(np.isnan(ENTRY), 0.0, ENTRY)
        low = alive(np.fmax(LOWER, entry))
        high = np.where(np.isnan(UPPER), 0.0, alive(np.where(np.isnan(UPPER), 1.0, UPPER)))
        known = np.isnan(LOWER) & np.isnan(UPPER)
        return np.where(known, self.density(TIMES, s), np.log(low - high)) - np.log(alive(entry))


def _scaled(law: stats.rv_continuous, *shapes: float) -> tuple[Density, Density]:
    return (
        lambda y, s: law.logpdf(y, *shapes, scale=np.exp(s)),
        lambda y, s: law.logsf(y, *shapes, scale=np.exp(s)),
    )


def _gompertz(shape: float) -> tuple[Density, Density]:
    def survival(y: Array, s: Array) -> Any:
        return -np.exp(s) * np.expm1(shape * y) / shape

    return (lambda y, s: s + shape * y + survival(y, s)), survival


def _generalized_gamma(scale: float, shape: float) -> tuple[Density, Density]:
    k = shape**-2.0

    def density(y: Array, s: Array) -> Any:
        g = k * np.exp(shape * (np.log(y) - s) / scale)
        return stats.gamma.logpdf(g, k) + np.log(g * abs(shape) / (scale * y))

    def survival(y: Array, s: Array) -> Any:
        g = k * np.exp(shape * (np.log(y) - s) / scale)
        return stats.gamma.logsf(g, k) if shape > 0.0 else stats.gamma.logcdf(g, k)

    return density, survival


LIFETIMES = (
    Lifetime(
        "exponential(log_rate = eta",
        lambda y, s: s - y * np.exp(s),
        lambda y, s: -y * np.exp(s),
    ),
    Lifetime("weibull(log_scale = eta, shape = 1.5", *_scaled(stats.weibull_min, 1.5)),
    Lifetime(
        "gamma(log_mean = eta, shape = 2",
        lambda y, s: _gamma(y, np.exp(s), 2.0),
        lambda y, s: stats.gamma.logsf(y, 2.0, scale=0.5 * np.exp(s)),
    ),
    Lifetime("lognormal(mean = eta, sd = 0.8", *_scaled(stats.lognorm, 0.8)),
    Lifetime(
        "inverse_gaussian(log_mean = eta, shape = 2",
        lambda y, s: stats.invgauss.logpdf(y, 0.5 * np.exp(s), scale=2.0),
        lambda y, s: stats.invgauss.logsf(y, 0.5 * np.exp(s), scale=2.0),
    ),
    Lifetime("loglogistic(log_scale = eta, shape = 2", *_scaled(stats.fisk, 2.0)),
    Lifetime("gompertz(log_rate = eta, shape = 0.3", *_gompertz(0.3)),
    Lifetime("gompertz(log_rate = eta, shape = -0.3", *_gompertz(-0.3)),
    Lifetime(
        "generalized_gamma(location = eta, scale = 0.7, shape = 0.5",
        *_generalized_gamma(0.7, 0.5),
    ),
    Lifetime(
        "generalized_gamma(location = eta, scale = 0.7, shape = -0.6",
        *_generalized_gamma(0.7, -0.6),
    ),
    Lifetime(
        "generalized_gamma(location = eta, scale = 0.7, shape = 0", *_scaled(stats.lognorm, 0.7)
    ),
)

_W = {"w": ("nonnegative", WEIGHT)}
_N = {"n": ("count", TRIALS)}
_TIMES = {"entry": ("real?", ENTRY)}
_SURV = {"died": ("binary", EVENT), **_TIMES}
_ENDS = {"low": ("real?", LOWER), "high": ("real?", UPPER), **_TIMES}
_exp, _expit = np.exp, special.expit


def _cloglog(s: Array) -> Any:
    return -np.expm1(-np.exp(s))


def _count(text: str, density: Density, **data: tuple[str, Array]) -> Case:
    return Case(text, "count", COUNTS, density, data)


def _positive(text: str, density: Density) -> Case:
    return Case(text, "positive", TIMES, density)


def _number(text: str, density: Density) -> Case:
    return Case(text, "real", REAL, density)


def _zeros(text: str, density: Density) -> Case:
    return Case(text, "nonnegative", WITH_ZEROS, density)


def _of_trials(text: str, density: Density) -> Case:
    return Case(text, "count", SUCCESSES, density, _N)


def _from_one(text: str, density: Density) -> Case:
    return Case(text, "count", COUNTS + 1.0, density)


Y, Z, B, P = COUNTS, COUNTS + 1.0, SUCCESSES, WITH_ZEROS
CASES: tuple[Case, ...] = (
    _count("poisson(log_rate = eta, weight = w)", lambda s, t: WEIGHT * _poisson(Y, _exp(s)), **_W),
    _count(
        "poisson(log_rate = eta, zero_inflation = 0.3)",
        lambda s, t: _with_zeros(_poisson, Y, 0.3, _exp(s)),
    ),
    _count(
        "poisson(log_rate = eta, zero_inflation_logit = zeta)",
        lambda s, t: _with_zeros(_poisson, Y, _expit(t), _exp(s)),
    ),
    _count(
        "poisson(log_rate = eta, zero_inflation_logit = zeta, weight = w)",
        lambda s, t: WEIGHT * _with_zeros(_poisson, Y, _expit(t), _exp(s)),
        **_W,
    ),
    _count(
        "poisson(log_rate = eta, exposure = 2, hurdle = 0.3)",
        lambda s, t: _hurdle(lambda y, m: _above_zero(_poisson, y, m), Y, 0.3, 2.0 * _exp(s)),
    ),
    _count(
        "poisson(log_rate = eta, hurdle_logit = zeta)",
        lambda s, t: _hurdle(lambda y, m: _above_zero(_poisson, y, m), Y, _expit(t), _exp(s)),
    ),
    _from_one(
        "poisson(log_rate = eta, truncated = true)",
        lambda s, t: _above_zero(_poisson, Z, _exp(s)),
    ),
    _count(
        "negbinomial(log_mean = eta, size = 2, exposure = 3)",
        lambda s, t: _negbinomial(Y, 3.0 * _exp(s), 2.0),
    ),
    _count(
        "negbinomial(log_mean = eta, log_size = zeta)",
        lambda s, t: _negbinomial(Y, _exp(s), _exp(t)),
    ),
    _count(
        "negbinomial(log_mean = eta, log_size = zeta, zero_inflation = 0.2)",
        lambda s, t: _with_zeros(_negbinomial, Y, 0.2, _exp(s), _exp(t)),
    ),
    _count(
        "negbinomial(log_mean = eta, log_size = zeta, hurdle = 0.2)",
        lambda s, t: _hurdle(
            lambda y, m, k: _above_zero(_negbinomial, y, m, k), Y, 0.2, _exp(s), _exp(t)
        ),
    ),
    _from_one(
        "negbinomial(log_mean = eta, log_size = zeta, truncated = true)",
        lambda s, t: _above_zero(_negbinomial, Z, _exp(s), _exp(t)),
    ),
    _count(
        "negbinomial1(log_mean = eta, dispersion = 0.5, exposure = 2)",
        lambda s, t: _negbinomial1(Y, 2.0 * _exp(s), 0.5),
    ),
    _count(
        "negbinomial1(log_mean = eta, log_dispersion = zeta)",
        lambda s, t: _negbinomial1(Y, _exp(s), _exp(t)),
    ),
    _of_trials("binomial(n = n, cloglog = eta)", lambda s, t: _binomial(B, _cloglog(s))),
    _of_trials(
        "binomial(n = n, logit = eta, zero_inflation = 0.2)",
        lambda s, t: _with_zeros(_binomial, B, 0.2, _expit(s)),
    ),
    Case(
        "binomial(n = n, probit = eta, truncated = true)",
        "count",
        np.maximum(SUCCESSES, 1.0),
        lambda s, t: _above_zero(_binomial, np.maximum(SUCCESSES, 1.0), special.ndtr(s)),
        _N,
    ),
    _of_trials(
        "binomial(n = n, logit = eta, hurdle_logit = zeta)",
        lambda s, t: _hurdle(lambda y, p: _above_zero(_binomial, y, p), B, _expit(t), _expit(s)),
    ),
    *(
        _of_trials(
            f"betabinomial(n = n, {link} = eta, concentration = 3)",
            lambda s, t, inverse=inverse: _betabinomial(B, inverse(s), 3.0),
        )
        for link, inverse in (("logit", _expit), ("probit", special.ndtr), ("cloglog", _cloglog))
    ),
    _of_trials(
        "betabinomial(n = n, logit = eta, log_concentration = zeta)",
        lambda s, t: _betabinomial(B, _expit(s), _exp(t)),
    ),
    _of_trials(
        "betabinomial(n = n, logit = eta, concentration = 3, zero_inflation_logit = zeta)",
        lambda s, t: _with_zeros(_betabinomial, B, _expit(t), _expit(s), 3.0),
    ),
    _count(
        "generalized_poisson(log_mean = eta, dispersion = 1.5)",
        lambda s, t: _generalized_poisson(Y, _exp(s), 1.5),
    ),
    _count(
        "generalized_poisson(log_mean = eta, dispersion = 1.5, zero_inflation = 0.2)",
        lambda s, t: _with_zeros(_generalized_poisson, Y, 0.2, _exp(s), 1.5),
    ),
    _count(
        "com_poisson(log_mean = eta, dispersion = 1.5)",
        lambda s, t: _com_poisson(Y, _exp(s), 1.5),
    ),
    _from_one(
        "com_poisson(log_mean = eta, dispersion = 0.6, exposure = 2, truncated = true)",
        lambda s, t: _above_zero(_com_poisson, Z, 2.0 * _exp(s), 0.6),
    ),
    _zeros(
        "tweedie(log_mean = eta, dispersion = 1, power = 1.5)",
        lambda s, t: _tweedie(P, _exp(s), 1.0, 1.5),
    ),
    _zeros(
        "gamma(log_mean = eta, shape = 2, hurdle_logit = zeta)",
        lambda s, t: _hurdle(_gamma, P, _expit(t), _exp(s), 2.0),
    ),
    _zeros(
        "gamma(log_mean = eta, log_shape = zeta, hurdle = 0.2)",
        lambda s, t: _hurdle(_gamma, P, 0.2, _exp(s), _exp(t)),
    ),
    _positive(
        "gamma(log_mean = eta, log_shape = zeta)", lambda s, t: _gamma(TIMES, _exp(s), _exp(t))
    ),
    _positive(
        "weibull(log_scale = eta, log_shape = zeta)",
        lambda s, t: stats.weibull_min.logpdf(TIMES, _exp(t), scale=_exp(s)),
    ),
    _positive(
        "lognormal(mean = eta, log_sd = zeta)",
        lambda s, t: stats.lognorm.logpdf(TIMES, _exp(t), scale=_exp(s)),
    ),
    _positive(
        "generalized_pareto(log_scale = eta, shape = 0.2)",
        lambda s, t: stats.genpareto.logpdf(TIMES, 0.2, scale=_exp(s)),
    ),
    _number("normal(mean = eta, log_sd = zeta)", lambda s, t: stats.norm.logpdf(REAL, s, _exp(t))),
    _number(
        "student_t(mean = eta, log_scale = zeta, df = 4)",
        lambda s, t: stats.t.logpdf(REAL, 4.0, s, _exp(t)),
    ),
    _number("logistic(mean = eta, scale = 0.7)", lambda s, t: stats.logistic.logpdf(REAL, s, 0.7)),
    *(
        _number(
            f"gev(location = eta, scale = 1, shape = {shape:g})",
            lambda s, t, shape=shape: stats.genextreme.logpdf(REAL, -shape, s, 1.0),
        )
        for shape in (0.1, -0.1)
    ),
    _number(
        "skew_normal(mean = eta, sd = 1, skew = 0.5)",
        lambda s, t: _skew_normal(REAL, s, 1.0, 0.5),
    ),
    _number(
        "asymmetric_laplace(quantile = eta, scale = 0.5, level = 0.8)",
        lambda s, t: np.log(0.32) - 2.0 * (REAL - s) * (0.8 - (s > REAL)),
    ),
    Case(
        "laplace(mean = eta, scale = 0.5, event = died)",
        "real",
        REAL,
        lambda s, t: np.where(
            EVENT == 1.0, stats.laplace.logpdf(REAL, s, 0.5), stats.laplace.logsf(REAL, s, 0.5)
        ),
        {"died": ("binary", EVENT)},
    ),
    Case(
        "beta(logit_mean = eta, log_concentration = zeta)",
        "unit",
        SHARES,
        lambda s, t: stats.beta.logpdf(SHARES, _expit(s) * _exp(t), _expit(-s) * _exp(t)),
    ),
    *(
        case
        for life in LIFETIMES
        for case in (
            _positive(f"{life.text})", lambda s, t, life=life: life.density(TIMES, s)),
            Case(
                f"{life.text}, weight = w)",
                "positive",
                TIMES,
                lambda s, t, life=life: WEIGHT * life.density(TIMES, s),
                _W,
            ),
            _zeros(
                f"{life.text}, hurdle = 0.3)",
                lambda s, t, life=life: _hurdle(life.density, P, 0.3, s),
            ),
            Case(
                f"{life.text}, event = died, entry = entry)",
                "positive",
                TIMES,
                lambda s, t, life=life: life.with_entry(s),
                _SURV,
            ),
            Case(
                f"{life.text}, lower = low, upper = high, entry = entry)",
                "positive",
                TIMES,
                lambda s, t, life=life: life.between(s),
                _ENDS,
            ),
        )
    ),
)
