"""What a back end hands back: a Gaussian in canonical form and the evidence it claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Adjoints, Conditioned, Rows
from lgmdsl.contract.status import Guarantee


@dataclass(frozen=True)
class GaussianPosterior:
    """q(z) proportional to p(z) exp(-1/2 s'Ws + b's): everything follows from (weight, shift).

    `log_evidence` = log_normaliser + the sum of the sites' corrections. `slopes`, where a back end
    gives them: dlog_evidence/dparameter of each site block, one value a site; they and the adjoints
    make the gradient in the hyperparameters. `adjoints`: those of log_evidence, where (W, b) are
    not such that its slope in them is zero; None: conditioned.adjoints().
    """

    weight: Rows
    shift: Rows
    conditioned: Conditioned
    log_evidence: float
    guarantee: Guarantee
    notes: tuple[str, ...] = ()
    slopes: Callable[[], tuple[Mapping[str, Array], ...]] | None = None
    adjoints: Callable[[], Adjoints] | None = None
