"""The site families by name. A new family is one file and one line here, or `register_site`."""

from __future__ import annotations

from lgmdsl.contract.classes import Split
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, ModelError, suggestion
from lgmdsl.sites.censored.families import (
    ExponentialCensored,
    GammaCensored,
    LognormalCensored,
    NormalCensored,
    StudentTCensored,
    WeibullCensored,
)
from lgmdsl.sites.ordinal.adjacent import AdjacentLogit, StereotypeLogit
from lgmdsl.sites.ordinal.adjacent_probit import AdjacentProbit, StereotypeProbit
from lgmdsl.sites.ordinal.continuation import ContinuationLogit, ContinuationProbit
from lgmdsl.sites.ordinal.cumulative import OrdinalLogit, OrdinalProbit
from lgmdsl.sites.scalar.beta import BetaLogitMean
from lgmdsl.sites.scalar.cloglog import BernoulliCloglog
from lgmdsl.sites.scalar.exp_power import ExpPowerPotential
from lgmdsl.sites.scalar.exponential_rate import GammaLogMean, PoissonLogRate
from lgmdsl.sites.scalar.laplace import LaplaceMean, LaplacePotential
from lgmdsl.sites.scalar.log_variance import NormalLogVar
from lgmdsl.sites.scalar.logistic import (
    BernoulliLogit,
    BinomialLogit,
    LogisticPotential,
    Sech2Potential,
)
from lgmdsl.sites.scalar.lognormal import LognormalMean
from lgmdsl.sites.scalar.negbinomial import NegbinomialLogMean
from lgmdsl.sites.scalar.normal import NormalMean, NormalPotential
from lgmdsl.sites.scalar.probit import BernoulliProbit, BinomialProbit
from lgmdsl.sites.scalar.student_t import StudentTMean, StudentTPotential
from lgmdsl.sites.scalar.survival import ExponentialLogRate, WeibullLogScale
from lgmdsl.sites.vector.admixture import AdmixtureSoftmax
from lgmdsl.sites.vector.multinomial_probit import CategoricalProbit
from lgmdsl.sites.vector.softmax import CategoricalSoftmax, MultinomialSoftmax
from lgmdsl.sites.vector.stick import CategoricalStick
from lgmdsl.vocabulary import plugins

BUILT_IN: tuple[type[Site], ...] = (
    NormalMean,
    BernoulliLogit,
    BernoulliProbit,
    BernoulliCloglog,
    BinomialLogit,
    BinomialProbit,
    PoissonLogRate,
    NegbinomialLogMean,
    GammaLogMean,
    LognormalMean,
    ExponentialLogRate,
    WeibullLogScale,
    BetaLogitMean,
    StudentTMean,
    LaplaceMean,
    NormalLogVar,
    CategoricalSoftmax,
    CategoricalProbit,
    MultinomialSoftmax,
    AdmixtureSoftmax,
    NormalCensored,
    StudentTCensored,
    LognormalCensored,
    GammaCensored,
    ExponentialCensored,
    WeibullCensored,
    OrdinalLogit,
    OrdinalProbit,
    ContinuationLogit,
    ContinuationProbit,
    AdjacentLogit,
    StereotypeLogit,
    AdjacentProbit,
    StereotypeProbit,
    NormalPotential,
    LaplacePotential,
    StudentTPotential,
    Sech2Potential,
    LogisticPotential,
    ExpPowerPotential,
)

# Families that the compiler rewrites (`contract.classes.Split`): no back end ever sees one.
REWRITTEN: tuple[type[Site], ...] = (CategoricalStick,)

_SITES: dict[str, type[Site]] = {s.spec.name: s for s in (*BUILT_IN, *REWRITTEN)}


def sites() -> tuple[type[Site], ...]:
    """All families that reach the back ends, the built-in ones first."""
    plugins.load()
    return tuple(s for s in _SITES.values() if not issubclass(s, Split))


def families() -> tuple[type[Site], ...]:
    """All families that a model can name: those that the compiler rewrites come last."""
    return (*sites(), *(s for s in _SITES.values() if issubclass(s, Split)))


def find_site(name: str) -> type[Site] | None:
    """The family called `name`, a rewritten one too, or None."""
    if name not in _SITES:
        plugins.load()
    return _SITES.get(name)


def site(name: str) -> type[Site]:
    """The family called `name`: family.argument, or a potential's. Raises ModelError E103."""
    family = find_site(name)
    return _required(name, None if family is not None and issubclass(family, Split) else family)


def family(name: str) -> type[Site]:
    """The family called `name`, a rewritten one too. Raises ModelError E103."""
    return _required(name, find_site(name))


def register_site(cls: type[Site]) -> type[Site]:
    """Add a third party's family; usable as a decorator. Raises ModelError E106 (name taken)."""
    name = cls.spec.name
    if _SITES.get(name, cls) is not cls:
        raise ModelError(
            Diagnostic("E106", f"a site called `{name}` exists already", help="choose another name")
        )
    _SITES[name] = cls
    return cls


def unregister_site(name: str) -> None:
    """Take a registered family out again; an unknown one is no error."""
    _SITES.pop(name, None)


def _required(name: str, cls: type[Site] | None) -> type[Site]:
    if cls is not None:
        return cls
    known = list(_SITES)
    remedy = suggestion(name, known, then=f"Sites: {' '.join(known)}")
    raise ModelError(Diagnostic("E103", f"unknown site `{name}`", help=remedy))
