"""Families of real numbers and of proportions."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import NOISE, SD, regression
from lgmdsl.vocabulary.families.declare import (
    CENSORED,
    CENSORING,
    GLM,
    REAL,
    SD_OF_Y,
    SHAPE,
    family,
    latent,
)
from lgmdsl.vocabulary.signature import Parameter, Signature, also

FAMILIES: tuple[Signature, ...] = (
    family(
        "normal", REAL, latent("mean", "mean of y"), SD_OF_Y, *CENSORING, support="all numbers",
        summary="normal with a modelled mean, or a modelled log-variance",
        formulas={"mean": "y ~ N(s, sd^2)", "log_var": "y ~ N(mean, exp(s))"},
        scale="sd is the standard deviation of y given the latents (R-INLA's precision is "
              "1 / sd^2); with log_var it is exp(s / 2)" + CENSORED,
        example=regression("normal(mean = eta, sd = noise)", NOISE),
        also_called=(
            *also("R-INLA, R", "gaussian"), *also("mgcv", "gaulss", "normal(mean, log_var)"),
            *also("R-INLA", "stochvol", "normal(log_var)"), *also("BUGS, JAGS", "dnorm"),
            *also("R", "gauss"),
        ),
        see_also=("student_t", "lognormal", "pc_sd"), source=f"{GLM}, chapter 3",
        other=family(
            "normal", REAL,
            Parameter("mean", "real", required=False, default=0.0, meaning="mean of y"),
            latent("log_var", "logarithm of the variance of y"), support="all numbers",
            summary="normal with a modelled log-variance",
            formulas={"log_var": "y ~ N(mean, exp(s))"},
        ),
    ),
    family(
        "student_t", REAL, latent("mean", "centre of y, its mean where df > 1"),
        Parameter("scale", "positive", meaning="scale of y; its sd is scale sqrt(df / (df - 2))"),
        Parameter("df", "positive", meaning="degrees of freedom"), *CENSORING,
        summary="Student's t about a modelled mean: a regression that outliers do not pull",
        support="all numbers", formulas={"mean": "y = s + scale * Student-t with df"},
        scale="the sd of y is scale sqrt(df / (df - 2)) where df > 2: R-INLA's T is in terms of "
              "that sd, brms and Stan of scale",
        example=regression("student_t(mean = eta, scale = s, df = d)", SD,
                           "hyper d : positive ~ pc_df(u = 5, alpha = 0.3)"),
        also_called=(
            *also("R-INLA", "T"), *also("brms", "student"), *also("glmmTMB", "t_family"),
            *also("mgcv", "scat"), *also("PyMC", "StudentT"), *also("BUGS, JAGS", "dt"),
        ),
        see_also=("normal", "laplace", "pc_df"), source="Lange, Little and Taylor 1989",
    ),
    family(
        "laplace", REAL, latent("mean", "mean of y"),
        Parameter("scale", "positive", meaning="mean absolute deviation; the sd is sqrt(2) scale"),
        *CENSORING, summary="double exponential about a modelled mean: median regression",
        support="all numbers",
        formulas={"mean": "y with density exp(-|y - s| / scale) / (2 scale)"},
        scale="scale is the mean absolute deviation; the sd of y is sqrt(2) scale",
        example=regression("laplace(mean = eta, scale = s)", SD),
        also_called=(*also("Stan", "double_exponential"), *also("BUGS, JAGS", "ddexp")),
        see_also=("student_t", "normal"), source="Koenker and Bassett 1978",
    ),
    family(
        "beta", ("unit",), latent("logit_mean", "logit of the mean of y"),
        Parameter(
            "concentration", "positive",
            meaning="the variance of y is mean (1 - mean) / (1 + concentration)",
        ),
        summary="proportions strictly between 0 and 1, with a modelled logit of the mean",
        support="0 < y < 1",
        formulas={"logit_mean": "in (0, 1), mean 1 / (1 + exp(-s)), "
                                "variance mean (1-mean) / (1+concentration)"},
        scale="y ~ Beta(concentration mean, concentration (1 - mean)); concentration is the phi "
              "of betareg and of R-INLA's beta",
        example=regression("beta(logit_mean = eta, concentration = k)", SHAPE, y="unit"),
        also_called=(
            *also("mgcv", "betar"), *also("glmmTMB", "beta_family"),
            *also("BUGS, JAGS", "dbeta"), *also("Stan", "beta_proportion"),
        ),
        see_also=("binomial", "gamma"), source="Ferrari and Cribari-Neto 2004",
    ),
)  # fmt: skip
