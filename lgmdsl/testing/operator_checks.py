"""Conformance of an operator: adjoint, blocks of vectors, explicit forms, entries of B'WB."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.operators.base import Operator

EXPLICIT = 2000  # rows and columns up to which the explicit forms are compared


def check_adjoint(operator: Operator, seed: int = 0, tolerance: float = 1e-10) -> None:
    """<Bz, s> = <z, B's> for random z and s; AssertionError names the gap where it is not.

    One pair of random vectors finds a wrong adjoint with probability one; three are tried, and one
    of single entries.
    """
    rng = np.random.default_rng(seed)
    rows, columns = operator.shape
    for trial in range(4):
        z, s = rng.normal(size=columns), rng.normal(size=rows)
        if trial == 3 and rows and columns:
            z, s = np.eye(1, columns, int(rng.integers(columns)))[0], rng.normal(size=rows)
        forward, back = operator.matvec(z), operator.rmatvec(s)
        assert forward.shape == (rows,), f"matvec gives shape {forward.shape}, not {(rows,)}"
        assert back.shape == (columns,), f"rmatvec gives shape {back.shape}, not {(columns,)}"
        left, right = float(forward @ s), float(z @ back)
        size = float(np.linalg.norm(forward) * np.linalg.norm(s)) + 1e-300
        gap = abs(left - right) / size
        assert gap <= tolerance, (
            f"{type(operator).__name__}: rmatvec is not the adjoint of matvec: "
            f"<Bz, s> = {left:.10g}, <z, B's> = {right:.10g}"
        )


def check_operator(operator: Operator, seed: int = 0, tolerance: float = 1e-10) -> None:
    """The adjoint; (n, k) as k times (n,); linearity; cost; and, where it is small, `dense`,
    `sparse`, the count of entries and the entries of B'WB. Raises AssertionError."""
    check_adjoint(operator, seed, tolerance)
    rng = np.random.default_rng(seed)
    rows, columns = operator.shape
    z, s = rng.normal(size=(columns, 3)), rng.normal(size=(rows, 3))
    copy_z, copy_s = z.copy(), s.copy()
    forward, back = operator.matvec(z), operator.rmatvec(s)
    assert forward.shape == (rows, 3) and back.shape == (columns, 3), "blocks have wrong shapes"
    for k in range(3):
        _same("matvec of a block", forward[:, k], operator.matvec(z[:, k].copy()), tolerance)
        _same("rmatvec of a block", back[:, k], operator.rmatvec(s[:, k].copy()), tolerance)
    w = rng.uniform(0.5, 2.0, size=rows)
    for weight in (w, np.full(rows, 1.5)):
        wanted = operator.rmatvec(weight[:, None] * forward)
        _same("normal", operator.normal(weight, z), wanted, tolerance)
        _same("normal of a vector", operator.normal(weight, z[:, 0]), wanted[:, 0], tolerance)
        _same("normal in single precision", operator.normal(weight, z, True), wanted, 1e-4)
    assert np.array_equal(z, copy_z) and np.array_equal(s, copy_s), "an argument was overwritten"
    mixed = operator.matvec(z @ np.array([1.0, -2.0, 0.5]))
    _same("linearity", mixed, forward @ np.array([1.0, -2.0, 0.5]), tolerance)
    assert operator.cost >= 0.0 and np.isfinite(operator.cost), "cost is not a number of flops"
    if max(rows, columns) <= EXPLICIT:
        _explicit(operator, rng, tolerance)


def _explicit(operator: Operator, rng: np.random.Generator, tolerance: float) -> None:
    rows, columns = operator.shape
    dense = operator.dense()
    assert dense.shape == (rows, columns), "dense() has a wrong shape"
    z = rng.normal(size=columns)
    _same("dense()", dense @ z, operator.matvec(z), tolerance)
    _same("sparse()", np.asarray(operator.sparse().toarray()), dense, tolerance)
    entries = operator.entries_by_row()
    counts = (np.abs(dense) > tolerance).sum(axis=1)
    assert entries.shape == (rows,) and (entries >= counts).all(), (
        "rows hold more than entries_by_row"
    )
    if not columns:
        return
    i, j = rng.integers(columns, size=(2, 40))
    i, j = np.concatenate([i, i]), np.concatenate([j, i])
    gram = operator.gram(i, j)
    if gram is not None:
        for w in rng.uniform(0.5, 2.0, size=(2, rows)):
            wanted = np.einsum("p,pk,pk->k", w, dense[:, i], dense[:, j])
            _same("gram", gram(w), wanted, tolerance)


def _same(quantity: str, answer: Array, wanted: Array, tolerance: float) -> None:
    scale = float(np.abs(wanted).max(initial=0.0)) + 1e-300
    error = float(np.abs(answer - wanted).max(initial=0.0)) / max(scale, 1e-12)
    assert error <= tolerance, f"{quantity} is off by {error:.1e}"
