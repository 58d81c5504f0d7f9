"""How far off what a fit reports may be: the largest estimated errors, and how they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lgmdsl.accuracy.better import Better
from lgmdsl.accuracy.limits import MEAN, QUANTILE, SD

EXACT = "exact"
NONE = "none"


@dataclass(frozen=True)
class Accuracy:
    """The largest estimated error of what a fit reports.

    `mean`: of a mean, in posterior sds; `sd`: of an sd, relative (0.1: 10 % too large or too
    small); `quantile`: of a 5 or 95 % point, in posterior sds; `evidence`: log p(y) less the
    reported log evidence, in nats, signed. `worst`: whose error is farthest beyond what is
    tolerated, as `b[age]`; "" where nothing is off. `basis`: how this is known: `exact`,
    `second-order correction`, `bound of the second-order correction` (errors are at most these),
    `importance sampling`, `exact sampler`, `exact by quadrature of ...`, or `none: ` and why;
    numbers are NaN where it is none.
    """

    mean: float
    sd: float
    quantile: float
    evidence: float
    worst: str
    basis: str

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return not self.basis.startswith(NONE)

    @property
    def within(self) -> bool:
        """Whether all that was estimated is within what is tolerated."""
        return self.within_times(1.0)

    def within_times(self, times: float) -> bool:
        """Whether it is within so many times what is tolerated."""
        limits = ((self.mean, MEAN), (self.sd, SD), (self.quantile, QUANTILE))
        return not any(error > times * limit for error, limit in limits)

    @classmethod
    def exact(cls) -> Accuracy:
        """Accuracy of a fit whose sites are all Gaussian: no errors."""
        return cls(0.0, 0.0, 0.0, 0.0, "", EXACT)

    @classmethod
    def none(cls, why: str) -> Accuracy:
        """Where nothing can be said."""
        return cls(math.nan, math.nan, math.nan, math.nan, "", f"{NONE}: {why}")


@dataclass(frozen=True)
class Off:
    """An entry of a named scalar or array that is off, and by how many times what is tolerated."""

    name: str
    place: int
    times: float


def basis(known: Better) -> str:
    """How the errors are known."""
    if known.weighed is not None:
        return "importance sampling"
    if known.bounded:
        return "bound of the second-order correction"
    return "second-order correction" + ", by draws" * known.sampled
