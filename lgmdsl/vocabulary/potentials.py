"""Potentials: zero-centred sites on any affine expression of the latents."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature

_GROUP = Parameter(
    "group", "group", required=False, meaning="an index along which the norm is taken"
)
_SCALE = Parameter("scale", "positive", meaning="in the unit of the expression")


def _potential(name: str, *parameters: Parameter, summary: str, formula: str) -> Signature:
    return Signature(
        name, "potential", (*parameters, _GROUP), summary=summary, formulas=(("", formula),)
    )


POTENTIALS: tuple[Signature, ...] = (
    _potential(
        "normal",
        Parameter("sd", "positive", meaning="standard deviation of the expression"),
        summary="squared loss",
        formula="normal density of sd `sd` at s",
    ),
    _potential(
        "laplace",
        _SCALE,
        summary="absolute loss: sparsity",
        formula="exp(-|s| / scale) / (2 scale)",
    ),
    _potential(
        "student_t",
        _SCALE,
        Parameter("df", "positive", meaning="degrees of freedom"),
        summary="heavy tails",
        formula="Student-t density of scale `scale` at s",
    ),
    _potential(
        "sech2",
        _SCALE,
        summary="smooth at zero, exponential tails",
        formula="sech^2(s / scale) / (2 scale)",
    ),
    _potential(
        "exp_power",
        _SCALE,
        Parameter("power", "positive", meaning="at most 2, which is normal"),
        summary="exp(-|s/scale|^power)",
        formula="exp(-|s / scale|^power) / (2 scale Gamma(1 + 1/power)), 0 < power <= 2",
    ),
    _potential(
        "logistic",
        _SCALE,
        summary="logistic density",
        formula="logistic density, sech^2(s / (2 scale)) / (4 scale)",
    ),
)
