"""Whether a smooth has enough coefficients: do residuals follow one another along it?

The k-index of `k.check` of R's mgcv (Wood 2017, section 5.9): the mean square of the differences of
residuals that are next to one another along the covariate, halved, divided by their mean square.
It is about 1 without a pattern and below it where the smooth leaves one. Over several covariates
neighbours are the NEAREST others. The p value is the share of permutations of the residuals
with a smaller one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from lgmdsl.arrays import Array, IntArray

NEAREST = 3
ROWS = 5000  # of more rows so many are chosen
PERMUTATIONS = 1000


class BasisCheck(NamedTuple):
    """The k-index, and the share of permutations with a smaller one."""

    k_index: float
    k_p_value: float


def basis_check(places: Array, residuals: Array, seed: int) -> BasisCheck:
    """The check of residuals (n,) at places (n, d), in units in which distances over several
    columns are compared; n at least NEAREST + 1."""
    rng = np.random.default_rng(seed)
    if len(residuals) > ROWS:
        some = np.sort(rng.choice(len(residuals), ROWS, replace=False))
        places, residuals = places[some], residuals[some]
    scaled = residuals / np.abs(residuals).max(initial=0.0)
    one, other = _neighbours(places)
    found = _roughness(scaled, one, other)
    smaller = 0
    for _ in range(PERMUTATIONS):
        smaller += _roughness(rng.permutation(scaled), one, other) < found
    return BasisCheck(found / float((scaled**2).mean()), smaller / PERMUTATIONS)


def _neighbours(places: Array) -> tuple[IntArray, IntArray]:
    """Pairs of rows that are next to one another; ties in the order of the rows."""
    count, dimensions = places.shape
    if dimensions == 1:
        order = np.argsort(places[:, 0], kind="stable")
        return order[1:], order[:-1]
    found = cKDTree(places).query(places, NEAREST + 1)[1].reshape(count, -1)
    itself = found == np.arange(count)[:, None]
    itself[~itself.any(axis=1), -1] = True  # of many at one place, others may be found
    others = found[~itself].reshape(count, NEAREST)
    return np.repeat(np.arange(count), NEAREST), others.reshape(-1)


def _roughness(residuals: Array, one: IntArray, other: IntArray) -> float:
    return 0.5 * float(((residuals[one] - residuals[other]) ** 2).mean())
