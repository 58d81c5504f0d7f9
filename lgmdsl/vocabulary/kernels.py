"""Kernels of Gaussian processes, closed under `+` and `*`."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature

_SD = Parameter("sd", "positive", over="none")
_LENGTH = Parameter("length", "positive", over="input")


def _kernel(name: str, *parameters: Parameter, summary: str) -> Signature:
    return Signature(name, "kernel", parameters, carries_scale=("sd",), summary=summary)


KERNELS: tuple[Signature, ...] = (
    _kernel("se", _SD, _LENGTH, summary="sd^2 exp(-r^2/2)"),
    _kernel(
        "matern",
        _SD,
        _LENGTH,
        Parameter("smoothness", "real", choices=(0.5, 1.5, 2.5), over="none"),
        summary="Matern of smoothness 0.5, 1.5 or 2.5",
    ),
    _kernel(
        "rq",
        _SD,
        _LENGTH,
        Parameter("alpha", "positive", over="none"),
        summary="sd^2 (1 + r^2/(2 alpha))^(-alpha)",
    ),
    _kernel(
        "periodic",
        _SD,
        _LENGTH,
        Parameter("period", "positive", over="none"),
        summary="sd^2 exp(-2 sin^2(pi d/period)/length^2)",
    ),
    _kernel("linear", _SD, summary="sd^2 x'x"),
    _kernel("white", _SD, summary="sd^2 on the diagonal"),
)
