"""Conformance of a prior structure: what it offers is consistent, and slopes match differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Shape, Structure

Arguments = Mapping[str, Array]


def check_structure(
    build: Callable[[Arguments], Structure], arguments: Arguments, tolerance: float = 1e-9
) -> None:
    """Check `build(arguments)`, differentiable in `arguments` (keyed as its pullbacks are).

    Raises AssertionError where shapes, symmetry, definiteness, log-determinant, null space or a
    slope (central differences, 1e-6) is wrong.
    """
    s = build(arguments)
    shape, n = s.shape, s.size
    mean = s.mean()
    assert mean is None or mean.shape == (n,), "mean has the wrong shape"
    if Shape.COVARIANCE in shape:
        k = s.covariance()
        assert k.shape == (n, n) and np.isfinite(k).all(), "covariance is not a finite (n, n) array"
        scale = np.abs(k).max()
        assert np.abs(k - k.T).max() <= tolerance * scale, "covariance is not symmetric"
        assert np.linalg.eigvalsh(k)[0] >= -1e-8 * scale, "covariance is not semidefinite"
        assert np.allclose(s.variance(), k.diagonal(), rtol=tolerance), "variance is not diag K"
        if Shape.DIAGONAL in shape:
            assert np.array_equal(k, np.diag(k.diagonal())), "declared DIAGONAL but is not"
        _slopes(build, arguments, s.pullback_covariance, lambda t: t.covariance(), "covariance")
    if Shape.PRECISION in shape:
        q = dense_precision(s)
        null = s.null_space()
        assert s.nullity == null.shape[1], "nullity is not that of the basis"
        assert q.shape == (n, n) and np.abs(q - q.T).max(initial=0) <= tolerance * (
            np.abs(q).max() + 1
        )
        assert null.shape[0] == n, "null space has the wrong shape"
        assert np.allclose(null.T @ null, np.eye(null.shape[1]), atol=1e-9), "basis not orthonormal"
        assert np.abs(q @ null).max(initial=0) <= 1e-9 * (np.abs(q).max() + 1), "Q N is not 0"
        tied = np.asarray(s.constraints().toarray())
        assert tied.shape[1] == n, "constraints have the wrong shape"
        assert np.abs(q @ tied.T).max(initial=0) <= 1e-9 * (np.abs(q).max() + 1), "Q C' is not 0"
        rank = np.linalg.matrix_rank(tied) if tied.size else 0
        assert rank == len(tied), "constraints repeat"
        values = np.linalg.eigvalsh(q)[null.shape[1] :]
        assert np.all(values > 0), "Q has more null directions than its basis"
        assert abs(np.log(values).sum() - s.log_det_precision()) <= 1e-8 * max(1, n), "log det"
        if Shape.COVARIANCE in shape:
            span = np.eye(n) - null @ null.T
            assert np.allclose(q @ s.covariance(), span, atol=1e-8), "Q K is not the identity"
        assert (Shape.IMPROPER in shape) == (null.shape[1] > rank), (
            "IMPROPER disagrees with null space and constraints"
        )
        _slopes(build, arguments, s.pullback_precision, dense_precision, "precision")
        if Shape.SPARSE in shape:
            _pattern(build, arguments, s)
            _covariance_entries(build, arguments, s)


def dense_precision(s: Structure) -> Array:
    """Q as an array."""
    q = s.precision()
    return q if isinstance(q, np.ndarray) else np.asarray(q.toarray())


def _pattern(build: Callable[[Arguments], Structure], arguments: Arguments, s: Structure) -> None:
    """Q is csr on one sorted pattern, whatever the arguments; slopes take adjoints on it."""
    q = s.precision()
    assert not isinstance(q, np.ndarray), "declared SPARSE but is an array"
    assert q.has_sorted_indices, "Q's indices are not sorted"
    for key, argument in arguments.items():
        changed = build({**arguments, key: argument * (1.0 - 1e-3)}).precision()
        assert not isinstance(changed, np.ndarray)
        same = np.array_equal(changed.indices, q.indices) and np.array_equal(
            changed.indptr, q.indptr
        )
        assert same, f"the pattern changes with {key}"
    adjoint = np.random.default_rng(1).normal(size=q.shape)
    rows = np.repeat(np.arange(s.size), np.diff(q.indptr))
    thin = sp.csr_array((adjoint[rows, q.indices], q.indices, q.indptr), shape=q.shape)
    whole, sparse = s.pullback_precision(thin.toarray()), s.pullback_precision(thin)
    turned = s.pullback_precision(sp.csr_array(thin.T))
    for key in arguments:
        scale = 1e-9 * (1.0 + float(np.abs(whole[key]).max(initial=0.0)))
        assert np.abs(whole[key] - sparse[key]).max(initial=0.0) <= scale, f"csr slope of {key}"
        if whole[key].shape != q.shape:
            away = np.abs(turned[key] - sparse[key]).max(initial=0.0)
            assert away <= scale, f"slope of {key} sees one half of the adjoint"


def _covariance_entries(
    build: Callable[[Arguments], Structure], arguments: Arguments, s: Structure
) -> None:
    """covariance_at gives Q^+ where Q stores an entry; arguments scale a proportional Q."""
    q = sp.csr_array(s.precision())
    rows, columns = np.repeat(np.arange(s.size), np.diff(q.indptr)), q.indices.astype(np.int64)
    inverse = np.linalg.pinv(q.toarray(), hermitian=True)
    entries = s.covariance_at(rows, columns)
    if entries is not None:
        assert np.allclose(entries, inverse[rows, columns], rtol=1e-8), "covariance_at is not Q^+"
    for key, argument in arguments.items() if s.proportional else ():
        changed = dense_precision(build({**arguments, key: argument * 0.9}))
        scale = float(np.sum(changed * q.toarray()) / np.sum(q.toarray() ** 2))
        assert np.allclose(changed, scale * q.toarray(), rtol=1e-10), f"{key} does more than scale"


def _slopes(
    build: Callable[[Arguments], Structure],
    arguments: Arguments,
    pullback: Callable[[Array], dict[str, Array]],
    value: Callable[[Structure], Array],
    quantity: str,
) -> None:
    rng = np.random.default_rng(0)
    n = build(arguments).size
    adjoint = rng.normal(size=(n, n))
    adjoint = adjoint + adjoint.T
    slopes = pullback(adjoint)
    for key, argument in arguments.items():
        assert key in slopes, f"pullback_{quantity} lacks {key}"
        assert slopes[key].shape == argument.shape, f"slope of {key} has shape {slopes[key].shape}"
        turn = np.asarray(rng.normal(size=argument.shape))
        step = 1e-5 * (1.0 + float(np.abs(argument).max()))

        def total(
            t: float, key: str = key, argument: Array = argument, turn: Array = turn
        ) -> float:
            changed = {**arguments, key: np.asarray(argument + t * turn)}
            return float(np.sum(adjoint * value(build(changed))))

        measured = 8 * (total(step) - total(-step)) - (total(2 * step) - total(-2 * step))
        measured /= 12 * step
        slope = float(np.sum(slopes[key] * turn))
        size = max(1.0, float(np.abs(adjoint * value(build(arguments))).sum()))
        assert abs(slope - measured) <= 1e-7 * size, (
            f"{quantity}: d{key} {slope}, measured {measured}"
        )
