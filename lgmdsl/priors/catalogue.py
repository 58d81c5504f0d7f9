"""The hyperpriors by name. A new prior is one class and one line here."""

from __future__ import annotations

from dataclasses import fields

from lgmdsl.contract.catalogue import Catalogue, part
from lgmdsl.errors import ModelError
from lgmdsl.priors.prior import Prior

PRIORS: Catalogue[type[Prior]] = Catalogue(
    {
        "pc_sd": part("lgmdsl.priors.positive", "PcSd"),
        "pc_cor0": part("lgmdsl.priors.pc_correlation", "PcCor0"),
        "pc_cor1": part("lgmdsl.priors.pc_correlation", "PcCor1"),
        "pc_mix": part("lgmdsl.priors.pc_mix", "PcMix"),
        "pc_range": part("lgmdsl.priors.positive", "PcRange"),
        "pc_df": part("lgmdsl.priors.pc_df", "PcDf"),
        "exponential": part("lgmdsl.priors.positive", "Exponential"),
        "half_normal": part("lgmdsl.priors.positive", "HalfNormal"),
        "half_cauchy": part("lgmdsl.priors.positive", "HalfCauchy"),
        "half_student_t": part("lgmdsl.priors.location", "HalfStudentT"),
        "normal": part("lgmdsl.priors.location", "Normal"),
        "student_t": part("lgmdsl.priors.location", "StudentT"),
        "cauchy": part("lgmdsl.priors.location", "Cauchy"),
        "logistic": part("lgmdsl.priors.location", "Logistic"),
        "lognormal": part("lgmdsl.priors.positive", "Lognormal"),
        "gamma": part("lgmdsl.priors.positive", "Gamma"),
        "inv_gamma": part("lgmdsl.priors.positive", "InvGamma"),
        "beta": part("lgmdsl.priors.bounded", "Beta"),
        "uniform": part("lgmdsl.priors.bounded", "Uniform"),
        "lkj_cov": part("lgmdsl.priors.covariance", "LkjCov"),
        "inv_wishart": part("lgmdsl.priors.covariance", "InvWishart"),
        "dirichlet": part("lgmdsl.priors.bounded", "Dirichlet"),
        "graphical_lasso": part("lgmdsl.priors.covariance", "GraphicalLasso"),
        "flat": part("lgmdsl.priors.bounded", "Flat"),
    }
)


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
        raise ModelError.of(
            "E106",
            f"a hyperprior called `{cls.name}` exists already",
            help="give the new one another name",
        )
    return cls
