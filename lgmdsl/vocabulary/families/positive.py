"""Families of positive numbers, lifetimes among them."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import SD, model, regression
from lgmdsl.vocabulary.families.declare import (
    CENSORING,
    GLM,
    NONNEGATIVE,
    POSITIVE,
    SHAPE,
    family,
    latent,
    or_predictor,
)
from lgmdsl.vocabulary.modifiers import ENTRY, EVENT
from lgmdsl.vocabulary.signature import Parameter, Signature, also

FAMILIES: tuple[Signature, ...] = (
    family(
        "lognormal", POSITIVE, latent("mean", "mean of log y"),
        *or_predictor(Parameter("sd", "positive", meaning="standard deviation of log y")),
        *CENSORING,
        summary="positive y whose logarithm is normal with a modelled mean", support="y > 0",
        formulas={"mean": "positive, log y ~ N(s, sd^2)"},
        scale="sd is that of log y; the median of y is exp(s), its mean exp(s + sd^2 / 2)",
        example=regression("lognormal(mean = eta, sd = s)", SD, y="positive"),
        also_called=(
            *also("R-INLA", "lognormalsurv"), *also("BUGS, JAGS", "dlnorm"),
            *also("brms", "hurdle_lognormal", "lognormal(mean = eta, sd = s, hurdle = p)"),
        ),
        see_also=("gamma", "weibull", "normal"), source="Crow and Shimizu 1988",
    ),
    family(
        "gamma", POSITIVE, latent("log_mean", "logarithm of the mean of y"),
        *or_predictor(
            Parameter("shape", "positive", meaning="the variance of y is mean^2 / shape")
        ),
        *CENSORING,
        summary="positive y with a modelled log-mean and a constant coefficient of variation",
        support="y > 0",
        formulas={"log_mean": "positive, mean exp(s), variance mean^2/shape"},
        scale="the coefficient of variation is 1 / sqrt(shape); the rate is shape / mean; the "
              "dispersion of R's Gamma is 1 / shape, R-INLA's precision parameter is shape",
        example=regression("gamma(log_mean = eta, shape = k)", SHAPE, y="positive"),
        also_called=(
            *also("mgcv", "gammals", "gamma(log_mean, log_shape)"), *also("R-INLA", "gammasurv"),
            *also("BUGS, JAGS", "dgamma"),
            *also("brms", "hurdle_gamma", "gamma(log_mean = eta, shape = k, hurdle = p)"),
            *also("glmmTMB", "ziGamma", "gamma(log_mean = eta, shape = k, hurdle = p)"),
        ),
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
        *or_predictor(
            Parameter("shape", "positive", meaning="1 is exponential; above 1 the hazard grows")
        ),
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
    family(
        "inverse_gaussian", POSITIVE, latent("log_mean", "logarithm of the mean of y"),
        Parameter("shape", "positive", meaning="the variance of y is mean^3 / shape"), *CENSORING,
        summary="positive y of a modelled log-mean whose variance grows with the cube of the mean",
        support="y > 0",
        formulas={"log_mean": "positive, mean exp(s), variance mean^3/shape: the first passage of "
                              "a Brownian motion with drift"},
        scale="the sd is mean^(3/2) / sqrt(shape); shape is in the unit of y; R's dispersion is "
              "1 / shape",
        example=regression("inverse_gaussian(log_mean = eta, shape = k)", SHAPE, y="positive"),
        also_called=(
            *also("R, SciPy", "invgauss"), *also("PyMC", "Wald"), *also("mgcv", "ig"),
        ),
        see_also=("gamma", "lognormal", "generalized_gamma"),
        source="Tweedie 1957; McCullagh and Nelder 1989, chapter 2",
    ),
    family(
        "loglogistic", POSITIVE, latent("log_scale", "logarithm of the median of y"),
        Parameter("shape", "positive", meaning="above 1 the hazard rises, then falls"), *CENSORING,
        summary="lifetimes whose log odds of survival fall linearly in log time, with a modelled "
                "log-median",
        support="y > 0",
        formulas={"log_scale": "positive, P(Y > y) = 1 / (1 + (y / exp(s))^shape)"},
        scale="exp(s) is the median; log y is logistic about s with scale 1 / shape, survreg's "
              "scale; the mean is infinite up to shape = 1, the variance up to 2",
        example=regression("loglogistic(log_scale = eta, shape = k)", SHAPE, y="positive"),
        also_called=(
            *also("R-INLA", "loglogisticsurv"), *also("flexsurv", "llogis"),
            *also("SciPy", "fisk"),
        ),
        see_also=("weibull", "lognormal", "logistic"),
        source="Bennett 1983; Kalbfleisch and Prentice 2002, chapter 2",
    ),
    family(
        "gompertz", POSITIVE, latent("log_rate", "logarithm of the hazard at time 0"),
        Parameter("shape", "real", meaning="by how much the log hazard rises in a unit of y"),
        *CENSORING,
        summary="lifetimes whose log hazard is linear in time: ageing (shape > 0), or a share that "
                "never fails (shape < 0)",
        support="y > 0",
        formulas={"log_rate": "positive, hazard exp(s + shape y), "
                              "P(Y > y) = exp(-exp(s) (exp(shape y) - 1) / shape)"},
        scale="shape is one over the unit of y; 0 is exponential; below 0 a share "
              "exp(exp(s) / shape) never fails: mean and variance are then infinite, and draws of "
              "those are inf",
        example=regression("gompertz(log_rate = eta, shape = k)",
                           "hyper k : real ~ normal(sd = 0.5)", y="positive"),
        also_called=also("R-INLA", "gompertzsurv"),
        see_also=("exponential", "weibull", "piecewise_exponential"),
        source="Gompertz 1825; Jackson 2016",
    ),
    family(
        "generalized_gamma", POSITIVE, latent("location", "location of log y"),
        Parameter("scale", "positive", meaning="scale of log y"),
        Parameter("shape", "real",
                  meaning="0 is lognormal, 1 Weibull, shape = scale gamma; below 0 a heavy tail"),
        *CENSORING,
        summary="positive y by location, scale and shape of log y: lognormal, Weibull and gamma "
                "are among it, and the shape says which",
        support="y > 0",
        formulas={"location": "positive, log y = s + scale w, w = log(shape^2 g) / shape, "
                              "g ~ Gamma(1 / shape^2, 1)"},
        scale="shape 1 is weibull with log_scale = s and its shape 1 / scale; at shape 0 scale is "
              "the sd of log y; the mean is infinite where scale shape <= -1",
        example=regression("generalized_gamma(location = eta, scale = s, shape = q)", SD,
                           "hyper q : real ~ normal(sd = 1)", y="positive"),
        also_called=(
            *also("flexsurv", "gengamma", note="Prentice's mu, sigma, Q"),
            *also("R-INLA", "ggamma ggammasurv", note="another parametrisation"),
        ),
        see_also=("lognormal", "weibull", "gamma"), source="Prentice 1974; Stacy 1962",
    ),
    family(
        "generalized_pareto", NONNEGATIVE,
        latent("log_scale", "logarithm of the scale of the excess"),
        Parameter("shape", "real",
                  meaning="above 0 a heavy tail of power 1 / shape; below 0 y has an end"),
        *CENSORING,
        summary="excesses over a high threshold, with a modelled log-scale",
        support="y >= 0; y < exp(s) / |shape| where shape < 0",
        formulas={"log_scale": "P(Y > y) = (1 + shape y / exp(s))^(-1 / shape), at shape 0 "
                               "exp(-y / exp(s))"},
        scale="shape > 0 is the heavy tail, as in SciPy's genpareto and R-INLA's gp; the mean is "
              "infinite from shape 1, the variance from 1/2; a shape of -1 or less is refused, as "
              "the likelihood then has no bound",
        example=regression("generalized_pareto(log_scale = eta, shape = xi)",
                           "hyper xi : real ~ uniform(lower = -0.5, upper = 0.9)", y="positive"),
        also_called=(
            *also("R-INLA", "gp dgp", note="by a quantile"), *also("SciPy", "genpareto"),
            *also("R", "gpd"),
        ),
        see_also=("gev", "exponential"), source="Davison and Smith 1990; Coles 2001, chapter 4",
    ),
    family(
        "tweedie", NONNEGATIVE, latent("log_mean", "logarithm of the mean of y"),
        Parameter("dispersion", "positive", meaning="the variance of y is dispersion mean^power"),
        Parameter("power", "positive",
                  meaning="between 1 (Poisson) and 2 (gamma): how the variance grows"),
        summary="0 or positive: sums of a Poisson number of gamma terms (rain, claims, catches)",
        support="y >= 0",
        formulas={"log_mean": "0 or positive, mean exp(s), variance dispersion * exp(power * s)"},
        scale="P(0) = exp(-exp((2 - power) s) / (dispersion (2 - power))); dispersion has the unit "
              "of y^(2 - power); write 1 + p for a hyper p : unit",
        example=regression(
            "tweedie(log_mean = eta, dispersion = d, power = 1 + p)",
            "hyper d : positive ~ lognormal(mean = 0, sd = 1)",
            "hyper p : unit ~ beta(a = 2, b = 2)", y="nonnegative",
        ),
        also_called=(
            *also("mgcv", "tw"), *also("R", "dtweedie"),
        ),
        see_also=("gamma", "poisson", "lognormal"), source="Jorgensen 1997; Dunn and Smyth 2005",
    ),
    family(
        "piecewise_exponential", POSITIVE,
        latent("log_hazard", "log hazard in each piece of time", over="piece"),
        Parameter("breaks", "positive", over="inner", known=True,
                  meaning="the times between the pieces, increasing"),
        EVENT, ENTRY,
        summary="lifetimes whose hazard is constant within pieces of time: Cox regression with "
                "frailties, smooth hazards, effects that change over time",
        support="y > 0",
        formulas={"log_hazard": "positive, hazard exp(s[k]) in (breaks[k - 1], breaks[k]]: "
                                "sum event s - exp(s) (time in the piece); event 0: still alive "
                                "at y"},
        scale="exp(s) is the hazard a unit of y; coefficients are log hazard ratios; with a piece "
              "for each event time they are coxph's (Breslow) where times of censoring and entry "
              "between two event times are moved back to the earlier of them, and near to them "
              "otherwise; "
              "the Poisson terms' constant, event log(time), is left out, so that log evidences "
              "are those of the lifetimes",
        example=model(
            "index obs", "index piece = 3", "index inner = head(piece)", "data x[obs] : real",
            "data y[obs] : positive", "data died[obs] : binary",
            "data breaks[inner] : positive", SD,
            "latent level ~ normal(sd = 5)", "latent shape[piece] ~ rw1(sd = s)",
            "latent effect ~ normal(sd = 2)",
            "let eta[obs, piece] = level + shape[piece] + effect * x",
            "observe y ~ piecewise_exponential(log_hazard = eta, breaks = breaks, event = died)",
        ),
        also_called=(
            *also("R-INLA", "inla.coxph"), *also("survival", "Surv"),
            *also("survival, R-INLA, mgcv", "coxph"), *also("brms", "cox"),
            *also("pammtools", "pamm"),
        ),
        see_also=("exponential", "gompertz", "weibull", "poisson", "rw1"),
        source="Holford 1980; Laird and Olivier 1981; Breslow 1974",
    ),
)  # fmt: skip
