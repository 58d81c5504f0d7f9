"""Observation families. The first `latent` argument names the link and, with it, the site."""

# Long because each family is declared with all that its page says.

from __future__ import annotations

from lgmdsl.vocabulary.examples import NOISE, SD, model, regression
from lgmdsl.vocabulary.modifiers import CENSORING
from lgmdsl.vocabulary.signature import Alias, Over, Parameter, Signature, also

# Data of a narrower type may be observed where a wider one is expected.
REAL = ("real", "positive", "nonnegative", "unit", "integer", "count")
POSITIVE = ("positive", "unit")

# event: 1 observed, 0 right-censored at y. lower, upper: the ends of the interval in which y is
# known to lie, open where missing; observed at y where both are missing or equal.
_CENSORING = CENSORING


def _latent(name: str, meaning: str, one_of: str = "", over: Over = "left") -> Parameter:
    return Parameter(name, "latent", one_of=one_of, over=over, meaning=meaning)


def _family(
    name: str,
    observed: tuple[str, ...],
    *parameters: Parameter,
    summary: str,
    formulas: dict[str, str],
    support: str,
    scale: str = "",
    example: str = "",
    see_also: tuple[str, ...] = (),
    also_called: tuple[Alias, ...] = (),
    source: str = "",
    other: Signature | None = None,
    ordered: bool = False,
) -> Signature:
    return Signature(
        name,
        "family",
        parameters,
        observed=observed,
        summary=summary,
        other=other,
        ordered_axis=ordered,
        formulas=tuple(formulas.items()),
        support=support,
        scale=scale,
        example=example,
        see_also=see_also,
        also_called=also_called,
        source=source,
    )


_SD = Parameter("sd", "positive", meaning="standard deviation of y")
_N = "number of trials"
_SHAPE = "hyper k : positive ~ lognormal(mean = 0, sd = 1)"
_GLM = "McCullagh and Nelder 1989"
_CENSORED = "; event, lower and upper censor y"
_CLASSES = ('index class = {"bus", "car", "train"}', "data y[obs] : class")

FAMILIES: tuple[Signature, ...] = (
    _family(
        "normal", REAL, _latent("mean", "mean of y"), _SD, *_CENSORING, support="all numbers",
        summary="normal with a modelled mean, or a modelled log-variance",
        formulas={"mean": "y ~ N(s, sd^2)", "log_var": "y ~ N(mean, exp(s))"},
        scale="sd is the standard deviation of y given the latents (R-INLA's precision is "
              "1 / sd^2); with log_var it is exp(s / 2)" + _CENSORED,
        example=regression("normal(mean = eta, sd = noise)", NOISE),
        also_called=(
            *also("R-INLA, R", "gaussian"), *also("mgcv", "gaulss", "normal(mean, log_var)"),
            *also("R-INLA", "stochvol", "normal(log_var)"), *also("BUGS, JAGS", "dnorm"),
            *also("R", "gauss"),
        ),
        see_also=("student_t", "lognormal", "pc_sd"), source=f"{_GLM}, chapter 3",
        other=_family(
            "normal", REAL,
            Parameter("mean", "real", required=False, default=0.0, meaning="mean of y"),
            _latent("log_var", "logarithm of the variance of y"), support="all numbers",
            summary="normal with a modelled log-variance",
            formulas={"log_var": "y ~ N(mean, exp(s))"},
        ),
    ),
    _family(
        "student_t", REAL, _latent("mean", "centre of y, its mean where df > 1"),
        Parameter("scale", "positive", meaning="scale of y; its sd is scale sqrt(df / (df - 2))"),
        Parameter("df", "positive", meaning="degrees of freedom"), *_CENSORING,
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
    _family(
        "laplace", REAL, _latent("mean", "mean of y"),
        Parameter("scale", "positive", meaning="mean absolute deviation; the sd is sqrt(2) scale"),
        *_CENSORING, summary="double exponential about a modelled mean: median regression",
        support="all numbers",
        formulas={"mean": "y with density exp(-|y - s| / scale) / (2 scale)"},
        scale="scale is the mean absolute deviation; the sd of y is sqrt(2) scale",
        example=regression("laplace(mean = eta, scale = s)", SD),
        also_called=(*also("Stan", "double_exponential"), *also("BUGS, JAGS", "ddexp")),
        see_also=("student_t", "normal"), source="Koenker and Bassett 1978",
    ),
    _family(
        "lognormal", POSITIVE, _latent("mean", "mean of log y"),
        Parameter("sd", "positive", meaning="standard deviation of log y"), *_CENSORING,
        summary="positive y whose logarithm is normal with a modelled mean", support="y > 0",
        formulas={"mean": "positive, log y ~ N(s, sd^2)"},
        scale="sd is that of log y; the median of y is exp(s), its mean exp(s + sd^2 / 2)",
        example=regression("lognormal(mean = eta, sd = s)", SD, y="positive"),
        also_called=(*also("R-INLA", "lognormalsurv"), *also("BUGS, JAGS", "dlnorm")),
        see_also=("gamma", "weibull", "normal"), source="Crow and Shimizu 1988",
    ),
    _family(
        "gamma", POSITIVE, _latent("log_mean", "logarithm of the mean of y"),
        Parameter("shape", "positive", meaning="the variance of y is mean^2 / shape"), *_CENSORING,
        summary="positive y with a modelled log-mean and a constant coefficient of variation",
        support="y > 0",
        formulas={"log_mean": "positive, mean exp(s), variance mean^2/shape"},
        scale="the coefficient of variation is 1 / sqrt(shape); the rate is shape / mean; the "
              "dispersion of R's Gamma is 1 / shape, R-INLA's precision parameter is shape",
        example=regression("gamma(log_mean = eta, shape = k)", _SHAPE, y="positive"),
        also_called=(*also("R-INLA", "gammasurv"), *also("BUGS, JAGS", "dgamma")),
        see_also=("lognormal", "weibull", "exponential"), source=f"{_GLM}, chapter 8",
    ),
    _family(
        "beta", ("unit",), _latent("logit_mean", "logit of the mean of y"),
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
        example=regression("beta(logit_mean = eta, concentration = k)", _SHAPE, y="unit"),
        also_called=(
            *also("mgcv", "betar"), *also("glmmTMB", "beta_family"),
            *also("BUGS, JAGS", "dbeta"), *also("Stan", "beta_proportion"),
        ),
        see_also=("binomial", "gamma"), source="Ferrari and Cribari-Neto 2004",
    ),
    _family(
        "exponential", POSITIVE, _latent("log_rate", "logarithm of the rate, 1 / mean of y"),
        *_CENSORING, summary="lifetimes of a constant hazard, with a modelled log-rate",
        support="y > 0",
        formulas={"log_rate": "positive, rate exp(s), mean exp(-s); event 0: still alive at y"},
        scale="the hazard is exp(s) a unit of y; the sd of y equals its mean, exp(-s)",
        example=regression("exponential(log_rate = eta, event = died)", "data died[obs] : binary",
                           y="positive"),
        also_called=(*also("R-INLA", "exponentialsurv"), *also("BUGS, JAGS", "dexp")),
        see_also=("weibull", "gamma", "poisson"), source="Kalbfleisch and Prentice 2002, chapter 2",
    ),
    _family(
        "weibull", POSITIVE, _latent("log_scale", "logarithm of the scale, in units of log y"),
        Parameter("shape", "positive", meaning="1 is exponential; above 1 the hazard grows"),
        *_CENSORING, support="y > 0",
        summary="lifetimes whose hazard grows or falls with time, with a modelled log-scale",
        formulas={"log_scale": "positive, P(Y > y) = exp(-(y / exp(s))^shape); "
                               "event 0: still alive at y"},
        scale="exp(s) is R's scale, where 37 % survive; s is the linear predictor of survreg, "
              "whose scale is 1 / shape; log hazard ratios are -shape times its coefficients",
        example=regression("weibull(log_scale = eta, shape = k, event = died)",
                           "data died[obs] : binary", _SHAPE, y="positive"),
        also_called=(
            *also("R-INLA", "weibullsurv"), *also("survival", "survreg"),
            *also("BUGS, JAGS", "dweib"),
        ),
        see_also=("exponential", "lognormal", "gamma"),
        source="Kalbfleisch and Prentice 2002, chapter 2",
    ),
    _family(
        "bernoulli", ("binary",), _latent("logit", "log odds of 1", "link"),
        _latent("probit", "normal quantile of P(1)", "link"),
        _latent("cloglog", "log(-log P(0))", "link"), support="0, 1",
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
        see_also=("binomial", "categorical", "ordinal"), source=f"{_GLM}, chapter 4",
    ),
    _family(
        "binomial", ("count",), Parameter("n", "count", meaning=_N),
        _latent("logit", "log odds of a success", "link"),
        _latent("probit", "normal quantile of P(success)", "link"),
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
        see_also=("bernoulli", "multinomial", "beta"), source=f"{_GLM}, chapter 4",
    ),
    _family(
        "poisson", ("count",), _latent("log_rate", "logarithm of the mean for an exposure of 1"),
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
        see_also=("negbinomial", "binomial", "exponential"), source=f"{_GLM}, chapter 6",
    ),
    _family(
        "negbinomial", ("count",), _latent("log_mean", "logarithm of the mean of y"),
        Parameter("size", "positive", meaning="the variance of y is mean + mean^2 / size"),
        summary="overdispersed counts, variance mean + mean^2/size", support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean exp(s), variance exp(s) + exp(2 s) / size"},
        scale="size is the shape of the gamma that multiplies a Poisson mean (of sd "
              "1 / sqrt(size)): R's size, MASS's theta, Stan's phi; infinite size is Poisson",
        example=regression("negbinomial(log_mean = eta, size = k)", _SHAPE, y="count"),
        also_called=(
            *also("R-INLA, R", "nbinom"), *also("glmmTMB", "nbinom2"),
            *also("mgcv", "nb negbin"),
            *also("Stan", "neg_binomial neg_binomial_2 neg_binomial_2_log"),
            *also("PyMC", "NegativeBinomial"), *also("BUGS, JAGS", "dnegbin"),
        ),
        see_also=("poisson", "gamma"), source="Lawless 1987",
    ),
    _family(
        "ordinal", ("index",), _latent("logit", "location on the logistic scale", "link"),
        _latent("probit", "location on the normal scale", "link"),
        Parameter("cuts", "ordered", over="cut", meaning="thresholds between the classes"),
        # Of the stereotype model only: a score of each class; only differences matter.
        Parameter("scores", "ordered", required=False, over="class",
                  meaning="a score of each class; only differences matter (stereotype model)"),
        Parameter(
            "model", "string", required=False, default="cumulative",
            choices=("cumulative", "continuation", "stereotype", "adjacent"),
            meaning="which probabilities the cuts divide",
        ),
        ordered=True, support="the classes of an index in their order",
        summary="one of several ordered classes, by a location and the cuts between classes",
        formulas={
            "logit": "ordered classes, P(y <= j) = 1 / (1 + exp(s - cuts[j]))",
            "probit": "ordered classes, P(y <= j) = Phi(cuts[j] - s)",
            "logit.continuation":
                "ordered classes, P(y = j | y >= j) = 1 / (1 + exp(s - cuts[j]))",
            "probit.continuation": "ordered classes, P(y = j | y >= j) = Phi(cuts[j] - s)",
            "logit.adjacent": "ordered classes, log P(y = j + 1) / P(y = j) = s - cuts[j]",
            "logit.stereotype": "ordered classes, log P(y = j + 1) / P(y = j) = "
                                "step of the scores * (s - cuts[j])",
            "probit.adjacent": "ordered classes, P(y = j + 1 | j or j + 1) = Phi(s - cuts[j])",
            "probit.stereotype": "ordered classes, P(y = j + 1 | j or j + 1) = "
                                 "Phi(step of the scores * (s - cuts[j]))",
        },
        scale="no scale of its own: cuts and s are in units of the logistic (sd 1.81) or the "
              "standard normal; signs are those of MASS's polr; no intercept next to the cuts",
        example=model(
            "index obs", 'index score = {"poor", "fair", "good"}', "index cut = head(score)",
            "data x[obs] : real", "data y[obs] : score",
            "hyper c[cut] : ordered ~ normal(sd = 3)", "latent b ~ normal(sd = 2)",
            "let eta[obs] = b * x", "observe y ~ ordinal(logit = eta, cuts = c)",
        ),
        also_called=(
            *also("Stan, PyMC", "ordered_logistic", "ordinal(logit, cuts)"),
            *also("Stan", "ordered_probit", "ordinal(probit, cuts)"), *also("R-INLA", "pom"),
            *also("brms", "cumulative"),
            *also("brms", "sratio", 'ordinal(logit, cuts, model = "continuation")'),
            *also("brms", "acat", 'ordinal(logit, cuts, model = "adjacent")'),
            *also("mgcv", "ocat"), *also("MASS, ordinal", "polr clm"),
        ),
        see_also=("categorical", "bernoulli", "head", "ordered"),
        source="McCullagh 1980; Anderson 1984 (stereotype); Agresti 2010, section 4.1 (adjacent)",
    ),
    _family(
        "categorical", ("index",),
        _latent("softmax", "a predictor of each class, or of all but the last", "link", "classes"),
        _latent("stick", "log odds of each class but the last among those left", "link", "cut"),
        _latent("probit", "a predictor of each class", "link", "class"),
        Parameter("available", "binary", required=False, over="class", blank=1.0,
                  meaning="1 where a class can be chosen"),
        summary="one of several classes, by a predictor of each class",
        support="the classes of an index",
        formulas={
            "softmax": "one of K classes, P(k) = exp(s_k) / sum_j exp(s_j)",
            "stick": "classes, P(y = k | y >= k) = 1 / (1 + exp(-s[k]))",
            "probit": "one of K classes, the largest of s_k plus standard normal noise",
        },
        scale="no scale of its own; with a predictor of each class only their differences are "
              "determined: hold one at 0 by `constrain`, or give predictors over `head` of the "
              "classes (softmax), whose last class is the reference",
        example=model(
            "index obs", *_CLASSES, "index rest = head(class)", "data x[obs] : real",
            "latent a[rest] ~ normal(sd = 3)", "latent b[rest] ~ normal(sd = 2)",
            "let eta[obs, rest] = a + b * x", "observe y ~ categorical(softmax = eta)",
        ),
        also_called=(
            *also("Stan", "categorical_logit", "categorical(softmax)"),
            *also("nnet, mgcv", "multinom", "categorical(softmax)"), *also("BUGS, JAGS", "dcat"),
        ),
        see_also=("multinomial", "ordinal", "bernoulli", "constrain"),
        source="McFadden 1974 (softmax); Khan et al. 2012 (stick); Girolami and Rogers 2006 "
               "(probit)",
    ),
    _family(
        "multinomial", ("count",), Parameter("n", "count", over="rest", meaning=_N),
        _latent("softmax", "a predictor of each class, or of all but the last", over="last"),
        summary="counts over classes that add up to n, by a predictor of each class",
        support="counts that add up to n",
        formulas={"softmax": "counts over K classes that add up to n"},
        scale="no scale of its own: P(k) = exp(s_k) / sum_j exp(s_j); with a predictor of each "
              "class only differences are determined",
        example=model(
            "index obs", 'index class = {"a", "b", "c"}', "data x[obs] : real",
            "data n[obs] : count", "data y[obs, class] : count",
            "latent a[class] ~ normal(sd = 3)", "latent b[class] ~ normal(sd = 2)",
            "let eta[obs, class] = a + b * x", "observe y ~ multinomial(n = n, softmax = eta)",
            'constrain a["a"] = 0', 'constrain b["a"] = 0',
        ),
        also_called=(*also("Stan", "multinomial_logit"), *also("BUGS, JAGS", "dmulti")),
        see_also=("categorical", "binomial", "poisson"), source=f"{_GLM}, chapter 5",
    ),
    _family(
        "admixture", ("count",), _latent("softmax", "a predictor of each topic", over="topic"),
        Parameter("emission", "simplex", over="emission",
                  meaning="the probability of each word under each topic"),
        summary="counts of words from a mixture of topics: topic models, ancestry",
        support="counts of each word",
        formulas={"softmax": "counts of words, P(word) = sum_k softmax(s)_k emission[k, word]"},
        scale="no scale of its own: softmax(s) are the shares of the topics",
        example=model(
            "index letter", "index word", "index topic = 2", "data n[letter, word] : count",
            "hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.1)",
            "latent z[letter, topic] ~ normal(sd = 1)",
            "observe n ~ admixture(softmax = z, emission = beta)",
        ),
        see_also=("multinomial", "dirichlet", "simplex"), source="Blei and Lafferty 2006",
    ),
)  # fmt: skip
