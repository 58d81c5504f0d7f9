"""Bounds: lift a site that answers one question to another one, with a declared guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee


@dataclass(frozen=True)
class BoundSpec:
    """`asks`: the question (or Site, for log_density) that it uses; `gives`: the one it answers."""

    name: str
    asks: type
    gives: type
    guarantee: Guarantee
    # NUMERICAL: the relative error; LOWER: the largest gap, of one trial for sites to a power n
    # (inf: no largest).
    error: float = 0.0
    paper: str = ""
    summary: str = ""


class Bound(ABC):
    """A frozen dataclass; `lift` returns an object that inherits `spec.gives`.

    Scalar sites: mean and variance (N,). Vector sites: mean (N, K), variance (N, K, K), the whole
    covariance of each site's predictors.
    """

    @property
    @abstractmethod
    def spec(self) -> BoundSpec:
        """What it declares; a ClassVar where it is the same for all of a class."""

    @abstractmethod
    def applies_to(self, site: type[Site]) -> str:
        """Empty where the bound applies to the family, else the reason why not."""

    @abstractmethod
    def lift(self, site: Site) -> object: ...
