"""A model whose response has one more weight for each row."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.language.builder import Model
from lgmdsl.language.tree import ast

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
