"""B of all site blocks as one explicit matrix, for the back ends that work on the latents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor


def stacked(linear: LinearGaussian) -> Matrix:
    """(P, n): the predictors' rows below one another, latent blocks in order; csr where all are."""
    sizes = {b.name: b.size for b in linear.blocks}
    operators = [o for p in linear.predictors for o in p.columns.values()]
    if operators and all(o.is_sparse for o in operators):
        lines = [
            sp.hstack([
                p.columns[name].sparse() if name in p.columns else sp.csr_array((p.rows, size))
                for name, size in sizes.items()
            ], format="csr")
            for p in linear.predictors
        ]  # fmt: skip
        return sp.csr_array(sp.vstack(lines, format="csr"))
    out = np.zeros((linear.rows, linear.size))
    at = 0
    for p in linear.predictors:
        for name, operator in p.columns.items():
            out[at : at + p.rows, linear.slices[name]] = operator.dense()
        at += p.rows
    return out


def flatten(rows: Rows) -> Array:
    """All site blocks below one another, (P,)."""
    return np.concatenate([np.zeros(0), *(np.reshape(r, -1) for r in rows)])


def split(flat: Array, predictors: Sequence[Predictor]) -> Rows:
    """(P,) into one array for each site block, (N,) or (N, K)."""
    ends = np.cumsum([p.rows for p in predictors])[:-1]
    pairs = zip(np.split(flat, ends), predictors, strict=True)
    return tuple(part.reshape(-1, p.event) if p.event else part for part, p in pairs)
