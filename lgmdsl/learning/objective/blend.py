"""Site parameters between those of fits: where a further fit starts.

log w = sum_k c_k log w_k,   b = sum_k c_k b_k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Rows

Sites = tuple[Rows, Rows]  # W and b of all blocks


@dataclass(frozen=True, eq=False)
class Blend:
    """Between `fits`, the nearest first, with coefficients `share` (k,) that sum to 1; None: the
    nearest."""

    fits: tuple[Sites, ...]
    share: Array | None

    @property
    def sites(self) -> Sites:
        """(W, b)."""
        return blended(self.fits, self.share)


def blended(fits: Sequence[Sites], share: Array | None) -> Sites:
    """(W, b) of the nearest fit in blocks that have weights which are matrices or not positive, and
    everywhere without a `share`."""
    first = fits[0]
    if share is None:
        return first
    weight, shift = list[Array](), list[Array]()
    for block, nearest in enumerate(first[0]):
        known = [w[block] for w, _ in fits]
        if nearest.ndim != 1 or not all((w > 0.0).all() for w in known):
            weight.append(nearest)
            shift.append(first[1][block])
            continue
        weight.append(np.exp(sum(c * np.log(w) for c, w in zip(share, known, strict=True))))
        others = (b[block] for _, b in fits)
        shift.append(np.asarray(sum(c * b for c, b in zip(share, others, strict=True))))
    return tuple(weight), tuple(shift)
