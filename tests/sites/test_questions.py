"""The public calls: shapes, rules, and every refusal with its code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lgmdsl.errors import LgmError
from lgmdsl.site_questions import expected, tilted


def test_shapes_broadcast() -> None:
    a = expected("bernoulli.logit", [[0], [1]], [0.0, 1.0, 2.0], 0.5, second=True)
    assert a.value.shape == a.d_mean.shape == (2, 3)
    assert a.d_variance2 is not None and a.d_variance2.shape == (2, 3)
    assert tilted("poisson.log_rate", 3, 0.3, 2.0, exposure=[1.0, 2.0]).mean.shape == (2,)
    assert expected("bernoulli.logit", 1, 0.0, 1.0).value.shape == ()
    assert expected("binomial.logit", [], [], [], n=3).value.shape == (0,)


def test_defaults_and_clashing_names() -> None:
    one = expected("poisson.log_rate", 3, 0.3, 2.0)
    assert one.value == expected("poisson.log_rate", 3, 0.3, 2.0, exposure=1.0).value
    shifted = expected("normal.log_var", 1.0, 0.0, 1.0, mean=1.0)
    assert shifted.value > expected("normal.log_var", 1.0, 0.0, 1.0).value
    # exp_power of power 1 is the Laplace density.
    x = tilted("exp_power", None, 0.7, 2.0, scale=1.3, power=1.0)
    y = tilted("laplace", None, 0.7, 2.0, scale=1.3)
    np.testing.assert_allclose([x.log_mass, x.mean, x.variance], [y.log_mass, y.mean, y.variance])


def test_known_identities() -> None:
    # sech2(scale) is logistic(scale / 2); exp_power(scale, 2) is normal of sd scale / sqrt 2.
    for pair in (
        (("sech2", {"scale": 1.4}), ("logistic", {"scale": 0.7})),
        (("exp_power", {"scale": 1.4, "power": 2.0}), ("normal", {"sd": 1.4 / np.sqrt(2.0)})),
    ):
        a, b = (expected(n, None, [-2.0, 0.3], [0.2, 9.0], **p) for n, p in pair)
        np.testing.assert_allclose(a.value, b.value, rtol=1e-11)
        np.testing.assert_allclose(a.d_variance, b.d_variance, rtol=1e-10)
    # Large size and df approach their limits.
    a = expected("negbinomial.log_mean", 4, 0.5, 1.0, size=1e9)
    b = expected("poisson.log_rate", 4, 0.5, 1.0)
    assert abs(float(a.value - b.value)) < 1e-7
    a = expected("student_t.mean", 0.3, 0.5, 1.0, scale=1.2, df=1e9)
    b = expected("normal.mean", 0.3, 0.5, 1.0, sd=1.2)
    assert abs(float(a.value - b.value)) < 1e-7


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("E103", lambda: expected("bernoulli.logti", 1, 0, 1)),
    ("E103", lambda: expected("bernoulli.logit", 1, 0, 1, rule="quadratur")),
    ("E104", lambda: expected("bernoulli.logit", 1, 0, 1, n=3)),
    ("E104", lambda: expected("binomial.logit", 1, 0, 1)),
    ("E104", lambda: expected("laplace", 1, 0, 1, scale=1)),
    ("E104", lambda: tilted("bernoulli.logit", None, 0, 1)),
    ("E301", lambda: expected("bernoulli.logit", [1, 0], [0, 0, 0], 1)),
    ("E303", lambda: expected("bernoulli.logit", 2, 0, 1)),
    ("E303", lambda: expected("bernoulli.logit", np.nan, 0, 1)),
    ("E303", lambda: expected("bernoulli.logit", "yes", 0, 1)),
    ("E303", lambda: expected("bernoulli.logit", [object()], 0, 1)),
    ("E303", lambda: expected("bernoulli.logit", 1, np.inf, 1)),
    ("E303", lambda: expected("bernoulli.logit", 1, 0, -1)),
    ("E303", lambda: expected("bernoulli.logit", 1, 0, np.nan)),
    ("E303", lambda: expected("poisson.log_rate", -1, 0, 1)),
    ("E303", lambda: expected("poisson.log_rate", 1.5, 0, 1)),
    ("E303", lambda: expected("poisson.log_rate", 1, 0, 1, exposure=0)),
    ("E303", lambda: expected("gamma.log_mean", 0, 0, 1, shape=1)),
    ("E303", lambda: expected("binomial.probit", 4, 0, 1, n=3)),
    ("E303", lambda: expected("exp_power", None, 0, 1, scale=1, power=2.5)),
    ("E303", lambda: expected("categorical.stick", 4, np.zeros(3), np.eye(3))),
    ("E303", lambda: expected("categorical.softmax", 3, np.zeros(3), np.eye(3))),
    ("E504", lambda: expected("categorical.stick", 1, np.zeros(3), np.eye(3), rule="tilted")),
    ("E303", lambda: tilted("bernoulli.logit", 1, 0, 1, power=0.0)),
    ("E303", lambda: tilted("bernoulli.logit", 1, 0, 1, power=1.5)),
]


@pytest.mark.parametrize(("code", "call"), REFUSED)
def test_refusals(code: str, call: Callable[[], object]) -> None:
    with pytest.raises(LgmError) as raised:
        call()
    assert raised.value.codes == (code,)


def test_they_are_the_public_names() -> None:
    import lgmdsl as lgm

    assert lgm.sites.expected is expected
    assert lgm.sites.tilted is tilted
    assert {"expected", "tilted"} <= set(dir(lgm.sites))
    with pytest.raises(AttributeError):
        _ = lgm.sites.expectation


def test_stick_breaking_answers_by_its_logistic_sites() -> None:
    rng = np.random.default_rng(2)
    y, mean = np.arange(4), rng.normal(size=(4, 3))
    root = rng.normal(size=(4, 3, 3))
    variance = np.einsum("nij,nkj->nik", root, root)
    found = expected("categorical.stick", y, mean, variance)
    draws = mean + np.einsum("nij,pnj->pni", root, rng.normal(size=(200_000, 4, 3)))
    reached = np.arange(3) <= y[:, None]
    sign = np.where(np.arange(3) == y[:, None], 1.0, -1.0)
    log = np.where(reached, -np.logaddexp(0.0, -sign * draws), 0.0).sum(axis=-1)
    noise = log.std(axis=0) / np.sqrt(len(log))
    assert (np.abs(found.value - log.mean(axis=0)) < 5.0 * noise).all()
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-5
        up = expected("categorical.stick", y, mean + step, variance).value
        down = expected("categorical.stick", y, mean - step, variance).value
        np.testing.assert_allclose(found.d_mean[:, j], (up - down) / 2e-5, atol=1e-7)
        more = variance.copy()
        more[:, j, j] += 1e-6
        up = expected("categorical.stick", y, mean, more).value
        np.testing.assert_allclose(found.d_variance[:, j, j], (up - found.value) / 1e-6, atol=1e-5)
    assert not found.d_variance[:, 0, 1].any()
    by_bound = expected("categorical.stick", y, mean, variance, rule="jaakkola")
    assert (by_bound.value < found.value).all()
    mass = tilted("categorical.stick", y, mean, variance)
    assert mass.mean.shape == (4, 3) and mass.variance.shape == (4, 3, 3)
    exact = np.log(np.exp(log).mean(axis=0))
    np.testing.assert_allclose(mass.log_mass, exact, atol=0.01)
