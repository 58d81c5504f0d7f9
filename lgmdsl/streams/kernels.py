"""Compiled passes over rows that each touch the K latents of one place. Importing this module
imports numba.

Row i has the coefficients `constant` but for those at `varying`, which are `values[:, i]`; its
latents are those of `place[i]`. Sums go in the order of the rows.
"""

from __future__ import annotations

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.numerics.compiled import compiled


@compiled
def lift(
    place: AnyArray, constant: Array, varying: IntArray, values: Array, z: Array, s: Array
) -> None:
    """a'z of each row is added to s, (N,); z, (G, K)."""
    size, count = len(constant), len(varying)
    for i in range(len(place)):
        g, total = place[i], 0.0
        for k in range(size):
            total += constant[k] * z[g, k]
        for v in range(count):
            total += values[v, i] * z[g, varying[v]]
        s[i] += total


@compiled
def squared(
    place: AnyArray, constant: Array, varying: IntArray, values: Array, form: Array, out: Array
) -> None:
    """a'Va of each row into `out`, (N,); V, (G, K, K), symmetric."""
    size, a = len(constant), constant.copy()
    for i in range(len(place)):
        g, total = place[i], 0.0
        for v in range(len(varying)):
            a[varying[v]] = values[v, i]
        for j in range(size):
            if a[j] != 0.0:
                part = 0.5 * a[j] * form[g, j, j]
                for k in range(j):
                    part += a[k] * form[g, j, k]
                total += a[j] * part
        out[i] = 2.0 * total


@compiled
def add_rows(
    place: AnyArray, constant: Array, varying: IntArray, values: Array, x: Array, out: Array
) -> None:
    """x a of each row is added to `out`, (G, K)."""
    a = constant.copy()
    for i in range(len(place)):
        g = place[i]
        for v in range(len(varying)):
            a[varying[v]] = values[v, i]
        for k in range(len(a)):
            out[g, k] += x[i] * a[k]


@compiled
def add_squares(
    place: AnyArray, constant: Array, varying: IntArray, values: Array, x: Array, out: Array
) -> None:
    """x a a' of each row is added to the lower triangles of `out`, (G, K, K)."""
    a = constant.copy()
    for i in range(len(place)):
        g = place[i]
        for v in range(len(varying)):
            a[varying[v]] = values[v, i]
        for j in range(len(a)):
            t = x[i] * a[j]
            for k in range(j + 1):
                out[g, j, k] += t * a[k]


@compiled
def add_values(place: AnyArray, x: Array, out: Array) -> None:
    """x of each row is added to `out`, (G,)."""
    for i in range(len(place)):
        out[place[i]] += x[i]


@compiled
def mirror(out: Array) -> None:
    """Lower triangles of (G, K, K) to both."""
    for g in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(j):
                out[g, k, j] = out[g, j, k]
