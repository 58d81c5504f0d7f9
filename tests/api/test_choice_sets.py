"""`available`: choice sets of one class, of none, and choices that are missing or impossible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.site_questions import expected

TEXT = """lgm 1
index obs
index class = {"bus", "car", "foot"}
data x[obs, class] : real
data y[obs] : class?
data av[obs, class] : binary
latent w ~ normal(sd = 1)
let eta[obs, class] = x * w
observe y ~ categorical(LINK = eta, available = av)
"""
LINKS = ("softmax", "probit")
METHODS = ("laplace", "natural-gradient")
ROWS = 6
X = np.random.default_rng(0).normal(size=(ROWS, 3))
LABELS = np.array(["bus", "car", "foot"])


def data(row: int, offered: list[int], y: str = "") -> dict[str, Any]:
    """Every class but in one row, whose choice is `y`."""
    available, chosen = np.ones((ROWS, 3), dtype=int), LABELS[np.arange(ROWS) % 3].astype("U9")
    available[row], chosen[row] = offered, y
    return {"x": X, "y": chosen, "av": available}


def fit(link: str, method: str, given: dict[str, Any]) -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT.replace("LINK", link)), given, method, tol=1e-10)


def without(given: dict[str, Any], row: int) -> dict[str, Any]:
    return {k: np.delete(v, row, axis=0) for k, v in given.items()}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    ("offered", "told"),
    [([0, 1, 1], "`bus`; available: car, foot"), ([0, 0, 0], "nothing is available")],
)
def test_a_choice_that_was_not_available(link: str, offered: list[int], told: str) -> None:
    with pytest.raises(lgm.DataError, match=r"not available in 1 row\b") as raised:
        fit(link, "laplace", data(4, offered, "bus"))
    assert raised.value.codes == ("E303",)
    assert told in str(raised.value) and "obs 4" in str(raised.value)
    with pytest.raises(lgm.DataError, match="cannot occur"):
        expected(f"categorical.{link}", 0, np.zeros(3), np.eye(3), available=offered)


@pytest.mark.few(3)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("method", METHODS)
def test_the_only_class_says_nothing(link: str, method: str) -> None:
    given = data(2, [0, 1, 0], "car")
    whole, rest = fit(link, method, given), fit(link, method, without(given, 2))
    assert whole.log_evidence == pytest.approx(rest.log_evidence, rel=1e-10)
    assert float(whole.mean("w")) == pytest.approx(float(rest.mean("w")), abs=1e-6)
    p = whole.predict({"x": X, "av": given["av"]}).response("y")["probability"].values
    np.testing.assert_array_equal(p[2], [0.0, 1.0, 0.0])


def test_the_only_class_by_every_rule() -> None:
    """log p = 0, and no derivative, for every rule of softmax sites; and for probits."""
    m, v = np.array([0.4, -2.0, 1.0]), np.eye(3) + 0.3
    rules = ("quadrature", "bohning", "log", "tilted", "product-of-sigmoids", "delta")
    for site, rule in (
        *(("categorical.softmax", r) for r in rules),
        ("categorical.probit", "quadrature"),
    ):
        found = expected(site, 1, m, v, rule=rule, available=[0, 1, 0])
        parts = (found.value, found.d_mean, found.d_variance)
        assert max(float(np.abs(part).max()) for part in parts) < 1e-12, rule


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("offered", [[1, 0, 1], [0, 0, 1], [0, 0, 0]])
def test_missing_choices_of_a_set(link: str, offered: list[int]) -> None:
    """They drop out of the fit; what is imputed and drawn is of the row's own set; where
    nothing is available every class has probability 0, and draws are missing."""
    given = data(1, offered)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(link, "laplace", given)
        rest = fit(link, "laplace", without(given, 1))
        filled: Array = found.impute()["y"].values[1]
        drawn = found.predict({"x": X, "av": given["av"]}).sample_response("y", 400, seed=1)
    assert found.log_evidence == pytest.approx(rest.log_evidence, rel=1e-10)
    there = np.array(offered) == 1
    seen = set(drawn.values[:, 1])
    if not there.any():
        assert not filled.any() and seen == {""}
        return
    assert filled.sum() == pytest.approx(1.0, rel=1e-12) and not filled[~there].any()
    assert seen == set(LABELS[there])
    share = (drawn.values[:, 1] == "foot").mean()
    assert share == pytest.approx(filled[2], abs=4.0 * np.sqrt(0.25 / 400))


@pytest.mark.parametrize("link", LINKS)
def test_nothing_available_cannot_be_simulated(link: str) -> None:
    given = data(3, [0, 0, 0])
    with pytest.raises(lgm.DataError, match="none of its classes is available"):
        lgm.simulate(
            lgm.loads(TEXT.replace("LINK", link)), {"x": X, "av": given["av"]}, sizes={"obs": ROWS}
        )
