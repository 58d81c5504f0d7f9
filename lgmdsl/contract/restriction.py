"""Sets of Gaussians smaller than all of them, in which a back end may keep q."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian

# The engine of a model, or of a part of one. Raises MethodError where there is none.
MakeEngine: TypeAlias = Callable[[LinearGaussian], Engine]


class Restriction(ABC):
    """A set of Gaussians. Of sites (W, b), q is its member nearest to p(z) exp(-1/2 s'Ws + b's):

        log_normaliser(W, b) = max over q of E_q[log p(z) - 1/2 s'Ws + b's - log q(z)]

    in KL(q || .). That is at most the log normaliser of all Gaussians. Its derivatives are E_q[s]
    in b and -1/2 E_q[ss'] in W, and those in the prior and in B are partial ones at fixed q: an
    evidence made of it is a lower bound with the gradients that back ends and learning take, and
    objectives of (W, b) hold as they are. What does not is that q is p(z) exp(-1/2 s'Ws + b's) up
    to a constant: that Gaussian is `Conditioned.unrestricted`.
    """

    @property
    @abstractmethod
    def note(self) -> str:
        """What every fit says of q, in one clause."""

    @abstractmethod
    def engine(self, whole: Engine, make: MakeEngine) -> Engine:
        """The engine that conditions under it, for the model of `whole`, whose answers are exact;
        `make` gives engines of parts of that model."""
