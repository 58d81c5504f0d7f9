"""Compiled passes over rows that each touch the latents of one place. Importing this module imports
numba.

Row i has the coefficients a_i = (1, values[:, i]) on the latents of `place[i]`, as `Reduction` has
put them together. Sums go in the order of the rows.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.numerics.compiled import compiled


@compiled
def lift(place: AnyArray, values: Array, z: Array, s: Array) -> None:
    """a'z of each row is added to s, (n,); z, (G, 1 + V)."""
    if len(values) == 1:
        x = values[0]
        for i in range(len(place)):
            s[i] += z[place[i], 0] + x[i] * z[place[i], 1]
        return
    for i in range(len(place)):
        g = place[i]
        total = z[g, 0]
        for v in range(len(values)):
            total += values[v, i] * z[g, 1 + v]
        s[i] += total


@compiled
def squared(place: AnyArray, values: Array, form: Array, out: Array) -> None:
    """a'Va of each row into `out`, (n,); V, (G, 1 + V, 1 + V), symmetric."""
    for i in range(len(place)):
        g = place[i]
        total = form[g, 0, 0]
        for v in range(len(values)):
            part = 2.0 * form[g, 1 + v, 0] + values[v, i] * form[g, 1 + v, 1 + v]
            for u in range(v):
                part += 2.0 * values[u, i] * form[g, 1 + v, 1 + u]
            total += values[v, i] * part
        out[i] = total


@compiled
def add_rows(place: AnyArray, values: Array, x: Array, out: Array) -> None:
    """x a of each row is added to `out`, (G, 1 + V)."""
    if len(values) == 1:
        a = values[0]
        for i in range(len(place)):
            g, t = place[i], x[i]
            out[g, 0] += t
            out[g, 1] += t * a[i]
        return
    for i in range(len(place)):
        g, t = place[i], x[i]
        out[g, 0] += t
        for v in range(len(values)):
            out[g, 1 + v] += t * values[v, i]


@compiled
def add_squares(place: AnyArray, values: Array, x: Array, out: Array) -> None:
    """x a a' of each row is added to the lower triangles of `out`, (G, 1 + V, 1 + V)."""
    if len(values) == 1:
        a = values[0]
        for i in range(len(place)):
            g, t = place[i], x[i]
            w = t * a[i]
            out[g, 0, 0] += t
            out[g, 1, 0] += w
            out[g, 1, 1] += w * a[i]
        return
    for i in range(len(place)):
        g, t = place[i], x[i]
        out[g, 0, 0] += t
        for v in range(len(values)):
            w = t * values[v, i]
            out[g, 1 + v, 0] += w
            for u in range(v + 1):
                out[g, 1 + v, 1 + u] += w * values[u, i]


@compiled
def add_powers(
    place: AnyArray, values: Array, x: Array, y: Array, cubes: Array, fourths: Array
) -> None:
    """x a a a of each row is added to `cubes`, (G, 1 + V, 1 + V, 1 + V), and y a a a a to
    `fourths`, where the places along their axes do not rise."""
    own = np.ones(1 + len(values))
    for i in range(len(place)):
        g = place[i]
        for v in range(len(values)):
            own[1 + v] = values[v, i]
        for j in range(len(own)):
            for k in range(j + 1):
                two = own[j] * own[k]
                for m in range(k + 1):
                    three = two * own[m]
                    cubes[g, j, k, m] += x[i] * three
                    for n in range(m + 1):
                        fourths[g, j, k, m, n] += y[i] * three * own[n]


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


@compiled
def number(place: AnyArray, following: AnyArray, out: AnyArray) -> None:
    """The rows of each place are numbered on from `following`, (G,), into `out`, (n,)."""
    for i in range(len(place)):
        out[i] = following[place[i]]
        following[place[i]] += 1
