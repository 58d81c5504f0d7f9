"""Linear operators on expressions, and scalar functions."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import SD, model, regression, smooth
from lgmdsl.vocabulary.signature import Alias, Parameter, Signature, Trait, also

_EXPR = Parameter("expr", "any", meaning="an expression, with its unit")
_INDEX = Parameter("index", "index", meaning="the index that it runs along")
BOUNDARIES = ("none", "circular", "zero", "reflect")
FILTERS = (
    "haar",
    *(f"db{i}" for i in range(2, 11)),
    *(f"sym{i}" for i in range(2, 11)),
    *(f"coif{i}" for i in range(1, 4)),
)
_BEYOND = "what lies beyond the borders: the other end, zeros, or the mirror image"
# No quantity of these is a scale, and no paper is needed for a sum.
_ELEMENTARY = ("scale", "source")
_ANY_AFFINE = "expressions of data, hypers and latents over one index or more"


def _operator(
    name: str,
    *parameters: Parameter,
    summary: str,
    formula: str,
    example: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    support: str = _ANY_AFFINE,
    positional: int = 2,
    ordered: bool = False,
    source: str = "",
) -> Signature:
    return Signature(
        name,
        "operator",
        parameters,
        positional=positional,
        ordered_axis=ordered,
        summary=summary,
        formulas=(("", formula),),
        support=support,
        example=example,
        see_also=see_also,
        also_called=also_called,
        source=source,
        without=("scale",) if source else _ELEMENTARY,
    )


def _image(*statements: str) -> str:
    """A noisy image and a smooth one behind it."""
    return model(
        "index row", "index col", "data y[row, col] : real", *statements,
    )  # fmt: skip


_FIELD = "latent u[row, col] ~ normal(sd = 1)"
_SEEN = "observe y ~ normal(mean = u, sd = 0.5)"

OPERATORS: tuple[Signature, ...] = (
    _operator(
        "sum", _EXPR, _INDEX,
        summary="sum over an index, which the result no longer has",
        formula="sum(x, i) = sum_i x[i, ...]; `a @ b` is sum(a * b, i) over the one index that "
                "they share",
        example=model(
            "index obs", "index feat", "data X[obs, feat] : real", "data y[obs] : count",
            "latent b[feat] ~ normal(sd = 1)",
            "observe y ~ poisson(log_rate = sum(X * b, feat))", "constrain sum(b, feat) = 0",
        ),
        see_also=("cumsum", "constrain", "indices"),
    ),
    _operator(
        "diff", _EXPR, _INDEX,
        Parameter("order", "count", required=False, default=1.0,
                  meaning="how often the difference is taken"),
        Parameter("boundary", "string", required=False, default="none", choices=BOUNDARIES,
                  meaning=_BEYOND + "; without one the axis is shortened by order"),
        ordered=True,
        summary="differences along an index, as in total variation",
        formula="order 1: x[i+1] - x[i]; order 2: x[i-1] - 2 x[i] + x[i+1]; in general "
                "sum_j (-1)^(order - j) binom(order, j) x[i + j]",
        support=_ANY_AFFINE + "; without a boundary only in a potential",
        example=model(
            "index day", "data y[day] : real", SD, "latent f[day] ~ flat",
            "potential diff(f, day) ~ laplace(scale = s)", "observe y ~ normal(mean = f, sd = 1)",
        ),
        see_also=("rw1", "rw2", "potential", "cumsum"),
    ),
    _operator(
        "conv2", _EXPR,
        Parameter("psf", "any", meaning="data over two indices: the weights of the neighbours"),
        Parameter("boundary", "string", choices=BOUNDARIES[1:], meaning=_BEYOND),
        summary="two-dimensional convolution with a point-spread function, of the same size",
        formula="y[i] = sum_q psf[q] x[i + centre - q], centre = (rows // 2, columns // 2) of psf",
        support="expressions over two indices and more",
        example=_image(
            "index krow", "index kcol", "data psf[krow, kcol] : real", _FIELD,
            'observe y ~ normal(mean = conv2(u, psf, boundary = "circular"), sd = 0.1)',
        ),
        see_also=("fft", "wavelet", "diff"),
    ),
    _operator(
        "wavelet", _EXPR,
        Parameter("filter", "string", choices=FILTERS, meaning="by its name in PyWavelets"),
        Parameter("levels", "count", required=False,
                  meaning="how often the axes are halved; as often as they can be by default"),
        positional=1,
        summary="orthogonal wavelet transform along all axes, periodic at the borders",
        formula="W x with W'W = I; the approximation stands first along each axis",
        example=_image(
            "latent u[row, col] ~ flat",
            'potential wavelet(u, filter = "haar") ~ laplace(scale = 0.5)', _SEEN,
        ),
        see_also=("fft", "potential", "laplace"), source="Daubechies 1992",
    ),
    _operator(
        "fft", _EXPR, positional=1,
        summary="discrete Fourier transform of a real array, unitary, as real numbers",
        formula="F x with F'F = I: of frequencies k and -k the first holds sqrt(2) Re, the other "
                "sqrt(2) Im",
        example=_image(
            "data weight[row, col] : real", _FIELD,
            "observe y ~ normal(mean = weight * fft(u), sd = 0.5)",
        ),
        see_also=("conv2", "wavelet", "mask"),
    ),
    _operator(
        "mask", _EXPR,
        Parameter("keep", "binary", meaning="data over the expression's indices: 1 keeps an entry"),
        summary="the marked entries of an expression, zero for the others",
        formula="keep[i] x[i]; a potential of an entry that is not marked is a constant",
        example=_image(
            "data seen[row, col] : binary", "latent u[row, col] ~ flat",
            'potential mask(diff(u, row, boundary = "zero"), seen) ~ laplace(scale = 0.5)', _SEEN,
        ),
        see_also=("potential", "observe"),
    ),
    _operator(
        "cumsum", _EXPR,
        Parameter("index", "index", required=False,
                  meaning="the index that it runs along; the only one by default"),
        ordered=True,
        summary="running sums along an index",
        formula="y[i] = sum of x[j], j <= i",
        example=model(
            "index day", "data y[day] : real", SD, "latent e[day] ~ normal(sd = s)",
            "observe y ~ normal(mean = cumsum(e, day), sd = 0.5)",
        ),
        see_also=("sum", "diff", "rw1"),
    ),
)  # fmt: skip


def _function(
    name: str,
    *more: Parameter,
    summary: str,
    formula: str,
    support: str,
    example: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    traits: Trait = Trait.NONE,
) -> Signature:
    return Signature(
        name,
        "function",
        (_EXPR, *more),
        positional=1 + len(more),
        summary=summary,
        traits=traits,
        formulas=(("", formula),),
        support=support,
        example=example,
        see_also=see_also,
        also_called=also_called,
        without=_ELEMENTARY,
    )


_REPORTS = "; of latents in a report only"
_COUNTED = regression("poisson(log_rate = eta)", y="count")
_BINARY = regression("bernoulli(logit = eta)", y="binary")

# Of data and hypers anywhere; of latents in a report only.
FUNCTIONS: tuple[Signature, ...] = (
    _function(
        "log",
        summary="natural logarithm, as in an offset log(area)",
        formula="log(x), base e", support="x > 0: data and hypers" + _REPORTS,
        example=regression("poisson(log_rate = eta + log(area))", "data area[obs] : positive",
                           y="count"),
        see_also=("exp", "sqrt", "poisson"),
    ),
    _function(
        "exp",
        summary="exponential, as in a rate exp(eta)",
        formula="e^x", support="any number: data and hypers" + _REPORTS,
        example=_COUNTED + "report rate[obs] = exp(eta)\n",
        see_also=("log", "invlogit", "report"),
    ),
    _function(
        "sqrt",
        summary="square root, as in the sd sqrt(v) of a variance v",
        formula="x^(1/2)", support="x >= 0: data and hypers" + _REPORTS,
        example=smooth("rw1(sd = sqrt(v))",
                       "hyper v : positive ~ inv_gamma(shape = 2, scale = 1)"),
        see_also=("log", "inv_gamma"),
    ),
    _function(
        "invlogit",
        summary="inverse logit: the probability of log odds; in reports",
        formula="1 / (1 + exp(-x))", support="any number, in a report",
        example=_BINARY + "report p[obs] = invlogit(eta)\n",
        also_called=(
            *also("Stan", "inv_logit"), *also("SciPy", "expit"), *also("R", "plogis ilogit"),
            *also("PyMC", "sigmoid"),
        ),
        see_also=("normal_cdf", "softmax", "bernoulli", "report"), traits=Trait.REPORT_ONLY,
    ),
    _function(
        "normal_cdf",
        summary="distribution function of the standard normal: the probability of a probit; in "
                "reports",
        formula="Phi(x)", support="any number, in a report",
        example=regression("bernoulli(probit = eta)", y="binary")
                + "report p[obs] = normal_cdf(eta)\n",
        also_called=(*also("Stan", "Phi"), *also("R", "pnorm")),
        see_also=("invlogit", "bernoulli", "report"), traits=Trait.REPORT_ONLY,
    ),
    _function(
        "softmax",
        Parameter("index", "index", required=False,
                  meaning="the index of the classes; the only one by default"),
        summary="probabilities of classes: exp(x) over its sum along an index; in reports",
        formula="exp(x_k) / sum_j exp(x_j)", support="any numbers, in a report",
        example=model(
            "index obs", 'index class = {"bus", "car", "train"}', "data x[obs] : real",
            "data y[obs] : class", "latent a[class] ~ normal(sd = 3)",
            "latent b[class] ~ normal(sd = 2)", "let eta[obs, class] = a + b * x",
            "observe y ~ categorical(softmax = eta)", "report p[obs, class] = softmax(eta, class)",
        ),
        see_also=("invlogit", "categorical", "multinomial", "report"), traits=Trait.REPORT_ONLY,
    ),
)  # fmt: skip
REPORT_ONLY = tuple(f.name for f in FUNCTIONS if Trait.REPORT_ONLY in f.traits)
ELEMENTWISE = tuple(f.name for f in FUNCTIONS if Trait.REPORT_ONLY not in f.traits)
