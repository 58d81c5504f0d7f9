"""All predictor rows of a problem at once, and single rows of what answers for them."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Site
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse


def stacked(linear: LinearGaussian) -> Predictor:
    """The predictors of all site blocks, one above the other, as one."""
    if len(linear.predictors) == 1:
        return linear.predictors[0]
    names = [b.name for b in linear.blocks if any(b.name in p.columns for p in linear.predictors)]
    return Predictor(
        {n: _column(linear, n) for n in names},
        np.concatenate([p.offset for p in linear.predictors] or [np.zeros(0)]),
    )


def _column(linear: LinearGaussian, name: str) -> Operator:
    size = next(b.size for b in linear.blocks if b.name == name)
    parts = [p.columns.get(name) for p in linear.predictors]
    if all(p is None or p.is_sparse for p in parts):
        sparse = [
            sp.csr_array((q.rows, size)) if p is None else p.sparse()
            for p, q in zip(parts, linear.predictors, strict=True)
        ]
        return Sparse(sp.csr_array(sp.vstack(sparse, format="csr")))
    dense = [
        np.zeros((q.rows, size)) if p is None else p.dense()
        for p, q in zip(parts, linear.predictors, strict=True)
    ]
    return Dense(np.vstack(dense))


def row_covariance(q: Conditioned, linear: LinearGaussian) -> Array:
    """(P, P) covariance of all predictor rows under q."""
    return q.project(stacked(linear), full=True)[1]


def unstacked(flat: Array, like: Rows) -> Rows:
    """A (P,) array cut into the pieces of scalar site blocks."""
    return tuple(np.split(flat, np.cumsum([len(x) for x in like])[:-1]))


def taken(answer: Expected, where: IntArray) -> Expected | None:
    """The Expected of some rows: sites know how, and so do lifts that hold one in `site`; None for
    others."""
    if isinstance(answer, Site):
        return cast(Expected, answer.take(where))
    if dataclasses.is_dataclass(answer) and [f.name for f in dataclasses.fields(answer)] == [
        "site"
    ]:
        site = cast(Site, getattr(answer, "site"))  # noqa: B009
        return cast(Expected, dataclasses.replace(answer, site=site.take(where)))  # type: ignore[type-var]
    return None
