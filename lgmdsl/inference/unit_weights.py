"""Weights by which an engine decides whether data and priors determine the latents."""

from __future__ import annotations

from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem

SEEN = 1e-7  # nats by which a move of a predictor by 1 must change a row
PROBES = 4  # random vectors that tell the sizes of rows that are not written out


def sizes(linear: LinearGaussian) -> list[Array]:
    """The size of B's largest row for each site, (N,)."""
    sized = zip(_row_sizes(linear), linear.predictors, strict=True)
    return [size.reshape(-1, max(p.event, 1)).max(axis=1) for size, p in sized]


def _row_sizes(linear: LinearGaussian) -> list[Array]:
    """The size of each of B's rows; of operators that are not written out about that: the root mean
    square of B x, x of sd 1."""
    rng, out = np.random.default_rng(0), []
    for p in linear.predictors:
        square = np.zeros(p.rows)
        for operator in p.columns.values():
            if operator.in_memory or operator.is_sparse:
                matrix: Any = operator.matrix()
                square += np.asarray((matrix * matrix).sum(axis=1)).reshape(-1)
            else:
                x = rng.standard_normal((operator.shape[1], PROBES))
                square += np.mean(operator.matvec(x) ** 2, axis=1)
        out.append(np.sqrt(square))
    return out


def unit_weights(problem: Problem, own: tuple[bool, ...] | None = None) -> tuple[Array, ...]:
    """A weight for each site, a power of 2, at which its row of B is about of size one, so that
    units do not decide: next to features in the millions a potential's rows would be lost to
    rounding. Vector sites have it in the directions that they see. Blocks that are measured in
    their `own` units have weights of 1."""
    linear, weights = problem.engine.linear, []
    seen = _seen(problem)
    own = own or (False,) * len(seen)
    parts = zip(problem.sites, linear.predictors, _row_sizes(linear), seen, own, strict=True)
    for site, p, size, blocks, measured in parts:
        if isinstance(site, SumsOfRows):
            weights.append(site.unit_weights())
            continue
        size = np.ones_like(size) if measured else size
        if p.event and not site.spec.predictors:  # classes, which are of one unit
            size = np.repeat(size.reshape(-1, p.event).max(axis=1), p.event)
        root = np.exp2(-np.round(np.log2(np.where(size > 0.0, size, 1.0))))
        if p.event:
            root = root.reshape(-1, p.event)
            weights.append(root[:, :, None] * blocks * root[:, None, :])
        else:
            weights.append(root * root)
    return tuple(weights)


def _seen(problem: Problem) -> tuple[Array, ...]:
    """(N, K, K) for each vector site block: the identity in the classes whose predictors matter to
    a row, without their common level where that does not (softmax over all classes)."""
    predictors = problem.engine.linear.predictors
    shapes = [(p.rows // p.event, p.event) if p.event else (p.rows,) for p in predictors]
    # A ladder of unequal numbers, so that no class is like another.
    origin = [
        np.broadcast_to(0.1 * np.arange(s[-1]), s) if len(s) > 1 else np.zeros(s) for s in shapes
    ]
    out: list[Array] = []
    for k, p in enumerate(predictors):
        if not p.event or isinstance(problem.sites[k], SumsOfRows):
            out.append(np.zeros((0, 0, 0)))
            continue

        def log_density_at(step: Array, k: int = k) -> Array:
            rows_moved = tuple(s + step if j == k else s for j, s in enumerate(origin))
            return problem.log_density(rows_moved)[k]

        start = log_density_at(np.zeros(p.event))
        units = np.eye(p.event)
        matters = np.stack(
            [np.abs(log_density_at(u) - start) > SEEN for u in units], axis=1
        ).astype(float)
        level = np.abs(log_density_at(np.ones(p.event)) - start) <= SEEN
        count = np.maximum(matters.sum(axis=1), 1.0)
        common = matters[:, :, None] * matters[:, None, :] / count[:, None, None]
        out.append(matters[:, :, None] * units - level[:, None, None] * common)
    return tuple(out)
