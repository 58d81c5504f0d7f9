"""The entries of something over index sets as readers expect them: in natural order (m2 before
m10), and cuts between ordered classes by the classes on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import AnyArray, IntArray
from lgmdsl.canonical.grounding.label_line import natural_key
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.model import CanonicalModel


def labels_of(canonical: CanonicalModel, name: str, dims: Sequence[str]) -> list[AnyArray]:
    """The labels along each axis of a quantity: `low|mid` of the cut between them."""
    out = [canonical.layout.labels[d] for d in dims]
    for block in canonical.blocks:
        for parameter in block.family.spec.indexed:
            node = block.parameters.get(parameter)
            if node is None or name not in node.depends or not dims or not block.classes:
                continue
            classes = canonical.layout.labels[block.classes]
            if len(out[-1]) == len(classes) - 1:
                pairs = zip(classes[:-1].tolist(), classes[1:].tolist(), strict=True)
                out[-1] = np.array([f"{a}|{b}" for a, b in pairs])
    return out


def entry_labels(labels: Sequence[AnyArray]) -> list[str]:
    """The label of every entry, row by row: `1, walk`; one empty label of a scalar."""
    out = [""]
    for members in labels:
        out = [f"{a}, {b}" if a else str(b) for a in out for b in members.tolist()]
    return out


def natural_order(canonical: CanonicalModel, dims: Sequence[str]) -> IntArray:
    """The flat positions of all entries in natural order along each axis: that of the index set,
    and of text that is in the order of its characters alone, as in older files of fits, by the
    numbers in it."""
    orders = [index_order(canonical.grounded.indices[d]) for d in dims]
    shape = tuple(len(o) for o in orders)
    grid = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    return np.asarray(grid[np.ix_(*orders)].reshape(-1)) if dims else np.zeros(1, dtype=np.int64)


def index_order(index: IndexSet) -> IntArray:
    """The positions of the members in natural order."""
    labels = index.labels
    plain = np.arange(index.size)
    if labels.dtype.kind != "U" or index.ordered or not (labels[:-1] <= labels[1:]).all():
        return plain
    texts = labels.tolist()
    return np.array(sorted(plain.tolist(), key=lambda k: natural_key(texts[k])), dtype=np.int64)
