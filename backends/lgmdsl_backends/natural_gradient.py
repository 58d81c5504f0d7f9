"""The variational Gaussian by natural gradients: the default solver of its objective
(`contract.objectives.natural_ascent`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Guarantee
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also


@dataclass(frozen=True)
class NaturalGradient(NaturalAscent):
    """Natural-gradient ascent on the ELBO, profiled over the mean and accelerated.

    `memory`: how many past steps Anderson's candidate combines.
    """

    memory: int = option(6, "how many past steps Anderson's candidate combines, at least 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="natural-gradient",
        needs=Expected,
        additive=True,
        eliminates=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        scout="laplace",
        max_steps=100,
        paper="Khan and Lin 2017; Challis and Barber 2013 (the objective)",
        summary="variational Gaussian: the best Gaussian in KL(q || p); a lower bound",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V), by "
            "natural gradients in (W, b), accelerated",
            support="every site that answers averages over a Gaussian, by itself, through "
            "quadrature or a bound",
            advice="what auto takes first: accurate means and a lower bound of the evidence; sds "
            "are a little small for heavy tails",
            example="lgm fit logit.lgm data.npz --method natural-gradient --bound jaakkola",
            see_also=("laplace", "ep", "opper-archambeau", "cholesky", "quadrature"),
            also_called=(*also("Stan, PyMC", "advi variational fullrank"), *also("GPflow", "VGP")),
        ),
    )

    def __post_init__(self) -> None:
        check_least("memory", self.memory, 1)
