"""Refused values under weights, zeros and delayed entry, in the user's words."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

TEXT = """lgm 1
index obs
data x[obs] : real
data y[obs] : {type}
{more}latent a ~ normal(sd = 3)
let eta[obs] = a + x
observe y ~ {family}
"""
ENTRY, SHARE = "data e[obs] : real\n", "data p[obs] : unit\n"


@pytest.mark.parametrize(
    ("type_", "family", "more", "data", "says", "help_"),
    [
        ("count", "poisson(log_rate = eta, truncated = true)", "", {"y": [0, 1, 2, 0]},
         "cannot occur under `poisson` with `truncated` in 2 rows", "take hurdle = p"),
        ("positive", "gamma(log_mean = eta, shape = 2)", "", {"y": [0, 1, 2, 0]},
         "found 0", "declare `y : nonnegative` and give its family hurdle = p"),
        ("nonnegative", "gamma(log_mean = eta, shape = 2, hurdle = 0.4)", "",
         {"y": [0, -1, 2, 0]}, "found -1", "negative values"),
        ("nonnegative", "gamma(log_mean = eta, shape = 2, hurdle = p)", SHARE,
         {"y": [0, 1, 2, 0], "p": [0, 0.5, 0.5, 0.5]},
         "under `gamma` with `hurdle` in 1 row", "hurdle = 0, y = 0"),
        ("positive", "weibull(log_scale = eta, shape = 2, entry = e)", ENTRY,
         {"y": [1, 2, 3, 4], "e": [0, 3, 1, 4]}, "`entry` is not before `y` in 2 rows",
         "leave out rows that never were"),
        ("positive", "loglogistic(log_scale = eta, shape = 2, upper = e, entry = 0.5)", ENTRY,
         {"y": [1, 2, 3, 4], "e": [2, 3, 1, 5]}, "lies outside `lower` and `upper`", "open"),
    ],
)  # fmt: skip
def test_a_refused_value(
    type_: str, family: str, more: str, data: dict[str, list[float]], says: str, help_: str
) -> None:
    model = lgm.loads(TEXT.format(type=type_, family=family, more=more))
    rows = {"x": np.arange(4.0), **{n: np.array(v, dtype=float) for n, v in data.items()}}
    with pytest.raises(lgm.DataError) as caught:
        lgm.fit(model, rows)
    assert "E303" in str(caught.value)
    assert says in str(caught.value) and help_ in str(caught.value)


@pytest.mark.thorough
def test_the_remedy_for_zeros_works() -> None:
    text = TEXT.format(
        type="nonnegative",
        family="gamma(log_mean = eta, shape = 2, hurdle = p)",
        more="hyper p : unit ~ beta(a = 1, b = 1)\n",
    )
    fit = lgm.fit(lgm.loads(text), {"x": np.zeros(4), "y": np.array([0.0, 1.0, 2.0, 0.0])})
    assert fit.converged and 0.3 < float(fit.mean("p")) < 0.7


ENDS = """lgm 1
index obs
data low[obs] : real
data high[obs] : real
data y[obs] : positive?
latent a ~ normal(sd = 3)
observe y ~ weibull(log_scale = a, shape = 2, lower = low, upper = high)
"""


def test_an_infinite_end_is_open() -> None:
    """As a missing one is; an end that is infinite the other way holds nothing."""
    high = np.array([1.0, np.inf, 3.0, np.inf])
    low = np.array([0.5, 1.0, -np.inf, 2.0])
    model = lgm.loads(ENDS)
    fit = lgm.fit(model, {"low": low, "high": high})
    optional = lgm.loads(ENDS.replace("real", "real?"))
    finite = {"low": np.where(np.isinf(low), np.nan, low), "high": np.where(high > 9, np.nan, high)}
    assert fit.log_evidence == pytest.approx(lgm.fit(optional, finite).log_evidence, abs=1e-12)
    with pytest.raises(lgm.DataError, match=r"E303.*low.*infinite(.|\n)*an open end is -inf there"):
        lgm.fit(model, {"low": np.array([0.5, np.inf, 1.0, 2.0]), "high": high})
    with pytest.raises(lgm.DataError, match="E304"):
        lgm.fit(model, {"low": low, "high": np.array([1.0, np.nan, 3.0, np.inf])})
