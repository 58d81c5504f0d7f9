"""Families of responses that the ready models may have, with priors in the unit of the data.

The priors are weak and scale with the response, as those of rstanarm (Gabry and Goodrich 2016): a
level of sd 10, coefficients of sd 2.5 and noise of mean 1 with no density at 0, in units of sd(y)
where the predictor is on the scale of y, and of 1 where it is a logarithm or a logit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.sklearn.weighted import mean, sd


@dataclass(frozen=True)
class Family:
    """`type`: of the datum; `law`: what it observes, of the predictor `eta`; `hypers`: their
    statements, `{rate}` in place of 2 over the predictor's unit, `{floor}` of a least variance;
    `centre`, `unit`: of the predictor, from y and the weights of its rows; `positive`: whether y
    has to be."""

    type: str
    law: str
    hypers: tuple[str, ...]
    centre: Callable[[AnyArray, Array | None], float]
    unit: Callable[[AnyArray, Array | None], float]
    positive: bool = False

    def statements(self, unit: float) -> list[str]:
        """Statements of the hyperparameters."""
        rate, floor = number(2.0 / unit), number((FLOOR * unit) ** 2)
        return [f"hyper {h.format(rate=rate, floor=floor)}" for h in self.hypers]


def number(value: float) -> str:
    """A number as a model has it, to 6 digits: a prior needs no more."""
    return f"{value:.6g}"


def _spread(y: AnyArray, weights: Array | None) -> float:
    spread = float(sd(y, weights))
    return spread if np.isfinite(spread) and spread > 0.0 else 1.0


def _one(y: AnyArray, weights: Array | None) -> float:
    return 1.0


def _log_mean(y: AnyArray, weights: Array | None) -> float:
    count = len(y) if weights is None else float(weights.sum())
    return float(np.log(max(float(mean(y, weights)), 0.5 / count)))


def _mean(y: AnyArray, weights: Array | None) -> float:
    return float(mean(y, weights))


# The least noise, in units of sd(y): responses that a model can fit exactly, such as points of a
# straight line, have a density that is unbounded as their noise goes to 0.
FLOOR = 1e-4
NOISE = (
    "noise : positive ~ gamma(shape = 2, rate = {rate})",
    "whole_noise : positive = sqrt(noise ^ 2 + {floor})",
)
FAMILIES = {
    "normal": Family("real", "normal(mean = eta, sd = whole_noise)", NOISE, _mean, _spread),
    "student_t": Family(
        "real", "student_t(mean = eta, scale = whole_noise, df = 4)", NOISE, _mean, _spread
    ),
    "poisson": Family("count", "poisson(log_rate = eta)", (), _log_mean, _one, True),
    "negbinomial": Family(
        "count",
        "negbinomial(log_mean = eta, size = size)",
        ("size : positive ~ lognormal(mean = 1, sd = 1.5)",),
        _log_mean,
        _one,
        True,
    ),
    "gamma": Family(
        "positive",
        "gamma(log_mean = eta, shape = shape)",
        ("shape : positive ~ lognormal(mean = 1, sd = 1.5)",),
        _log_mean,
        _one,
        True,
    ),
    "bernoulli": Family("binary", "bernoulli(logit = eta)", (), lambda y, weights: 0.0, _one),
}


def family_of(name: str) -> Family:
    """Raises ValueError for a name that is none of them."""
    if name not in FAMILIES:
        raise ValueError(f"family={name!r} is none of {', '.join(FAMILIES)}")
    return FAMILIES[name]
