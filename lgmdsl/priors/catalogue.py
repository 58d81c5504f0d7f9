"""The hyperpriors by name. A new prior is one class and one line here."""

from __future__ import annotations

from dataclasses import fields

from lgmdsl.errors import Diagnostic, ModelError
from lgmdsl.priors.bounded import Beta, Uniform
from lgmdsl.priors.covariance import GraphicalLasso, InvWishart, LkjCov
from lgmdsl.priors.flat import Flat
from lgmdsl.priors.location import Normal
from lgmdsl.priors.pc_correlation import PcCor0, PcCor1
from lgmdsl.priors.pc_df import PcDf
from lgmdsl.priors.pc_mix import PcMix
from lgmdsl.priors.pc_scale import PcRange, PcSd
from lgmdsl.priors.positive import (
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InvGamma,
    Lognormal,
)
from lgmdsl.priors.prior import Prior
from lgmdsl.priors.simplex import Dirichlet

BUILT_IN: tuple[type[Prior], ...] = (
    PcSd,
    PcCor0,
    PcCor1,
    PcMix,
    PcRange,
    PcDf,
    Exponential,
    HalfNormal,
    HalfCauchy,
    Normal,
    Lognormal,
    Gamma,
    InvGamma,
    Beta,
    Uniform,
    LkjCov,
    InvWishart,
    Dirichlet,
    GraphicalLasso,
    Flat,
)

PRIORS: dict[str, type[Prior]] = {p.name: p for p in BUILT_IN}


def prior(name: str, type_: str, **arguments: object) -> Prior:
    """The prior `name` of a hyper of that type. Raises Unsuitable (E303)."""
    cls = PRIORS[name]
    if cls.signature is not None:
        arguments = {**cls.signature.defaults, **arguments}
    if any(f.name == "type" for f in fields(cls)):
        arguments["type"] = type_
    return cls(**arguments)


def register_prior(cls: type[Prior]) -> type[Prior]:
    """Add a third party's prior; usable as a decorator. Raises ModelError E106 (name taken)."""
    if PRIORS.setdefault(cls.name, cls) is not cls:
        raise ModelError(
            Diagnostic(
                "E106",
                f"a hyperprior called `{cls.name}` exists already",
                help="give the new one another name",
            )
        )
    return cls
