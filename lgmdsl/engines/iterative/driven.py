"""What a fit may report whose variances came from Lanczos vectors.

Those are below the true ones, by as much as the vectors leave out: k of n hold about k/n of the
variance. The widths of a double loop that they drove are then not the best ones, whatever its
residual says, so that what they hold is measured: solves give a few variances exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Identity

if TYPE_CHECKING:
    from lgmdsl.engines.iterative.conditioned import IterativeConditioned

LANCZOS = "lanczos"
# How far variances may be off, relative, RMS over so many rows.
CLOSE, CHECKED = 0.01, 16


class Driven:
    """What k Lanczos vectors hold of the variances of some predictors and latents.

    `remark`: a sentence on it; `doubt`: why a run that they drove has not converged, "" where they
    hold enough of the predictors' variances, which is all that the run asked for; `whole`: whether
    they hold enough of the latents' as well.
    """

    def __init__(self, q: IterativeConditioned) -> None:
        size = q.linear.size
        rows = _shares(q, q.engine.own, np.concatenate([np.zeros(0), *q.variance]))
        latents = _shares(q, Identity(size), q.latent_variance)
        held = (
            f"{q.root.shape[1]} Lanczos vectors drove the outer loop and hold "
            f"{_percent(rows)} of the variances of the predictors and {_percent(latents)} of those "
            f"of the latents (by solves for {len(rows)} and {len(latents)} of them)"
        )
        self.doubt = "" if _close(rows) else f"{held}: take more `vectors`, or variances=samples"
        self.whole = _close(rows) and _close(latents)
        self.remark = held if self.whole else f"{held}; what is reported is from samples"


def _shares(q: IterativeConditioned, operator: Operator, variance: Array) -> Array:
    """`variance` of a few rows of the operator over the true ones."""
    rng = np.random.default_rng((q.engine.noise.seed, 7))
    rows = np.sort(rng.permutation(operator.shape[0])[:CHECKED])
    units = np.zeros((operator.shape[0], len(rows)))
    units[rows, np.arange(len(rows))] = 1.0
    columns = operator.rmatvec(units)
    right = np.einsum("ij,ij->j", columns, q.solve(columns))
    known = right > 0.0  # constraints may fix a row
    return np.asarray(variance[rows][known] / right[known])


def _close(share: Array) -> bool:
    return not len(share) or float(np.sqrt(np.mean((share - 1.0) ** 2))) <= CLOSE


def _percent(share: Array) -> str:
    return f"{100.0 * float(share.mean() if len(share) else 1.0):.3g} %"
