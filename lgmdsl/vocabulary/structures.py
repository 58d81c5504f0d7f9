"""Prior structures of latents: one for each axis, or `normal` and `flat` for a whole block."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature, Spacing

_SD = Parameter("sd", "positive", over="none")
_GRAPH = Parameter("graph", "graph", over="axis")
_AT = Parameter("at", "real", required=False, over="axis")
_WALK = (
    _SD,
    Parameter("cyclic", "bool", required=False, default=False),
    _AT,
    Parameter("sum_to_zero", "bool", required=False, default=True),
)
_ON_A_LINE = Spacing("positions", at="at", circle="cyclic")
_IN_STEPS = Spacing("steps")


def _structure(
    name: str, *parameters: Parameter, summary: str, spacing: Spacing | None = None,
    whole: bool = False, scale: tuple[str, ...] = ("sd",),
) -> Signature:  # fmt: skip
    return Signature(
        name, "structure", parameters, ordered_axis=spacing is not None, whole=whole,
        summary=summary, spacing=spacing or Spacing(),
        carries_scale=tuple(s for s in scale if any(p.name == s for p in parameters)),
    )  # fmt: skip


STRUCTURES: tuple[Signature, ...] = (
    _structure(
        "normal",
        Parameter("mean", "real", required=False, default=0.0),
        Parameter("sd", "positive"),
        whole=True,
        summary="independent normal entries, a block of any shape",
    ),
    _structure("iid", summary="the identity factor: independent along this axis, unit scale"),
    _structure("flat", whole=True, summary="improper block of density 1, of any shape"),
    _structure(
        "dense",
        Parameter("cov", "covariance", over="axis"),
        scale=("cov",),
        summary="any covariance matrix over the axis",
    ),
    _structure(
        "gmrf",
        Parameter("precision", "matrix", over="axis"),
        Parameter("sd", "positive", required=False, default=1.0, over="none"),
        summary="sparse precision matrix over the axis, times 1/sd^2",
    ),
    _structure(
        "rw1", *_WALK, spacing=_ON_A_LINE, summary="random walk of order 1, intrinsic, scaled"
    ),
    _structure(
        "rw2", *_WALK, spacing=_ON_A_LINE, summary="random walk of order 2, intrinsic, scaled"
    ),
    _structure(
        "seasonal",
        _SD,
        Parameter("period", "count", over="none"),
        spacing=_IN_STEPS,
        summary="sums over each period are near zero",
    ),
    _structure(
        "ar1",
        _SD,
        Parameter("rho", "correlation", over="none"),
        spacing=_IN_STEPS,
        summary="autoregression of order 1, sd the stationary marginal",
    ),
    _structure(
        "ar",
        _SD,
        Parameter("pacf", "correlation", over="one"),
        spacing=_IN_STEPS,
        summary="autoregression given by its partial autocorrelations",
    ),
    _structure(
        "ou",
        _SD,
        Parameter("rate", "positive", over="none"),
        _AT,
        spacing=Spacing("positions", at="at"),
        summary="Ornstein-Uhlenbeck process, at the labels or at given times",
    ),
    _structure("besag", _GRAPH, _SD, summary="intrinsic autoregression on a graph, scaled"),
    _structure(
        "car",
        _GRAPH,
        _SD,
        Parameter("alpha", "unit", over="none"),
        summary="proper autoregression on a graph, sd conditional, at one neighbour",
    ),
    _structure(
        "bym2",
        _GRAPH,
        _SD,
        Parameter("mix", "unit", over="none"),
        summary="besag and iid in one block, mix the share of besag",
    ),
    _structure(
        "gp",
        Parameter("at", "real", over="input"),
        Parameter("kernel", "kernel"),
        scale=("kernel",),
        summary="Gaussian process at given inputs",
    ),
    _structure(
        "spde",
        Parameter("mass", "matrix", over="axis"),
        Parameter("stiffness", "matrix", over="axis"),
        _SD,
        Parameter("range", "positive", over="none"),
        summary="Matern field of smoothness 1 in the plane, by finite elements over mesh nodes",
    ),
)
