"""Compiled passes over rows in groups. Importing this module imports numba.

D_g = Q_g + Z'WZ = LL' of each group, C_g = Z'WX, T_g = L^-1 C_g; S = X'WX - sum T_g'T_g.
A group's r inner latents and the k columns of the border that it touches (its dense ones, then its
sparse ones) are counted together, inner ones first: the local indices 0 to r + k. Weights lie by
sites, (K, K) blocks of vector sites C-ordered.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.engines.nested.border import Shared
from lgmdsl.engines.nested.nest import Groups, Lines
from lgmdsl.numerics.compiled import compiled


@compiled
def gather(lines: Lines, weight: Array, groups: Groups, shared: Shared) -> None:
    """The products B'WB are added: Z'WZ (lower triangles), Z'WX and X'WX."""
    # Arrays by names of their own: those of a tuple are counted anew at every access.
    group, sites, columns, column_start = (
        lines.group,
        lines.sites,
        lines.columns,
        lines.column_start,
    )
    start, local, value, dense = lines.start, lines.local, lines.value, lines.dense
    inner_start, square_start, cross_start = (
        lines.inner_start,
        groups.square_start,
        groups.cross_start,
    )
    lower, cross, values, slots = groups.square, groups.cross, shared.values, shared.slots
    slot_start, weight_start = shared.slot_start, lines.weight
    full, size, d, scalar = shared.dense, shared.size, dense.shape[0], len(sites) == 0
    rows, width = lines.most
    index, entry = np.empty(rows * width, np.int64), np.empty(rows * width)
    end = np.empty(rows, np.int64)
    for t in range(len(group)):
        i0, i1, w0 = t, t + 1, t
        if not scalar:
            i0, i1, w0 = sites[t], sites[t + 1], weight_start[t]
        g = group[t]
        s0, t0, c0, q0 = square_start[g], cross_start[g], column_start[g], slot_start[g]
        r, k = inner_start[g + 1] - inner_start[g], d + column_start[g + 1] - c0
        for i in range(i0, i1):
            n = (i - i0) * width
            for e in range(start[i], start[i + 1]):
                index[n], entry[n] = local[e], value[e]
                n += 1
            for a in range(d):
                index[n], entry[n] = r + a, dense[a, i]
                n += 1
            end[i - i0] = n
        for p in range(i1 - i0):
            for q in range(i1 - i0):
                w = weight[w0 + p * (i1 - i0) + q]
                if w == 0.0:
                    continue
                for e in range(p * width, end[p]):
                    m, v = index[e], w * entry[e]
                    for f in range(q * width, e + 1 if p == q else end[q]):
                        if p != q and index[f] > m:
                            continue
                        a, b, x = max(m, index[f]), min(m, index[f]), v * entry[f]
                        if a < r:
                            lower[s0 + a * r + b] += x
                        elif b < r:
                            cross[t0 + b * k + a - r] += x
                        elif full:
                            a, b = a - r, b - r
                            i = a if a < d else d + columns[c0 + a - d]
                            j = b if b < d else d + columns[c0 + b - d]
                            values[i * size + j] += x
                        else:
                            a, b = a - r, b - r
                            values[slots[q0 + a * (a + 1) // 2 + b]] += x


@compiled
def eliminate(lines: Lines, groups: Groups, shared: Shared) -> float:
    """The groups' D become L, C becomes T, and S loses T'T.

    Returns sum log|L|; NaN where a D is not positive definite.
    """
    inner_start, columns, column_start = lines.inner_start, lines.columns, lines.column_start
    lower, cross, values, slots = groups.square, groups.cross, shared.values, shared.slots
    square_start, cross_start, slot_start = (
        groups.square_start,
        groups.cross_start,
        shared.slot_start,
    )
    full, size, d, half = shared.dense, shared.size, lines.dense.shape[0], 0.0
    for g in range(len(inner_start) - 1):
        s0, t0, c0, q0 = square_start[g], cross_start[g], column_start[g], slot_start[g]
        r, k = inner_start[g + 1] - inner_start[g], d + column_start[g + 1] - c0
        for j in range(r):
            value = lower[s0 + j * r + j]
            for m in range(j):
                value -= lower[s0 + j * r + m] ** 2
            if not value > 0.0:
                return np.nan
            pivot = sqrt(value)
            half += log(pivot)
            lower[s0 + j * r + j] = pivot
            for i in range(j + 1, r):
                value = lower[s0 + i * r + j]
                for m in range(j):
                    value -= lower[s0 + i * r + m] * lower[s0 + j * r + m]
                lower[s0 + i * r + j] = value / pivot
                lower[s0 + j * r + i] = 0.0
            row = t0 + j * k
            for m in range(j):
                v = lower[s0 + j * r + m]
                for b in range(k):
                    cross[row + b] -= v * cross[t0 + m * k + b]
            for b in range(k):
                cross[row + b] /= pivot
            for a in range(k):
                v = cross[row + a]
                if full:
                    first = (a if a < d else d + columns[c0 + a - d]) * size
                    for b in range(min(a + 1, d)):
                        values[first + b] -= v * cross[row + b]
                    for b in range(d, a + 1):  # columns of a group stand in order
                        values[first + d + columns[c0 + b - d]] -= v * cross[row + b]
                else:
                    first = q0 + a * (a + 1) // 2
                    for b in range(a + 1):
                        values[slots[first + b]] -= v * cross[row + b]
    return half


@compiled
def forward(lines: Lines, groups: Groups, inner: Array, border: Array) -> None:
    """`inner`, (n_u, m), becomes L^-1 of itself; `border`, (p, m), loses T' of that."""
    inner_start, columns, column_start = lines.inner_start, lines.columns, lines.column_start
    square_start, cross_start = groups.square_start, groups.cross_start
    lower, cross, d = groups.square, groups.cross, lines.dense.shape[0]
    for g in range(len(inner_start) - 1):
        a0, s0, t0, c0 = inner_start[g], square_start[g], cross_start[g], column_start[g]
        r, k = inner_start[g + 1] - a0, d + column_start[g + 1] - c0
        for j in range(r):
            for c in range(inner.shape[1]):
                value = inner[a0 + j, c]
                for m in range(j):
                    value -= lower[s0 + j * r + m] * inner[a0 + m, c]
                inner[a0 + j, c] = value / lower[s0 + j * r + j]
            for a in range(k):
                i = a if a < d else d + columns[c0 + a - d]
                v = cross[t0 + j * k + a]
                for c in range(inner.shape[1]):
                    border[i, c] -= v * inner[a0 + j, c]


@compiled
def backward(lines: Lines, groups: Groups, inner: Array, border: Array) -> None:
    """`inner`, (n_u, m), becomes L^-T (inner - T border)."""
    inner_start, columns, column_start = lines.inner_start, lines.columns, lines.column_start
    square_start, cross_start = groups.square_start, groups.cross_start
    lower, cross, d = groups.square, groups.cross, lines.dense.shape[0]
    for g in range(len(inner_start) - 1):
        a0, s0, t0, c0 = inner_start[g], square_start[g], cross_start[g], column_start[g]
        r, k = inner_start[g + 1] - a0, d + column_start[g + 1] - c0
        for j in range(r - 1, -1, -1):
            for a in range(k):
                i = a if a < d else d + columns[c0 + a - d]
                v = cross[t0 + j * k + a]
                for c in range(inner.shape[1]):
                    inner[a0 + j, c] -= v * border[i, c]
            for c in range(inner.shape[1]):
                value = inner[a0 + j, c]
                for m in range(j + 1, r):
                    value -= lower[s0 + m * r + j] * inner[a0 + m, c]
                inner[a0 + j, c] = value / lower[s0 + j * r + j]


@compiled
def covariances(lines: Lines, groups: Groups, inverse: Shared, known: Groups) -> None:
    """V of each group, D^-1 + F S^-1 F' with F = D^-1 C, and its covariance with the columns that
    it touches, -F S^-1, are filled in `known`. `inverse`: S^-1."""
    inner_start, columns, column_start = lines.inner_start, lines.columns, lines.column_start
    lower, cross, values, slots = groups.square, groups.cross, inverse.values, inverse.slots
    square_start, cross_start, slot_start = (
        groups.square_start,
        groups.cross_start,
        inverse.slot_start,
    )
    own, shared = known.square, known.cross
    full, size, d = inverse.dense, inverse.size, lines.dense.shape[0]
    for g in range(len(inner_start) - 1):
        s0, t0, c0, q0 = square_start[g], cross_start[g], column_start[g], slot_start[g]
        r, k = inner_start[g + 1] - inner_start[g], d + column_start[g + 1] - c0
        if r == 0:
            continue
        s = np.empty((k, k))
        for a in range(k):
            i = a if a < d else d + columns[c0 + a - d]
            for b in range(a + 1):
                j = b if b < d else d + columns[c0 + b - d]
                at = i * size + j if full else slots[q0 + a * (a + 1) // 2 + b]
                s[a, b], s[b, a] = values[at], values[at]
        root = np.zeros((r, r))  # L^-1
        for j in range(r):
            root[j, j] = 1.0 / lower[s0 + j * r + j]
            for i in range(j + 1, r):
                value = 0.0
                for m in range(j, i):
                    value -= lower[s0 + i * r + m] * root[m, j]
                root[i, j] = value / lower[s0 + i * r + i]
        f = np.zeros((r, k))
        for j in range(r):
            for m in range(j, r):
                for a in range(k):
                    f[j, a] += root[m, j] * cross[t0 + m * k + a]
        for j in range(r):
            row = t0 + j * k
            for a in range(k):
                v = f[j, a]
                for b in range(k):
                    shared[row + b] -= v * s[a, b]
        for i in range(r):
            for j in range(i + 1):
                value = 0.0
                for m in range(i, r):
                    value += root[m, i] * root[m, j]
                for a in range(k):
                    value -= shared[t0 + i * k + a] * f[j, a]
                own[s0 + i * r + j] = value
                own[s0 + j * r + i] = value


@compiled
def row_variances(lines: Lines, groups: Groups, known: Groups, inverse: Shared, out: Array) -> None:
    """B V B' within sites, as weights lie. In a group with dense columns alone as |L^-1 z|^2 +
    q'S^-1 q, q = x - T'L^-1 z, without cancellation; else from the entries of V."""
    group, sites, columns, column_start = (
        lines.group,
        lines.sites,
        lines.columns,
        lines.column_start,
    )
    start, local, value, dense = lines.start, lines.local, lines.value, lines.dense
    inner_start, square_start, cross_start = (
        lines.inner_start,
        groups.square_start,
        groups.cross_start,
    )
    lower, cross, own, shared = groups.square, groups.cross, known.square, known.cross
    values, slots, slot_start, weight_start = (
        inverse.values,
        inverse.slots,
        inverse.slot_start,
        lines.weight,
    )
    full, size, d, scalar = inverse.dense, inverse.size, dense.shape[0], len(sites) == 0
    rows, width = lines.most
    index, entry = np.empty(rows * width, np.int64), np.empty(rows * width)
    end = np.empty(rows, np.int64)
    half, spread = np.empty((rows, 64 + d)), np.empty((rows, d))
    for t in range(len(group)):
        i0, i1, w0 = t, t + 1, t
        if not scalar:
            i0, i1, w0 = sites[t], sites[t + 1], weight_start[t]
        g = group[t]
        s0, t0, c0, q0 = square_start[g], cross_start[g], column_start[g], slot_start[g]
        r, k = inner_start[g + 1] - inner_start[g], d + column_start[g + 1] - c0
        alone = full and k == d
        for i in range(i0, i1):
            p, n = i - i0, (i - i0) * width
            if not alone:
                for e in range(start[i], start[i + 1]):
                    index[n], entry[n] = local[e], value[e]
                    n += 1
                for a in range(d):
                    index[n], entry[n] = r + a, dense[a, i]
                    n += 1
                end[p] = n
                continue
            for j in range(r):
                half[p, j] = 0.0
            for a in range(d):
                half[p, r + a] = dense[a, i]
            for e in range(start[i], start[i + 1]):
                half[p, local[e]] += value[e]
            for j in range(r):
                v = half[p, j]
                for m in range(j):
                    v -= lower[s0 + j * r + m] * half[p, m]
                v /= lower[s0 + j * r + j]
                half[p, j] = v
                for a in range(d):
                    half[p, r + a] -= v * cross[t0 + j * d + a]
            for a in range(d):
                v = 0.0
                for b in range(d):
                    v += values[a * size + b] * half[p, r + b]
                spread[p, a] = v
        for p in range(i1 - i0):
            for q in range(p + 1):
                v = 0.0
                if alone:
                    for j in range(r):
                        v += half[p, j] * half[q, j]
                    for a in range(d):
                        v += spread[p, a] * half[q, r + a]
                else:
                    for e in range(p * width, end[p]):
                        u = 0.0
                        for f in range(q * width, end[q]):
                            a, b = max(index[e], index[f]), min(index[e], index[f])
                            if a < r:
                                x = own[s0 + a * r + b]
                            elif b < r:
                                x = shared[t0 + b * k + a - r]
                            elif full:
                                a, b = a - r, b - r
                                i = a if a < d else d + columns[c0 + a - d]
                                j = b if b < d else d + columns[c0 + b - d]
                                x = values[i * size + j]
                            else:
                                a, b = a - r, b - r
                                x = values[slots[q0 + a * (a + 1) // 2 + b]]
                            u += x * entry[f]
                        v += u * entry[e]
                out[w0 + p * (i1 - i0) + q] = v
                out[w0 + q * (i1 - i0) + p] = v


@compiled
def crossed(
    lines: Lines,
    weight: Array,
    known: Groups,
    inverse: Shared,
    within: tuple[int, int],
    starts: IntArray,
    codes: IntArray,
    out: Array,
) -> None:
    """Entries of W B V for some rows, from the first to the last of `within`: at the local indices
    `codes`, those of row i from `starts[i - first]` on."""
    group, sites, columns, column_start = (
        lines.group,
        lines.sites,
        lines.columns,
        lines.column_start,
    )
    start, local, value, dense = lines.start, lines.local, lines.value, lines.dense
    inner_start, square_start, cross_start = (
        lines.inner_start,
        known.square_start,
        known.cross_start,
    )
    own, shared, values, slots = known.square, known.cross, inverse.values, inverse.slots
    slot_start, weight_start = inverse.slot_start, lines.weight
    full, size, d, scalar = inverse.dense, inverse.size, dense.shape[0], len(sites) == 0
    first, last = within
    for t in range(len(group)):
        i0, i1, w0 = t, t + 1, t
        if not scalar:
            i0, i1, w0 = sites[t], sites[t + 1], weight_start[t]
        if i0 < first or i0 >= last:
            continue
        g = group[t]
        s0, t0, c0, q0 = square_start[g], cross_start[g], column_start[g], slot_start[g]
        r, k = inner_start[g + 1] - inner_start[g], d + column_start[g + 1] - c0
        for i in range(i0, i1):
            for at in range(starts[i - first], starts[i - first + 1]):
                m, v = codes[at], 0.0
                for h in range(i0, i1):
                    w = weight[w0 + (i - i0) * (i1 - i0) + (h - i0)]
                    sparse = start[h + 1] - start[h]
                    for e in range(sparse + d):
                        if e < sparse:
                            n, z = local[start[h] + e], value[start[h] + e]
                        else:
                            n, z = r + e - sparse, dense[e - sparse, h]
                        a, b = max(m, n), min(m, n)
                        if a < r:
                            x = own[s0 + a * r + b]
                        elif b < r:
                            x = shared[t0 + b * k + a - r]
                        elif full:
                            a, b = a - r, b - r
                            c = a if a < d else d + columns[c0 + a - d]
                            j = b if b < d else d + columns[c0 + b - d]
                            x = values[c * size + j]
                        else:
                            a, b = a - r, b - r
                            x = values[slots[q0 + a * (a + 1) // 2 + b]]
                        v += w * z * x
                out[at] = v


@compiled
def split_rows(
    lines: Lines,
    groups: Groups,
    starts: IntArray,
    places: IntArray,
    entries: Array,
    group: IntArray,
    border: Array,
    out: Array,
) -> None:
    """Solve for functionals z with inner entries (by group within a row): `out`, (rows,), gains
    |L^-1 z|^2 of each group; `border`, (rows, p), loses T'L^-1 z."""
    inner_start, columns, column_start = lines.inner_start, lines.columns, lines.column_start
    square_start, cross_start = groups.square_start, groups.cross_start
    lower, cross, d = groups.square, groups.cross, lines.dense.shape[0]
    x = np.zeros(64)
    for i in range(len(out)):
        e, end = starts[i], starts[i + 1]
        while e < end:
            g = group[places[e]]
            a0, s0, t0, c0 = inner_start[g], square_start[g], cross_start[g], column_start[g]
            r, k = inner_start[g + 1] - a0, d + column_start[g + 1] - c0
            for j in range(r):
                x[j] = 0.0
            while e < end and group[places[e]] == g:
                x[places[e] - a0] += entries[e]
                e += 1
            for j in range(r):
                value = x[j]
                for m in range(j):
                    value -= lower[s0 + j * r + m] * x[m]
                value /= lower[s0 + j * r + j]
                x[j] = value
                out[i] += value * value
                for a in range(k):
                    c = a if a < d else d + columns[c0 + a - d]
                    border[i, c] -= value * cross[t0 + j * k + a]


@compiled
def pair_sums(
    known: Groups,
    inverse: Shared,
    touched: IntArray,
    starts: IntArray,
    group: IntArray,
    local: IntArray,
    column: IntArray,
    entries: Array,
    out: Array,
) -> None:
    """x'Vx of functionals from the entries of V that are known; NaN where one is not. Each has a
    `group`, -1 for none, and entries at the local indices `local` of it, -1 for what the group has
    not; `column`: of the border, -1 elsewhere. `touched`, (G, 2): r and k of groups."""
    own, shared, values, slots = known.square, known.cross, inverse.values, inverse.slots
    square_start, cross_start, slot_start = (
        known.square_start,
        known.cross_start,
        inverse.slot_start,
    )
    full, size = inverse.dense, inverse.size
    for i in range(len(out)):
        g, v = group[i], 0.0
        r, k = (touched[g, 0], touched[g, 1]) if g >= 0 else (0, 0)
        for e in range(starts[i], starts[i + 1]):
            for f in range(starts[i], e + 1):
                a, b = max(local[e], local[f]), min(local[e], local[f])
                c, j = max(column[e], column[f]), min(column[e], column[f])
                if full and j >= 0:
                    x = values[c * size + j]
                elif b < 0:
                    x = np.nan
                elif a < r:
                    x = own[square_start[g] + a * r + b]
                elif b < r:
                    x = shared[cross_start[g] + b * k + a - r]
                else:
                    a, b = a - r, b - r
                    x = values[slots[slot_start[g] + a * (a + 1) // 2 + b]]
                v += (1.0 if e == f else 2.0) * x * entries[e] * entries[f]
        out[i] = v
