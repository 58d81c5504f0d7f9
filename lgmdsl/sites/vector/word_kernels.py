"""The words' terms of an admixture, row by row, compiled (`admixture` has the formulas). Imported
only where words are many enough to repay numba.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.numerics.compiled import compiled

Words: TypeAlias = tuple[AnyArray, AnyArray, Array]
"""The words of each row as csr has them: where each row starts, which words, how many of each."""


@compiled
def _logged(s: Array, likely: Array, part: Array) -> float:
    """L_w, and the topics' probabilities into part, however small those of the word are; topics are
    alike for a word that none of them gives."""
    size, top, whole = len(s), -math.inf, 0.0
    for k in range(size):
        part[k] = s[k] + math.log(likely[k]) if likely[k] > 0.0 else -math.inf
        if not part[k] <= top:
            top = part[k]
    for k in range(size):
        part[k] = math.exp(part[k] - top) if top > -math.inf else 1.0
        whole += part[k]
    for k in range(size):
        part[k] /= whole
    return top + math.log(whole)


@compiled
def gains(
    s: Array, words: Words, likely: Array, rare: float, value: Array, slope: Array, bend: Array
) -> None:
    """sum_w y_w L_w is added to value, (N,); its slope, (N, K), and curvature, (N, K, K), are
    written. `likely`, (W, K): the topics' probabilities of each word; below `rare` next to
    exp(largest s) by logarithms."""
    start, word, count = words
    size = s.shape[1]
    share, part = np.empty(size), np.empty(size)
    for i in range(len(s)):
        top = s[i, 0]
        for k in range(1, size):
            top = max(top, s[i, k])
        for k in range(size):
            share[k] = math.exp(s[i, k] - top)
            slope[i, k] = 0.0
            for j in range(k + 1):
                bend[i, k, j] = 0.0
        total = 0.0
        for e in range(start[i], start[i + 1]):
            w, y, whole = word[e], count[e], 0.0
            for k in range(size):
                part[k] = share[k] * likely[w, k]
                whole += part[k]
            if whole > rare:
                total += y * (top + math.log(whole))
                for k in range(size):
                    part[k] /= whole
            else:
                total += y * _logged(s[i], likely[w], part)
            for k in range(size):
                counted = y * part[k]
                slope[i, k] += counted
                for j in range(k + 1):
                    bend[i, k, j] -= counted * part[j]
        for k in range(size):
            for j in range(k):
                bend[i, j, k] = bend[i, k, j]
            bend[i, k, k] += slope[i, k]
        value[i] += total


@compiled
def mixtures(
    p: Array, words: Words, likely: Array, least: float, value: Array, slope: Array
) -> None:
    """sum_w y_w log sum_k p_k likely_wk is added to value, (S, N), for shares (S, N, K); its slope
    in log p is written."""
    start, word, count = words
    points, rows, size = p.shape
    for i in range(rows):
        for point in range(points):
            total = 0.0
            for k in range(size):
                slope[point, i, k] = 0.0
            for e in range(start[i], start[i + 1]):
                w, whole = word[e], 0.0
                for k in range(size):
                    whole += p[point, i, k] * likely[w, k]
                whole = max(whole, least)
                total += count[e] * math.log(whole)
                ratio = count[e] / whole
                for k in range(size):
                    slope[point, i, k] += ratio * likely[w, k]
            for k in range(size):
                slope[point, i, k] *= p[point, i, k]
            value[point, i] += total
