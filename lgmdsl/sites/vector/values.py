"""Arguments of `lgm.sites.expected` for vector sites: checked and with flattened rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.sites.observed import (
    as_floats,
    check_possible,
    common_shape,
    given_parameters,
    make_sites,
)

# Entries of a covariance may miss symmetry, and its eigenvalues zero, by so much of the largest.
ROUNDING = 1e-9


def ask_vectors(
    cls: type[Site], y: object, mean: object, variance: object, parameters: Mapping[str, object]
) -> tuple[Site, Array, Array, tuple[int, ...]]:
    """The sites, means (N, K), covariances (N, K, K), and the common shape of the rows.

    Leading axes broadcast. There are as many classes as means, or one more (the last one's
    predictor is then 0) where y or a parameter has one entry for each class.
    Raises ModelError E104 (parameter), DataError E301 and E303 (shape, value).
    """
    m, v = as_floats("mean", mean), as_floats("variance", variance)
    if not m.ndim or not m.shape[-1]:
        raise _shape(f"`mean` needs a last axis of predictors, and has shape {m.shape}")
    k = m.shape[-1]
    if cls.spec.shared:
        return _ask_mixtures(cls, y, m, v, parameters)
    if v.shape[-2:] != (k, k):
        raise _shape(f"`variance` has shape {v.shape}, and `mean` {k} predictors: end it in {k, k}")
    wide = {**given_parameters(cls.spec, parameters), "y": as_floats("y", y)}
    ends = {wide[n].shape[-1] for n in cls.spec.wide if wide[n].ndim}
    classes = max(ends, default=k + 1 if cls.spec.headed else k)
    if cls.spec.headed and (classes != k + 1 or ends - {classes}):
        raise _shape(f"{k} predictors are for {k + 1} classes, one for each but the last")
    if classes not in (k, k + 1) or ends - {classes}:
        raise _shape(f"{k} predictors are for {k} classes, or {k + 1} with the last one 0")
    each = {n: (classes,) if n in cls.spec.wide else () for n in wide}
    shape = common_shape(
        {n: x.shape[:-1] if each[n] else x.shape for n, x in wide.items()}
        | {"mean": m.shape[:-1], "variance": v.shape[:-2]}
    )
    values = {
        n: np.broadcast_to(x, (*shape, *each[n])).reshape(-1, *each[n]).copy()
        for n, x in wide.items()
    }
    _check_moments(m, v)
    sites = make_sites(cls, values.pop("y"), values)
    check_possible(sites, k)
    means = np.broadcast_to(m, (*shape, k)).reshape(-1, k).copy()
    return sites, means, np.broadcast_to(v, (*shape, k, k)).reshape(-1, k, k).copy(), shape


def _ask_mixtures(
    cls: type[Site], y: object, m: Array, v: Array, parameters: Mapping[str, object]
) -> tuple[Site, Array, Array, tuple[int, ...]]:
    """The answer of `ask_vectors` for counts of words, (..., W), under topics that all rows share,
    (K, W)."""
    arrays, words = given_parameters(cls.spec, parameters), as_floats("y", y)
    k, width = m.shape[-1], words.shape[-1] if words.ndim else 0
    if v.shape[-2:] != (k, k):
        raise _shape(f"`variance` has shape {v.shape}, and `mean` {k} predictors: end it in {k, k}")
    for name, value in arrays.items():
        if value.shape != (k, width):
            message = (
                f"`{name}` has shape {value.shape}: {k} topics over {width} words are {k, width}"
            )
            raise _shape(message)
        if not (value >= 0.0).all() or np.abs(value.sum(axis=1) - 1.0).max() > ROUNDING:
            message = f"each row of `{name}` must be a distribution: not negative, its sum 1"
            raise DataError(Diagnostic("E303", message))
    shape = common_shape({"y": words.shape[:-1], "mean": m.shape[:-1], "variance": v.shape[:-2]})
    _check_moments(m, v)
    counts = np.broadcast_to(words, (*shape, width)).reshape(-1, width).copy()
    sites = make_sites(cls, counts, arrays)
    check_possible(sites, k)
    means = np.broadcast_to(m, (*shape, k)).reshape(-1, k).copy()
    return sites, means, np.broadcast_to(v, (*shape, k, k)).reshape(-1, k, k).copy(), shape


def _check_moments(mean: Array, variance: Array) -> None:
    """Raise DataError E303 for means that are not finite, and variances that are no covariance."""
    if not np.isfinite(mean).all():
        raise DataError(Diagnostic("E303", "`mean` must be finite"))
    problem = ""
    if not np.isfinite(variance).all():
        problem = "it is not finite"
    else:
        size = np.abs(variance).max(initial=0.0)
        if np.abs(variance - np.swapaxes(variance, -1, -2)).max(initial=0.0) > ROUNDING * size:
            problem = "it is not symmetric"
        elif np.linalg.eigvalsh(variance).min(initial=0.0) < -ROUNDING * size:
            problem = "it has a negative eigenvalue"
    if problem:
        raise DataError(Diagnostic("E303", f"`variance` must be a covariance: {problem}"))


def _shape(message: str) -> DataError:
    return DataError(Diagnostic("E301", message))
