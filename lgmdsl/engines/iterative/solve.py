"""Solutions of A x = rhs whose error in posterior sds, |x - A^-1 rhs|_A, can be relied on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed, Failure
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.numerics.krylov import KrylovSolution, conjugate_gradients, smallest

ROUNDING = 1e-14  # of a residual beside its right-hand side
BEYOND = 10.0  # times the accuracy: what the bound on the error may come to


def certified(
    product: Callable[[Array], Array],
    rhs: Array,
    diagonal: Array,
    limit: int,
    accuracy: float,
    lowest: float,
    start: Array | None = None,
    quadrature: bool = False,
) -> KrylovSolution:
    """Conjugate gradients with D = diag A until the estimated error is below `accuracy` and

        |r|_D / sqrt(lambda) <= 10 accuracy,    |r|_D^2 = r'D^-1 r,

    a bound on it, lambda being the smallest eigenvalue of D^-1/2 A D^-1/2: the estimate looks back
    a few steps only, and stands still where eigenvalues lie far apart. `lowest` is what is known of
    lambda, Ritz values tell more. `quadrature`: the coefficients are those of one run. `steps`
    counts the iterations of all runs.
    """
    scale = 1.0 / diagonal[:, None]

    def sought(tolerance: Array, begin: Array | None, accuracy: float) -> KrylovSolution:
        return conjugate_gradients(
            product, rhs, lambda r: scale * r, tolerance, limit, begin, accuracy
        )

    size = lengths(rhs, diagonal)
    solution = sought(np.full(rhs.shape[1], ROUNDING), start, accuracy)
    if not solution.converged.all():
        return solution
    goal = BEYOND * accuracy * np.sqrt(min(lowest, smallest(solution)))
    if (lengths(solution.residual, diagonal) <= goal).all():
        return solution
    tolerance = np.maximum(goal / np.maximum(size, 1e-300), ROUNDING)
    again = sought(tolerance, None if quadrature else solution.x, 0.0)
    return replace(again, steps=solution.steps + again.steps)


def lengths(residual: Array, diagonal: Array) -> Array:
    """|r|_D of each column."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", residual, residual / diagonal[:, None])))


def unsolved(found: KrylovSolution, limit: int) -> Failed:
    """Why a solution was not found."""
    if found.indefinite.any():
        return Failed(kind=Failure.INDEFINITE)
    return Failed(kind=Failure.NOT_CONVERGED, number=limit)


def not_converged(found: KrylovSolution, limit: int) -> NumericalError:
    """The error for a solution that was not found, where a value is asked for that cannot fail."""
    return NumericalError(
        Diagnostic(
            "E601",
            unsolved(found, limit).reason,
            help="the posterior is nearly improper: give weakly determined latents tighter priors",
            layout="plain",
        )
    )
