"""Bounds: lift a site that answers one question to another one, with a declared guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.vocabulary.notes import NO_NOTES, Notes


@dataclass(frozen=True)
class BoundSpec:
    """`asks`: the question (or Site, for log_density) that it uses; `gives`: the one it answers."""

    name: str
    asks: type
    gives: type
    guarantee: Guarantee
    #: NUMERICAL: the relative error; LOWER: the largest gap, of one trial for sites to a power n
    #: (inf: no largest).
    error: float = 0.0
    paper: str = ""
    summary: str = ""
    notes: Notes = NO_NOTES  #: what else its page in the manual says


class Bound(ABC):
    """A frozen dataclass; `lift` returns an object that inherits `spec.gives`.

    Scalar sites: mean and variance (N,). Vector sites: mean (N, K), variance (N, K, K), the whole
    covariance of each site's predictors.

    A bound from outside: E|s| <= sqrt(m^2 + v), for double exponential sites (what is observed with
    such noise is one on its distance from y).

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> import lgmdsl as lgm
    >>> from lgmdsl.extend import (Array, Bound, BoundSpec, Expected, ExpectedAnswer, Guarantee,
    ...     Site)
    >>> @dataclass(frozen=True, eq=False)
    ... class RootAnswer(Expected):
    ...     site: Site
    ...     def expected(self, mean, variance, second=False):
    ...         m, b = mean, self.site.scale
    ...         r = np.sqrt(m**2 + variance)
    ...         return ExpectedAnswer(
    ...             -r / b - np.log(2 * b), -m / (b * r), -0.5 / (b * r),
    ...             d_mean_variance=0.5 * m / (b * r**3), d_variance2=0.25 / (b * r**3),
    ...             d_mean2=-variance / (b * r**3))
    >>> class Root(Bound):
    ...     spec: ClassVar[BoundSpec] = BoundSpec(
    ...         "root", asks=Site, gives=Expected, guarantee=Guarantee.LOWER, error=np.inf)
    ...     def applies_to(self, site):
    ...         return "" if site.spec.name == "laplace" else "it is for laplace"
    ...     def lift(self, site):
    ...         return RootAnswer(site)
    >>> root = lgm.register(Root())
    >>> m = lgm.Model()
    >>> obs = m.index("obs")
    >>> y = m.data("y", obs, "real")
    >>> a = m.latent("a", [], lgm.normal(sd=2))
    >>> m.observe(y, lgm.laplace(mean=m.let("eta", obs, a), scale=1))
    >>> data = {"y": [0.2, -0.4, 1.1, 0.3]}
    >>> below = lgm.fit(m, data, method="natural-gradient", bound="root")
    >>> exact = lgm.fit(m, data, method="natural-gradient")
    >>> print(below.status, below.guarantee, bool(below.log_evidence < exact.log_evidence))
    converged lower True
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
