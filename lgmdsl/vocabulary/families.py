"""Observation families. The first `latent` argument names the link and, with it, the site."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Over, Parameter, Signature

# Data of a narrower type may be observed where a wider one is meant.
REAL = ("real", "positive", "unit", "integer", "count")
POSITIVE = ("positive", "unit")

# event: 1 observed, 0 right-censored at y. lower, upper: the ends of the interval in which y is
# known to lie, open where missing; observed at y where both are missing or equal.
_CENSORING = (
    Parameter("event", "binary", required=False),
    Parameter("lower", "real", required=False),
    Parameter("upper", "real", required=False),
)


def _latent(name: str, one_of: str = "", over: Over = "left") -> Parameter:
    return Parameter(name, "latent", one_of=one_of, over=over)


def _family(
    name: str, observed: tuple[str, ...], *parameters: Parameter, summary: str,
    other: Signature | None = None, ordered: bool = False,
) -> Signature:  # fmt: skip
    return Signature(
        name, "family", parameters, observed=observed, summary=summary, other=other,
        ordered_axis=ordered,
    )  # fmt: skip


_SD = Parameter("sd", "positive")
_SCALE = Parameter("scale", "positive")
_SHAPE = Parameter("shape", "positive")

FAMILIES: tuple[Signature, ...] = (
    _family(
        "normal", REAL, _latent("mean"), _SD, *_CENSORING,
        summary="normal with a modelled mean, or a modelled log-variance",
        other=_family(
            "normal", REAL, Parameter("mean", "real", required=False, default=0.0),
            _latent("log_var"), summary="normal with a modelled log-variance",
        ),
    ),
    _family(
        "student_t", REAL, _latent("mean"), _SCALE, Parameter("df", "positive"), *_CENSORING,
        summary="Student's t about a modelled mean",
    ),
    _family(
        "laplace", REAL, _latent("mean"), _SCALE, *_CENSORING,
        summary="double exponential about a modelled mean",
    ),
    _family(
        "lognormal", POSITIVE, _latent("mean"), _SD, *_CENSORING,
        summary="log y is normal with a modelled mean",
    ),
    _family(
        "gamma", POSITIVE, _latent("log_mean"), _SHAPE, *_CENSORING,
        summary="gamma with a modelled log-mean",
    ),
    _family(
        "beta", ("unit",), _latent("logit_mean"), Parameter("concentration", "positive"),
        summary="beta with a modelled logit of the mean",
    ),
    _family(
        "exponential", POSITIVE, _latent("log_rate"), *_CENSORING,
        summary="exponential with a modelled log-rate",
    ),
    _family(
        "weibull", POSITIVE, _latent("log_scale"), _SHAPE, *_CENSORING,
        summary="Weibull with a modelled log-scale",
    ),
    _family(
        "bernoulli", ("binary",), _latent("logit", "link"), _latent("probit", "link"),
        _latent("cloglog", "link"), summary="0 or 1",
    ),
    _family(
        "binomial", ("count",), Parameter("n", "count"), _latent("logit", "link"),
        _latent("probit", "link"), summary="successes out of n",
    ),
    _family(
        "poisson", ("count",), _latent("log_rate"),
        Parameter("exposure", "positive", required=False, default=1.0),
        summary="counts of rate exposure * exp(log_rate)",
    ),
    _family(
        "negbinomial", ("count",), _latent("log_mean"), Parameter("size", "positive"),
        summary="overdispersed counts, variance mean + mean^2/size",
    ),
    _family(
        "ordinal", ("index",), _latent("logit", "link"), _latent("probit", "link"),
        Parameter("cuts", "ordered", over="cut"),
        # The stereotype model's alone: a score of each class, of which differences count.
        Parameter("scores", "ordered", required=False, over="class"),
        Parameter(
            "model", "string", required=False, default="cumulative",
            choices=("cumulative", "continuation", "stereotype", "adjacent"),
        ),
        ordered=True, summary="ordered classes",
    ),
    _family(
        "categorical", ("index",), _latent("softmax", "link", "classes"),
        _latent("stick", "link", "cut"), _latent("probit", "link", "class"),
        Parameter("available", "binary", required=False, over="class"),
        summary="one of several classes",
    ),
    _family(
        "multinomial", ("count",), Parameter("n", "count", over="rest"),
        _latent("softmax", over="last"), summary="counts over classes that add up to n",
    ),
    _family(
        "admixture", ("count",), _latent("softmax", over="topic"),
        Parameter("emission", "simplex", over="emission"),
        summary="counts from a mixture of topics",
    ),
)  # fmt: skip
