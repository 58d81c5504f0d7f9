"""Priors of single entries: normalised, with the tails, slopes, quantiles and draws they claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from lgmdsl.arrays import Array
from lgmdsl.priors.catalogue import PRIORS, prior
from lgmdsl.priors.prior import Elementwise, Prior
from lgmdsl.vocabulary.lookup import signatures
from tests.priors.cases import ELEMENTWISE, NAMES, Case, coordinate, distribution, made, moved

CASES = pytest.mark.parametrize("case", ELEMENTWISE, ids=NAMES)


def elementwise(case: Case) -> Elementwise:
    found = made(case)
    assert isinstance(found, Elementwise)
    return found


def test_every_prior_of_the_language_is_there() -> None:
    assert set(PRIORS) == {s.name for s in signatures("prior")}
    tried = {name for name, _, _ in ELEMENTWISE}
    assert {p.name for p in PRIORS.shipped() if issubclass(p, Elementwise)} == tried


@CASES
def test_mass_one_and_quantiles(case: Case) -> None:
    """The density integrates to 1, and to p below quantile(p)."""
    found = elementwise(case)
    mass, below = distribution(found)
    # beyond the last double before 1 pc_cor1 has a mass of theta sqrt(1e-16)
    assert mass == pytest.approx(1.0, abs=2e-7 if case[0] == "pc_cor1" else 2e-8)
    p = np.array([0.02, 0.2, 0.5, 0.75, 0.97])
    corner = 2e-5 if case[0] == "pc_cor0" else 2e-6  # the cubic between edges misses the corner
    assert below(coordinate(found, found.quantile(p))) == pytest.approx(p, abs=corner)


@CASES
def test_draws_follow_the_density(case: Case) -> None:
    found = elementwise(case)
    drawn = found.sample(np.random.default_rng(7), (400 if case[0] == "pc_mix" else 3000,))
    lower, upper = found.bounds
    assert ((drawn > lower) & (drawn < upper)).all()
    _, below = distribution(found)
    assert stats.kstest(below(coordinate(found, drawn)), "uniform").pvalue > 0.01


@CASES
def test_slopes(case: Case) -> None:
    """In each entry of the value and in each argument, against central differences."""
    found = elementwise(case)
    value = found.quantile(np.array([[0.12, 0.3, 0.45], [0.55, 0.8, 0.93]]))
    gradient = found.gradient(value)
    assert set(gradient) == {"value", *case[2]} - {"graph"}
    for i in np.ndindex(2, 3):
        step = np.zeros((2, 3))
        step[i] = 1e-6 * min(abs(value[i]), *np.abs(np.array(found.bounds) - value[i]))
        ahead, behind = found.log_density(value + step), found.log_density(value - step)
        want = (ahead - behind) / float(2.0 * step[i])
        assert gradient["value"][i] == pytest.approx(want, rel=1e-6, abs=1e-6), i
    for name in gradient.keys() - {"value"}:
        h = 1e-6 * abs(float(case[2][name])) if "alpha" not in name else 1e-7
        ahead, behind = (moved(case, name, s * h).log_density(value) for s in (1.0, -1.0))
        slope = (ahead - behind) / (2.0 * h)
        assert gradient[name].shape == ()
        assert gradient[name] == pytest.approx(slope, rel=2e-6, abs=1e-5), name


@CASES
def test_typical_values_are_inside(case: Case) -> None:
    found = elementwise(case)
    value = found.typical((2, 3))
    lower, upper = found.bounds
    assert value.shape == (2, 3) and np.isfinite(found.log_density(value))
    assert ((value > lower) & (value < upper)).all() and value.flags.writeable


@pytest.mark.parametrize(
    ("case", "above"),
    [
        (("pc_sd", "positive", {"u": 0.7, "alpha": 0.04}), True),
        (("pc_range", "positive", {"u": 0.7, "alpha": 0.04}), False),
        (("pc_df", "positive", {"u": 7.0, "alpha": 0.4}), False),
        (("pc_cor1", "correlation", {"u": 0.6, "alpha": 0.7}), True),
    ],
)
def test_tails(case: Case, above: bool) -> None:
    """P(. > u) = alpha, or P(. < u) = alpha, of the integrated density."""
    found = elementwise(case)
    _, below = distribution(found)
    share = float(below(coordinate(found, np.asarray(case[2]["u"]))))
    assert (1.0 - share if above else share) == pytest.approx(case[2]["alpha"], abs=2e-6)


def test_tails_on_both_sides() -> None:
    found = elementwise(("pc_cor0", "correlation", {"u": 0.4, "alpha": 0.2}))
    _, below = distribution(found)
    low, high = below(coordinate(found, np.array([-0.4, 0.4])))
    assert low == pytest.approx(0.1, abs=2e-6) and 1 - high == pytest.approx(0.1, abs=2e-6)


def test_bounds_that_the_type_cuts_do_not_move_with_their_arguments() -> None:
    for lower, upper, moves in ((-1.0, 0.5, (0.0, 3.0)), (0.2, 1.5, (2.0, 0.0))):
        found = prior("uniform", "unit", lower=lower, upper=upper)
        pulled = found.pull_bounds(np.array([1.5, 0.5]), np.array([1.0, 2.0]))
        assert (float(pulled["lower"]), float(pulled["upper"])) == moves


def test_an_optimiser_does_not_start_in_the_corner() -> None:
    """pc_cor0 starts at the median of |rho|."""
    found = elementwise(("pc_cor0", "correlation", {"u": 0.4, "alpha": 0.2}))
    start = float(found.typical())
    _, below = distribution(found)
    low, high = below(coordinate(found, np.array([-start, start])))
    assert start > 0.0 and high - low == pytest.approx(0.5, abs=1e-5)


class _Half:
    """The positive half of a law that is symmetric about 0."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def logpdf(self, x: Array) -> Array:
        return np.asarray(self.whole.logpdf(x) + np.log(2.0))


def test_half_student_t_with_one_df_is_half_cauchy() -> None:
    x = np.array([1e-8, 0.3, 4.0, 1e9])
    half, known = (
        prior("half_student_t", "positive", scale=0.7, df=1.0),
        prior("half_cauchy", "positive", scale=0.7),
    )
    assert half.log_density(x) == pytest.approx(known.log_density(x), rel=1e-13)
    assert half.gradient(x)["scale"] == pytest.approx(known.gradient(x)["scale"], rel=1e-12)


@pytest.mark.parametrize("name", ["cauchy", "student_t", "logistic"])
def test_far_tails(name: str) -> None:
    """At 1e200 scales densities and slopes are still numbers, and quantiles keep small shares."""
    df = {"df": 3.0} if name == "student_t" else {}
    found = prior(name, "real", scale=0.5, **df)
    assert isinstance(found, Elementwise)
    with np.errstate(over="ignore"):
        gradient = found.gradient(np.array([1e200, -1e200]))
        assert np.isfinite(found.log_density(np.array([1e100, -1e100])))
    assert np.isfinite(gradient["value"]).all()
    known = {"cauchy": stats.cauchy(), "student_t": stats.t(3.0), "logistic": stats.logistic()}
    p = np.array([1e-40, 1e-9, 0.3, 0.7])
    assert found.quantile(p) == pytest.approx(0.5 * known[name].ppf(p), rel=1e-9)


def test_closed_forms_against_scipy() -> None:
    x, at = np.array([0.05, 0.4, 0.9]), {"rate": 2.0, "scale": 1.7, "shape": 2.6, "sd": 0.8}
    pairs: list[tuple[Prior, Any]] = [
        (prior("gamma", "positive", shape=2.6, rate=2.0), stats.gamma(2.6, scale=0.5)),
        (prior("inv_gamma", "positive", shape=2.6, scale=1.7), stats.invgamma(2.6, scale=1.7)),
        (prior("beta", "unit", a=2.6, b=0.8), stats.beta(2.6, 0.8)),
        (prior("half_cauchy", "positive", scale=1.7), stats.halfcauchy(scale=1.7)),
        (prior("half_student_t", "positive", scale=1.7, df=3.0), _Half(stats.t(3.0, scale=1.7))),
        (prior("student_t", "real", location=0.3, scale=1.7, df=3.0), stats.t(3.0, 0.3, 1.7)),
        (prior("cauchy", "real", location=0.3, scale=1.7), stats.cauchy(0.3, 1.7)),
        (prior("logistic", "real", location=0.3, scale=1.7), stats.logistic(0.3, 1.7)),
        (prior("half_normal", "positive", sd=0.8), stats.halfnorm(scale=0.8)),
        (prior("lognormal", "positive", mean=0.3, sd=0.8), stats.lognorm(0.8, scale=np.exp(0.3))),
        (prior("exponential", "positive", rate=at["rate"]), stats.expon(scale=0.5)),
    ]
    for found, known in pairs:
        assert found.log_density(x) == pytest.approx(known.logpdf(x).sum(), rel=1e-12), found.name


def test_arguments_broadcast_and_their_slopes_add_up() -> None:
    sd, mean = np.array([0.5, 2.0, 1.0]), np.array([[0.3], [-0.4]])
    value = np.arange(6.0).reshape(2, 3) / 3
    whole = prior("normal", "real", mean=mean, sd=sd)
    entries = [
        prior("normal", "real", mean=mean[i, 0], sd=sd[j]).log_density(value[i, j])
        for i, j in np.ndindex(2, 3)
    ]
    assert whole.log_density(value) == pytest.approx(sum(entries), rel=1e-13)
    gradient = whole.gradient(value)
    assert gradient["sd"].shape == (3,) and gradient["mean"].shape == (2, 1)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        ahead, behind = (
            prior("normal", "real", mean=mean, sd=sd + s * step).log_density(value) for s in (1, -1)
        )
        assert gradient["sd"][j] == pytest.approx((ahead - behind) / 2e-6, rel=1e-7)


@CASES
def test_nothing_lies_outside(case: Case) -> None:
    found = elementwise(case)
    lower, upper = found.bounds
    for outside in (lower - 0.1, upper + 0.1):
        if np.isfinite(outside):
            assert found.log_density(np.array([found.typical(), outside])) == -np.inf


@pytest.mark.parametrize("name", ["pc_cor0", "pc_cor1", "pc_mix", "pc_df"])
def test_ends_are_no_numbers_that_break(name: str) -> None:
    """On the edge itself, where these densities have no end, an optimiser finds nothing."""
    case = next(c for c in ELEMENTWISE if c[0] == name)
    found = elementwise(case)
    lower, upper = found.bounds
    edge = lower if name == "pc_df" else upper
    assert not np.isnan(found.log_density(np.asarray(edge)))
