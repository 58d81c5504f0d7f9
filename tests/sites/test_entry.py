"""Intervals and delayed entry of every family of positive numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from scipy import integrate

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.contract.questions import Expected, ExpectedSlopes, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.inference.registry import unregister
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.combined.choose import seen_as
from lgmdsl.sites.combined.combined import chained
from lgmdsl.sites.combined.entered import entered
from lgmdsl.sites.combined.interval import interval
from lgmdsl.sites.combined.truncated import log_of_rest
from lgmdsl.sites.tails import Tail, Tails
from lgmdsl.testing.site_checks import difference
from lgmdsl.vocabulary.signature import Parameter, Signature

NAN = np.nan
Y = np.array([0.5, 1.0, 2.0, 0.1, 3.0, 1.5, 0.7, 4.0])
N = len(Y)
EVENT = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
LOWER = np.array([NAN, NAN, 1.5, NAN, 2.999, 1.0, NAN, NAN])
UPPER = np.array([NAN, NAN, 2.5, 0.3, 3.001, NAN, NAN, NAN])
ENTRY = np.array([NAN, 0.3, 1.7, 0.05, NAN, 0.2, 0.6, 0.0])
FAMILIES: Mapping[str, Mapping[str, Array]] = {
    "exponential.log_rate": {},
    "weibull.log_scale": {"shape": np.linspace(0.5, 2.0, N)},
    "gamma.log_mean": {"shape": np.linspace(0.5, 3.0, N)},
    "lognormal.mean": {"sd": np.linspace(0.5, 2.0, N)},
    "loglogistic.log_scale": {"shape": np.linspace(0.5, 3.0, N)},
    "inverse_gaussian.log_mean": {"shape": np.linspace(0.5, 3.0, N)},
    "gompertz.log_rate": {"shape": np.linspace(0.01, 0.5, N)},
    "generalized_pareto.log_scale": {"shape": np.linspace(0.05, 0.6, N)},
}


def family(name: str) -> type[Site]:
    found = find_site(name)
    assert found is not None
    return found


def candidates(name: str) -> list[type[Site]]:
    """The families that the compiler would choose from for all arguments together."""
    known = [s for n in (name, f"{name}.censored") if (s := find_site(n)) is not None]
    return seen_as(known, {"lower", "entry"})


def made(name: str, **more: Array) -> Any:
    site: Any = next(c for c in candidates(name) if {"lower", "entry"} <= c.spec.parameters.keys())
    values = {"event": EVENT, "lower": LOWER, "upper": UPPER, "entry": ENTRY, **more}
    return site(y=values.pop("y", Y), **FAMILIES[name], **values)


def plain(name: str, row: int, y: float) -> Any:
    """One row of the family, observed at y."""
    site: Any = family(name)
    more = {"event": np.ones(1)} if "event" in site.spec.parameters else {}
    parameters = {n: v[[row]] for n, v in FAMILIES[name].items()}
    return site(y=np.array([y]), **parameters, **more)


def mass(name: str, row: int, low: float, high: float, s: float) -> float:
    """P(low < Y < high) by quadrature of the density in log y."""

    def density(u: float) -> float:
        one = plain(name, row, float(np.exp(u)))
        return float(np.exp(one.log_density(np.array([s])) + u)[0])

    ends = (-60.0 if low <= 0.0 else np.log(low), 60.0 if high == np.inf else np.log(high))
    middle = [p for p in (-4.0, -1.0, 0.0, 1.0, 2.0, 4.0) if ends[0] < p < ends[1]]
    parts = zip([ends[0], *middle], [*middle, ends[1]], strict=True)
    return sum(integrate.quad(density, a, b, epsabs=1e-14, epsrel=1e-11)[0] for a, b in parts)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_row_against_quadrature_of_the_density(name: str) -> None:
    s = 0.4
    got = made(name).log_density(np.full(N, s))
    ends = [None, (1.0, np.inf), (1.7, 2.5), (0.05, 0.3), (2.999, 3.001), (1.0, np.inf), None,
            (4.0, np.inf)]  # fmt: skip
    for row, end in enumerate(ends):
        if end is None:
            want = float(plain(name, row, Y[row]).log_density(np.array([s]))[0])
        else:
            want = np.log(mass(name, row, *end, s))
        if ENTRY[row] > 0.0:
            want -= np.log(mass(name, row, ENTRY[row], np.inf, s))
        assert got[row] == pytest.approx(want, rel=1e-8, abs=1e-8), row


def _slope(site: Any, parameter: str, s: Array) -> Array:
    return np.asarray(site.parameter_slopes(s)[parameter])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_and_slopes(name: str) -> None:
    site = made(name)
    for x in (-2.1, -0.6, 0.9, 2.2):
        s = np.full(N, x)
        answer = site.pointwise(s)
        for lower, upper in (
            (site.log_density, answer.slope),
            (lambda t: site.pointwise(t).slope, answer.curvature),
            (lambda t: site.pointwise(t).curvature, answer.third),
        ):
            slope, _ = difference(lower, s)
            assert np.allclose(upper, slope, rtol=2e-6, atol=2e-6)
        curves = site.parameter_curves(s)
        for parameter, slope in site.parameter_slopes(s).items():
            value = getattr(site, parameter)
            h = 1e-4 * value

            def at(k: float, value: Array = value, h: Array = h, p: str = parameter) -> Any:
                changed: dict[str, Any] = {p: value + k * h}
                return replace(site, **changed)

            levels = [at(k).log_density(s) for k in (-2, -1, 1, 2)]
            want = (levels[0] - 8.0 * levels[1] + 8.0 * levels[2] - levels[3]) / (12.0 * h)
            assert np.allclose(slope, want, rtol=1e-5, atol=1e-6)
            moved, _ = difference(partial(_slope, site, parameter), s)
            assert np.allclose(curves[parameter].slope, moved, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_expectations_are_those_of_quadrature(name: str) -> None:
    site = made(name)
    if not isinstance(site, Expected):
        return
    mean, variance = np.linspace(-1.0, 1.0, N), np.full(N, 0.2)
    own, lifted = site.expected(mean, variance, True), cast(Any, bound("quadrature", Expected))
    other = lifted.lift(site).expected(mean, variance, True)
    for part in ("value", "d_mean", "d_variance", "d_mean_variance", "d_variance2"):
        assert np.allclose(getattr(own, part), getattr(other, part), rtol=1e-6, atol=1e-7), part
    if isinstance(site, ExpectedSlopes):
        slopes = lifted.lift(site).expected_slopes(mean, variance)
        for parameter, slope in site.expected_slopes(mean, variance).items():
            assert np.allclose(slope, slopes[parameter], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_follow_the_distribution_given_the_entry(name: str) -> None:
    """F(draws) is uniform, and its slope is the density."""
    row, size = 1, 4000
    more = {"event": np.ones(N), "lower": np.full(N, NAN), "upper": np.full(N, NAN)}
    many = made(name, **more).take(np.full(size, row))
    s = np.full(size, 0.3)
    y = many.sample(s, np.random.default_rng(7))
    assert np.all(y > ENTRY[row])
    changed: dict[str, Any] = {"y": y}
    share = np.sort(replace(many, **changed).cdf(s))
    assert np.max(np.abs(share - (np.arange(size) + 0.5) / size)) < 1.63 / np.sqrt(size)
    h = 1e-5
    ends = [replace(many, y=many.y + k * h).cdf(s)[0] for k in (-1.0, 1.0)]
    density = float(np.exp(many.log_density(s)[0]))
    assert (ends[1] - ends[0]) / (2.0 * h) == pytest.approx(density, rel=1e-6)


def test_log_concavity_given_an_entry_is_declared_where_it_is_known() -> None:
    for name in FAMILIES:
        site = made(name)
        declared = Property.LOG_CONCAVE in site.spec.properties
        assert declared == (name.split(".")[0] in ("exponential", "weibull", "lognormal"))
        if declared:
            for x in np.linspace(-6.0, 6.0, 41):
                assert np.all(site.pointwise(np.full(N, x)).curvature <= 1e-9)
    for name in ("exponential.log_rate", "weibull.log_scale", "gompertz.log_rate"):
        assert Property.LOG_CONCAVE in entered(family(name)).spec.properties


@pytest.mark.parametrize("name", ["exponential.log_rate", "gompertz.log_rate"])
def test_an_entry_keeps_closed_expectations(name: str) -> None:
    """At an sd at which no quadrature sees e^s: E[-e^s (G(y) - G(entry))]."""
    kind: Any = entered(family(name))
    shape = {"shape": np.full(2, 1e-9)} if "gompertz" in name else {}
    site = kind(y=np.array([2.0, 3.0]), **shape, event=np.ones(2), entry=np.array([0.5, 2.9]))
    answer = site.expected(np.zeros(2), np.full(2, 9.0))
    exact = 0.0 - np.array([1.5, 0.1]) * np.exp(4.5)
    assert np.allclose(answer.value, exact, rtol=1e-6)


def test_families_without_tails_are_no_intervals() -> None:
    with pytest.raises(TypeError, match="gives no tails"):
        interval(family("beta.logit_mean"))
    assert all(issubclass(family(n), Tails) for n in list(FAMILIES)[4:])


def test_sites_at_extremes_are_finite() -> None:
    for name in FAMILIES:
        site = made(name)
        for x in (-1e4, -700.0, 700.0, 1e4):
            answer = site.pointwise(np.full(N, x))
            parts = (answer.value, answer.slope, answer.curvature, answer.third)
            assert all(np.isfinite(part).all() for part in parts), (name, x)


@dataclass(frozen=True, eq=False)
class Tailless(Site, Pointwise):
    """A family of another package: y of rate e^s, with its distribution function alone."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "memoryless.log_hazard",
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
        signature=Signature(
            "memoryless", "family", (Parameter("log_hazard", "latent"),), observed=("positive",),
            summary="waiting times",
        ),
    )  # fmt: skip

    def log_density(self, s: Array) -> Array:
        return np.asarray(s - self.y * np.exp(s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        rate = self.y * np.exp(s)
        return PointwiseAnswer(s - rate, 1.0 - rate, -rate, -rate * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def conditional_mean(self, s: Array) -> Array:
        return np.exp(-s)

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        return np.asarray(rng.exponential(np.exp(-s)))

    def cdf(self, s: Array) -> Array:
        return np.asarray(-np.expm1(-self.y * np.exp(s)))


@dataclass(frozen=True, eq=False)
class Memoryless(Tailless, Tails):
    """The same with its tails."""

    def tail(self, s: Array, above: bool, parameters: tuple[str, ...]) -> Tail:
        rate = self.y * np.exp(s)
        ahead = PointwiseAnswer(-rate, -rate, -rate, -rate)
        return Tail(ahead if above else chained(log_of_rest(-rate), ahead), {})


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "seen", ["event = died", "lower = lo", "entry = e", "event = died, entry = e"]
)
def test_a_family_of_another_package(seen: str) -> None:
    """That of exponential.log_rate, with intervals and entries that nobody wrote for it."""
    lgm.register(Memoryless)
    try:
        rng = np.random.default_rng(1)
        e = rng.uniform(0.0, 0.5, 40)
        y = e + rng.exponential(1.0, 40)
        data = {"y": y, "e": e, "died": (rng.random(40) < 0.7).astype(float), "lo": 0.9 * y}
        fits = []
        for name in ("memoryless(log_hazard", "exponential(log_rate"):
            columns = {
                n: t
                for n, t in (("e", "real"), ("died", "binary"), ("lo", "real"))
                if f"= {n}" in seen
            }
            text = "lgm 1\nindex obs\ndata y[obs] : positive\n"
            text += "".join(f"data {n}[obs] : {t}\n" for n, t in columns.items())
            text += f"latent a ~ normal(sd = 3)\nobserve y ~ {name} = a, {seen})\n"
            wanted = {"y": y, **{n: data[n] for n in columns}}
            fits.append(lgm.fit(lgm.loads(text), wanted, method="laplace"))
        assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-8)
        assert float(fits[0].mean("a")) == pytest.approx(float(fits[1].mean("a")), abs=1e-8)
    finally:
        unregister(Memoryless)


@pytest.mark.parametrize("name", ["event", "lower", "entry"])
def test_a_family_without_tails_names_what_it_lacks(name: str) -> None:
    lgm.register(Tailless)
    try:
        text = (
            "lgm 1\nindex obs\ndata y[obs] : positive\nlatent a ~ normal(sd = 3)\n"
            f"observe y ~ memoryless(log_hazard = a, {name} = 1)\n"
        )
        with pytest.raises(lgm.LgmError) as caught:
            lgm.fit(lgm.loads(text), {"y": np.arange(1.0, 5.0)})
        message = str(caught.value)
        assert f"`{name}` needs the tails of `memoryless`, which its class `Tailless`" in message
        assert "`lgmdsl.extend.Tails` with the method `tail`: a `cdf` is not enough" in message
    finally:
        unregister(Tailless)
