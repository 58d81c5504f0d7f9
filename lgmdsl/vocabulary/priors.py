"""Hyperpriors, on natural scales; `observed` holds the hyper types each one is for."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature

_ALPHA = Parameter("alpha", "unit", over="none")
_U = Parameter("u", "positive", over="none")
_RATE = Parameter("rate", "positive")
_SHAPE = Parameter("shape", "positive")
_MEAN = Parameter("mean", "real", required=False, default=0.0)
_SD = Parameter("sd", "positive")
_SCALE = Parameter("scale", "positive")


def _prior(name: str, support: tuple[str, ...], *parameters: Parameter, summary: str) -> Signature:
    return Signature(name, "prior", parameters, observed=support, summary=summary)


_POSITIVE = ("positive",)

PRIORS: tuple[Signature, ...] = (
    _prior("pc_sd", _POSITIVE, _U, _ALPHA, summary="P(sd > u) = alpha"),
    _prior(
        "pc_cor0", ("correlation",), Parameter("u", "unit", over="none"), _ALPHA,
        summary="P(|rho| > u) = alpha, around 0",
    ),
    _prior(
        "pc_cor1", ("correlation",), Parameter("u", "correlation", over="none"), _ALPHA,
        summary="P(rho > u) = alpha, around 1",
    ),
    _prior(
        "pc_mix", ("unit",), Parameter("graph", "graph"), Parameter("u", "unit", over="none"),
        _ALPHA, summary="P(mix < u) = alpha",
    ),
    _prior("pc_range", _POSITIVE, _U, _ALPHA, summary="P(range < u) = alpha"),
    _prior("pc_df", _POSITIVE, _U, _ALPHA, summary="P(df < u) = alpha"),
    _prior("exponential", _POSITIVE, _RATE, summary="exponential with a rate"),
    _prior("half_normal", _POSITIVE, _SD, summary="normal, positive half"),
    _prior("half_cauchy", _POSITIVE, _SCALE, summary="Cauchy, positive half"),
    _prior("normal", ("real", "ordered"), _MEAN, _SD, summary="normal"),
    _prior("lognormal", _POSITIVE, _MEAN, _SD, summary="the logarithm is normal"),
    _prior("gamma", _POSITIVE, _SHAPE, _RATE, summary="gamma with a rate"),
    _prior("inv_gamma", _POSITIVE, _SHAPE, _SCALE, summary="inverse gamma"),
    _prior(
        "beta", ("unit",), Parameter("a", "positive"), Parameter("b", "positive"), summary="beta"
    ),
    _prior(
        "uniform", ("real", "positive", "unit", "correlation"), Parameter("lower", "real"),
        Parameter("upper", "real"), summary="uniform between two bounds",
    ),
    _prior(
        "lkj_cov", ("covariance",), Parameter("eta", "positive", over="none"), _U, _ALPHA,
        summary="LKJ correlation, each sd with P(sd > u) = alpha",
    ),
    _prior(
        "inv_wishart", ("covariance",), Parameter("df", "positive", over="none"),
        Parameter("scale", "covariance"), summary="inverse Wishart",
    ),
    _prior("dirichlet", ("simplex",), Parameter("alpha", "positive"), summary="Dirichlet"),
    _prior(
        "graphical_lasso", ("covariance",), Parameter("rate", "positive", over="none"),
        summary="Laplace on the entries of the precision matrix",
    ),
    _prior(
        "flat",
        ("real", "positive", "unit", "correlation", "covariance", "simplex", "ordered"),
        summary="density 1 on the natural scale; improper where the range has no end",
    ),
)  # fmt: skip
