"""Linear operators on expressions, and scalar functions."""

from __future__ import annotations

from lgmdsl.vocabulary.signature import Parameter, Signature, Trait

_EXPR = Parameter("expr", "any")
_INDEX = Parameter("index", "index")
BOUNDARIES = ("none", "circular", "zero", "reflect")
FILTERS = (
    "haar",
    *(f"db{i}" for i in range(2, 11)),
    *(f"sym{i}" for i in range(2, 11)),
    *(f"coif{i}" for i in range(1, 4)),
)


def _operator(
    name: str, *parameters: Parameter, positional: int = 2, summary: str, ordered: bool = False
) -> Signature:
    return Signature(
        name, "operator", parameters, positional=positional, summary=summary, ordered_axis=ordered
    )


OPERATORS: tuple[Signature, ...] = (
    _operator("sum", _EXPR, _INDEX, summary="sum over an index"),
    _operator(
        "diff",
        _EXPR,
        _INDEX,
        Parameter("order", "count", required=False, default=1.0),
        Parameter("boundary", "string", required=False, default="none", choices=BOUNDARIES),
        summary="differences along an index",
        ordered=True,
    ),
    _operator(
        "conv2",
        _EXPR,
        Parameter("psf", "any"),
        Parameter("boundary", "string", choices=BOUNDARIES[1:]),
        summary="two-dimensional convolution",
    ),
    _operator(
        "wavelet",
        _EXPR,
        Parameter("filter", "string", choices=FILTERS),
        Parameter("levels", "count", required=False),
        positional=1,
        summary="orthogonal wavelet transform",
    ),
    _operator("fft", _EXPR, positional=1, summary="discrete Fourier transform"),
    _operator("mask", _EXPR, Parameter("keep", "binary"), summary="keep the marked entries"),
    _operator(
        "cumsum",
        _EXPR,
        Parameter("index", "index", required=False),
        summary="running sums along an index",
        ordered=True,
    ),
)


def _function(name: str, summary: str, traits: Trait = Trait.NONE) -> Signature:
    return Signature(name, "function", (_EXPR,), positional=1, summary=summary, traits=traits)


# Of data and hypers anywhere; of latents in a report only.
FUNCTIONS: tuple[Signature, ...] = (
    _function("log", "natural logarithm"),
    _function("exp", "exponential"),
    _function("sqrt", "square root"),
    _function("invlogit", "1/(1 + exp(-x)); in reports", Trait.REPORT_ONLY),
    _function("normal_cdf", "standard normal distribution function; in reports", Trait.REPORT_ONLY),
    Signature(
        "softmax",
        "function",
        (_EXPR, Parameter("index", "index", required=False)),
        positional=2,
        summary="exp(x) over its sum along an index; in reports",
        traits=Trait.REPORT_ONLY,
    ),
)
REPORT_ONLY = tuple(f.name for f in FUNCTIONS if Trait.REPORT_ONLY in f.traits)
ELEMENTWISE = tuple(f.name for f in FUNCTIONS if Trait.REPORT_ONLY not in f.traits)
