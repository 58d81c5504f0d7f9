"""Where the topics of an admixture start.

Topics that are all alike (the middle of their prior) are a stationary point of the evidence: no row
tells one from another. They start from groups of rows instead. The longest row begins the first
group, the row farthest from all that have begun one the next; every row joins the nearest; a topic
is its group's frequencies, mixed with those of all rows so that no word is impossible.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import leaf

SHARED = 0.2  # the part of every topic that is the frequencies in all rows


def with_distinct_topics(canonical: CanonicalModel, theta: Theta, pinned: Collection[str]) -> Theta:
    """The start with free topics that are all alike replaced."""
    moved = dict(theta)
    for block in canonical.blocks:
        for name in block.family.spec.shared:
            hyper = leaf(block.parameters[name])
            if hyper is None or hyper.name in pinned or block.y is None:
                continue
            value = theta[hyper.name]
            if len(value) > 1 and np.ptp(value, axis=0).max() == 0.0:
                moved[hyper.name] = grouped(block.y, len(value))
    return moved


def grouped(counts: Array, topics: int) -> Array:
    """(K, W) from counts (N, W)."""
    total = counts.sum(axis=0) + 1.0
    length = counts.sum(axis=1)
    root = np.sqrt(counts / np.maximum(length, 1.0)[:, None])
    found = np.tile(total, (topics, 1))
    if length.any():
        begun = [int(length.argmax())]
        for _ in range(topics - 1):
            near = (root @ root[begun].T).max(axis=1)  # 1 less half the squared Hellinger distance
            begun.append(int(np.where(length > 0.0, near, np.inf).argmin()))
        group = (root @ root[begun].T).argmax(axis=1)
        found = np.stack([counts[group == k].sum(axis=0) for k in range(topics)])
    found = found + SHARED * total * (found.sum(axis=1, keepdims=True) + 1.0) / total.sum()
    return np.asarray(found / found.sum(axis=1, keepdims=True))
