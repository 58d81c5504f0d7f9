"""Prior structures of latents: one for each axis, or `normal` and `flat` for a whole block."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Mixed, Parameter, Signature, Spacing, Trait

_SD = Parameter(
    "sd", "positive", over="none", meaning="scale, in the unit of the latent (see its convention)"
)
_GRAPH = Parameter("graph", "graph", over="axis", meaning="pairs of neighbours among the members")
_AT = Parameter(
    "at",
    "real",
    required=False,
    over="axis",
    meaning="the position of each member, in place of its label",
)
_WALK = (
    _SD,
    Parameter(
        "cyclic",
        "bool",
        required=False,
        default=False,
        meaning="whether the last member is followed by the first",
    ),
    _AT,
    Parameter(
        "sum_to_zero",
        "bool",
        required=False,
        default=True,
        meaning="whether the level is fixed by a sum of zero",
    ),
)
_ON_A_LINE = Spacing("positions", at="at", circle="cyclic")
_IN_STEPS = Spacing("steps")
_TYPICAL = "sd is the geometric mean of the marginal standard deviations"
_MARGINAL = "sd is the stationary marginal standard deviation"


def _structure(
    name: str,
    *parameters: Parameter,
    summary: str,
    spacing: Spacing | None = None,
    whole: bool = False,
    carries: tuple[str, ...] = ("sd",),
    traits: Trait = Trait.NONE,
    mixed: Mixed | None = None,
    scale: str = "",
    formula: str = "",
    source: str = "",
) -> Signature:
    return Signature(
        name,
        "structure",
        parameters,
        ordered_axis=spacing is not None,
        whole=whole,
        summary=summary,
        spacing=spacing or Spacing(),
        traits=traits,
        mixed=mixed,
        scale=scale,
        source=source,
        carries_scale=tuple(s for s in carries if any(p.name == s for p in parameters)),
        formulas=(("", formula),) if formula else (),
    )


STRUCTURES: tuple[Signature, ...] = (
    _structure(
        "normal",
        Parameter("mean", "real", required=False, default=0.0, meaning="mean of each entry"),
        Parameter("sd", "positive", meaning="standard deviation of each entry"),
        whole=True, traits=Trait.INDEPENDENT, formula="K = diag(sd^2)",
        summary="independent normal entries, a block of any shape",
    ),
    _structure(
        "iid", traits=Trait.IDENTITY | Trait.INDEPENDENT, formula="K = I",
        summary="the identity factor: independent along this axis, unit scale",
    ),
    _structure(
        "flat", whole=True, traits=Trait.IMPROPER | Trait.INDEPENDENT, formula="Q = 0",
        summary="improper block of density 1, of any shape",
    ),
    _structure(
        "dense",
        Parameter("cov", "covariance", over="axis", meaning="covariance over the axis"),
        carries=("cov",), traits=Trait.COVARIANCE, formula="K = cov",
        summary="any covariance matrix over the axis",
    ),
    _structure(
        "gmrf",
        Parameter("precision", "matrix", over="axis", meaning="symmetric, positive semi-definite"),
        Parameter("sd", "positive", required=False, default=1.0, over="none",
                  meaning="the precision is divided by its square"),
        formula="Q = precision / sd^2", scale="sd multiplies the given matrix's own scale",
        summary="sparse precision matrix over the axis, times 1/sd^2",
    ),
    _structure(
        "rw1", *_WALK, spacing=_ON_A_LINE, scale=_TYPICAL,
        summary="random walk of order 1, intrinsic, scaled",
    ),
    _structure(
        "rw2", *_WALK, spacing=_ON_A_LINE, scale=_TYPICAL,
        summary="random walk of order 2, intrinsic, scaled",
    ),
    _structure(
        "seasonal", _SD,
        Parameter("period", "count", over="none", meaning="members of one period"),
        spacing=_IN_STEPS, scale=_TYPICAL, summary="sums over each period are near zero",
    ),
    _structure(
        "ar1", _SD,
        Parameter("rho", "correlation", over="none", meaning="correlation of neighbours"),
        spacing=_IN_STEPS, scale=_MARGINAL,
        summary="autoregression of order 1, sd the stationary marginal",
    ),
    _structure(
        "ar", _SD,
        Parameter("pacf", "correlation", over="one", meaning="partial autocorrelation at each lag"),
        spacing=_IN_STEPS, scale=_MARGINAL,
        summary="autoregression given by its partial autocorrelations",
    ),
    _structure(
        "ou", _SD,
        Parameter("rate", "positive", over="none", meaning="of decay, one over the unit of `at`"),
        _AT, spacing=Spacing("positions", at="at"), scale=_MARGINAL,
        formula="K_ij = sd^2 exp(-rate |t_i - t_j|)",
        summary="Ornstein-Uhlenbeck process, at the labels or at given times",
    ),
    _structure(
        "besag", _GRAPH, _SD, traits=Trait.COMPONENTS,
        scale=_TYPICAL + ", in each connected component",
        summary="intrinsic autoregression on a graph, scaled",
    ),
    _structure(
        "car", _GRAPH, _SD,
        Parameter("alpha", "unit", over="none", meaning="spatial dependence, below 1"),
        scale="sd is conditional, of a member with one neighbour",
        summary="proper autoregression on a graph, sd conditional, at one neighbour",
    ),
    _structure(
        "bym2", _GRAPH, _SD,
        Parameter("mix", "unit", over="none", meaning="the share of besag in the variance"),
        traits=Trait.COMPONENTS, scale=_TYPICAL,
        mixed=Mixed("mix", (("iid", ()), ("besag", ("graph",)))),
        formula="sd (sqrt(1 - mix) iid + sqrt(mix) besag)",
        source="Riebler et al. 2016, eq. 6",
        summary="besag and iid in one block, mix the share of besag",
    ),
    _structure(
        "gp",
        Parameter("at", "real", over="input", meaning="the input of each member, or several"),
        Parameter("kernel", "kernel", meaning="its covariance, from kernels, `+` and `*`"),
        carries=("kernel",), summary="Gaussian process at given inputs",
    ),
    _structure(
        "spde",
        Parameter("mass", "matrix", over="axis", meaning="mass matrix of the mesh"),
        Parameter("stiffness", "matrix", over="axis", meaning="stiffness matrix of the mesh"),
        _SD,
        Parameter("range", "positive", over="none",
                  meaning="where the correlation is near 0.1, in the unit of the mesh"),
        scale=_MARGINAL,
        summary="Matern field of smoothness 1 in the plane, by finite elements over mesh nodes",
    ),
)  # fmt: skip
