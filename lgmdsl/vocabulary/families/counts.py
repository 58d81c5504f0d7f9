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
        summary="number of successes out of n trials of one probability",
        support="0, 1, ..., n",
        formulas={
            "logit": "y of n, probability 1 / (1 + exp(-s))",
            "probit": "y of n, probability Phi(s)",
        },
        scale="no scale of its own: the variance is n p (1 - p); a normal latent for each row "
              "takes more",
        example=regression("binomial(n = n, logit = eta)", "data n[obs] : count", y="count"),
        also_called=(
            *also("Stan", "binomial_logit"), *also("BUGS, JAGS", "dbin"), *also("R", "binom"),
        ),
        see_also=("bernoulli", "multinomial", "beta"), source=f"{GLM}, chapter 4",
    ),
    family(
        "poisson", ("count",), latent("log_rate", "logarithm of the mean for an exposure of 1"),
        Parameter("exposure", "positive", required=False, default=1.0,
                  meaning="what the mean is proportional to: time, area, persons"),
        summary="counts of rate exposure * exp(log_rate)", support="0, 1, 2, ...",
        formulas={"log_rate": "counts of mean exposure * exp(s)"},
        scale="the variance is the mean; exposure is R's offset log(exposure), R-INLA's E",
        example=regression("poisson(log_rate = eta, exposure = time)",
                           "data time[obs] : positive", y="count"),
        also_called=(
            *also("Stan", "poisson_log"), *also("BUGS, JAGS", "dpois"), *also("R", "pois"),
        ),
        see_also=("negbinomial", "binomial", "exponential"), source=f"{GLM}, chapter 6",
    ),
    family(
        "negbinomial", ("count",), latent("log_mean", "logarithm of the mean of y"),
        *or_predictor(
            Parameter("size", "positive", meaning="the variance of y is mean + mean^2 / size")
        ),
        summary="overdispersed counts, variance mean + mean^2/size", support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean exp(s), variance exp(s) + exp(2 s) / size"},
        scale="size is the shape of the gamma that multiplies a Poisson mean (of sd "
              "1 / sqrt(size)): R's size, MASS's theta, Stan's phi; infinite size is Poisson",
        example=regression("negbinomial(log_mean = eta, size = k)", SHAPE, y="count"),
        also_called=(
            *also("R-INLA, R", "nbinom"), *also("glmmTMB", "nbinom2"),
            *also("mgcv", "nb negbin"),
            *also("Stan", "neg_binomial neg_binomial_2 neg_binomial_2_log"),
            *also("PyMC", "NegativeBinomial"), *also("BUGS, JAGS", "dnegbin"),
        ),
        see_also=("poisson", "gamma"), source="Lawless 1987",
    ),
)  # fmt: skip
