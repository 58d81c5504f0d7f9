"""Families of positive numbers, lifetimes among them."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import SD, regression
from lgmdsl.vocabulary.families.declare import CENSORING, GLM, POSITIVE, SHAPE, family, latent
from lgmdsl.vocabulary.signature import Parameter, Signature, also

FAMILIES: tuple[Signature, ...] = (
    family(
        "lognormal", POSITIVE, latent("mean", "mean of log y"),
        Parameter("sd", "positive", meaning="standard deviation of log y"), *CENSORING,
        summary="positive y whose logarithm is normal with a modelled mean", support="y > 0",
        formulas={"mean": "positive, log y ~ N(s, sd^2)"},
        scale="sd is that of log y; the median of y is exp(s), its mean exp(s + sd^2 / 2)",
        example=regression("lognormal(mean = eta, sd = s)", SD, y="positive"),
        also_called=(*also("R-INLA", "lognormalsurv"), *also("BUGS, JAGS", "dlnorm")),
        see_also=("gamma", "weibull", "normal"), source="Crow and Shimizu 1988",
    ),
    family(
        "gamma", POSITIVE, latent("log_mean", "logarithm of the mean of y"),
        Parameter("shape", "positive", meaning="the variance of y is mean^2 / shape"), *CENSORING,
        summary="positive y with a modelled log-mean and a constant coefficient of variation",
        support="y > 0",
        formulas={"log_mean": "positive, mean exp(s), variance mean^2/shape"},
        scale="the coefficient of variation is 1 / sqrt(shape); the rate is shape / mean; the "
              "dispersion of R's Gamma is 1 / shape, R-INLA's precision parameter is shape",
        example=regression("gamma(log_mean = eta, shape = k)", SHAPE, y="positive"),
        also_called=(*also("R-INLA", "gammasurv"), *also("BUGS, JAGS", "dgamma")),
        see_also=("lognormal", "weibull", "exponential"), source=f"{GLM}, chapter 8",
    ),
    family(
        "exponential", POSITIVE, latent("log_rate", "logarithm of the rate, 1 / mean of y"),
        *CENSORING, summary="lifetimes of a constant hazard, with a modelled log-rate",
        support="y > 0",
        formulas={"log_rate": "positive, rate exp(s), mean exp(-s); event 0: still alive at y"},
        scale="the hazard is exp(s) a unit of y; the sd of y equals its mean, exp(-s)",
        example=regression("exponential(log_rate = eta, event = died)", "data died[obs] : binary",
                           y="positive"),
        also_called=(*also("R-INLA", "exponentialsurv"), *also("BUGS, JAGS", "dexp")),
        see_also=("weibull", "gamma", "poisson"), source="Kalbfleisch and Prentice 2002, chapter 2",
    ),
    family(
        "weibull", POSITIVE, latent("log_scale", "logarithm of the scale, in units of log y"),
        Parameter("shape", "positive", meaning="1 is exponential; above 1 the hazard grows"),
        *CENSORING, support="y > 0",
        summary="lifetimes whose hazard grows or falls with time, with a modelled log-scale",
        formulas={"log_scale": "positive, P(Y > y) = exp(-(y / exp(s))^shape); "
                               "event 0: still alive at y"},
        scale="exp(s) is R's scale, where 37 % survive; s is the linear predictor of survreg, "
              "whose scale is 1 / shape; log hazard ratios are -shape times its coefficients",
        example=regression("weibull(log_scale = eta, shape = k, event = died)",
                           "data died[obs] : binary", SHAPE, y="positive"),
        also_called=(
            *also("R-INLA", "weibullsurv"), *also("survival", "survreg"),
            *also("BUGS, JAGS", "dweib"),
        ),
        see_also=("exponential", "lognormal", "gamma"),
        source="Kalbfleisch and Prentice 2002, chapter 2",
    ),
)  # fmt: skip
