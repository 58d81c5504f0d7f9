"""Softmax sites: conformance with and without a reference, liars caught, limits far out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.contract.site import Site
from lgmdsl.sites.vector.softmax import CategoricalSoftmax, MultinomialSoftmax
from lgmdsl.testing.site_checks import check_site, site_failures


def categorical(n: int = 6, k: int = 3, seed: int = 0, kind: type = CategoricalSoftmax) -> Site:
    """Random classes, some of them not on offer."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    available = rng.random((n, k)) < 0.8
    available[np.arange(n), y] = True
    made: Site = kind(y.astype(float), available.astype(float))
    return made


def multinomial(n: int = 5, k: int = 3, seed: int = 0) -> MultinomialSoftmax:
    """Counts of 1 to 5 trials."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 6, n)
    counts = rng.multinomial(trials, np.full(k, 1.0 / k))
    return MultinomialSoftmax(counts.astype(np.float64), trials.astype(np.float64))


@pytest.mark.parametrize(("make", "predictors"), [(categorical, 3), (multinomial, 2)])
def test_families_conform(make: type, predictors: int) -> None:
    check_site(make(), predictors=predictors)


class WrongThird(CategoricalSoftmax):
    """The third derivative of another sign."""

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = super().pointwise(s, variance)
        return PointwiseAnswer(a.value, a.slope, a.curvature, -a.third)


class WrongDraws(CategoricalSoftmax):
    """The likeliest class always."""

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        return np.asarray(self.conditional_mean(s).argmax(axis=1), dtype=np.float64)


@pytest.mark.parametrize(
    ("wrong", "complaint"), [(WrongThird, "third of predictor"), (WrongDraws, "draws of class")]
)
def test_the_check_catches(wrong: type, complaint: str) -> None:
    assert any(complaint in failure for failure in site_failures(categorical(kind=wrong)))


def test_two_classes_are_a_logistic_site() -> None:
    s = np.linspace(-30.0, 30.0, 7)
    one = np.ones(7)
    site = CategoricalSoftmax(one - 1.0, np.ones((7, 2)))
    a = site.pointwise(s[:, None], 2.0 * one[:, None, None])
    np.testing.assert_allclose(a.value, special.log_expit(s), rtol=1e-14)
    np.testing.assert_allclose(a.slope[:, 0], special.expit(-s), rtol=1e-13)
    bend = special.expit(s) * special.expit(-s)
    np.testing.assert_allclose(a.curvature[:, 0, 0], -bend, rtol=1e-13)
    np.testing.assert_allclose(a.third[:, 0], -2.0 * bend * (1 - 2 * special.expit(s)), rtol=1e-12)


def test_multinomial_is_that_of_scipy() -> None:
    site, rng = multinomial(8, 4), np.random.default_rng(1)
    s = rng.normal(size=(8, 4))
    known = stats.multinomial.logpmf(site.y, site.n.astype(np.int64), special.softmax(s, axis=1))
    np.testing.assert_allclose(site.log_density(s), known, rtol=1e-12)
    wrong = MultinomialSoftmax(site.y, site.n + 1.0)
    assert (wrong.log_density(s) == -np.inf).all()


def test_what_is_not_on_offer_has_no_part() -> None:
    rng = np.random.default_rng(2)
    s = rng.normal(size=(1, 4))
    masked = CategoricalSoftmax(np.array([2.0]), np.array([[1.0, 0.0, 1.0, 1.0]]))
    few = CategoricalSoftmax(np.array([1.0]), np.ones((1, 3)))
    kept = [0, 2, 3]
    a, b = masked.pointwise(s), few.pointwise(s[:, kept])
    assert a.value[0] == pytest.approx(b.value[0], rel=1e-14)
    np.testing.assert_allclose(a.slope[0, kept], b.slope[0], rtol=1e-14)
    assert a.slope[0, 1] == 0.0 and not a.curvature[0, 1].any()
    gone = CategoricalSoftmax(np.array([1.0]), masked.available)
    assert gone.log_density(s)[0] == -np.inf
    assert set(masked.take(np.zeros(200, int)).sample(np.tile(s, (200, 1)), rng)) <= {0.0, 2.0, 3.0}


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ({"y": 3}, "E303", "cannot occur"),
        ({"y": 0.5}, "E303", "position of a class"),
        ({"y": 1, "available": [1, 0, 1]}, "E303", "cannot occur"),
        ({"y": 1, "available": [1, 1]}, "E301", "3 predictors"),
        ({"y": 1, "variance": np.eye(2)}, "E301", "`variance` has shape"),
        ({"y": 1, "mean": 0.3}, "E301", "last axis"),
        ({"y": 1, "variance": -np.eye(3)}, "E303", "negative eigenvalue"),
        ({"y": 1, "variance": np.triu(np.ones((3, 3)))}, "E303", "not symmetric"),
        ({"y": 1, "mean": np.full(3, np.nan)}, "E303", "finite"),
        ({"y": 1, "rule": "jaakkola"}, "E504", "no softmax"),
        ({"y": 1, "offered": 1}, "E104", "offered"),
    ],
)
def test_refusals_of_the_public_call(call: dict[str, object], code: str, said: str) -> None:
    given = {"mean": np.zeros(3), "variance": np.eye(3), **call}
    with pytest.raises(lgm.LgmError) as raised:
        lgm.sites.expected("categorical.softmax", **given)
    assert raised.value.codes == (code,)
    assert said in str(raised.value) or code == "E504"


def test_the_public_call_broadcasts() -> None:
    m, v = np.zeros((4, 1, 3)), np.eye(3)
    a = lgm.sites.expected("categorical.softmax", [0, 1], m, v, rule="log")
    assert a.value.shape == (4, 2) and a.d_mean.shape == (4, 2, 3)
    assert a.d_variance.shape == (4, 2, 3, 3) and a.d_variance2 is None
    assert lgm.sites.expected("categorical.softmax", 0, np.zeros(3), v).value.shape == ()
    counts = lgm.sites.expected("multinomial.softmax", [2, 1, 0], np.zeros(3), v, n=3)
    twice = [lgm.sites.expected("categorical.softmax", k, np.zeros(3), v).value for k in (0, 0, 1)]
    assert counts.value == pytest.approx(np.log(3.0) + sum(twice), rel=1e-12)
    t = lgm.sites.tilted("categorical.softmax", [0, 1], m, v)
    assert t.mean.shape == (4, 2, 3) and t.variance.shape == (4, 2, 3, 3)
    assert np.allclose(t.log_mass, np.log(1.0 / 3.0), atol=1e-9)
