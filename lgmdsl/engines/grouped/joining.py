"""Rows that surely join too many latents for small groups, seen from sizes and a few rows.

More rows and priors only join more, so what is joined here stays so. A group takes at most `WIDEST`
latents, and of `FEWEST` groups or more none has many more rows than the average one (`PADDED`).
"""

from __future__ import annotations

from collections import deque

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import IntArray
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.engines.grouped.plates import FEWEST, PADDED, WIDEST
from lgmdsl.engines.shared.kept import KEPT, by_operators, shape_of
from lgmdsl.operators.base import Operator

SAMPLED = 4096  # sites looked at


_open: deque[tuple[object, ...]] = deque(maxlen=KEPT)  # sizes of models that gave no sign


def rows_join(linear: LinearGaussian) -> bool:
    """Whether a group would have too many latents or rows; False is no promise, and taken from
    the last model of the same sizes: loadings that are learned are other operators at each theta.
    """
    shape = shape_of(linear)
    if shape in _open:
        return False
    join = _join(linear)
    if not join:
        _open.append(shape)
    return join


@by_operators
def _join(linear: LinearGaussian) -> bool:
    operators = tuple(o for p in linear.predictors for o in p.columns.values())
    return _long_column(operators, linear.rows) or _large_group(linear)


def _long_column(operators: tuple[Operator, ...], rows: int) -> bool:
    """Whether a latent stands in too many rows: an intercept, say."""
    most = (PADDED * max(rows, 1) + 1.0) / FEWEST
    for operator in operators:
        if not operator.in_memory or not operator.shape[1]:
            continue
        if not operator.is_sparse:
            if np.count_nonzero(operator.dense()[:, 0]) > most:
                return True
            continue
        average = operator.entries / operator.shape[1]
        if average > most and operator.sparse().has_canonical_format:
            return True
    return False


def _large_group(linear: LinearGaussian) -> bool:
    """Whether a few rows alone join too many latents: two crossed factors, say."""
    if any(not o.in_memory for p in linear.predictors for o in p.columns.values()):
        return False
    rows, columns, first = [], [], 0
    for p in linear.predictors:
        some, site = _sample(p)
        for name, operator in p.columns.items():
            whole = operator.sparse() if operator.is_sparse else operator.dense()
            part = sp.coo_array(whole[some])
            rows.append(first + site[part.row])
            columns.append(linear.starts[name] + part.col)
        first += len(site)
    if not rows:
        return False
    ends = np.concatenate(rows), first + np.concatenate(columns)
    size = first + linear.size
    joined = sp.coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(size, size))
    labels = connected_components(joined.tocsr(), directed=False)[1]
    return bool(np.bincount(labels[first:]).max(initial=0) > WIDEST)


def _sample(predictor: Predictor) -> tuple[IntArray, IntArray]:
    """Rows of some sites far apart, and the number of the site of each."""
    event = max(predictor.event, 1)
    sites = predictor.rows // event
    some = np.arange(0, sites, max(1, -(-sites // SAMPLED)))
    rows = some[:, None] * event + np.arange(event)
    return rows.reshape(-1), np.repeat(np.arange(len(some)), event)
