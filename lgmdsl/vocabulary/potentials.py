"""Potentials: zero-centred sites on any affine expression of the latents."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature

_GROUP = Parameter("group", "group", required=False)
_SCALE = Parameter("scale", "positive")


def _potential(name: str, *parameters: Parameter, summary: str) -> Signature:
    return Signature(name, "potential", (*parameters, _GROUP), summary=summary)


POTENTIALS: tuple[Signature, ...] = (
    _potential("normal", Parameter("sd", "positive"), summary="squared loss"),
    _potential("laplace", _SCALE, summary="absolute loss: sparsity"),
    _potential("student_t", _SCALE, Parameter("df", "positive"), summary="heavy tails"),
    _potential("sech2", _SCALE, summary="smooth at zero, exponential tails"),
    _potential(
        "exp_power", _SCALE, Parameter("power", "positive"), summary="exp(-|s/scale|^power)"
    ),
    _potential("logistic", _SCALE, summary="logistic density"),
)
