"""Arguments that priors cannot take are told with the value and a remedy."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.priors.catalogue import prior
from lgmdsl.priors.prior import Unsuitable


@pytest.mark.parametrize(
    ("name", "type_", "arguments", "fault", "told"),
    [
        ("pc_sd", "positive", {"u": -1.0, "alpha": 0.1}, "u", "positive"),
        ("pc_sd", "positive", {"u": 1.0, "alpha": 1.0}, "alpha", "between 0 and 1"),
        ("pc_range", "positive", {"u": 1.0, "alpha": 0.0}, "alpha", "between 0 and 1"),
        ("pc_cor0", "correlation", {"u": 1.0, "alpha": 0.1}, "u", "between 0 and 1"),
        ("pc_cor1", "correlation", {"u": -1.0, "alpha": 0.1}, "u", "between -1 and 1"),
        ("pc_cor1", "correlation", {"u": 0.5, "alpha": 0.5}, "alpha", "above sqrt((1 - u) / 2)"),
        ("pc_df", "positive", {"u": 2.0, "alpha": 0.5}, "u", "above 2"),
        ("pc_mix", "unit", {"graph": np.ones(3), "u": 0.5, "alpha": 0.5}, "graph", "connect"),
        ("pc_mix", "unit", {"graph": np.arange(3.0), "u": 0.5, "alpha": 1.5}, "alpha", "between"),
        ("half_normal", "positive", {"sd": 0.0}, "sd", "positive"),
        ("half_normal", "positive", {"sd": np.nan}, "sd", "finite"),
        ("normal", "real", {"sd": np.array([1.0, -2.0])}, "sd", "is -2"),
        ("gamma", "positive", {"shape": -1.0, "rate": 1.0}, "shape", "positive"),
        ("inv_gamma", "positive", {"shape": 1.0, "scale": -1.0}, "scale", "positive"),
        ("beta", "unit", {"a": 1.0, "b": -1.0}, "b", "positive"),
        ("uniform", "real", {"lower": 2.0, "upper": 2.0}, "lower", "below upper"),
        ("uniform", "positive", {"lower": -2.0, "upper": -1.0}, "upper", "above 0"),
        ("uniform", "unit", {"lower": 1.0, "upper": 2.0}, "lower", "unit"),
        ("lkj_cov", "covariance", {"eta": 0.0, "u": 1.0, "alpha": 0.1}, "eta", "positive"),
        ("inv_wishart", "covariance", {"df": 1.0, "scale": np.eye(2)}, "df", "above 1"),
        ("inv_wishart", "covariance", {"df": 3.0, "scale": np.array(1.0)}, "scale", "matrix"),
        ("inv_wishart", "covariance", {"df": 3.0, "scale": -np.eye(2)}, "scale", "definite"),
        ("inv_wishart", "covariance", {"df": 3.0, "scale": [[1, 0.5], [0, 1]]}, "scale", "symm"),
        ("dirichlet", "simplex", {"alpha": np.array([1.0, 0.0])}, "alpha", "positive"),
        ("graphical_lasso", "covariance", {"rate": -1.0}, "rate", "positive"),
    ],
)
def test_refused(
    name: str, type_: str, arguments: dict[str, object], fault: str, told: str
) -> None:
    with pytest.raises(Unsuitable) as caught:
        prior(name, type_, **arguments)
    assert caught.value.codes == ("E303",) and caught.value.argument == fault
    assert told in str(caught.value) and f"`{name}`" in str(caught.value)
    assert caught.value.diagnostic.help
