"""Scaled intrinsic structures from their definitions, by dense eigenvalues, apart from lgmdsl's."""

from __future__ import annotations

import numpy as np


def scaled_root(precision):
    """(B, variances): B B' = U^+ of the scaled structure U, in which the level alone is free, of
    marginal sds with geometric mean 1; the eigenvalues of U^+, zeros included."""
    values, vectors = np.linalg.eigh(precision)
    kept = np.arange(len(values)) > 0
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    marginal = (vectors**2) @ inverse
    inverse /= np.exp(np.log(marginal).mean())
    return vectors[:, kept] * np.sqrt(inverse[kept]), inverse


def walk(size, order, cyclic):
    """Differences of an order, as D'D."""
    d = np.eye(size)
    for _ in range(order):
        d = np.roll(d, -1, axis=0) - d if cyclic else np.diff(d, axis=0)
    return d.T @ d


def laplacian(edges, size):
    adjacent = np.zeros((size, size))
    adjacent[edges[:, 0], edges[:, 1]] = adjacent[edges[:, 1], edges[:, 0]] = 1.0
    return np.diag(adjacent.sum(axis=1)) - adjacent


def components(edges, size):
    label = np.arange(size)
    for _ in range(size):
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])
    return [np.flatnonzero(label == k) for k in np.unique(label)]


def besag_root(edges, size):
    """As `scaled_root`, each component scaled by itself; a member without neighbours is N(0, 1)."""
    whole, blocks, variances = laplacian(edges, size), [], []
    for members in components(edges, size):
        block = np.zeros((size, max(len(members) - 1, 1)))
        if len(members) == 1:
            block[members, 0], found = 1.0, np.ones(1)
        else:
            block[members], found = scaled_root(whole[np.ix_(members, members)])
        blocks.append(block)
        variances.append(found)
    return np.hstack(blocks), np.concatenate(variances)
