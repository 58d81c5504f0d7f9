"""The fits at fixed hyperparameters that a posterior is a mixture of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned, Rows


@dataclass(frozen=True, eq=False)
class HyperPoint:
    """`share`: the posterior weight of theta; `weight`, `shift`: the sites' W and b there;
    `condition()`: the Gaussian q(z | theta), conditioned at every call or cached."""

    theta: Theta
    share: float
    log_evidence: float
    weight: Rows
    shift: Rows
    condition: Callable[[], Conditioned]

    def held(self) -> HyperPoint:
        """The point, which keeps its Gaussian once it has been asked for."""
        return replace(self, condition=cache(self.condition))
