"""Compiled sweeps over a band: T = LDL' with unit L. Imported only where n repays numba's start.

`band` is (n, p + 1), C-ordered: `band[j, k]` is entry (j + k, j), first of T, then of L with D in
`band[:, 0]`; entries past the last row are zero. Chains (p = 1, 2) keep their state in registers:
the loop then waits for one division a column, and for one multiplication in the sweeps.
"""

from __future__ import annotations

from math import sqrt

from lgmdsl.arrays import Array
from lgmdsl.numerics.compiled import reordering


def factor(band: Array) -> bool:
    """T's band becomes L's and D's, in place; False at the first pivot not above zero, NaN too."""
    kernel = {2: _factor_chain, 3: _factor_pair}.get(band.shape[1], _factor_band)
    return kernel(band)


def inverse(band: Array, z: Array) -> None:
    """z becomes the band of T^-1 (Takahashi, Fagan and Chin 1973), last column to first."""
    kernel = {2: _inverse_chain, 3: _inverse_pair}.get(band.shape[1], _inverse_band)
    kernel(band, z)


def forward(band: Array, x: Array) -> None:
    """X becomes D^-1/2 L^-1 x in place, for (n,) or (n, k)."""
    if x.ndim == 2:
        _forward_columns(band, x)
    elif band.shape[1] == 2:
        _forward_chain(band, x)
    else:
        _forward_band(band, x)


def backward(band: Array, x: Array) -> None:
    """X becomes L^-T D^-1/2 x in place, for (n,) or (n, k)."""
    if x.ndim == 2:
        _backward_columns(band, x)
    elif band.shape[1] == 2:
        _backward_chain(band, x)
    else:
        _backward_band(band, x)


@reordering
def _factor_chain(band: Array) -> bool:
    carried = 0.0
    for j in range(band.shape[0]):
        d = band[j, 0] - carried
        if not d > 0.0:
            return False
        off = band[j, 1]
        l = off / d
        carried = l * off
        band[j, 0] = d
        band[j, 1] = l
    return True


@reordering
def _factor_pair(band: Array) -> bool:
    # What the columns before leave on the next diagonal, the one after, and the next subdiagonal.
    next_d, after_d, next_off = 0.0, 0.0, 0.0
    for j in range(band.shape[0]):
        d = band[j, 0] - next_d
        if not d > 0.0:
            return False
        off, far = band[j, 1] - next_off, band[j, 2]
        reciprocal = 1.0 / d
        near_l, far_l = off * reciprocal, far * reciprocal
        next_d = after_d + near_l * off
        after_d = far_l * far
        next_off = near_l * far
        band[j, 0] = d
        band[j, 1] = near_l
        band[j, 2] = far_l
    return True


@reordering
def _factor_band(band: Array) -> bool:
    n, p = band.shape[0], band.shape[1] - 1
    for j in range(n):
        d = band[j, 0]
        if not d > 0.0:
            return False
        reciprocal = 1.0 / d
        for k in range(1, min(p, n - 1 - j) + 1):
            l = band[j, k] * reciprocal
            for i in range(p + 1 - k):
                band[j + k, i] -= l * band[j, k + i]
        for k in range(1, p + 1):
            band[j, k] *= reciprocal
    return True


@reordering
def _inverse_chain(band: Array, z: Array) -> None:
    last = 0.0
    for j in range(band.shape[0] - 1, -1, -1):
        l = band[j, 1]
        off = -l * last
        last = 1.0 / band[j, 0] - l * off
        z[j, 0] = last
        z[j, 1] = off


@reordering
def _inverse_pair(band: Array, z: Array) -> None:
    # The 2 x 2 block of T^-1 at rows j + 1 and j + 2.
    z11, z12, z22 = 0.0, 0.0, 0.0
    for j in range(band.shape[0] - 1, -1, -1):
        near_l, far_l = band[j, 1], band[j, 2]
        near = -(near_l * z11 + far_l * z12)
        far = -(near_l * z12 + far_l * z22)
        z22 = z11
        z11 = 1.0 / band[j, 0] - near_l * near - far_l * far
        z12 = near
        z[j, 0] = z11
        z[j, 1] = near
        z[j, 2] = far


@reordering
def _inverse_band(band: Array, z: Array) -> None:
    n, p = band.shape[0], band.shape[1] - 1
    for j in range(n - 1, -1, -1):
        width = min(p, n - 1 - j)
        for k in range(p + 1):
            z[j, k] = 0.0
        for i in range(1, width + 1):
            l = band[j, i]
            total = l * z[j + i, 0]
            for k in range(1, width - i + 1):
                z[j, i + k] -= l * z[j + i, k]
                total += band[j, i + k] * z[j + i, k]
            z[j, i] -= total
        total = 1.0 / band[j, 0]
        for k in range(1, width + 1):
            total -= band[j, k] * z[j, k]
        z[j, 0] = total


@reordering
def _forward_chain(band: Array, x: Array) -> None:
    carried = 0.0
    for j in range(band.shape[0]):
        value = x[j] - carried
        carried = band[j, 1] * value
        x[j] = value / sqrt(band[j, 0])


@reordering
def _forward_band(band: Array, x: Array) -> None:
    n, p = band.shape[0], band.shape[1] - 1
    for j in range(n):
        value = x[j]
        for k in range(1, min(p, n - 1 - j) + 1):
            x[j + k] -= band[j, k] * value
        x[j] = value / sqrt(band[j, 0])


@reordering
def _forward_columns(band: Array, x: Array) -> None:
    n, p = band.shape[0], band.shape[1] - 1
    for j in range(n):
        for k in range(1, min(p, n - 1 - j) + 1):
            l = band[j, k]
            for c in range(x.shape[1]):
                x[j + k, c] -= l * x[j, c]
        reciprocal = 1.0 / sqrt(band[j, 0])
        for c in range(x.shape[1]):
            x[j, c] *= reciprocal


@reordering
def _backward_chain(band: Array, x: Array) -> None:
    value = 0.0
    for j in range(band.shape[0] - 1, -1, -1):
        value = x[j] / sqrt(band[j, 0]) - band[j, 1] * value
        x[j] = value


@reordering
def _backward_band(band: Array, x: Array) -> None:
    n, p = band.shape[0], band.shape[1] - 1
    for j in range(n - 1, -1, -1):
        value = x[j] / sqrt(band[j, 0])
        for k in range(min(p, n - 1 - j), 0, -1):  # the value just found last: it comes latest
            value -= band[j, k] * x[j + k]
        x[j] = value


@reordering
def _backward_columns(band: Array, x: Array) -> None:
    n, p = band.shape[0], band.shape[1] - 1
    for j in range(n - 1, -1, -1):
        reciprocal = 1.0 / sqrt(band[j, 0])
        for c in range(x.shape[1]):
            x[j, c] *= reciprocal
        for k in range(1, min(p, n - 1 - j) + 1):
            l = band[j, k]
            for c in range(x.shape[1]):
                x[j, c] -= l * x[j + k, c]
