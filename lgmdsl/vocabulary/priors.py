"""Hyperpriors, on natural scales; `observed` holds the hyper types each one is for."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature

_ALPHA = Parameter("alpha", "unit", over="none", meaning="the probability beyond `u`")
_U = Parameter("u", "positive", over="none", meaning="a value in the unit of the hyper")
_RATE = Parameter("rate", "positive", meaning="one over the unit of the hyper")
_SHAPE = Parameter("shape", "positive", meaning="no unit")
_MEAN = Parameter("mean", "real", required=False, default=0.0, meaning="mean")
_SD = Parameter("sd", "positive", meaning="standard deviation")
_SCALE = Parameter("scale", "positive", meaning="in the unit of the hyper")


def _prior(
    name: str,
    support: tuple[str, ...],
    *parameters: Parameter,
    summary: str,
    formula: str = "",
    source: str = "",
) -> Signature:
    return Signature(
        name,
        "prior",
        parameters,
        observed=support,
        summary=summary,
        source=source,
        formulas=(("", formula),) if formula else (),
    )


_POSITIVE = ("positive",)
_SIMPSON = "Simpson et al. 2017"
_SORBYE = "Sorbye and Rue 2017"

PRIORS: tuple[Signature, ...] = (
    _prior("pc_sd", _POSITIVE, _U, _ALPHA, summary="P(sd > u) = alpha", source=_SIMPSON),
    _prior(
        "pc_cor0", ("correlation",),
        Parameter("u", "unit", over="none", meaning="an absolute correlation"), _ALPHA,
        summary="P(|rho| > u) = alpha, around 0", source=f"{_SORBYE}, section 3.1",
    ),
    _prior(
        "pc_cor1", ("correlation",),
        Parameter("u", "correlation", over="none", meaning="a correlation"), _ALPHA,
        summary="P(rho > u) = alpha, around 1", source=f"{_SORBYE}, section 3.2",
    ),
    _prior(
        "pc_mix", ("unit",), Parameter("graph", "graph", meaning="that of the bym2"),
        Parameter("u", "unit", over="none", meaning="a share of besag"), _ALPHA,
        summary="P(mix < u) = alpha", source="Riebler et al. 2016, section 3.2",
    ),
    _prior("pc_range", _POSITIVE, _U, _ALPHA, summary="P(range < u) = alpha"),
    _prior(
        "pc_df", _POSITIVE, _U, _ALPHA, summary="P(df < u) = alpha",
        source=f"{_SIMPSON}, section 3.5",
    ),
    _prior("exponential", _POSITIVE, _RATE, summary="exponential with a rate"),
    _prior("half_normal", _POSITIVE, _SD, summary="normal, positive half"),
    _prior("half_cauchy", _POSITIVE, _SCALE, summary="Cauchy, positive half"),
    _prior("normal", ("real", "ordered"), _MEAN, _SD, summary="normal"),
    _prior("lognormal", _POSITIVE, _MEAN, _SD, summary="the logarithm is normal"),
    _prior("gamma", _POSITIVE, _SHAPE, _RATE, summary="gamma with a rate"),
    _prior("inv_gamma", _POSITIVE, _SHAPE, _SCALE, summary="inverse gamma"),
    _prior(
        "beta", ("unit",), Parameter("a", "positive", meaning="weight of 1"),
        Parameter("b", "positive", meaning="weight of 0"), summary="beta",
        formula="proportional to x^(a - 1) (1 - x)^(b - 1)",
    ),
    _prior(
        "uniform", ("real", "positive", "unit", "correlation"),
        Parameter("lower", "real", meaning="the least value"),
        Parameter("upper", "real", meaning="the largest value"),
        summary="uniform between two bounds",
    ),
    _prior(
        "lkj_cov", ("covariance",),
        Parameter("eta", "positive", over="none", meaning="1 is flat over correlations"), _U,
        _ALPHA, summary="LKJ correlation, each sd with P(sd > u) = alpha",
    ),
    _prior(
        "inv_wishart", ("covariance",),
        Parameter("df", "positive", over="none", meaning="degrees of freedom"),
        Parameter("scale", "covariance", meaning="its own scale matrix"),
        summary="inverse Wishart",
    ),
    _prior(
        "dirichlet", ("simplex",), Parameter("alpha", "positive", meaning="weight of each entry"),
        summary="Dirichlet", formula="proportional to prod_k p_k^(alpha_k - 1)",
    ),
    _prior(
        "graphical_lasso", ("covariance",),
        Parameter("rate", "positive", over="none", meaning="the larger, the more zeros"),
        summary="Laplace on the entries of the precision matrix",
    ),
    _prior(
        "flat",
        ("real", "positive", "unit", "correlation", "covariance", "simplex", "ordered"),
        summary="density 1 on the natural scale; improper where the range has no end",
    ),
)  # fmt: skip
