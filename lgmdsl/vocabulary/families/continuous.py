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
    or_predictor,
)
from lgmdsl.vocabulary.signature import Parameter, Signature, also

FAMILIES: tuple[Signature, ...] = (
    family(
        "normal", REAL, latent("mean", "mean of y"), *or_predictor(SD_OF_Y),
        Parameter("residual", "latent", one_of="sd", noise=True,
                  meaning="latent that is y - mean: correlated residuals, without further noise"),
        *CENSORING,
        support="all numbers",
        summary="normal with a modelled mean, and log sd, or a modelled log-variance",
        formulas={"mean": "y ~ N(s, sd^2)", "log_var": "y ~ N(mean, exp(s))"},
        scale="sd is the standard deviation of y given the latents (R-INLA's precision is "
              "1 / sd^2); with log_var it is exp(s / 2); log_sd is brms' sigma ~, half of "
              "glmmTMB's dispformula" + CENSORED,
        example=regression("normal(mean = eta, sd = noise)", NOISE),
        also_called=(
            *also("R-INLA, R", "gaussian"), *also("mgcv", "gaulss", "normal(mean, log_sd)"),
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
        *or_predictor(Parameter(
            "scale", "positive", meaning="scale of y; its sd is scale sqrt(df / (df - 2))"
        )),
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
        *or_predictor(Parameter(
            "concentration", "positive",
            meaning="the variance of y is mean (1 - mean) / (1 + concentration)",
        )),
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
    family(
        "skew_normal", REAL, latent("mean", "mean of y"), SD_OF_Y,
        Parameter("skew", "real", meaning="third standardised moment, |skew| < 0.99527"),
        summary="normal noise with a skewness, by its mean, sd and third standardised moment",
        support="all numbers",
        formulas={"mean": "y of mean s, sd sd and skewness skew: Azzalini's skew normal"},
        scale="centred parameters: s is the mean and sd the standard deviation of y whatever the "
              "skew; Azzalini's alpha, brms's, is delta / sqrt(1 - delta^2) with skew = "
              "(4 - pi) / 2 (m / sqrt(1 - m^2))^3, m = sqrt(2 / pi) delta",
        example=regression("skew_normal(mean = eta, sd = noise, skew = g)", NOISE,
                           "hyper g : real ~ uniform(lower = -0.99, upper = 0.99)"),
        also_called=(
            *also("R-INLA", "sn", note="whose skew is the same"),
            *also("SciPy", "skewnorm"),
        ),
        see_also=("normal", "gev", "lognormal"),
        source="Azzalini 1985; Arellano-Valle and Azzalini 2008",
    ),
    family(
        "gev", REAL, latent("location", "location of y"),
        Parameter("scale", "positive", meaning="scale of y"),
        Parameter("shape", "real",
                  meaning="above 0 a heavy upper tail, 0 Gumbel, below 0 an upper end"),
        summary="maxima of blocks (years), with a modelled location",
        support="1 + shape (y - s) / scale > 0",
        formulas={"location": "P(Y <= y) = exp(-(1 + shape (y - s) / scale)^(-1 / shape)), at "
                              "shape 0 exp(-exp(-(y - s) / scale))"},
        scale="shape > 0 is the heavy tail (SciPy's genextreme has c = -shape); the mean is "
              "infinite from shape 1, the variance from 1/2; a shape of -1 or less is refused, as "
              "the likelihood then has no bound",
        example=regression("gev(location = eta, scale = s, shape = xi)", SD,
                           "hyper xi : real ~ uniform(lower = -0.5, upper = 0.5)"),
        also_called=(
            *also("brms", "gen_extreme_value"), *also("mgcv", "gevlss"),
            *also("SciPy", "genextreme", note="with c = -shape"),
            *also("R-INLA", "bgev", note="whose lower tail is blended away"),
        ),
        see_also=("generalized_pareto", "skew_normal"), source="Coles 2001, chapter 3",
    ),
    family(
        "asymmetric_laplace", REAL, latent("quantile", "quantile of y of that level"),
        Parameter("scale", "positive", meaning="of the loss; not the sd of y"),
        Parameter("level", "unit", meaning="level of the quantile, strictly between 0 and 1"),
        summary="quantile regression: the mode is the quantile of a level",
        support="all numbers",
        formulas={"quantile": "y with density level (1 - level) / scale exp(-rho((y - s) / scale)),"
                              " rho(u) = u (level - 1[u < 0])"},
        scale="level 0.5 is laplace of twice the scale; intervals of latents are those of this "
              "density, whatever the noise is",
        example=regression("asymmetric_laplace(quantile = eta, scale = s, level = 0.9)", SD),
        also_called=(
            *also("brms", "asym_laplace"), *also("R", "rq"), *also("R, statsmodels", "QuantReg"),
            *also("Stan", "skew_double_exponential"), *also("R-INLA", "qloglogistic",
                                                        note="a quantile of another family"),
        ),
        see_also=("laplace", "student_t"),
        source="Koenker and Bassett 1978; Yu and Moyeed 2001",
    ),
    family(
        "logistic", REAL, latent("mean", "mean of y"),
        Parameter("scale", "positive", meaning="the sd of y is pi / sqrt(3) scale"),
        summary="logistic noise about a modelled mean: tails between normal and laplace",
        support="all numbers",
        formulas={"mean": "y with density sech^2((y - s) / (2 scale)) / (4 scale)"},
        scale="the sd is 1.81 scale; R's and SciPy's scale",
        example=regression("logistic(mean = eta, scale = s)", SD),
        also_called=also("BUGS, JAGS", "dlogis"),
        see_also=("normal", "student_t", "loglogistic"),
        source="Johnson, Kotz and Balakrishnan 1995, chapter 23",
    ),
)  # fmt: skip
