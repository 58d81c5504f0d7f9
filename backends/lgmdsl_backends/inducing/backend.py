"""The variational Gaussian whose covariance differs from the prior's in few directions.

Titsias 2009 (inducing points as variational parameters) and Hensman et al. 2015 (for sites that are
not Gaussian); the thesis's sparse approximations of the posterior (Khan 2012, section 6.4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.engine import Confinement
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Guarantee
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also
from lgmdsl_backends.inducing.directions import directions_of


@dataclass(frozen=True)
class Inducing(NaturalAscent):
    """Natural-gradient ascent on the ELBO over q(z) = p(z | u) q(u), `directions` entries in u."""

    directions: int = option(50, "latents of each dense block that q is free in, at least 1")
    memory: int = option(6, "how many past steps Anderson's candidate combines, at least 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="inducing",
        needs=Expected,
        confined=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=100,
        paper="Titsias 2009; Hensman, Matthews and Ghahramani 2015; Khan 2012, section 6.4.5",
        summary="variational Gaussian, free in few directions of each gp, the prior in the others",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over q(z) = p(z | u) q(u), u "
            "`directions` latents of each block, by pivoted Cholesky of its prior covariance",
            support="every site that natural-gradient takes; blocks that are independent, sparse "
            "(rw1, besag), improper or constrained, or have fewer latents, are kept whole",
            advice="below the bound of natural-gradient, and equal to it with as many directions "
            "as the prior has; raise `directions` until the bound no longer rises",
            example="lgm fit gp.lgm data.npz --method inducing --option directions=30",
            see_also=("natural-gradient", "mean-field", "gp", "lower"),
            also_called=(*also("GPflow, GPyTorch", "SVGP SGPR VFE"),),
        ),
    )

    def __post_init__(self) -> None:
        check_least("directions", self.directions, 1)
        check_least("memory", self.memory, 1)

    def confinement(self, linear: LinearGaussian) -> Confinement | None:
        return directions_of(self.directions, linear)
