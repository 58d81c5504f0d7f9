"""The bounds of logistic sites: they bound, within their gap; derivatives; tightness; symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from lgmdsl.arrays import Array
from lgmdsl.bounds import piecewise
from lgmdsl.bounds.catalogue import bound
from lgmdsl.bounds.logistic import logistic_form
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.sites.catalogue import site

NAMES = [
    "jaakkola", "bohning", "piecewise-linear-3", "piecewise-linear-6", "piecewise-linear-40",
    "piecewise-quadratic-3", "piecewise-quadratic-4", "piecewise-quadratic-10",
    "piecewise-quadratic-20", "piecewise-quadratic-39", "piecewise-quadratic-40",
]  # fmt: skip


def sites() -> list[Site]:
    """All families the bounds apply to, with their edge cases of y."""
    a: Any = site("bernoulli.logit")
    b: Any = site("binomial.logit")
    c: Any = site("sech2")
    d: Any = site("logistic")
    return [
        a(np.array([0.0, 1.0])),
        b(np.array([0.0, 3.0, 7.0]), np.full(3, 7.0)),
        c(np.array([0.3, 2.0])),
        d(np.array([0.5, 1.7])),
    ]


def trials(s: Site) -> Array:
    return logistic_form(s).n


def lifted(name: str, s: Site) -> Expected:
    found = bound(name, Expected)
    assert found.applies_to(type(s)) == ""
    answer = found.lift(s)
    assert isinstance(answer, Expected)
    return answer


def brute(s: Site, mean: Array, sd: Array, nodes: int = 12001) -> Array:
    """E[l], trapezoid over +-12 sd; exponentially accurate for steps below the softplus' strip."""
    t = np.linspace(-12.0, 12.0, nodes)
    w = np.exp(-0.5 * t * t)
    w /= w.sum()
    many = s.take(np.repeat(np.arange(len(s)), nodes))
    x = mean[:, None] + sd[:, None] * t
    return np.asarray(many.log_density(x.ravel()).reshape(x.shape) @ w)


@given(
    st.sampled_from(NAMES),
    st.floats(-30.0, 30.0),
    st.floats(np.log10(1e-3), np.log10(30.0)).map(lambda t: 10.0**t),
)
def test_bounds_bound_within_their_gap(name: str, m: float, sd: float) -> None:
    spec = bound(name, Expected).spec
    assert spec.guarantee is Guarantee.LOWER
    for s in sites():
        mean, sds = np.full(len(s), m), np.full(len(s), sd)
        # Narrow potentials bend on their own scale.
        nodes = 12001 if sd < 5 else 40001
        truth = brute(s, mean, sds, nodes)
        found = lifted(name, s).expected(mean, sds**2).value
        scale = 1e-12 * np.maximum(1.0, np.abs(truth)) + 1e-11 * (np.abs(m) + sd)
        assert np.all(found <= truth + scale)
        if np.isfinite(spec.error):
            assert np.all(truth - found <= trials(s) * spec.error + scale)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", range(4))
def test_derivatives_are_those_of_the_value(name: str, which: int) -> None:
    s = sites()[which]
    rng = np.random.default_rng(which)
    s = s.take(rng.integers(len(s), size=300))
    m = rng.normal(0.0, 4.0, 300)
    v = 10.0 ** rng.uniform(-3.0, 3.0, 300)
    f = lifted(name, s).expected
    a = f(m, v, second=True)
    assert a.d_mean_variance is not None and a.d_variance2 is not None
    # Steps and errors in units of what the curve varies on: the sd, or 1 where that is wider.
    unit = np.minimum(np.sqrt(v), logistic_form(s).width)
    h, k = 1e-4 * unit, 1e-4 * unit**2

    def close(high: Array, low: Array, step: Array, known: Array, power: int) -> None:
        # At most n, in units that the power of the step's own scale makes equal.
        scale = trials(s) * (np.abs(m) + np.sqrt(v) + 1.0) / logistic_form(s).width
        error = np.abs((high - low) / (2.0 * step) - known)
        assert np.all(error * unit**power <= 3e-7 * np.maximum(scale, 1.0))

    up, down = f(m + h, v), f(m - h, v)
    close(up.value, down.value, h, a.d_mean, 1)
    close(up.d_variance, down.d_variance, h, a.d_mean_variance, 3)
    more, less = f(m, v + k), f(m, v - k)
    close(more.value, less.value, k, a.d_variance, 2)
    close(more.d_mean, less.d_mean, k, a.d_mean_variance, 3)
    close(more.d_variance, less.d_variance, k, a.d_variance2, 4)
    # E[rho] obeys the heat equation, so 2 df/dv serves; the others move xi with m and say so.
    close(up.d_mean, down.d_mean, h, a.curvature, 2)
    assert (a.d_mean2 is None) == name.startswith("piecewise")
    assert f(m, v).d_variance2 is None and f(m, v).d_mean_variance is None


def test_jaakkola_takes_the_best_xi() -> None:
    """Against the bound with its xi, minimised numerically, and the super-Gaussian form of g."""
    s: Any = sites()[1]
    for m, v in [(0.0, 1e-6), (0.4, 2.0), (-3.0, 9.0), (12.0, 0.1)]:
        mean, variance = np.full(3, m), np.full(3, v)

        def loose(xi: float, m: float = m, v: float = v) -> float:
            weight = np.tanh(0.5 * xi) / (4.0 * xi)
            return float(0.5 * (m - xi) + weight * (m * m + v - xi * xi) + np.logaddexp(0.0, xi))

        best = optimize.minimize_scalar(loose, bounds=(1e-6, 50.0), options={"xatol": 1e-10})
        found = lifted("jaakkola", s).expected(mean, variance)
        np.testing.assert_allclose(
            found.value, s.constant + s.y * m - s.n * best.fun, rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(
            found.value, s.beta * mean + s.g(mean**2 + variance)[0], rtol=1e-12, atol=1e-12
        )


def test_bohning_takes_the_best_point() -> None:
    s: Any = site("bernoulli.logit")(np.array([1.0]))  # type: ignore[call-arg]
    for m, v in [(0.0, 1.0), (-2.0, 9.0), (5.0, 0.2)]:

        def loose(p: float, m: float = m, v: float = v) -> float:
            steep = special.expit(p) * (m - p)
            return float(np.logaddexp(0.0, p) + steep + ((m - p) ** 2 + v) / 8.0)

        best = optimize.minimize_scalar(loose, bounds=(-30.0, 30.0), options={"xatol": 1e-10})
        found = lifted("bohning", s).expected(np.array([m]), np.array([v]))
        np.testing.assert_allclose(found.value, m - best.fun, rtol=1e-9)
        assert found.d_variance == -0.125


@pytest.mark.thorough
def test_more_pieces_are_tighter() -> None:
    """The largest gap over a grid shrinks with R, and the integrated one as the declared."""
    s: Any = site("bernoulli.logit")(np.ones(400))  # type: ignore[call-arg]
    m = np.tile(np.linspace(-6.0, 6.0, 40), 10)
    sd = np.repeat(np.geomspace(0.05, 10.0, 10), 40)
    truth = brute(s, m, sd)
    for kind in ("linear", "quadratic"):
        worst = [
            np.max(truth - lifted(f"piecewise-{kind}-{r}", s).expected(m, sd**2).value)
            for r in (4, 8, 16, 32)
        ]
        assert worst == sorted(worst, reverse=True) and worst[-1] < 0.1 * worst[0]


def test_many_pieces_approach_quadrature() -> None:
    for s in sites():
        m, v = np.linspace(-3.0, 4.0, len(s)), np.full(len(s), 6.0)
        near = lifted("piecewise-quadratic-40", s).expected(m, v, second=True)
        exact = lifted("quadrature", s).expected(m, v, second=True)
        for name in ("value", "d_mean", "d_variance", "d_mean_variance", "d_variance2"):
            np.testing.assert_allclose(
                getattr(near, name), getattr(exact, name), atol=2e-4 * trials(s).max()
            )


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_independent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permuted, taken one by one or in chunks, the answers are the same."""
    rng = np.random.default_rng(5)
    s = sites()[1].take(rng.integers(3, size=50))
    m, v = rng.normal(0, 5, 50), rng.gamma(0.5, 9.0, 50)
    a = lifted(name, s).expected(m, v, second=True)
    order = rng.permutation(50)
    monkeypatch.setattr(piecewise, "_ENTRIES_PER_PASS", 200)
    b = lifted(name, s.take(order)).expected(m[order], v[order], second=True)
    for part in ExpectedAnswer.__dataclass_fields__:
        found, known = getattr(b, part), getattr(a, part)
        if known is None:
            assert found is None and part == "d_mean2"
        else:
            np.testing.assert_allclose(found, known[order], rtol=1e-12, atol=1e-13)
    few: Any = lifted(name, s)
    for one in (lifted(name, s.take(np.array([7]))), few.take(np.array([7]))):
        found = one.expected(m[7:8], v[7:8])
        np.testing.assert_allclose(found.value, a.value[7:8], rtol=1e-13)
    none = lifted(name, s.take(np.arange(0))).expected(m[:0], v[:0], second=True)
    assert none.value.shape == none.d_variance2.shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_a_binomial_site_is_its_trials(name: str) -> None:
    """y of n is y ones and n - y zeros; classes swapped with the sign of s change nothing."""
    m, v = np.array([0.7]), np.array([2.3])
    whole: Any = site("binomial.logit")(np.array([2.0]), np.array([5.0]))  # type: ignore[call-arg]
    ones: Any = site("bernoulli.logit")(np.array([1, 1, 0, 0, 0.0]))  # type: ignore[call-arg]
    a = lifted(name, whole).expected(m, v)
    b = lifted(name, ones).expected(np.repeat(m, 5), np.repeat(v, 5))
    np.testing.assert_allclose(a.value - whole.constant, b.value.sum(), rtol=1e-13)
    np.testing.assert_allclose(a.d_mean, b.d_mean.sum(), rtol=1e-12)
    flipped: Any = site("bernoulli.logit")(1.0 - ones.y)  # type: ignore[call-arg]
    c = lifted(name, flipped).expected(np.repeat(-m, 5), np.repeat(v, 5))
    np.testing.assert_allclose(c.value, b.value, rtol=1e-14)
    np.testing.assert_allclose(c.d_mean, -b.d_mean, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("m", [0.0, -1e-9, 3.0, -40.0, 1e4, -1e8, 1e150])
@pytest.mark.parametrize("v", [0.0, 1e-20, 1.0, 1e8, 1e20])
def test_extremes_are_finite(name: str, m: float, v: float) -> None:
    """Deterministic, far out or wildly uncertain: finite numbers, and still a lower bound."""
    for s in sites():
        mean, variance = np.full(len(s), m), np.full(len(s), v)
        a = lifted(name, s).expected(mean, variance, second=v > 1e-6)
        for part in (a.value, a.d_mean, a.d_variance, a.d_mean_variance, a.d_variance2):
            assert part is None or np.isfinite(part).all()
        if v <= 1e-20:
            truth = s.log_density(mean)
            assert np.all(a.value <= truth + 1e-12 * np.maximum(1.0, np.abs(truth)))


@pytest.mark.parametrize("name", NAMES)
def test_tails_keep_their_digits(name: str) -> None:
    """A sure success costs what the bound leaves there, not the rounding of m."""
    s: Any = site("bernoulli.logit")(np.array([1.0, 0.0]))  # type: ignore[call-arg]
    a = lifted(name, s).expected(np.array([900.0, -900.0]), np.full(2, 1.0))
    left = {"jaakkola": 1.0 / 3600.0, "bohning": 0.125}.get(name, bound(name, Expected).spec.error)
    np.testing.assert_allclose(a.value, -left, rtol=1e-6)
    # tanh(xi/2) / xi m to first order in v: 1/2 (1 - m/xi) = v / (4 m^2).
    slope = 1.0 / (4.0 * 900.0**2) if name == "jaakkola" else 0.0
    np.testing.assert_allclose(a.d_mean, [slope, -slope], rtol=1e-5, atol=1e-16)


def test_others_are_refused_with_a_reason() -> None:
    for name in NAMES:
        for other in ("poisson.log_rate", "bernoulli.probit", "normal", "student_t.mean"):
            assert "not logistic" in bound(name, Expected).applies_to(site(other))
    with pytest.raises(TypeError, match="no logistic site"):
        logistic_form(site("normal")(np.ones(2)))  # type: ignore[call-arg]
