"""The site families by name. A new family is one file and one line here, or `register_site`."""

from __future__ import annotations

from lgmdsl.contract.catalogue import Catalogue, part
from lgmdsl.contract.classes import Split
from lgmdsl.contract.site import Site
from lgmdsl.errors import ModelError, suggestion
from lgmdsl.vocabulary import plugins

SITES: Catalogue[type[Site]] = Catalogue(
    {
        "normal.mean": part("lgmdsl.sites.scalar.normal", "NormalMean"),
        "bernoulli.logit": part("lgmdsl.sites.scalar.logistic", "BernoulliLogit"),
        "bernoulli.probit": part("lgmdsl.sites.scalar.probit", "BernoulliProbit"),
        "bernoulli.cloglog": part("lgmdsl.sites.scalar.cloglog", "BernoulliCloglog"),
        "binomial.logit": part("lgmdsl.sites.scalar.logistic", "BinomialLogit"),
        "binomial.probit": part("lgmdsl.sites.scalar.probit", "BinomialProbit"),
        "binomial.cloglog": part("lgmdsl.sites.scalar.cloglog", "BinomialCloglog"),
        "poisson.log_rate": part("lgmdsl.sites.scalar.exponential_rate", "PoissonLogRate"),
        "negbinomial.log_mean": part("lgmdsl.sites.scalar.negbinomial", "NegbinomialLogMean"),
        "negbinomial1.log_mean": part("lgmdsl.sites.counts.negbinomial1", "Negbinomial1LogMean"),
        "betabinomial.logit": part("lgmdsl.sites.counts.betabinomial", "BetabinomialLogit"),
        "betabinomial.probit": part("lgmdsl.sites.counts.betabinomial", "BetabinomialProbit"),
        "betabinomial.cloglog": part("lgmdsl.sites.counts.betabinomial", "BetabinomialCloglog"),
        "generalized_poisson.log_mean": part(
            "lgmdsl.sites.counts.generalized_poisson", "GeneralizedPoissonLogMean"
        ),
        "com_poisson.log_mean": part("lgmdsl.sites.counts.com_poisson", "ComPoissonLogMean"),
        "tweedie.log_mean": part("lgmdsl.sites.counts.tweedie", "TweedieLogMean"),
        "gamma.log_mean": part("lgmdsl.sites.scalar.exponential_rate", "GammaLogMean"),
        "lognormal.mean": part("lgmdsl.sites.scalar.normal", "LognormalMean"),
        "exponential.log_rate": part("lgmdsl.sites.scalar.survival", "ExponentialLogRate"),
        "weibull.log_scale": part("lgmdsl.sites.scalar.survival", "WeibullLogScale"),
        "inverse_gaussian.log_mean": part(
            "lgmdsl.sites.positive.inverse_gaussian", "InverseGaussianLogMean"
        ),
        "loglogistic.log_scale": part("lgmdsl.sites.positive.loglogistic", "LoglogisticLogScale"),
        "gompertz.log_rate": part("lgmdsl.sites.positive.gompertz", "GompertzLogRate"),
        "generalized_gamma.location": part(
            "lgmdsl.sites.positive.generalized_gamma", "GeneralizedGammaLocation"
        ),
        "generalized_pareto.log_scale": part(
            "lgmdsl.sites.scalar.extremes", "GeneralizedParetoLogScale"
        ),
        "beta.logit_mean": part("lgmdsl.sites.scalar.beta", "BetaLogitMean"),
        "student_t.mean": part("lgmdsl.sites.scalar.student_t", "StudentTMean"),
        "laplace.mean": part("lgmdsl.sites.scalar.laplace", "LaplaceMean"),
        "skew_normal.mean": part("lgmdsl.sites.scalar.skew_normal", "SkewNormalMean"),
        "gev.location": part("lgmdsl.sites.scalar.extremes", "GevLocation"),
        "asymmetric_laplace.quantile": part(
            "lgmdsl.sites.scalar.asymmetric_laplace", "AsymmetricLaplaceQuantile"
        ),
        "logistic.mean": part("lgmdsl.sites.scalar.logistic", "LogisticMean"),
        "normal.log_var": part("lgmdsl.sites.scalar.exponential_rate", "NormalLogVar"),
        "categorical.softmax": part("lgmdsl.sites.vector.softmax", "CategoricalSoftmax"),
        "categorical.probit": part("lgmdsl.sites.vector.multinomial_probit", "CategoricalProbit"),
        "multinomial.softmax": part("lgmdsl.sites.vector.softmax", "MultinomialSoftmax"),
        "dirichlet.softmax": part("lgmdsl.sites.vector.dirichlet", "DirichletSoftmax"),
        "dirichlet_multinomial.softmax": part(
            "lgmdsl.sites.vector.dirichlet", "DirichletMultinomialSoftmax"
        ),
        "admixture.softmax": part("lgmdsl.sites.vector.admixture", "AdmixtureSoftmax"),
        "normal.mean.censored": part("lgmdsl.sites.censored.families", "NormalCensored"),
        "student_t.mean.censored": part("lgmdsl.sites.censored.families", "StudentTCensored"),
        "laplace.mean.censored": part("lgmdsl.sites.censored.laplace", "LaplaceCensored"),
        "lognormal.mean.censored": part("lgmdsl.sites.censored.families", "LognormalCensored"),
        "gamma.log_mean.censored": part("lgmdsl.sites.censored.families", "GammaCensored"),
        "exponential.log_rate.censored": part(
            "lgmdsl.sites.censored.families", "ExponentialCensored"
        ),
        "weibull.log_scale.censored": part("lgmdsl.sites.censored.families", "WeibullCensored"),
        "ordinal.logit": part("lgmdsl.sites.ordinal.cumulative", "OrdinalLogit"),
        "ordinal.probit": part("lgmdsl.sites.ordinal.cumulative", "OrdinalProbit"),
        "ordinal.logit.continuation": part(
            "lgmdsl.sites.ordinal.continuation", "ContinuationLogit"
        ),
        "ordinal.probit.continuation": part(
            "lgmdsl.sites.ordinal.continuation", "ContinuationProbit"
        ),
        "ordinal.logit.adjacent": part("lgmdsl.sites.ordinal.adjacent", "AdjacentLogit"),
        "ordinal.logit.stereotype": part("lgmdsl.sites.ordinal.adjacent", "StereotypeLogit"),
        "ordinal.probit.adjacent": part("lgmdsl.sites.ordinal.adjacent", "AdjacentProbit"),
        "ordinal.probit.stereotype": part("lgmdsl.sites.ordinal.adjacent", "StereotypeProbit"),
        "normal": part("lgmdsl.sites.scalar.normal", "NormalPotential"),
        "laplace": part("lgmdsl.sites.scalar.laplace", "LaplacePotential"),
        "asymmetric_laplace": part(
            "lgmdsl.sites.scalar.asymmetric_laplace", "AsymmetricLaplacePotential"
        ),
        "student_t": part("lgmdsl.sites.scalar.student_t", "StudentTPotential"),
        "sech2": part("lgmdsl.sites.scalar.logistic", "Sech2Potential"),
        "logistic": part("lgmdsl.sites.scalar.logistic", "LogisticPotential"),
        "exp_power": part("lgmdsl.sites.scalar.exp_power", "ExpPowerPotential"),
        # rewritten by the compiler (`contract.classes.Split`): no back end ever sees one
        "piecewise_exponential.log_hazard": part(
            "lgmdsl.sites.vector.piecewise", "PiecewiseExponential"
        ),
        "categorical.stick": part("lgmdsl.sites.vector.stick", "CategoricalStick"),
    }
)


def sites() -> tuple[type[Site], ...]:
    """All families that reach the back ends, the built-in ones first."""
    plugins.load()
    return tuple(s for s in SITES.values() if not issubclass(s, Split))


def families() -> tuple[type[Site], ...]:
    """All families that a model can name: those that the compiler rewrites come last."""
    return (*sites(), *(s for s in SITES.values() if issubclass(s, Split)))


def find_site(name: str) -> type[Site] | None:
    """The family called `name`, a rewritten one too, or None."""
    if name not in SITES:
        plugins.load()
    return SITES.get(name)


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
    if SITES.get(name, cls) is not cls:
        raise ModelError.of(
            "E106", f"a site called `{name}` exists already", help="choose another name"
        )
    SITES[name] = cls
    return cls


def unregister_site(name: str) -> None:
    """Take a registered family out again; an unknown one is no error."""
    SITES.pop(name, None)


def _required(name: str, cls: type[Site] | None) -> type[Site]:
    if cls is not None:
        return cls
    known = list(SITES)
    remedy = suggestion(name, known, then=f"Sites: {' '.join(known)}")
    raise ModelError.of("E103", f"unknown site `{name}`", help=remedy)
