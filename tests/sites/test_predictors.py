"""Families with a predictor for their dispersion: densities, derivatives and expectations against
independent ones, pickling, conformance."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.random import Generator

from lgmdsl.arrays import Array
from lgmdsl.bounds.several_predictors import SeveralByQuadrature
from lgmdsl.contract.questions import Expected, Pointwise
from lgmdsl.contract.site import Site, curves_by_differences
from lgmdsl.numerics.expectations.normal_product import product_rule, root_of
from lgmdsl.sites.catalogue import families
from lgmdsl.sites.catalogue import site as named
from lgmdsl.sites.combined.choose import modified
from lgmdsl.sites.combined.predictors import PredictorsSite, Second, with_predictors
from lgmdsl.sites.formula import Formula
from lgmdsl.testing.site_checks import site_failures
from tests.sites.reference_densities import DENSITIES

Density = Callable[..., Any]
mp.mp.dps = 50


def written(name: str, *parameters: str) -> Density:
    """A family's own density: the first parameter is given by its logarithm."""

    def density(y: Any, s: Any, *t: Any) -> Any:
        values = dict(zip(parameters, [mp.exp(t[0]), *t[1:]] if t else [], strict=True))
        return DENSITIES[name](s, y, {"exposure": mp.mpf(1), **values})

    return density


poisson = written("poisson.log_rate")
negbinomial = written("negbinomial.log_mean", "size")
gamma = written("gamma.log_mean", "shape")


def odds(t: Any) -> Any:
    """log p and log(1 - p) at a logit."""
    return -mp.log(1 + mp.e**-t), -mp.log(1 + mp.e**t)


def inflated(f: Density) -> Density:
    def density(y: Any, *s: Any) -> Any:
        (extra, kept), rest = odds(s[-1]), s[:-1]
        if y > 0:
            return kept + f(y, *rest)
        return mp.log(mp.e**extra + mp.e ** (kept + f(mp.mpf(0), *rest)))

    return density


def over_hurdle(f: Density, counts: bool) -> Density:
    def density(y: Any, *s: Any) -> Any:
        (zero, passed), rest = odds(s[-1]), s[:-1]
        if y == 0:
            return zero
        above = mp.log(1 - mp.e ** f(mp.mpf(0), *rest)) if counts else 0
        return passed + f(y, *rest) - above

    return density


def draws(name: str, rng: Generator, s: Array, t: Array) -> Array:
    """Responses that are likely, some of them less."""
    n, spread = len(s), np.exp(t)
    match name.partition(".")[0]:
        case "normal":
            return np.asarray(s + spread * rng.normal(size=n) * rng.choice([1.0, 30.0], n))
        case "lognormal":
            return np.asarray(np.exp(s + np.minimum(spread, 20.0) * rng.normal(size=n)))
        case "student_t":
            return s + spread * rng.standard_t(2, size=n)
        case "gamma" | "weibull":
            return np.exp(s + rng.normal(size=n) * np.minimum(2.0 / np.sqrt(spread), 3.0))
        case "beta":
            away = rng.normal(size=n) * np.minimum(3.0, 3.0 / np.sqrt(spread))
            return np.asarray(np.clip(1.0 / (1.0 + np.exp(-s - away)), 1e-8, 1.0 - 1e-8))
    rate = np.minimum(np.exp(s), 1e5)
    return np.asarray(rng.poisson(rate) * rng.choice([0.0, 1.0, 3.0], n))


# name of the base, modifier, seconds, density, farthest log of the parameter
SIZE = Second("log_size", "size", "log")
ZERO = Second("zero_inflation_logit", "zero_inflation", "logit")
HURDLE = Second("hurdle_logit", "hurdle", "logit")
FAMILIES: dict[str, tuple[str, str, tuple[Second, ...], Density, float]] = {
    "normal": (
        "normal.mean",
        "",
        (Second("log_sd", "sd", "log"),),
        written("normal.mean", "sd"),
        12.0,
    ),
    "lognormal": (
        "lognormal.mean",
        "",
        (Second("log_sd", "sd", "log"),),
        written("lognormal.mean", "sd"),
        12.0,
    ),
    "student_t": (
        "student_t.mean",
        "",
        (Second("log_scale", "scale", "log"),),
        written("student_t.mean", "scale", "df"),
        12.0,
    ),
    "gamma": ("gamma.log_mean", "", (Second("log_shape", "shape", "log"),), gamma, 14.0),
    # shape (s - log y) has the digits of log y alone
    "weibull": (
        "weibull.log_scale",
        "",
        (Second("log_shape", "shape", "log"),),
        written("weibull.log_scale", "shape", "event"),
        4.0,
    ),
    "beta": (
        "beta.logit_mean",
        "",
        (Second("log_concentration", "concentration", "log"),),
        written("beta.logit_mean", "concentration"),
        8.0,
    ),
    "negbinomial": ("negbinomial.log_mean", "", (SIZE,), negbinomial, 14.0),
    "zero-inflated": ("poisson.log_rate", "zero_inflation", (ZERO,), inflated(poisson), 14.0),
    "hurdle": ("poisson.log_rate", "hurdle", (HURDLE,), over_hurdle(poisson, True), 14.0),
    "three": (
        "negbinomial.log_mean",
        "zero_inflation",
        (SIZE, ZERO),
        inflated(negbinomial),
        8.0,
    ),
    "hurdle gamma": (
        "gamma.log_mean",
        "hurdle",
        (Second("log_shape", "shape", "log"), HURDLE),
        over_hurdle(gamma, False),
        8.0,
    ),
}


def family(name: str) -> type[Site]:
    base, modifier, seconds, _, _ = FAMILIES[name]
    return with_predictors(modified(named(base), (modifier,)), seconds)


def cases(name: str, n: int, extreme: bool = True) -> tuple[PredictorsSite, Array]:
    """Sites and predictors, (n, K)."""
    rng = np.random.default_rng(7)
    base, _, seconds, _, farthest = FAMILIES[name]
    s = rng.normal(size=(n, 1 + len(seconds))) * (2.0 if extreme else 1.0)
    if extreme:
        s[: n // 5, 0] = rng.uniform(-8.0, 8.0, n // 5)
        s[n // 10 : n // 2, 1:] = rng.uniform(-7.0, farthest, (n // 2 - n // 10, len(seconds)))
    y = draws(base, rng, s[:, 0], s[:, 1])
    if "hurdle" in name:
        y = np.where(rng.random(n) < 0.3, 0.0, y)
    values: dict[str, Array] = {"y": y}
    cls = family(name)
    for parameter in cls.spec.parameters:
        values[parameter] = {
            "df": np.exp(rng.normal(size=n) + 1.0),
            "event": rng.integers(0, 2, n).astype(np.float64),
        }.get(parameter, np.ones(n))
    site = cls(**values)
    assert isinstance(site, PredictorsSite)
    return site, s


def exact(name: str, site: Site, i: int) -> Density:
    """The density of row i as a function of its predictors, in 50 digits."""
    density = FAMILIES[name][3]
    extra = [n for n in ("df", "event") if n in site.spec.parameters]
    more = [mp.mpf(float(getattr(site, n)[i])) for n in extra]
    y = mp.mpf(float(getattr(site, "y")[i]))  # noqa: B009
    return lambda *s: density(y, *s, *more)


@pytest.mark.parametrize("name", FAMILIES)
def test_density(name: str) -> None:
    site, s = cases(name, 200)
    value = site.log_density(s)
    for i in range(len(s)):
        wanted = float(exact(name, site, i)(*(mp.mpf(float(x)) for x in s[i])))
        assert value[i] == pytest.approx(wanted, rel=1e-11, abs=1e-11), (i, s[i])


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives(name: str) -> None:
    site, s = cases(name, 40)
    k = s.shape[1]
    rng = np.random.default_rng(1)
    root = rng.normal(size=(len(s), k, k))
    variance = root @ root.transpose(0, 2, 1)
    answer = site.pointwise(s, variance)
    orders = [o for o in np.ndindex(*[4] * k) if 0 < sum(o) <= 3]
    for i in range(0, len(s), 4):
        f, point = exact(name, site, i), tuple(mp.mpf(float(x)) for x in s[i])
        known = {o: float(mp.diff(f, point, o)) for o in orders}

        def at(*axes: int, known: dict[tuple[int, ...], float] = known) -> float:
            return known[tuple(axes.count(j) for j in range(k))]

        size = 1.0 + max(abs(v) for v in known.values())
        for a in range(k):
            assert answer.slope[i, a] == pytest.approx(at(a), rel=1e-9, abs=1e-11 * size)
            third = 0.0
            for b in range(k):
                bend = answer.curvature[i, a, b]
                assert bend == pytest.approx(at(a, b), rel=1e-9, abs=1e-11 * size)
                third += sum(at(a, b, c) * variance[i, b, c] for c in range(k))
            largest = size * (1.0 + np.abs(variance[i]).max())
            assert answer.third[i, a] == pytest.approx(third, rel=1e-9, abs=1e-11 * largest)


def test_third_derivative_of_a_number_is_times_the_identity() -> None:
    site, s = cases("gamma", 20)
    unit = np.broadcast_to(np.eye(2), (20, 2, 2))
    np.testing.assert_allclose(site.pointwise(s, 2.0).third, site.pointwise(s, 2.0 * unit).third)


def test_curves_of_other_parameters() -> None:
    site, s = cases("student_t", 30, extreme=False)
    slopes = site.parameter_slopes(s)
    assert set(slopes) == {"df"}
    curve, wanted = site.parameter_curves(s)["df"], curves_by_differences(site, slopes, s)["df"]
    for part, other in zip(curve, wanted, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "weibull"])
@pytest.mark.parametrize("sd", [0.1, 0.5])
def test_expectations(name: str, sd: float) -> None:
    site, m = cases(name, 12, extreme=False)
    k = m.shape[1]
    rng = np.random.default_rng(3)
    root = rng.normal(size=(len(m), k, k)) * sd / np.sqrt(k)
    variance = root @ root.transpose(0, 2, 1)
    answers = [SeveralByQuadrature().lift(site).expected(m, variance)]
    answers += [site.expected(m, variance)] if isinstance(site, Expected) else []
    points, weight, _ = product_rule(80 if k == 2 else 32, k)
    for i, r in enumerate(root_of(variance)):
        s = m[i] + points @ r.T
        local = site.take(np.full(len(s), i)).pointwise(s)
        for a in answers:
            if np.isnan(a.value[i]):
                assert name == "student_t"  # its singularities are near: no rule is long enough
                continue
            assert a.value[i] == pytest.approx(weight @ local.value, rel=1e-7, abs=1e-7)
            np.testing.assert_allclose(a.d_mean[i], weight @ local.slope, rtol=1e-6, atol=1e-6)
            bend = np.einsum("p,pij->ij", weight, local.curvature)
            np.testing.assert_allclose(a.curvature[i], bend, rtol=1e-6, atol=1e-6)


def test_a_predictor_that_stands_apart_is_averaged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """log(1 - p) of a count above 0 is a term of its own: two dimensions and one, not three."""
    site, m = cases("three", 40, extreme=False)
    rows = np.flatnonzero(site.y > 0.0)
    site, m = site.take(rows), m[rows]
    variance = np.tile(np.diag([0.1, 0.2, 0.1]), (len(m), 1, 1))
    variance[:, 0, 2] = variance[:, 2, 0] = 0.05
    taken, plain = [], PredictorsSite.to_order

    def counted(self: PredictorsSite, s: Array, order: int) -> Any:
        taken.append(len(s))
        return plain(self, s, order)

    monkeypatch.setattr(PredictorsSite, "to_order", counted)
    answer = SeveralByQuadrature().lift(site).expected(m, variance)
    assert sum(taken) < 500 * len(m)  # 4,000 in three dimensions
    points, weight, _ = product_rule(24, 3)
    for i, r in enumerate(root_of(variance)):
        local = plain(site.take(np.full(len(points), i)), m[i] + points @ r.T, 2)
        assert answer.value[i] == pytest.approx(weight @ local.value, rel=1e-7)
        bend = np.einsum("p,pij->ij", weight, local.curvature)
        np.testing.assert_allclose(answer.curvature[i], bend, rtol=1e-6, atol=1e-6)


def test_normal_has_its_expectation_in_closed_form() -> None:
    assert issubclass(family("normal"), Expected)
    assert issubclass(family("lognormal"), Expected)


def test_weibull_has_no_expectation() -> None:
    """E exp(x e^t) is infinite for normal x and t."""
    assert "no average over a Gaussian" in family("weibull").never(Expected)
    assert "no average" in SeveralByQuadrature().applies_to(family("weibull"))
    assert not family("gamma").never(Expected)


def test_what_no_rule_averages_is_no_number() -> None:
    cls = family("student_t")
    values: dict[str, Any] = {"y": np.zeros(1), "df": np.ones(1)}
    site = cls(**values)
    mean, variance = np.array([[0.0, -6.0]]), np.eye(2)[None]
    assert np.isnan(SeveralByQuadrature().lift(site).expected(mean, variance).value).all()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_conformance(name: str) -> None:
    site, s = cases(name, 6, extreme=False)
    failures = list(site_failures(site, predictors=s.shape[1]))
    if name == "weibull":  # exponentials of exponentials are too steep for differences
        failures = [f for f in failures if "differs from differences" not in f]
    assert not failures


@pytest.mark.parametrize("name", FAMILIES)
def test_pickled(name: str) -> None:
    site, s = cases(name, 5)
    again = pickle.loads(pickle.dumps(site))
    assert type(again) is type(site)
    assert np.array_equal(again.log_density(s), site.log_density(s))
    assert pickle.loads(pickle.dumps(type(site))) is type(site)


def test_names_and_predictors() -> None:
    spec = family("three").spec
    assert spec.name == "negbinomial.log_mean.zero_inflated.log_size.zero_inflation_logit"
    assert spec.predictors == ("log_mean", "log_size", "zero_inflation_logit")
    assert spec.vector and set(spec.parameters) == {"exposure"}


def test_expected_third_derivatives() -> None:
    site, m = cases("three", 6, extreme=False)
    variance = np.broadcast_to(0.04 * np.eye(3) + 0.02, (6, 3, 3))
    answer = SeveralByQuadrature().lift(site)
    third = answer.third_expected(m, variance)
    assert third is not None
    for j in range(3):
        step = np.zeros((6, 3))
        step[:, j] = 1e-3
        low, high = (answer.expected(m + side * step, variance).curvature for side in (-1.0, 1.0))
        np.testing.assert_allclose(third[:, j], (high - low) / 2e-3, rtol=1e-3, atol=1e-3)


def with_of() -> list[str]:
    """The families of the catalogue with a parameter that a predictor may stand for."""
    out = []
    for base in families():
        form = base.spec.form
        of = [p for p in form.parameters if p.of in base.spec.parameters] if form else []
        if of and not base.spec.vector and issubclass(base, Formula):
            out.append(base.spec.name)
    return out


@pytest.mark.parametrize("name", with_of())
def test_every_family_is_the_plain_one_at_its_parameter(name: str) -> None:
    base = named(name)
    assert base.spec.form is not None
    parameter = next(p for p in base.spec.form.parameters if p.of in base.spec.parameters)
    cls = with_predictors(base, (Second(parameter.name, parameter.of, parameter.link),))
    values: dict[str, Any] = {n: np.full(3, 1.0) for n in cls.spec.parameters}
    values |= {n: np.full(3, 5.0) for n in values if n == "n"}
    y = np.array([0.1, 0.5, 0.8]) if cls.spec.observed == ("unit",) else np.array([1.0, 3.0, 2.0])
    s = np.array([[0.3, 0.2], [1.0, -1.0], [0.1, 2.0]])
    values["y"] = y
    plain = base(**values, **{parameter.of: np.exp(s[:, 1])})
    site = cls(**values)
    assert isinstance(site, PredictorsSite)
    np.testing.assert_allclose(site.log_density(s), plain.log_density(s[:, 0]), rtol=1e-11)
    slopes = site.pointwise(s).slope
    by_parameter = plain.parameter_slopes(s[:, 0])[parameter.of] * np.exp(s[:, 1])
    np.testing.assert_allclose(slopes[:, 1], by_parameter, rtol=1e-9, atol=1e-10)


def test_the_nine_families() -> None:
    assert {n.partition(".")[0] for n in with_of()} == {
        "normal", "student_t", "lognormal", "gamma", "weibull", "beta", "negbinomial",
        "negbinomial1", "betabinomial",
    }  # fmt: skip


@pytest.mark.parametrize("modifier", ["zero_inflation", "hurdle"])
def test_many_rows_are_answered_as_few_are(modifier: str) -> None:
    """Above 1,000 rows those above 0 and the others are answered apart."""
    rng = np.random.default_rng(4)
    cls = modified(named("poisson.log_rate"), (modifier,))
    y = rng.poisson(1.5, 1_200).astype(np.float64)
    values: dict[str, Any] = {"y": y, "exposure": np.ones(1_200), modifier: np.full(1_200, 0.3)}
    site, s = cls(**values), rng.normal(size=1_200)
    assert isinstance(site, Pointwise)
    many = site.pointwise(s, 2.0)
    runs = [np.arange(i, i + 400) for i in (0, 400, 800)]
    parts = [site.take(rows).pointwise(s[rows], 2.0) for rows in runs]
    for name in ("value", "slope", "curvature", "third"):
        few = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(getattr(many, name), few, rtol=1e-13)
    np.testing.assert_allclose(site.log_density(s), many.value, rtol=1e-12)
