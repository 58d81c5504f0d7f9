"""Potentials: zero-centred sites on any affine expression of the latents."""

from __future__ import annotations

from lgmdsl.vocabulary.examples import SD, sparse
from lgmdsl.vocabulary.signature import Alias, Parameter, Signature, also

_GROUP = Parameter(
    "group",
    "group",
    required=False,
    meaning="an index, or a map: the potential is of the norm ||s|| over that index, or over the "
    "entries of each label, a density in as many dimensions as a group has entries",
)
_SCALE = Parameter("scale", "positive", meaning="in the unit of the expression")


def _potential(
    name: str,
    *parameters: Parameter,
    summary: str,
    formula: str,
    scale: str,
    see_also: tuple[str, ...],
    also_called: tuple[Alias, ...] = (),
    source: str = "",
    example: str = "",
    normed: bool = True,
) -> Signature:
    return Signature(
        name,
        "potential",
        (*parameters, _GROUP) if normed else parameters,
        summary=summary,
        formulas=(("", formula),),
        scale=scale,
        support="s, any affine expression of the latents, any number",
        example=example or sparse(f"{name}(scale = s)", SD),
        see_also=("potential", *see_also),
        also_called=also_called,
        source=source,
        without=() if source else ("source",),
    )


POTENTIALS: tuple[Signature, ...] = (
    _potential(
        "normal",
        Parameter("sd", "positive", meaning="standard deviation of the expression"),
        summary="squared loss: shrinks the expression towards zero in proportion (a ridge)",
        formula="exp(-s^2 / (2 sd^2)) / (sqrt(2 pi) sd)",
        scale="sd is the standard deviation of the expression; the penalty s^2 / (2 sd^2) is that "
              "of ridge regression with lambda = 1 / (2 sd^2)",
        example=sparse("normal(sd = s)", SD),
        also_called=also("scikit-learn", "Ridge"),
        see_also=("laplace", "flat"), source="Hoerl and Kennard 1970",
    ),
    _potential(
        "laplace", _SCALE,
        summary="absolute loss: sparse expressions, the lasso and total variation",
        formula="exp(-|s| / scale) / (2 scale)",
        scale="scale is the mean of |s|; the sd is sqrt(2) scale; the lasso's lambda is 1 / scale",
        also_called=also("scikit-learn", "Lasso l1"),
        see_also=("exp_power", "student_t", "diff"),
        source="Tibshirani 1996; Park and Casella 2008",
    ),
    _potential(
        "student_t", _SCALE,
        Parameter("df", "positive", meaning="degrees of freedom"),
        summary="heavy tails: most expressions near zero and a few far off (relevance vectors)",
        formula="Gamma((df + 1) / 2) / (Gamma(df / 2) sqrt(pi df) scale) "
                "(1 + s^2 / (df scale^2))^(-(df + 1) / 2)",
        scale="the sd is scale sqrt(df / (df - 2)) where df > 2; precisions ~ gamma(a, rate = b) "
              "of each entry integrate to df = 2 a, scale = sqrt(b / a)",
        example=sparse("student_t(scale = s, df = 3)", SD),
        also_called=also("scikit-learn", "ARDRegression ard"),
        see_also=("laplace", "exp_power"), source="Tipping 2001",
    ),
    _potential(
        "sech2", _SCALE,
        summary="smooth at zero with exponential tails: the laplace potential without its kink",
        formula="sech^2(s / scale) / (2 scale)",
        scale="the sd is pi scale / sqrt(12) = 0.91 scale; tails fall as those of laplace with "
              "half the scale",
        see_also=("logistic", "laplace"),
    ),
    _potential(
        "exp_power", _SCALE,
        Parameter("power", "positive", meaning="at most 2, which is normal"),
        summary="exponential power: between normal (power 2) and laplace (1), and sparser (below)",
        formula="exp(-|s / scale|^power) / (2 scale Gamma(1 + 1/power)), 0 < power <= 2",
        scale="the sd is scale sqrt(Gamma(3 / power) / Gamma(1 / power)); at power 2 scale is "
              "sqrt(2) sd",
        example=sparse("exp_power(scale = s, power = 0.5)", SD),
        see_also=("laplace", "normal"), source="Box and Tiao 1973, section 3.2",
    ),
    _potential(
        "logistic", _SCALE,
        summary="logistic density: smooth at zero with exponential tails",
        formula="sech^2(s / (2 scale)) / (4 scale)",
        scale="the sd is pi scale / sqrt(3) = 1.81 scale; it is sech2 with twice the scale",
        see_also=("sech2", "laplace"),
    ),
    _potential(
        "asymmetric_laplace", _SCALE,
        Parameter("level", "unit", meaning="0.5 is laplace of twice the scale"),
        summary="absolute loss with another slope on either side: the loss of quantile regression",
        formula="level (1 - level) / scale exp(-rho(-s / scale)), rho(u) = u (level - 1[u < 0])",
        scale="the slope is -(1 - level) / scale above 0 and level / scale below",
        example=sparse("asymmetric_laplace(scale = s, level = 0.7)", SD),
        see_also=("laplace", "exp_power"), source="Koenker and Bassett 1978", normed=False,
    ),
)  # fmt: skip
