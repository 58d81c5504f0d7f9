"""Observation families. The first `latent` argument names the link and, with it, the site."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Over, Parameter, Signature

# Data of a narrower type may be observed where a wider one is expected.
REAL = ("real", "positive", "unit", "integer", "count")
POSITIVE = ("positive", "unit")

# event: 1 observed, 0 right-censored at y. lower, upper: the ends of the interval in which y is
# known to lie, open where missing; observed at y where both are missing or equal.
_EVENT = Parameter(
    "event",
    "binary",
    required=False,
    blank=1.0,
    meaning="1 where y was observed, 0 where it is right-censored at y",
)
_CENSORING = (
    _EVENT,
    Parameter(
        "lower",
        "real",
        required=False,
        open=True,
        meaning="lower end of the interval of y; missing where that end is open",
    ),
    Parameter(
        "upper",
        "real",
        required=False,
        open=True,
        meaning="upper end of the interval of y; missing where that end is open",
    ),
)


def _latent(name: str, meaning: str, one_of: str = "", over: Over = "left") -> Parameter:
    return Parameter(name, "latent", one_of=one_of, over=over, meaning=meaning)


def _family(
    name: str,
    observed: tuple[str, ...],
    *parameters: Parameter,
    summary: str,
    formulas: dict[str, str],
    other: Signature | None = None,
    ordered: bool = False,
    support: str = "",
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
    )


_SD = Parameter("sd", "positive", meaning="standard deviation of y")
_N = "number of trials"

FAMILIES: tuple[Signature, ...] = (
    _family(
        "normal", REAL, _latent("mean", "mean of y"), _SD, *_CENSORING, support="all numbers",
        summary="normal with a modelled mean, or a modelled log-variance",
        formulas={"mean": "y ~ N(s, sd^2)", "log_var": "y ~ N(mean, exp(s))"},
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
        summary="Student's t about a modelled mean", support="all numbers",
        formulas={"mean": "y = s + scale * Student-t with df"},
    ),
    _family(
        "laplace", REAL, _latent("mean", "mean of y"),
        Parameter("scale", "positive", meaning="mean absolute deviation; the sd is sqrt(2) scale"),
        *_CENSORING, summary="double exponential about a modelled mean", support="all numbers",
        formulas={"mean": "y with density exp(-|y - s| / scale) / (2 scale)"},
    ),
    _family(
        "lognormal", POSITIVE, _latent("mean", "mean of log y"),
        Parameter("sd", "positive", meaning="standard deviation of log y"), *_CENSORING,
        summary="log y is normal with a modelled mean", support="y > 0",
        formulas={"mean": "positive, log y ~ N(s, sd^2)"},
    ),
    _family(
        "gamma", POSITIVE, _latent("log_mean", "logarithm of the mean of y"),
        Parameter("shape", "positive", meaning="the variance of y is mean^2 / shape"), *_CENSORING,
        summary="gamma with a modelled log-mean", support="y > 0",
        formulas={"log_mean": "positive, mean exp(s), variance mean^2/shape"},
    ),
    _family(
        "beta", ("unit",), _latent("logit_mean", "logit of the mean of y"),
        Parameter(
            "concentration", "positive",
            meaning="the variance of y is mean (1 - mean) / (1 + concentration)",
        ),
        summary="beta with a modelled logit of the mean", support="0 < y < 1",
        formulas={"logit_mean": "in (0, 1), mean 1 / (1 + exp(-s)), "
                                "variance mean (1-mean) / (1+concentration)"},
    ),
    _family(
        "exponential", POSITIVE, _latent("log_rate", "logarithm of the rate, 1 / mean of y"),
        *_CENSORING, summary="exponential with a modelled log-rate", support="y > 0",
        formulas={"log_rate": "positive, rate exp(s), mean exp(-s); event 0: still alive at y"},
    ),
    _family(
        "weibull", POSITIVE, _latent("log_scale", "logarithm of the scale, in units of log y"),
        Parameter("shape", "positive", meaning="1 is exponential; above 1 the hazard grows"),
        *_CENSORING, summary="Weibull with a modelled log-scale", support="y > 0",
        formulas={"log_scale": "positive, P(Y > y) = exp(-(y / exp(s))^shape); "
                               "event 0: still alive at y"},
    ),
    _family(
        "bernoulli", ("binary",), _latent("logit", "log odds of 1", "link"),
        _latent("probit", "normal quantile of P(1)", "link"),
        _latent("cloglog", "log(-log P(0))", "link"), summary="0 or 1", support="0, 1",
        formulas={
            "logit": "binary, P(1) = 1 / (1 + exp(-s))", "probit": "binary, P(1) = Phi(s)",
            "cloglog": "binary, P(1) = 1 - exp(-exp(s))",
        },
    ),
    _family(
        "binomial", ("count",), Parameter("n", "count", meaning=_N),
        _latent("logit", "log odds of a success", "link"),
        _latent("probit", "normal quantile of P(success)", "link"),
        summary="successes out of n", support="0, 1, ..., n",
        formulas={
            "logit": "y of n, probability 1 / (1 + exp(-s))",
            "probit": "y of n, probability Phi(s)",
        },
    ),
    _family(
        "poisson", ("count",), _latent("log_rate", "logarithm of the mean for an exposure of 1"),
        Parameter("exposure", "positive", required=False, default=1.0,
                  meaning="what the mean is proportional to: time, area, persons"),
        summary="counts of rate exposure * exp(log_rate)", support="0, 1, 2, ...",
        formulas={"log_rate": "counts of mean exposure * exp(s)"},
    ),
    _family(
        "negbinomial", ("count",), _latent("log_mean", "logarithm of the mean of y"),
        Parameter("size", "positive", meaning="the variance of y is mean + mean^2 / size"),
        summary="overdispersed counts, variance mean + mean^2/size", support="0, 1, 2, ...",
        formulas={"log_mean": "counts of mean exp(s), variance exp(s) + exp(2 s) / size"},
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
        ordered=True, summary="ordered classes", support="the classes",
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
    ),
    _family(
        "categorical", ("index",),
        _latent("softmax", "a predictor of each class, or of all but the last", "link", "classes"),
        _latent("stick", "log odds of each class but the last among those left", "link", "cut"),
        _latent("probit", "a predictor of each class", "link", "class"),
        Parameter("available", "binary", required=False, over="class", blank=1.0,
                  meaning="1 where a class can be chosen"),
        summary="one of several classes", support="the classes",
        formulas={
            "softmax": "one of K classes, P(k) = exp(s_k) / sum_j exp(s_j)",
            "stick": "classes, P(y = k | y >= k) = 1 / (1 + exp(-s[k]))",
            "probit": "one of K classes, the largest of s_k plus standard normal noise",
        },
    ),
    _family(
        "multinomial", ("count",), Parameter("n", "count", over="rest", meaning=_N),
        _latent("softmax", "a predictor of each class, or of all but the last", over="last"),
        summary="counts over classes that add up to n", support="counts that add up to n",
        formulas={"softmax": "counts over K classes that add up to n"},
    ),
    _family(
        "admixture", ("count",), _latent("softmax", "a predictor of each topic", over="topic"),
        Parameter("emission", "simplex", over="emission",
                  meaning="the probability of each word under each topic"),
        summary="counts from a mixture of topics", support="counts of each word",
        formulas={"softmax": "counts of words, P(word) = sum_k softmax(s)_k emission[k, word]"},
    ),
)  # fmt: skip
