"""Kernels of Gaussian processes, closed under `+` and `*`."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature

_SD = Parameter("sd", "positive", over="none", meaning="marginal standard deviation")
_LENGTH = Parameter(
    "length",
    "positive",
    over="input",
    meaning="length scale, in the unit of the inputs, for all of them or for each",
)


def _kernel(name: str, *parameters: Parameter, summary: str, formula: str = "") -> Signature:
    return Signature(
        name,
        "kernel",
        parameters,
        carries_scale=("sd",),
        summary=summary,
        formulas=(("", formula or summary),),
    )


KERNELS: tuple[Signature, ...] = (
    _kernel("se", _SD, _LENGTH, summary="sd^2 exp(-r^2/2)"),
    _kernel(
        "matern",
        _SD,
        _LENGTH,
        Parameter(
            "smoothness",
            "real",
            choices=(0.5, 1.5, 2.5),
            over="none",
            meaning="1/2, 3/2 or 5/2: how often the field has derivatives",
        ),
        summary="Matern of smoothness 0.5, 1.5 or 2.5",
        formula="with a = sqrt(2 smoothness) r: sd^2 times e^-a, (1 + a) e^-a or "
        "(1 + a + a^2/3) e^-a",
    ),
    _kernel(
        "rq",
        _SD,
        _LENGTH,
        Parameter("alpha", "positive", over="none", meaning="the smaller, the more lengths mix"),
        summary="sd^2 (1 + r^2/(2 alpha))^(-alpha)",
    ),
    _kernel(
        "periodic",
        _SD,
        _LENGTH,
        Parameter("period", "positive", over="none", meaning="in the unit of the inputs"),
        summary="sd^2 exp(-2 sin^2(pi d/period)/length^2)",
    ),
    _kernel("linear", _SD, summary="sd^2 x'x"),
    _kernel("white", _SD, summary="sd^2 on the diagonal"),
)
