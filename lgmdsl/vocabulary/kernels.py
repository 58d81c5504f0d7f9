"""Kernels of Gaussian processes, closed under `+` and `*`."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import process
from lgmdsl.vocabulary.signature import Alias, Parameter, Signature, also

_SD = Parameter("sd", "positive", over="none", meaning="marginal standard deviation")
_LENGTH = Parameter(
    "length",
    "positive",
    over="input",
    meaning="length scale, in the unit of the inputs, for all of them or for each",
)
_DISTANCE = "r^2 = sum_d ((x_d - x'_d) / length_d)^2"
_VARIANCE = "sd is the marginal standard deviation: k(x, x) = sd^2"
_INPUTS = "inputs of any number of dimensions"
_BOOK = "Rasmussen and Williams 2006"


def _kernel(
    name: str,
    *parameters: Parameter,
    summary: str,
    formula: str,
    example: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    source: str,
    scale: str = _VARIANCE,
    support: str = _INPUTS,
) -> Signature:
    return Signature(
        name,
        "kernel",
        parameters,
        carries_scale=("sd",),
        summary=summary,
        formulas=(("", formula),),
        scale=scale,
        support=support,
        example=example,
        see_also=("gp", *see_also),
        also_called=also_called,
        source=source,
    )


KERNELS: tuple[Signature, ...] = (
    _kernel(
        "se", _SD, _LENGTH,
        summary="squared exponential: very smooth fields, with derivatives of every order",
        formula=f"sd^2 exp(-r^2 / 2), {_DISTANCE}",
        scale=_VARIANCE + "; the correlation at one length is 0.61",
        example=process(
            "se(sd = s, length = l)", "hyper l : positive ~ inv_gamma(shape = 3, scale = 3)"
        ),
        also_called=(
            *also("PyMC", "ExpQuad"), *also("GPflow", "SquaredExponential"),
            *also("scikit-learn", "RBF"), *also("Stan", "gp_exp_quad_cov"),
            *also("GPflow", "sqexp"),
        ),
        see_also=("matern", "rq"), source=f"{_BOOK}, eq. 4.9",
    ),
    _kernel(
        "matern", _SD, _LENGTH,
        Parameter("smoothness", "real", choices=(0.5, 1.5, 2.5), over="none",
                  meaning="1/2, 3/2 or 5/2: fields with 0, 1 or 2 derivatives"),
        summary="Matern covariance, for fields as rough as the smoothness 0.5, 1.5 or 2.5 says",
        formula="with a = sqrt(2 smoothness) r: sd^2 times e^-a, (1 + a) e^-a or "
                f"(1 + a + a^2 / 3) e^-a; {_DISTANCE}",
        scale=_VARIANCE + "; the correlation at one length is 0.37, 0.48 or 0.52",
        example=process(
            "matern(sd = s, length = l, smoothness = 1.5)",
            "hyper l : positive ~ inv_gamma(shape = 3, scale = 3)",
        ),
        also_called=(
            *also("PyMC, GPflow", "Matern52", "matern(smoothness = 2.5)"),
            *also("PyMC, GPflow", "Matern32", "matern(smoothness = 1.5)"),
            *also("PyMC, GPflow", "Matern12 Exponential", "matern(smoothness = 0.5)"),
        ),
        see_also=("se", "ou", "spde"), source=f"{_BOOK}, eq. 4.14 to 4.17",
    ),
    _kernel(
        "rq", _SD, _LENGTH,
        Parameter("alpha", "positive", over="none", meaning="the smaller, the more lengths mix"),
        summary="rational quadratic: a mixture of squared exponentials of many lengths",
        formula=f"sd^2 (1 + r^2 / (2 alpha))^-alpha, {_DISTANCE}",
        scale=_VARIANCE + "; towards se as alpha grows",
        example=process("rq(sd = s, length = 1, alpha = 2)"),
        also_called=(*also("PyMC", "RatQuad"), *also("GPflow", "RationalQuadratic")),
        see_also=("se", "matern"), source=f"{_BOOK}, eq. 4.19",
    ),
    _kernel(
        "periodic", _SD, _LENGTH,
        Parameter("period", "positive", over="none", meaning="in the unit of the inputs"),
        summary="exactly periodic fields; times se or matern they change from period to period",
        formula="sd^2 exp(-2 sum_d sin^2(pi (x_d - x'_d) / period) / length_d^2)",
        scale=_VARIANCE + "; length has no unit: about 1 is one wave a period, less is rougher",
        example=process("periodic(sd = s, length = 1, period = 1) * se(length = 4)"),
        also_called=also("scikit-learn", "ExpSineSquared"),
        see_also=("seasonal", "se"), source=f"{_BOOK}, eq. 4.31",
    ),
    _kernel(
        "linear", _SD,
        summary="straight lines through the origin: a Bayesian linear regression as a kernel",
        formula="sd^2 sum_d x_d x'_d",
        scale="sd is the standard deviation of each slope, for a step of one unit: "
              "k(x, x) = sd^2 sum_d x_d^2",
        example=process("linear(sd = s) + se(sd = 0.5, length = 1)"),
        also_called=also("scikit-learn", "DotProduct"),
        see_also=("se", "normal"), source=f"{_BOOK}, section 4.2.2",
    ),
    _kernel(
        "white", _SD,
        summary="noise of each observation: independent, whatever the inputs are",
        formula="sd^2 for an observation with itself, 0 for two, also at equal inputs",
        scale="sd is the standard deviation of the noise",
        example=process("se(sd = s, length = 1) + white(sd = 0.1)"),
        also_called=(*also("scikit-learn", "WhiteKernel"), *also("PyMC", "WhiteNoise")),
        see_also=("normal", "se"), source=f"{_BOOK}, eq. 2.20",
        support="any inputs, which it does not look at",
    ),
)  # fmt: skip
