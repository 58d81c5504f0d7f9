"""Conformance of a kernel: a covariance on any inputs, slopes by differences, sums and products.

check_kernel(lambda a: MyKernel(a["sd"], a["length"]), {"sd": ..., "length": ...})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.structures.kernels import Kernel
from lgmdsl.structures.stationary import SquaredExponential

Arguments = Mapping[str, Array]
Build = Callable[[Arguments], Kernel]


def check_kernel(build: Build, arguments: Arguments, dimensions: int = 2, seed: int = 0) -> None:
    """Check `build(arguments)` (0-d or 1-d arrays, keyed as its slopes are) on random inputs with
    a pair of equal ones, by itself and in a sum and a product with another kernel.

    Raises AssertionError where a shape, symmetry, definiteness or a slope (1e-6) is wrong.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, dimensions))
    x[1] = x[0]
    _check_values(build(arguments), x)
    other = SquaredExponential(np.asarray(0.7), np.asarray(1.1))
    _check_slopes(build, arguments, x, "")
    _check_slopes(lambda a: build(a) + other, arguments, x, "0.")
    _check_slopes(lambda a: other * build(a), arguments, x, "1.")


def _check_values(kernel: Kernel, x: Array) -> None:
    whole, parts = kernel.smooth(x, x), kernel.smooth(x[:4], x[4:])
    assert whole.shape == (9, 9) and parts.shape == (4, 5), "smooth has the wrong shape"
    scale = float(np.abs(whole).max(initial=0.0)) + float(np.abs(kernel.diagonal(x)).max())
    assert np.isfinite(whole).all() and np.isfinite(kernel.diagonal(x)).all(), "not finite"
    assert np.abs(whole - whole.T).max() <= 1e-12 * scale, "smooth is not symmetric"
    assert np.abs(whole[:4, 4:] - parts).max() <= 1e-12 * scale, "smooth depends on other inputs"
    parts += 1.0
    assert np.array_equal(kernel.smooth(x, x), whole), "smooth returns an array that it keeps"
    assert kernel.diagonal(x).shape == (9,), "diagonal has the wrong shape"
    k = kernel.matrix(x)
    assert np.linalg.eigvalsh(k)[0] >= -1e-9 * scale, "the covariance is not semidefinite"
    assert np.allclose(k.diagonal(), kernel.diagonal(x)), "diagonal is not that of the matrix"


def _check_slopes(build: Build, arguments: Arguments, x: Array, path: str) -> None:
    rng = np.random.default_rng(1)
    adjoint: Array = np.asarray(rng.normal(size=(len(x), len(x))))
    slopes = build(arguments).pullback(x, adjoint)
    for key, value in arguments.items():
        assert path + key in slopes, f"the slopes lack `{path + key}`"
        slope = slopes[path + key]
        assert np.shape(slope) == np.shape(value), f"the slope in `{key}` has the wrong shape"
        turn = np.asarray(rng.normal(size=np.shape(value)))
        step = 1e-5 * (1.0 + float(np.abs(value).max()))

        def total(t: float, key: str = key, value: Array = value, turn: Array = turn) -> float:
            changed = build({**arguments, key: np.asarray(value + t * turn)})
            return float(np.sum(adjoint * changed.matrix(x)))

        measured = 8.0 * (total(step) - total(-step)) - (total(2 * step) - total(-2 * step))
        measured /= 12.0 * step
        answer = float(np.sum(slope * turn))
        size = max(1.0, float(np.abs(adjoint * build(arguments).matrix(x)).sum()))
        assert abs(answer - measured) <= 1e-6 * size, f"d{key} is {answer}, measured {measured}"
