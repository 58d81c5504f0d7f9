"""Responses known by the ends of an interval alone: y absent, or missing in some rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.errors import DataError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of

TEXT = """lgm 1
index obs
data y[obs] : {kind}
data x[obs] : real
data lo[obs] : real?
data hi[obs] : real?
{more}latent a ~ normal(sd = 3)
latent b ~ normal(sd = 2)
let eta[obs] = a + b * x
observe y ~ {family}
"""
WEIBULL = "weibull(log_scale = eta, shape = 1.5, lower = lo, upper = hi)"
NORMAL = "normal(mean = eta, sd = 0.7, lower = lo, upper = hi)"


def text(family: str = WEIBULL, kind: str = "positive", more: str = "") -> str:
    return TEXT.format(kind=kind, family=family, more=more)


def ends(rows: int = 40, positive: bool = True) -> pd.DataFrame:
    """Rows with both ends, one of them, or (the last) y between two of them."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=rows)
    y = np.exp(0.4 * x) * rng.weibull(1.5, rows) if positive else 0.4 * x + rng.normal(size=rows)
    lo, hi = y - 0.3 * np.abs(y), y + 0.3 * np.abs(y)
    lo[: rows // 4] = np.nan
    hi[rows // 4 : rows // 2] = np.nan
    return pd.DataFrame({"x": x, "lo": lo, "hi": hi})


def between(data: pd.DataFrame) -> Any:
    """The made-up third column that used to be asked for."""
    return np.where(
        np.isnan(data.lo), data.hi * 0.99, np.where(np.isnan(data.hi), data.lo + 0.1, data.lo)
    )


@pytest.mark.parametrize(
    ("family", "kind", "positive"), [(WEIBULL, "positive", True), (NORMAL, "real", False)]
)
@pytest.mark.parametrize("optional", ["", "?"])
def test_without_y_as_with_any_y_between_the_ends(
    family: str, kind: str, positive: bool, optional: str
) -> None:
    data = ends(positive=positive)
    if not positive:
        data["hi"] = np.where(data.hi < 0, np.nan, data.hi)
        data = data[~(np.isnan(data.lo) & np.isnan(data.hi))].reset_index(drop=True)
    given = data.assign(y=between(data))
    model = lgm.loads(text(family, kind + optional))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = lgm.fit(model, data, method="laplace")
    wanted = lgm.fit(model, given, method="laplace")
    assert fit.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-7)
    assert float(fit.mean("b")) == pytest.approx(float(wanted.mean("b")), abs=1e-5)
    if optional:
        holes = given.assign(y=np.where(np.arange(len(given)) % 2, given.y, np.nan))
        some = lgm.fit(model, holes, method="laplace")
        assert some.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-7)


def test_what_is_made_of_y_is_not_what_was_put_there() -> None:
    data = ends()
    fit = lgm.fit(lgm.loads(text()), data, method="laplace")
    assert fit.impute().missing("y").values.all()
    assert fit.augment(data)["y_residual"].isna().all()
    mean = fit.predict(data).response("y")["mean"].values
    assert fit.impute()["y"].values == pytest.approx(mean)


def test_rows_without_any_end_are_predicted_or_refused() -> None:
    data = ends()
    data.loc[3, ["lo", "hi"]] = np.nan
    with pytest.raises(DataError, match=r"E304.*`y` is missing, and so are `lower` and `upper`"):
        lgm.fit(lgm.loads(text()), data, method="laplace")
    fit = lgm.fit(lgm.loads(text(kind="positive?")), data, method="laplace")
    rest = lgm.fit(lgm.loads(text()), data.drop(index=3), method="laplace")
    assert fit.log_evidence == pytest.approx(rest.log_evidence, abs=1e-9)
    assert fit.impute()["y"].sizes["obs"] == len(data)


def test_with_delayed_entry() -> None:
    data = ends().assign(entry=0.05)
    data["entry"] = np.minimum(data.entry, np.nan_to_num(data.lo, nan=0.04))
    family = WEIBULL.replace("lower", "entry = entry, lower")
    model = lgm.loads(text(family, more="data entry[obs] : real\n"))
    data["hi"] = np.where(data.hi < 0.06, np.nan, data.hi)
    data["lo"] = np.where(np.isnan(data.hi) & np.isnan(data.lo), 0.06, data.lo)
    fit = lgm.fit(model, data, method="laplace")
    middle = np.where(np.isnan(data.hi), 2 * data.lo, data.hi * 0.999)
    wanted = lgm.fit(model, data.assign(y=middle), method="laplace")
    assert fit.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-9)


def test_absent_without_ends_it_is_an_error_still() -> None:
    plain = text("weibull(log_scale = eta, shape = 1.5)")
    with pytest.raises(DataError, match=r"E305.*`y`"):
        lgm.fit(lgm.loads(plain), ends())
    with pytest.raises(DataError, match=r"E305.*`y` \(as `nothing`\)"):
        lgm.fit(lgm.loads(text()), ends(), mapping={"y": "nothing"})


def test_an_open_end_is_no_missing_covariate() -> None:
    def codes(model: str) -> set[str]:
        return {w.code for w in warnings_of(model_graph(lgm.loads(model).checked))}

    assert codes(text()) == set()
    assert codes(text().replace("b * x", "b * x + 0 * lo")) == {"W105"}
    shifted = text().replace("let eta", "let low[obs] = 2 * lo\nlet eta").replace("= lo,", "= low,")
    assert codes(shifted) == set()
