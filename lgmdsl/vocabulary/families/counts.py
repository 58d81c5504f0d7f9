"""Families of counts, and of 0 or 1."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import regression
from lgmdsl.vocabulary.families.declare import (
    GLM,
    SHAPE,
    TRIALS,
    family,
    latent,
    or_predictor,
)
from lgmdsl.vocabulary.signature import Parameter, Signature, also

_LOG_MEAN = latent("log_mean", "logarithm of the mean for an exposure of 1")
_EXPOSURE = Parameter("exposure", "positive", required=False, default=1.0,
                      meaning="what the mean is proportional to: time, area, persons")  # fmt: skip
_DISPERSION = "hyper d : positive ~ exponential(rate = 1)"

FAMILIES: tuple[Signature, ...] = (
    family(
        "bernoulli", ("binary",), latent("logit", "log odds of 1", "link"),
        latent("probit", "normal quantile of P(1)", "link"),
        latent("cloglog", "log(-log P(0))", "link"), support="0, 1",
        summary="0 or 1, with the probability of 1 modelled through one of three links",
        formulas={
            "logit": "binary, P(1) = 1 / (1 + exp(-s))", "probit": "binary, P(1) = Phi(s)",
            "cloglog": "binary, P(1) = 1 - exp(-exp(s))",
        },
        scale="no scale of its own: a step of 1 in s is a log odds ratio of 1 (logit), 1 sd of a "
              "normal threshold (probit) or a log hazard ratio of 1 (cloglog)",
        example=regression("bernoulli(logit = eta)", y="binary"),
        also_called=(
            *also("Stan", "bernoulli_logit"),
            *also("scikit-learn", "LogisticRegression logistic"), *also("BUGS, JAGS", "dbern"),
        ),
        see_also=("binomial", "categorical", "ordinal"), source=f"{GLM}, chapter 4",
    ),
    family(
        "binomial", ("count",), Parameter("n", "count", meaning=TRIALS),
        latent("logit", "log odds of a success", "link"),
        latent("probit", "normal quantile of P(success)", "link"),
        latent("cloglog", "log(-log P(failure))", "link"),
        summary="number of successes out of n trials of one probability",
        support="0, 1, ..., n",
        formulas={
            "logit": "y of n, probability 1 / (1 + exp(-s))",
            "probit": "y of n, probability Phi(s)",
            "cloglog": "y of n, probability 1 - exp(-exp(s))",
        },
        scale="no scale of its own: the variance is n p (1 - p); betabinomial, or a normal latent "
              "for each row, takes more",
        example=regression("binomial(n = n, logit = eta)", "data n[obs] : count", y="count"),
        also_called=(
            *also("Stan", "binomial_logit"), *also("BUGS, JAGS", "dbin"), *also("R", "binom"),
            *also("brms", "zero_inflated_binomial",
                  "binomial(n = n, logit = eta, zero_inflation = p)"),
            *also("R-INLA", "zeroinflatedbinomial0", "binomial(n = n, logit = eta, hurdle = p)"),
            *also("R-INLA", "zeroinflatedbinomial1",
                  "binomial(n = n, logit = eta, zero_inflation = p)"),
        ),
        see_also=("bernoulli", "betabinomial", "multinomial"), source=f"{GLM}, chapter 4",
    ),
    family(
        "poisson", ("count",), latent("log_rate", "logarithm of the mean for an exposure of 1"),
        _EXPOSURE, summary="counts of rate exposure * exp(log_rate)", support="0, 1, 2, ...",
        formulas={"log_rate": "counts of mean exposure * exp(s)"},
        scale="the variance is the mean; exposure is R's offset log(exposure), R-INLA's E",
        example=regression("poisson(log_rate = eta, exposure = time)",
                           "data time[obs] : positive", y="count"),
        also_called=(
            *also("mgcv", "ziplss", "poisson(log_rate, hurdle_logit)"),
            *also("Stan", "poisson_log"), *also("BUGS, JAGS", "dpois"), *also("R", "pois"),
            *also("brms", "zero_inflated_poisson", "poisson(log_rate = eta, zero_inflation = p)"),
            *also("brms", "hurdle_poisson", "poisson(log_rate = eta, hurdle = p)"),
            *also("R-INLA", "zeroinflatedpoisson0", "poisson(log_rate = eta, hurdle = p)"),
            *also("R-INLA", "zeroinflatedpoisson1", "poisson(log_rate = eta, zero_inflation = p)"),
            *also("glmmTMB", "truncated_poisson", "poisson(log_rate = eta, truncated = true)"),
        ),
        see_also=("negbinomial", "generalized_poisson", "com_poisson", "binomial"),
        source=f"{GLM}, chapter 6",
    ),
    family(
        "negbinomial", ("count",), _LOG_MEAN,
        *or_predictor(
            Parameter("size", "positive", meaning="the variance of y is mean + mean^2 / size")
        ),
        _EXPOSURE,
        summary="overdispersed counts, variance mean + mean^2/size", support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean m = exposure * exp(s), variance m + m^2 / size"},
        scale="size is the shape of the gamma that multiplies a Poisson mean (of sd "
              "1 / sqrt(size)): R's size, MASS's theta, Stan's phi; infinite size is Poisson",
        example=regression("negbinomial(log_mean = eta, size = k)", SHAPE, y="count"),
        also_called=(
            *also("R-INLA, R", "nbinom"), *also("glmmTMB", "nbinom2"),
            *also("mgcv", "nb negbin"),
            *also("Stan", "neg_binomial neg_binomial_2 neg_binomial_2_log"),
            *also("PyMC", "NegativeBinomial"), *also("BUGS, JAGS", "dnegbin"),
            *also("brms", "zero_inflated_negbinomial",
                  "negbinomial(log_mean = eta, size = k, zero_inflation = p)"),
            *also("brms", "hurdle_negbinomial",
                  "negbinomial(log_mean = eta, size = k, hurdle = p)"),
            *also("R-INLA", "zeroinflatednbinomial0",
                  "negbinomial(log_mean = eta, size = k, hurdle = p)"),
            *also("R-INLA", "zeroinflatednbinomial1",
                  "negbinomial(log_mean = eta, size = k, zero_inflation = p)"),
            *also("glmmTMB", "truncated_nbinom2",
                  "negbinomial(log_mean = eta, size = k, truncated = true)"),
        ),
        see_also=("poisson", "negbinomial1", "gamma"), source="Lawless 1987",
    ),
    family(
        "negbinomial1", ("count",), _LOG_MEAN,
        *or_predictor(Parameter(
            "dispersion", "positive", meaning="the variance of y is mean (1 + dispersion)"
        )),
        _EXPOSURE,
        summary="overdispersed counts whose variance is a multiple of the mean",
        support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean m = exposure * exp(s), "
                              "variance m * (1 + dispersion)"},
        scale="a negative binomial of size m / dispersion; a dispersion of 0 is Poisson; quasi-"
              "Poisson's dispersion is 1 + dispersion",
        example=regression("negbinomial1(log_mean = eta, dispersion = d)", _DISPERSION, y="count"),
        also_called=(
            *also("glmmTMB", "nbinom1"),
            *also("gamlss", "NBII", note="whose sigma is the dispersion"),
            *also("glmmTMB", "truncated_nbinom1",
                  "negbinomial1(log_mean = eta, dispersion = d, truncated = true)"),
        ),
        see_also=("negbinomial", "generalized_poisson", "com_poisson", "poisson"),
        source="Cameron and Trivedi 1998, section 3.3 (NB1); Hardin and Hilbe 2007",
    ),
    family(
        "betabinomial", ("count",), Parameter("n", "count", meaning=TRIALS),
        latent("logit", "log odds of the mean probability of success", "link"),
        latent("probit", "normal quantile of that mean", "link"),
        latent("cloglog", "log(-log(1 - that mean))", "link"),
        *or_predictor(Parameter(
            "concentration", "positive",
            meaning="how alike probabilities are: their variance is "
                    "p (1 - p) / (1 + concentration)",
        )),
        summary="successes out of n trials whose probability varies from row to row",
        support="0, 1, ..., n",
        formulas={
            "logit": "y of n, probability ~ Beta(concentration p, concentration (1 - p)), "
                     "p = 1 / (1 + exp(-s))",
            "probit": "the same with p = Phi(s)",
            "cloglog": "the same with p = 1 - exp(-exp(s))",
        },
        scale="the variance is n p (1 - p) (concentration + n) / (concentration + 1); infinite "
              "concentration is binomial; 1 / (1 + concentration) is the correlation of two trials",
        example=regression("betabinomial(n = n, logit = eta, concentration = c)",
                           "data n[obs] : count",
                           "hyper c : positive ~ lognormal(mean = 2, sd = 1)", y="count"),
        also_called=(
            *also("brms, Stan", "beta_binomial"), *also("gamlss, VGAM", "BB"),
            *also("BUGS, JAGS", "dbetabin"),
            *also("brms", "zero_inflated_beta_binomial",
                  "betabinomial(n = n, logit = eta, concentration = k, zero_inflation = p)"),
            *also("R-INLA", "zeroinflatedbetabinomial0",
                  "betabinomial(n = n, logit = eta, concentration = k, hurdle = p)"),
            *also("R-INLA", "zeroinflatedbetabinomial1",
                  "betabinomial(n = n, logit = eta, concentration = k, zero_inflation = p)"),
        ),
        see_also=("binomial", "beta", "dirichlet_multinomial"), source="Crowder 1978",
    ),
    family(
        "generalized_poisson", ("count",), _LOG_MEAN,
        Parameter("dispersion", "positive",
                  meaning="the variance of y is dispersion * mean; at least 1"),
        _EXPOSURE,
        summary="overdispersed counts with a longer tail than the negative binomial's",
        support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean m = exposure * exp(s), variance dispersion * m"},
        scale="Consul's theta is m / sqrt(dispersion), his lambda 1 - 1 / sqrt(dispersion); "
              "1 is Poisson; below 1 the density is not normalised: write 1 + d for a hyper "
              "d : positive",
        example=regression("generalized_poisson(log_mean = eta, dispersion = 1 + d)", _DISPERSION,
                           y="count"),
        also_called=(
            *also("glmmTMB", "genpois"),
            *also("R-INLA", "gpoisson", note="with p = 1, whose dispersion is (1 + phi)^2"),
            *also("glmmTMB", "truncated_genpois",
                  "generalized_poisson(log_mean = eta, dispersion = d, truncated = true)"),
        ),
        see_also=("negbinomial1", "com_poisson", "poisson"), source="Consul 1989",
    ),
    family(
        "com_poisson", ("count",), _LOG_MEAN,
        Parameter("dispersion", "positive",
                  meaning="about variance / mean; 1 is Poisson, below 1 underdispersed"),
        _EXPOSURE,
        summary="under- or overdispersed counts: Conway-Maxwell-Poisson by its mean",
        support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean exposure * exp(s), P(y) proportional to "
                              "lambda^y / (y!)^(1 / dispersion)"},
        scale="lambda is such that the mean is exposure * exp(s); the variance is about "
              "dispersion * mean, and tends to mean + mean^2 (geometric) for large dispersions",
        example=regression("com_poisson(log_mean = eta, dispersion = d)",
                           "hyper d : positive ~ lognormal(mean = 0, sd = 1)", y="count"),
        also_called=(
            *also("glmmTMB", "compois"), *also("mpcmp", "glm.cmp"),
            *also("glmmTMB", "truncated_compois",
                  "com_poisson(log_mean = eta, dispersion = d, truncated = true)"),
        ),
        see_also=("generalized_poisson", "negbinomial1", "poisson"), source="Huang 2017",
    ),
)  # fmt: skip
