"""Families of responses that the ready models may have, with priors in the unit of the data.

The priors are weak and scale with the response, as those of rstanarm (Gabry and Goodrich 2016): a
level of sd 10, coefficients of sd 2.5 and noise of mean 1 with no density at 0, in units of sd(y)
where the predictor is on the scale of y, and of 1 where it is a logarithm or a logit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.language.builder import Model
from lgmdsl.language.tree import ast


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


# ---- weighted ----------------------------------------------------------------------------------


WEIGHT = "weight"


def weighted(model: Model, response: str) -> tuple[Model, str]:
    """The model with a datum of weights over the rows of a response, by which its log densities
    are multiplied, those of the model too; and the name of the datum."""
    symbols = model.checked.symbols
    name = "sample_weight"
    while name in symbols:
        name += "_2"
    statements: list[ast.AnyStatement] = []
    for statement in model.tree.statements:
        if isinstance(statement, ast.Observe) and statement.name.id == response:
            dims = tuple(ast.Name(d) for d in symbols[response].dims)
            statements.append(ast.Data(ast.Name(name), dims, ast.Type("nonnegative", False)))
            dist = statement.family
            own = next((a for a in dist.arguments if a.name == WEIGHT), None)
            value = ast.Name(name) if own is None else ast.Binary("*", _expr(own), ast.Name(name))
            others = tuple(a for a in dist.arguments if a is not own)
            arguments = (*others, ast.Argument(WEIGHT, value))
            statements.append(replace(statement, family=replace(dist, arguments=arguments)))
        else:
            statements.append(statement)
    return Model.from_tree(replace(model.tree, statements=tuple(statements))), name


def _expr(own: ast.Argument) -> ast.Expr:
    """The value of a weight, which the checker knows to be a number."""
    return cast(ast.Expr, own.value)


def mean(x: Array, weights: Array | None) -> Array:
    """Means over the first axis, rows counted by their weights."""
    return np.asarray(np.average(x, axis=0, weights=weights))


def sd(x: Array, weights: Array | None) -> Array:
    """Standard deviations over the first axis, rows counted by their weights."""
    return np.asarray(np.sqrt(mean((x - mean(x, weights)) ** 2, weights)))


def quantiles(x: Array, levels: Array, weights: Array | None) -> Array:
    """Quantiles as numpy's of a sample in which each entry stands as often as its weight says."""
    if weights is None:
        return np.asarray(np.quantile(x, levels))
    order = np.argsort(x, kind="stable")
    ends = np.cumsum(weights[order])
    place = np.maximum(ends[-1] - 1.0, 0.0) * levels
    low = np.floor(place)
    below, above = (
        x[order][np.minimum(np.searchsorted(ends, k, side="right"), len(x) - 1)]
        for k in (low, np.minimum(low + 1.0, ends[-1] - 1.0))
    )
    return np.asarray(below + (place - low) * (above - below))
