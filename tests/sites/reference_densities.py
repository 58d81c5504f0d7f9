"""Log densities of every family, written from their definitions for mpmath's 40 digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import mpmath as mp

mp.mp.dps = 40
Real = Any
Density = Callable[[Real, Real, Mapping[str, Real]], Real]


def _student(x: Real, scale: Real, df: Real) -> Real:
    gammas = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    return gammas - mp.log(scale) - (df + 1) / 2 * mp.log1p((x / scale) ** 2 / df)


def _cdf(s: Real) -> Real:
    return mp.erfc(-s / mp.sqrt(2)) / 2


def _choose(n: Real, y: Real) -> Real:
    return mp.loggamma(n + 1) - mp.loggamma(y + 1) - mp.loggamma(n - y + 1)


def _logit(s: Real, y: Real, n: Real) -> Real:
    bent = mp.log1p(mp.exp(-abs(s)))
    return _choose(n, y) - y * (max(-s, 0) + bent) - (n - y) * (max(s, 0) + bent)


def _probit(s: Real, y: Real, n: Real) -> Real:
    up = y * mp.log(_cdf(s)) if y else 0
    return _choose(n, y) + up + ((n - y) * mp.log(_cdf(-s)) if n - y else 0)


def _log_normal(x: Real, v: Real) -> Real:
    return -mp.log(2 * mp.pi * v) / 2 - x * x / (2 * v)


def _negbinomial(s: Real, y: Real, r: Real) -> Real:
    gammas = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1)
    return gammas + r * mp.log(r) + y * s - (y + r) * mp.log(r + mp.exp(s))


def _negbinomial1(s: Real, y: Real, d: Real) -> Real:
    r = mp.exp(s) / d
    gammas = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1)
    return gammas + y * mp.log(d / (1 + d)) - r * mp.log(1 + d)


def _generalized_poisson(s: Real, y: Real, d: Real) -> Real:
    theta, echo = mp.exp(s) / mp.sqrt(d), 1 - 1 / mp.sqrt(d)
    middle = theta + echo * y
    return mp.log(theta) + (y - 1) * mp.log(middle) - middle - mp.loggamma(y + 1)


def _betabinomial(p: Real, q: Real, y: Real, n: Real, c: Real) -> Real:
    gammas = mp.loggamma(y + c * p) - mp.loggamma(c * p)
    gammas += mp.loggamma(n - y + c * q) - mp.loggamma(c * q)
    return _choose(n, y) + gammas + mp.loggamma(c) - mp.loggamma(n + c)


@lru_cache(maxsize=256)
def _tweedie_level(y: Real, d: Real, power: Real) -> Real:
    """log of the sum over the numbers of terms (Dunn and Smyth 2005, equations 14 to 18)."""
    a = (2 - power) / (power - 1)
    z = a * mp.log(y) - (1 + a) * mp.log(d) - a * mp.log(power - 1) - mp.log(2 - power)
    terms = [j * z - mp.loggamma(1 + j) - mp.loggamma(j * a) for j in range(1, 400)]
    return mp.log(sum(mp.exp(t) for t in terms)) - mp.log(y)


def _tweedie(s: Real, y: Real, d: Real, power: Real) -> Real:
    b, c = 2 - power, power - 1
    natural = -y * mp.exp(-c * s) / c - mp.exp(b * s) / b
    return natural / d + (_tweedie_level(y, d, power) if y > 0 else 0)


def _gamma(s: Real, y: Real, k: Real) -> Real:
    return k * mp.log(k) - mp.loggamma(k) - k * s + (k - 1) * mp.log(y) - k * y * mp.exp(-s)


def _weibull(s: Real, y: Real, k: Real, event: Real) -> Real:
    x = y * mp.exp(-s)
    return event * (mp.log(k) + (k - 1) * mp.log(x) - s) - x**k


def _beta(s: Real, y: Real, c: Real) -> Real:
    a, b = c / (1 + mp.exp(-s)), c / (1 + mp.exp(s))
    gammas = mp.loggamma(c) - mp.loggamma(a) - mp.loggamma(b)
    return gammas + (a - 1) * mp.log(y) + (b - 1) * mp.log1p(-y)


def _inverse_gaussian(s: Real, y: Real, k: Real) -> Real:
    mean = mp.exp(s)
    return mp.log(k / (2 * mp.pi * y**3)) / 2 - k * (y - mean) ** 2 / (2 * mean**2 * y)


def _loglogistic(s: Real, y: Real, k: Real) -> Real:
    z = k * (mp.log(y) - s)
    return mp.log(k) - mp.log(y) + z - 2 * (max(z, 0) + mp.log1p(mp.exp(-abs(z))))


def _gompertz(s: Real, y: Real, k: Real, event: Real) -> Real:
    grown = mp.expm1(k * y) / k if k else y
    return event * (s + k * y) - mp.exp(s) * grown


def _generalized_gamma(s: Real, y: Real, scale: Real, q: Real) -> Real:
    """From the gamma density of g, log y = s + scale log(q^2 g) / q."""
    w = (mp.log(y) - s) / scale
    if q == 0:
        return _log_normal(w, mp.mpf(1)) - mp.log(scale * y)
    k = q**-2
    g = k * mp.exp(q * w)
    return k * mp.log(g) - g - mp.loggamma(k) + mp.log(abs(q)) - mp.log(scale * y)


def _generalized_pareto(s: Real, y: Real, k: Real) -> Real:
    z = y * mp.exp(-s)
    if k == 0:
        return -s - z
    return -s - (1 + 1 / k) * mp.log1p(k * z) if 1 + k * z > 0 else -mp.inf


def _gev(s: Real, y: Real, scale: Real, k: Real) -> Real:
    z = (y - s) / scale
    if k == 0:
        return -mp.log(scale) - z - mp.exp(-z)
    if 1 + k * z <= 0:
        return -mp.inf
    return -mp.log(scale) - (1 + 1 / k) * mp.log1p(k * z) - mp.exp(-mp.log1p(k * z) / k)


def _skew_normal(s: Real, y: Real, sd: Real, skew: Real) -> Real:
    """Azzalini's density, location and scale from the moments."""
    size = abs(skew) ** (mp.mpf(2) / 3)
    delta = mp.sign(skew) * mp.sqrt(
        mp.pi / 2 * size / (size + ((4 - mp.pi) / 2) ** (mp.mpf(2) / 3))
    )
    omega = sd / mp.sqrt(1 - 2 * delta**2 / mp.pi)
    z = (y - s + omega * delta * mp.sqrt(2 / mp.pi)) / omega
    alpha = delta / mp.sqrt(1 - delta**2)
    return mp.log(2 / omega) - mp.log(2 * mp.pi) / 2 - z**2 / 2 + mp.log(_cdf(alpha * z))


def _asymmetric(x: Real, scale: Real, level: Real) -> Real:
    fall = (1 - level) * x if x > 0 else -level * x
    return mp.log(level * (1 - level) / scale) - fall / scale


def _logistic(x: Real, scale: Real) -> Real:
    return -2 * mp.log(2 * mp.cosh(x / scale / 2)) - mp.log(scale)


DENSITIES: dict[str, Density] = {
    "normal.mean": lambda s, y, p: _log_normal(y - s, p["sd"] ** 2),
    "bernoulli.logit": lambda s, y, p: _logit(s, y, mp.mpf(1)),
    "binomial.logit": lambda s, y, p: _logit(s, y, p["n"]),
    "bernoulli.probit": lambda s, y, p: _probit(s, y, mp.mpf(1)),
    "binomial.probit": lambda s, y, p: _probit(s, y, p["n"]),
    "bernoulli.cloglog": lambda s, y, p: mp.log(-mp.expm1(-mp.exp(s))) if y else -mp.exp(s),
    "poisson.log_rate": lambda s, y, p: (
        y * (s + mp.log(p["exposure"])) - p["exposure"] * mp.exp(s) - mp.loggamma(y + 1)
    ),
    "negbinomial.log_mean": lambda s, y, p: _negbinomial(s + mp.log(p["exposure"]), y, p["size"]),
    "negbinomial1.log_mean": lambda s, y, p: _negbinomial1(
        s + mp.log(p["exposure"]), y, p["dispersion"]
    ),
    "generalized_poisson.log_mean": lambda s, y, p: _generalized_poisson(
        s + mp.log(p["exposure"]), y, p["dispersion"]
    ),
    "betabinomial.logit": lambda s, y, p: _betabinomial(
        1 / (1 + mp.exp(-s)), 1 / (1 + mp.exp(s)), y, p["n"], p["concentration"]
    ),
    "betabinomial.probit": lambda s, y, p: _betabinomial(
        _cdf(s), _cdf(-s), y, p["n"], p["concentration"]
    ),
    "betabinomial.cloglog": lambda s, y, p: _betabinomial(
        -mp.expm1(-mp.exp(s)), mp.exp(-mp.exp(s)), y, p["n"], p["concentration"]
    ),
    "binomial.cloglog": lambda s, y, p: (
        _choose(p["n"], y)
        + (y * mp.log(-mp.expm1(-mp.exp(s))) if y else 0)
        - (p["n"] - y) * mp.exp(s)
    ),
    "tweedie.log_mean": lambda s, y, p: _tweedie(s, y, p["dispersion"], p["power"]),
    "gamma.log_mean": lambda s, y, p: _gamma(s, y, p["shape"]),
    "lognormal.mean": lambda s, y, p: _log_normal(mp.log(y) - s, p["sd"] ** 2) - mp.log(y),
    "exponential.log_rate": lambda s, y, p: p["event"] * s - y * mp.exp(s),
    "weibull.log_scale": lambda s, y, p: _weibull(s, y, p["shape"], p["event"]),
    "beta.logit_mean": lambda s, y, p: _beta(s, y, p["concentration"]),
    "student_t.mean": lambda s, y, p: _student(s - y, p["scale"], p["df"]),
    "laplace.mean": lambda s, y, p: -abs(s - y) / p["scale"] - mp.log(2 * p["scale"]),
    "inverse_gaussian.log_mean": lambda s, y, p: _inverse_gaussian(s, y, p["shape"]),
    "loglogistic.log_scale": lambda s, y, p: _loglogistic(s, y, p["shape"]),
    "gompertz.log_rate": lambda s, y, p: _gompertz(s, y, p["shape"], p["event"]),
    "generalized_gamma.location": lambda s, y, p: _generalized_gamma(s, y, p["scale"], p["shape"]),
    "generalized_pareto.log_scale": lambda s, y, p: _generalized_pareto(s, y, p["shape"]),
    "gev.location": lambda s, y, p: _gev(s, y, p["scale"], p["shape"]),
    "skew_normal.mean": lambda s, y, p: _skew_normal(s, y, p["sd"], p["skew"]),
    "asymmetric_laplace.quantile": lambda s, y, p: _asymmetric(s - y, p["scale"], p["level"]),
    "asymmetric_laplace": lambda s, y, p: _asymmetric(s, p["scale"], p["level"]),
    "logistic.mean": lambda s, y, p: _logistic(s - y, p["scale"]),
    "normal.log_var": lambda s, y, p: _log_normal(y - p["mean"], mp.exp(s)),
    "normal": lambda s, y, p: _log_normal(s, p["sd"] ** 2),
    "laplace": lambda s, y, p: -abs(s) / p["scale"] - mp.log(2 * p["scale"]),
    "student_t": lambda s, y, p: _student(s, p["scale"], p["df"]),
    "sech2": lambda s, y, p: -2 * mp.log(mp.cosh(s / p["scale"])) - mp.log(2 * p["scale"]),
    "logistic": lambda s, y, p: _logistic(s, p["scale"]),
    "exp_power": lambda s, y, p: (
        -(abs(s / p["scale"]) ** p["power"]) - mp.log(2 * p["scale"] * mp.gamma(1 + 1 / p["power"]))
    ),
}


def _survivors(name: str, x: Real, s: Real, p: Mapping[str, Real]) -> tuple[Real, Real]:
    """P(Y <= x | s) and P(Y > x | s)."""
    if name in ("normal.mean", "lognormal.mean"):
        z = ((mp.log(x) if name == "lognormal.mean" else x) - s) / p["sd"]
        return _cdf(z), _cdf(-z)
    if name == "gamma.log_mean":
        k, t = p["shape"], p["shape"] * x * mp.exp(-s)
        return mp.gammainc(k, 0, t, regularized=True), mp.gammainc(k, t, regularized=True)
    if name == "student_t.mean":
        z, df = (x - s) / p["scale"], p["df"]
        tail = mp.betainc(df / 2, mp.mpf("0.5"), 0, df / (df + z * z), regularized=True) / 2
        return (tail, 1 - tail) if z < 0 else (1 - tail, tail)
    t = x * mp.exp(s) if name == "exponential.log_rate" else (x * mp.exp(-s)) ** p["shape"]
    return -mp.expm1(-t), mp.exp(-t)


def _censored(name: str) -> Density:
    """The density where both ends are missing or equal, else the mass between them."""

    def log_t(s: Real, y: Real, p: Mapping[str, Real]) -> Real:
        low, high = p["lower"], p["upper"]
        if not p["event"]:
            low = y
        elif mp.isnan(low) and mp.isnan(high):
            return DENSITIES[name](s, y, {**p, "event": 1})
        below, above = (0, 1) if mp.isnan(low) else _survivors(name, low, s, p)
        upto, beyond = (1, 0) if mp.isnan(high) else _survivors(name, high, s, p)
        return mp.log(upto - below if below < above else above - beyond)

    return log_t


CENSORED = (
    "normal.mean",
    "student_t.mean",
    "lognormal.mean",
    "gamma.log_mean",
    "exponential.log_rate",
    "weibull.log_scale",
)
DENSITIES |= {f"{name}.censored": _censored(name) for name in CENSORED}


def _interval(s: Real, y: Real, cuts: list[Real], survive: Callable[[Real], Real]) -> Real:
    """log of the mass of the class y, from the tail with less of it."""
    k = int(y)
    low = cuts[k - 1] - s if k else -mp.inf
    high = cuts[k] - s if k < len(cuts) else mp.inf
    if low > 0:
        return mp.log(survive(low) - (survive(high) if high < mp.inf else 0))
    return mp.log((survive(-high) if high < mp.inf else 1) - (survive(-low) if k else 0))


def _continuation(s: Real, y: Real, cuts: list[Real], survive: Callable[[Real], Real]) -> Real:
    k = int(y)
    passed = sum(mp.log(survive(c - s)) for c in cuts[:k])
    return passed + (mp.log(survive(s - cuts[k])) if k < len(cuts) else 0)


def _adjacent(s: Real, y: Real, cuts: list[Real], scores: list[Real] | None = None) -> Real:
    steps = [1] * len(cuts) if scores is None else [b - a for a, b in pairwise(scores)]
    odds = [step * (s - c) for step, c in zip(steps, cuts, strict=True)]
    levels = [sum(odds[:m]) for m in range(len(cuts) + 1)]
    return -mp.log(mp.fsum(mp.exp(level - levels[int(y)]) for level in levels))


def _adjacent_probit(s: Real, y: Real, cuts: list[Real], scores: list[Real] | None = None) -> Real:
    """From the products of the classes' own steps, up and down."""
    steps = [1] * len(cuts) if scores is None else [b - a for a, b in pairwise(scores)]
    x = [step * (s - c) for step, c in zip(steps, cuts, strict=True)]
    levels = [
        mp.fsum(mp.log(_normal(-v)) for v in x[:m]) + mp.fsum(mp.log(_normal(v)) for v in x[m:])
        for m in range(len(cuts) + 1)
    ]
    return -mp.log(mp.fsum(mp.exp(level - levels[int(y)]) for level in levels))


def _sigma(x: Real) -> Real:
    """P(X > x), X logistic."""
    return mp.exp(-x) / (1 + mp.exp(-x)) if x > 0 else 1 / (1 + mp.exp(x))


def _normal(x: Real) -> Real:
    """P(X > x), X normal."""
    return _cdf(-x)


DENSITIES |= {
    "ordinal.logit": lambda s, y, p: _interval(s, y, p["cuts"], _sigma),
    "ordinal.probit": lambda s, y, p: _interval(s, y, p["cuts"], _normal),
    "ordinal.logit.continuation": lambda s, y, p: _continuation(s, y, p["cuts"], _sigma),
    "ordinal.probit.continuation": lambda s, y, p: _continuation(s, y, p["cuts"], _normal),
    "ordinal.logit.adjacent": lambda s, y, p: _adjacent(s, y, p["cuts"]),
    "ordinal.logit.stereotype": lambda s, y, p: _adjacent(s, y, p["cuts"], p["scores"]),
    "ordinal.probit.adjacent": lambda s, y, p: _adjacent_probit(s, y, p["cuts"]),
    "ordinal.probit.stereotype": lambda s, y, p: _adjacent_probit(s, y, p["cuts"], p["scores"]),
}

# Densities that hold e^{+- pace s}.
GROWTH: dict[str, Callable[[Mapping[str, Real]], Real]] = {
    "bernoulli.cloglog": lambda p: 1, "poisson.log_rate": lambda p: 1,
    "gamma.log_mean": lambda p: 1, "normal.log_var": lambda p: 1,
    "negbinomial1.log_mean": lambda p: 1, "generalized_poisson.log_mean": lambda p: 1,
    "binomial.cloglog": lambda p: 1,
    "tweedie.log_mean": lambda p: max(p["power"] - 1, 2 - p["power"]),
    "exponential.log_rate": lambda p: 1, "weibull.log_scale": lambda p: p["shape"],
    "inverse_gaussian.log_mean": lambda p: 2, "gompertz.log_rate": lambda p: 1,
    "generalized_gamma.location": lambda p: abs(p["shape"]) / p["scale"],
}  # fmt: skip
