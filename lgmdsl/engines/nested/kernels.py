"""Compiled passes over rows in groups. Importing this module imports numba.

D_g = Q_g + Z'WZ = LL' of each group, C_g = Z'WX, T_g = L^-1 C_g; S = X'WX - sum T_g'T_g.
Matrices of groups lie one after the other, C-ordered: (r, r) from `square_start[g]`, (r, k) from
`cross_start[g]`, k counting the border's dense columns and then the group's sparse ones;
the place of a pair of columns of a group on the border's pattern stands in `slots`. Weights
lie by sites, (K, K) blocks of vector sites C-ordered.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.engines.nested.nest import Lines
from lgmdsl.numerics.compiled import compiled

NARROW = 32  # entries of a functional


@compiled
def gather(
    lines: Lines,
    weight: Array,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    square: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
) -> None:
    """Z'WZ, its lower triangles, and Z'WX are added to `lower` and `cross`, by groups; X'WX to
    `square`, (p, p), its lower triangle, or to `values` at `slots`."""
    d, thin, scalar = lines.dense.shape[0], len(lines.x_index) > 0, len(lines.sites) == 0
    gram = np.zeros((d, d))
    for t in range(len(lines.group)):
        i0, i1, w0 = t, t + 1, t
        if not scalar:
            i0, i1, w0 = lines.sites[t], lines.sites[t + 1], lines.weight[t]
        g = lines.group[t]
        a0, s0, t0 = lines.inner_start[g], square_start[g], cross_start[g]
        r = lines.inner_start[g + 1] - a0
        k = d + lines.column_start[g + 1] - lines.column_start[g]
        for i in range(i0, i1):
            for h in range(i0, i1):
                w = weight[w0 + (i - i0) * (i1 - i0) + (h - i0)]
                if w == 0.0:
                    continue
                for e in range(lines.z_start[i], lines.z_start[i + 1]):
                    m = lines.z_index[e] - a0
                    v = w * lines.z_value[e]
                    for f in range(lines.z_start[h], lines.z_start[h + 1]):
                        n = lines.z_index[f] - a0
                        if n <= m:
                            lower[s0 + m * r + n] += v * lines.z_value[f]
                    for b in range(d):
                        cross[t0 + m * k + b] += v * lines.dense[b, h]
                    if thin:
                        for f in range(lines.x_start[h], lines.x_start[h + 1]):
                            cross[t0 + m * k + lines.x_local[f]] += v * lines.x_value[f]
                for a in range(d):
                    v = w * lines.dense[a, i]
                    for b in range(a + 1):
                        gram[a, b] += v * lines.dense[b, h]
                if thin:
                    for e in range(lines.x_start[i], lines.x_start[i + 1]):
                        m, c = lines.x_local[e], d + lines.x_index[e]
                        v = w * lines.x_value[e]
                        q = slot_start[g] + m * (m + 1) // 2
                        for b in range(d):
                            if len(values) > 0:
                                values[slots[q + b]] += v * lines.dense[b, h]
                            else:
                                square[c, b] += v * lines.dense[b, h]
                        for f in range(lines.x_start[h], lines.x_start[h + 1]):
                            n = lines.x_local[f]
                            if n <= m:
                                if len(values) > 0:
                                    values[slots[q + n]] += v * lines.x_value[f]
                                else:
                                    square[c, d + lines.x_index[f]] += v * lines.x_value[f]
    if len(values) == 0:
        for a in range(d):
            for b in range(a + 1):
                square[a, b] += gram[a, b]
    elif len(slot_start) > 1:
        for a in range(d):
            for b in range(a + 1):
                values[slots[a * (a + 1) // 2 + b]] += gram[a, b]


@compiled
def eliminate(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    square: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
) -> float:
    """The groups' D, in `lower`, become L, C, in `cross`, becomes T, and S, in `square` or
    `values`, loses T'T.

    Returns sum log|L|; NaN where a D is not positive definite.
    """
    d, half = lines.dense.shape[0], 0.0
    for g in range(len(lines.inner_start) - 1):
        a0, c0 = lines.inner_start[g], lines.column_start[g]
        r, k = lines.inner_start[g + 1] - a0, d + lines.column_start[g + 1] - c0
        s0, t0 = square_start[g], cross_start[g]
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
            q = slot_start[g]
            for a in range(k):
                v = cross[row + a]
                if len(values) > 0:
                    for b in range(a + 1):
                        values[slots[q + b]] -= v * cross[row + b]
                    q += a + 1
                elif a < d:
                    for b in range(a + 1):
                        square[a, b] -= v * cross[row + b]
                else:
                    i = d + lines.columns[c0 + a - d]
                    for b in range(d):
                        square[i, b] -= v * cross[row + b]
                    for b in range(d, a + 1):  # columns of a group stand in order
                        square[i, d + lines.columns[c0 + b - d]] -= v * cross[row + b]
    return half


@compiled
def forward(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    inner: Array,
    border: Array,
) -> None:
    """`inner`, (n_u, m), becomes L^-1 of itself; `border`, (p, m), loses T' of that."""
    d, width = lines.dense.shape[0], inner.shape[1]
    for g in range(len(lines.inner_start) - 1):
        a0, c0 = lines.inner_start[g], lines.column_start[g]
        r = lines.inner_start[g + 1] - a0
        k = d + lines.column_start[g + 1] - c0
        s0, t0 = square_start[g], cross_start[g]
        for j in range(r):
            for c in range(width):
                value = inner[a0 + j, c]
                for m in range(j):
                    value -= lower[s0 + j * r + m] * inner[a0 + m, c]
                inner[a0 + j, c] = value / lower[s0 + j * r + j]
            for a in range(k):
                i = a if a < d else d + lines.columns[c0 + a - d]
                v = cross[t0 + j * k + a]
                for c in range(width):
                    border[i, c] -= v * inner[a0 + j, c]


@compiled
def backward(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    inner: Array,
    border: Array,
) -> None:
    """`inner`, (n_u, m), becomes L^-T (inner - T border)."""
    d, width = lines.dense.shape[0], inner.shape[1]
    for g in range(len(lines.inner_start) - 1):
        a0, c0 = lines.inner_start[g], lines.column_start[g]
        r = lines.inner_start[g + 1] - a0
        k = d + lines.column_start[g + 1] - c0
        s0, t0 = square_start[g], cross_start[g]
        for j in range(r - 1, -1, -1):
            for a in range(k):
                i = a if a < d else d + lines.columns[c0 + a - d]
                v = cross[t0 + j * k + a]
                for c in range(width):
                    inner[a0 + j, c] -= v * border[i, c]
            for c in range(width):
                value = inner[a0 + j, c]
                for m in range(j + 1, r):
                    value -= lower[s0 + m * r + j] * inner[a0 + m, c]
                inner[a0 + j, c] = value / lower[s0 + j * r + j]


@compiled
def covariances(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    sigma: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
    own: Array,
    shared: Array,
) -> None:
    """V of each group, D^-1 + F S^-1 F' with F = D^-1 C, in `own`, and its covariance with the
    columns that it touches, -F S^-1, in `shared`. `sigma`: S^-1, (p, p), or `values` at `slots`."""
    d = lines.dense.shape[0]
    for g in range(len(lines.inner_start) - 1):
        a0, c0 = lines.inner_start[g], lines.column_start[g]
        r, few = lines.inner_start[g + 1] - a0, lines.column_start[g + 1] - c0
        k = d + few
        if r == 0:
            continue
        s0, t0 = square_start[g], cross_start[g]
        s = _of_group(lines, g, sigma, values, slots, slot_start)
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
def _of_group(
    lines: Lines, g: int, sigma: Array, values: Array, slots: IntArray, slot_start: IntArray
) -> Array:
    """S^-1 at the columns of one group, (k, k)."""
    d, c0 = lines.dense.shape[0], lines.column_start[g]
    few = lines.column_start[g + 1] - c0
    if few == 0 and len(values) == 0:
        return sigma
    k = d + few
    out = np.empty((k, k))
    q = slot_start[g]
    for a in range(k):
        i = a if a < d else d + lines.columns[c0 + a - d]
        for b in range(a + 1):
            j = b if b < d else d + lines.columns[c0 + b - d]
            value = values[slots[q]] if len(values) else sigma[i, j]
            out[a, b], out[b, a] = value, value
            q += 1
    return out


@compiled
def _entry(c: int, b: int, q: int, sigma: Array, values: Array, slots: IntArray) -> float:
    """S^-1 at columns c and b of the border; on a pattern at slot q."""
    return float(values[slots[q]] if len(values) > 0 else sigma[c, b])


@compiled
def row_variances(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    own: Array,
    shared: Array,
    sigma: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
    out: Array,
) -> None:
    """B V B' within sites, as weights lie. Of rows with dense columns alone as |L^-1 z|^2 + q'S^-1
    q, q = x - T'L^-1 z, without cancellation; else from the entries of V."""
    d, thin, scalar = lines.dense.shape[0], len(lines.x_index) > 0, len(lines.sites) == 0
    rows = 1
    for t in range(len(lines.sites) - 1):
        rows = max(rows, lines.sites[t + 1] - lines.sites[t])
    inner, border, spread = np.zeros((rows, 64)), np.zeros((rows, d)), np.zeros((rows, d))
    for t in range(len(lines.group)):
        i0, i1, w0 = t, t + 1, t
        if not scalar:
            i0, i1, w0 = lines.sites[t], lines.sites[t + 1], lines.weight[t]
        g = lines.group[t]
        a0, s0, t0 = lines.inner_start[g], square_start[g], cross_start[g]
        r = lines.inner_start[g + 1] - a0
        few = lines.column_start[g + 1] - lines.column_start[g]
        k = d + few
        for i in range(i0, i1):
            p = i - i0
            for j in range(r):
                inner[p, j] = 0.0
            for e in range(lines.z_start[i], lines.z_start[i + 1]):
                inner[p, lines.z_index[e] - a0] += lines.z_value[e]
            if few or len(values) > 0:
                continue
            for a in range(d):
                border[p, a] = lines.dense[a, i]
            for j in range(r):
                value = inner[p, j]
                for m in range(j):
                    value -= lower[s0 + j * r + m] * inner[p, m]
                value /= lower[s0 + j * r + j]
                inner[p, j] = value
                for a in range(d):
                    border[p, a] -= value * cross[t0 + j * d + a]
            for a in range(d):
                value = 0.0
                for b in range(d):
                    value += sigma[a, b] * border[p, b]
                spread[p, a] = value
        for i in range(i0, i1):
            for h in range(i0, i + 1):
                v, p, q = 0.0, i - i0, h - i0
                if few == 0 and len(values) == 0:
                    for j in range(r):
                        v += inner[p, j] * inner[q, j]
                    for a in range(d):
                        v += spread[p, a] * border[q, a]
                else:
                    for m in range(r):
                        row = t0 + m * k
                        for n in range(r):
                            v += inner[p, m] * own[s0 + m * r + n] * inner[q, n]
                        for b in range(d):
                            v += inner[p, m] * shared[row + b] * lines.dense[b, h]
                            v += inner[q, m] * shared[row + b] * lines.dense[b, i]
                        if thin:
                            for f in range(lines.x_start[h], lines.x_start[h + 1]):
                                v += inner[p, m] * shared[row + lines.x_local[f]] * lines.x_value[f]
                            for f in range(lines.x_start[i], lines.x_start[i + 1]):
                                v += inner[q, m] * shared[row + lines.x_local[f]] * lines.x_value[f]
                    v += _border_product(lines, i, h, g, sigma, values, slots, slot_start)
                out[w0 + p * (i1 - i0) + q] = v
                out[w0 + q * (i1 - i0) + p] = v


@compiled
def _border_product(
    lines: Lines,
    i: int,
    h: int,
    g: int,
    sigma: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
) -> float:
    """x_i'S^-1 x_h of two rows of a group."""
    d, s0, v = lines.dense.shape[0], slot_start[g], 0.0
    for a in range(d):
        for b in range(d):
            q = s0 + max(a, b) * (max(a, b) + 1) // 2 + min(a, b)
            v += lines.dense[a, i] * _entry(a, b, q, sigma, values, slots) * lines.dense[b, h]
    if len(lines.x_index) == 0:
        return v
    for e in range(lines.x_start[i], lines.x_start[i + 1]):
        m, c = lines.x_local[e], d + lines.x_index[e]
        q = s0 + m * (m + 1) // 2
        for b in range(d):
            s = _entry(c, b, q + b, sigma, values, slots)
            v += lines.x_value[e] * s * lines.dense[b, h]
        for f in range(lines.x_start[h], lines.x_start[h + 1]):
            n = lines.x_local[f]
            at = s0 + max(m, n) * (max(m, n) + 1) // 2 + min(m, n)
            s = _entry(c, d + lines.x_index[f], at, sigma, values, slots)
            v += lines.x_value[e] * s * lines.x_value[f]
    for f in range(lines.x_start[h], lines.x_start[h + 1]):
        n, c = lines.x_local[f], d + lines.x_index[f]
        q = s0 + n * (n + 1) // 2
        for a in range(d):
            v += lines.dense[a, i] * _entry(c, a, q + a, sigma, values, slots) * lines.x_value[f]
    return v


@compiled
def crossed(
    lines: Lines,
    weight: Array,
    square_start: IntArray,
    cross_start: IntArray,
    own: Array,
    shared: Array,
    sigma: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
    first: int,
    last: int,
    starts: IntArray,
    codes: IntArray,
    places: IntArray,
    out: Array,
) -> None:
    """Entries of W B V for rows first to last, at `codes` (from `starts[i - first]` on): a place
    among the inner latents, or -1 - one on the border, which is the group's column `places`."""
    d, thin, scalar = lines.dense.shape[0], len(lines.x_index) > 0, len(lines.sites) == 0
    for t in range(len(lines.group)):
        i0, i1, w0 = t, t + 1, t
        if not scalar:
            i0, i1, w0 = lines.sites[t], lines.sites[t + 1], lines.weight[t]
        if i0 < first or i0 >= last:
            continue
        g = lines.group[t]
        a0, s0, t0 = lines.inner_start[g], square_start[g], cross_start[g]
        r = lines.inner_start[g + 1] - a0
        k = d + lines.column_start[g + 1] - lines.column_start[g]
        for i in range(i0, i1):
            for at in range(starts[i - first], starts[i - first + 1]):
                code, n, v = codes[at], places[at], 0.0
                m, c = code - a0, -1 - code
                for h in range(i0, i1):
                    w, u = weight[w0 + (i - i0) * (i1 - i0) + (h - i0)], 0.0
                    for e in range(lines.z_start[h], lines.z_start[h + 1]):
                        j = lines.z_index[e] - a0
                        if code >= 0:
                            u += lines.z_value[e] * own[s0 + m * r + j]
                        else:
                            u += lines.z_value[e] * shared[t0 + j * k + n]
                    for b in range(d):
                        if code >= 0:
                            u += lines.dense[b, h] * shared[t0 + m * k + b]
                        else:
                            q = slot_start[g] + max(n, b) * (max(n, b) + 1) // 2 + min(n, b)
                            u += lines.dense[b, h] * _entry(c, b, q, sigma, values, slots)
                    if thin:
                        for f in range(lines.x_start[h], lines.x_start[h + 1]):
                            b = lines.x_local[f]
                            if code >= 0:
                                u += lines.x_value[f] * shared[t0 + m * k + b]
                            else:
                                q = slot_start[g] + max(n, b) * (max(n, b) + 1) // 2 + min(n, b)
                                s = _entry(c, d + lines.x_index[f], q, sigma, values, slots)
                                u += lines.x_value[f] * s
                    v += w * u
                out[at] = v


@compiled
def split_rows(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    lower: Array,
    cross: Array,
    starts: IntArray,
    places: IntArray,
    entries: Array,
    group: IntArray,
    border: Array,
    out: Array,
) -> None:
    """Solve for functionals z with inner entries (by group within a row): `out`, (rows,), gains
    |L^-1 z|^2 of each group; `border`, (rows, p), loses T'L^-1 z."""
    d = lines.dense.shape[0]
    x = np.zeros(64)
    for i in range(len(out)):
        e, end = starts[i], starts[i + 1]
        while e < end:
            g = group[places[e]]
            a0, c0 = lines.inner_start[g], lines.column_start[g]
            r = lines.inner_start[g + 1] - a0
            k = d + lines.column_start[g + 1] - c0
            s0, t0 = square_start[g], cross_start[g]
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
                    c = a if a < d else d + lines.columns[c0 + a - d]
                    border[i, c] -= value * cross[t0 + j * k + a]


@compiled
def pair_sums(
    lines: Lines,
    square_start: IntArray,
    cross_start: IntArray,
    own: Array,
    shared: Array,
    sigma: Array,
    values: Array,
    slots: IntArray,
    slot_start: IntArray,
    starts: IntArray,
    codes: IntArray,
    group: IntArray,
    entries: Array,
    out: Array,
) -> None:
    """x'Vx of functionals with entries at `codes` (as in `crossed`), from the entries of V that are
    known; NaN where one is not, and for more than NARROW entries, whose pairs take longer than a
    solve."""
    d = lines.dense.shape[0]
    for i in range(len(out)):
        if starts[i + 1] - starts[i] > NARROW:
            out[i] = np.nan
            continue
        g, v = -1, 0.0
        for e in range(starts[i], starts[i + 1]):
            if codes[e] >= 0:
                g = group[codes[e]]
        for e in range(starts[i], starts[i + 1]):
            for f in range(starts[i], e + 1):
                a, b = codes[e], codes[f]
                if a < b:
                    a, b = b, a  # an inner latent first
                if a >= 0 and (group[a] != g or (b >= 0 and group[b] != g)):
                    s = np.nan
                elif b >= 0:
                    a0, r = lines.inner_start[g], lines.inner_start[g + 1] - lines.inner_start[g]
                    s = own[square_start[g] + (a - a0) * r + b - a0]
                elif a >= 0:
                    n = _place(lines, g, -1 - b)
                    k = d + lines.column_start[g + 1] - lines.column_start[g]
                    m = a - lines.inner_start[g]
                    s = shared[cross_start[g] + m * k + n] if n >= 0 else np.nan
                elif len(values) == 0:
                    s = sigma[-1 - a, -1 - b]
                else:
                    m, n = -1, -1
                    if g >= 0:
                        m, n = _place(lines, g, -1 - a), _place(lines, g, -1 - b)
                    if m < n:
                        m, n = n, m
                    s = values[slots[slot_start[g] + m * (m + 1) // 2 + n]] if n >= 0 else np.nan
                v += (1.0 if e == f else 2.0) * s * entries[e] * entries[f]
        out[i] = v


@compiled
def _place(lines: Lines, g: int, c: int) -> int:
    """The place of a latent on the border among the columns of a group; -1 where it has not it."""
    d = lines.dense.shape[0]
    if c < d:
        return c
    low, high = lines.column_start[g], lines.column_start[g + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if lines.columns[middle] < c - d:
            low = middle + 1
        else:
            high = middle
    found = low < end and lines.columns[low] == c - d
    return d + low - lines.column_start[g] if found else -1
