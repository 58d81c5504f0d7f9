"""Vector sites at the edges: nothing observed, one class, classes nobody chose or can choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

TEXT = """lgm 1
index obs
index class = {"a", "b", "c"}
data y[obs] : class?
data av[obs, class] : binary
data x[obs] : real
latent b[class] ~ normal(sd = 1.5)
let eta[obs, class] = x * b
observe y ~ categorical(LINK = eta, available = av)
"""
METHODS = ("laplace", "natural-gradient", "cholesky", "coordinate-ascent")
X = np.array([1.0, -1.0, 0.5, 2.0])


def fit(link: str, method: str, y: list[str], av: Any = None, text: str = TEXT) -> lgm.Fit:
    offered = np.ones((4, text.count('", "') + 1)) if av is None else av
    model = lgm.loads(text.replace("LINK", link))
    return lgm.fit(model, {"x": X, "y": y, "av": offered}, method)


@pytest.mark.few(1)
@pytest.mark.parametrize("link", ["softmax", "probit"])
@pytest.mark.parametrize("method", METHODS)
def test_nothing_observed_is_the_prior(link: str, method: str) -> None:
    found = fit(link, method, [""] * 4)
    assert found.converged and found.log_evidence == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(found.sd("b"), 1.5, rtol=1e-12)


@pytest.mark.parametrize("link", ["softmax", "probit"])
def test_one_class_says_nothing(link: str) -> None:
    one = TEXT.replace('{"a", "b", "c"}', '{"a"}')
    for method in METHODS:
        found = fit(link, method, ["a"] * 4, np.ones((4, 1)), one)
        assert found.converged and found.log_evidence == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("link", ["softmax", "probit"])
def test_choice_sets(link: str) -> None:
    """A row with one class on offer says nothing; none on offer, or not the one chosen: refused."""
    y, some = ["a", "b", "a", "a"], np.ones((4, 3))
    some[1] = 0, 1, 0
    a, b = fit(link, "laplace", y, some), fit(link, "laplace", ["a", "", "a", "a"])
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=1e-9)
    for row in ((0, 0, 0), (1, 0, 1)):
        some[1] = row
        with pytest.raises(lgm.DataError, match="not available") as raised:
            fit(link, "laplace", y, some)
        assert raised.value.codes == ("E303",)
    some[1] = 0
    told = a.predict({"x": X, "av": some}).response("y").probability
    assert not told[1].any() and float(told[0].sum()) == pytest.approx(1.0, rel=1e-9)


def test_a_class_that_nobody_chose_stays_near_its_prior() -> None:
    found = fit("softmax", "natural-gradient", ["a", "b", "a", "a"])
    assert found.converged and abs(float(found.mean("b")[2])) < 1.0
    assert 1.0 < float(found.sd("b")[2]) < 1.5


def test_draws_need_a_class_on_offer() -> None:
    model, some = lgm.loads(TEXT.replace("LINK", "softmax")), np.ones((4, 3), dtype=int)
    some[2] = 0, 0, 1
    drawn = lgm.simulate(model, {"x": X, "av": some})
    assert drawn["y"][2] == "c" and lgm.fit(model, drawn, "laplace").converged
    some[2] = 0
    with pytest.raises(lgm.DataError, match="none of its classes is available") as raised:
        lgm.simulate(model, {"x": X, "av": some})
    assert raised.value.codes == ("E303",)
