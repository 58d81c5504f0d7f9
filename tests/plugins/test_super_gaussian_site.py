"""`SuperGaussianSite`: a potential from g, g', g'' alone is the built-in one with that g; broken
promises are refused, each by name."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate

import lgmdsl as lgm
from lgmdsl.extend import Array, Expected, Property, Site, SuperGaussian, SuperGaussianSite
from lgmdsl.inference import registry
from lgmdsl.sites import catalogue
from lgmdsl.testing.site_checks import check_site
from tests.plugins.acme import acme_lgm

HALF = 2.0  # (df + 1) / 2 of Student's t with 3 degrees of freedom
TOP = float(np.log(2.0 / (np.pi * np.sqrt(3.0))))  # its log density at 0


def t_g(x: Array) -> Array:
    return TOP - HALF * np.log1p(x / 3.0)


def t_dg(x: Array) -> Array:
    return -HALF / (3.0 + x)


def t_d2g(x: Array) -> Array:
    return HALF / (3.0 + x) ** 2


def sech_g(x: Array) -> Array:
    v = np.sqrt(x)
    return np.asarray(-2.0 * (v + np.log1p(np.exp(-2.0 * v))) + np.log(2.0))


def sech_dg(x: Array) -> Array:
    v = np.sqrt(np.maximum(x, 1e-12))
    return np.asarray(-np.tanh(v) / v)


def sech_d2g(x: Array) -> Array:
    v = np.sqrt(np.maximum(x, 1e-12))
    small = 1.0 / 3.0 - 4.0 / 15.0 * x
    rest = (np.tanh(v) / v - np.cosh(np.minimum(v, 300.0)) ** -2.0) / (2.0 * v * v)
    return np.asarray(np.where(x < 1e-5, small, rest))


def laplace_g(x: Array) -> Array:
    return np.asarray(-np.sqrt(x) - np.log(2.0))


def laplace_dg(x: Array) -> Array:
    return -0.5 / np.sqrt(x)


def laplace_d2g(x: Array) -> Array:
    return 0.25 * x**-1.5


def huber_g(x: Array) -> Array:
    return np.where(x < 1.0, -0.5 * x, 0.5 - np.sqrt(x))


def huber_dg(x: Array) -> Array:
    return -0.5 / np.sqrt(np.maximum(x, 1.0))


def huber_d2g(x: Array) -> Array:
    return np.asarray(np.where(x < 1.0, 0.0, 0.25 * np.maximum(x, 1.0) ** -1.5))


student = SuperGaussianSite("student_by_g", t_g, t_dg, t_d2g)
sech = SuperGaussianSite("sech_by_g", sech_g, sech_dg, sech_d2g)
absolute = SuperGaussianSite("absolute_by_g", laplace_g, laplace_dg, laplace_d2g)
huber = SuperGaussianSite("huber", huber_g, huber_dg, huber_d2g)
MADE = {s.spec.name: s for s in (student, sech, absolute, huber)}
TWINS = {
    "student_by_g": "student_t(scale = {}, df = 3)",
    "sech_by_g": "sech2(scale = {})",
    "absolute_by_g": "laplace(scale = {})",
}
SMOOTH = ("double-loop", "coordinate-descent", "map", "laplace", "natural-gradient", "ep")
CASES = [
    *(("student_by_g", 0.3, m) for m in SMOOTH),
    *(("sech_by_g", 1.0, m) for m in (*SMOOTH, "opper-archambeau")),
    *(("absolute_by_g", 0.2, m) for m in SMOOTH[:3]),
]
MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent w[feat] ~ flat
potential w ~ {}
observe y ~ normal(mean = X @ w, sd = 0.5)
"""


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    for part in MADE.values():
        lgm.register(part)
    yield
    for part in MADE.values():
        registry.unregister(part)


def data() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 4))
    return {"X": X, "y": X @ [2.0, 0.0, -1.0, 0.0] + 0.5 * rng.standard_normal(30)}


@pytest.mark.parametrize("name", MADE)
def test_it_conforms(name: str) -> None:
    check_site(MADE[name](np.array([1.0, 0.3, 2.5])))  # type: ignore[call-arg]


@pytest.mark.parametrize(("name", "scale", "method"), CASES)
def test_it_is_the_built_in_potential_of_that_g(name: str, scale: float, method: str) -> None:
    own, built = (
        lgm.fit(lgm.loads(MODEL.format(text)), data(), method=method)
        for text in (f"{name}(scale = {scale})", TWINS[name].format(scale))
    )
    assert own.converged and own.guarantee == built.guarantee
    np.testing.assert_allclose(own.mean("w"), built.mean("w"), atol=1e-6)
    np.testing.assert_allclose(own.sd("w"), built.sd("w"), rtol=1e-6)
    if method != "map":
        assert own.log_evidence == pytest.approx(built.log_evidence, abs=1e-7)


def test_its_scale_is_learned_as_that_of_the_built_in_one() -> None:
    text = MODEL.replace("potential", "hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)\npotential")
    for method in ("double-loop", "laplace", "ep"):
        own, built = (
            lgm.fit(lgm.loads(text.format(t)), data(), method=method, hyper="map")
            for t in ("student_by_g(scale = s)", "student_t(scale = s, df = 3)")
        )
        assert float(own.mean("s")) == pytest.approx(float(built.mean("s")), rel=1e-5)


@pytest.mark.parametrize("method", ["natural-gradient", "ep", "double-loop"])
@pytest.mark.parametrize("unit", [1.0, 1e-20, 1e15])
def test_one_latent_against_quadrature(method: str, unit: float) -> None:
    """z ~ N(0.4, 1) times a Huber potential of z / 0.7, in any unit."""
    text = f"""lgm 1
latent z ~ normal(mean = {0.4 * unit}, sd = {unit})
potential z ~ huber(scale = {0.7 * unit})
"""
    fit = lgm.fit(lgm.loads(text), {}, method=method)

    def joint(z: float) -> float:
        x = np.array([(z / 0.7) ** 2])
        return float(np.exp(huber_g(x)[0] - 0.5 * (z - 0.4) ** 2) / np.sqrt(2.0 * np.pi) / 0.7)

    ends = [-9.0, -0.7, 0.7, 9.0]
    mass, first, second = (
        sum(
            integrate.quad(lambda z, k=k: z**k * joint(z), a, b, epsabs=1e-13)[0]
            for a, b in pairwise(ends)
        )
        for k in range(3)
    )
    evidence, mean = np.log(mass) - np.log(unit), first / mass
    sd = np.sqrt(second / mass - mean**2)
    assert fit.converged
    if method == "ep":  # exact for one site
        assert fit.log_evidence == pytest.approx(evidence, abs=1e-7)
        assert float(fit.mean("z")) / unit == pytest.approx(mean, abs=1e-6)
        assert float(fit.sd("z")) / unit == pytest.approx(sd, abs=1e-6)
    else:
        gap = evidence - fit.log_evidence
        assert 0.0 < gap < (0.06 if method == "double-loop" else 0.03)
        assert float(fit.mean("z")) / unit == pytest.approx(mean, abs=0.05)


def test_expectations_where_the_curvature_jumps() -> None:
    """Of Huber's l, by pieces; the site's own answer, as quadrature of l'' has four digits."""
    site: Any = huber(np.ones(3))  # type: ignore[call-arg]
    assert issubclass(huber, Expected) and Property.CORNERED in huber.spec.properties
    mean, sd = np.array([-0.9, 1.02, 0.3]), np.array([0.15, 0.8, 2.5])
    answer = site.expected(mean, sd**2)
    for k in range(3):

        def average(f: Callable[[float], float], k: int = k) -> float:
            m, v = mean[k], sd[k]
            ends = [m - 12.0 * v, *sorted({-1.0, 1.0, m}), m + 12.0 * v]
            ends = [e for e in ends if m - 12.0 * v <= e <= m + 12.0 * v]
            weight = v * np.sqrt(2.0 * np.pi)
            return sum(
                integrate.quad(
                    lambda s: f(s) * np.exp(-0.5 * ((s - m) / v) ** 2) / weight,
                    a,
                    b,
                    epsabs=1e-13,
                    limit=200,
                )[0]
                for a, b in pairwise(ends)
            )

        wanted = (
            average(lambda s: float(huber_g(np.array([s * s]))[0])),
            average(lambda s: -s if abs(s) < 1.0 else -np.sign(s)),
            0.5 * average(lambda s: -1.0 * (abs(s) < 1.0)),
        )
        given = answer.value[k], answer.d_mean[k], answer.d_variance[k]
        np.testing.assert_allclose(given, wanted, atol=2e-8)


def of_power(p: float) -> type[Site]:
    return SuperGaussianSite(
        "bent",
        lambda x: -(x**p),
        lambda x: -p * x ** (p - 1.0),
        lambda x: p * (1.0 - p) * x ** (p - 2.0),
    )


def test_properties_follow_from_g() -> None:
    shape = Property.SUPER_GAUSSIAN | Property.BOUNDED
    assert student.spec.properties == shape
    assert sech.spec.properties == shape | Property.LOG_CONCAVE
    assert absolute.spec.properties == shape | Property.LOG_CONCAVE | Property.KINKED
    assert huber.spec.properties == shape | Property.LOG_CONCAVE | Property.CORNERED
    for power in (1.99, 1.5, 1.0, 0.5):
        bent = of_power(power / 2.0)
        assert Property.KINKED in bent.spec.properties
        assert (Property.LOG_CONCAVE in bent.spec.properties) == (power >= 1.0)
        assert bent(np.ones(2)).landmark()[1][0] == pytest.approx(1.0)  # type: ignore[call-arg,index]


def test_a_kink_is_the_reason_why_methods_refuse() -> None:
    verdicts = lgm.methods(lgm.loads(MODEL.format("absolute_by_g()")))
    assert set(verdicts.able) == {"double-loop", "coordinate-descent", "map"}
    for method in ("natural-gradient", "ep"):
        (reason,) = verdicts[method].reasons
        assert "has a kink at 0, where g' is infinite" in reason.text
    smooth = lgm.methods(lgm.loads(MODEL.format("student_by_g")))
    assert {"laplace", "natural-gradient", "ep", "double-loop"} <= set(smooth.able)


def test_classes_sites_and_fits_are_pickled(acme: None) -> None:
    for part in (*MADE.values(), acme_lgm.cauchy):  # the last one of lambdas, by its module
        assert pickle.loads(pickle.dumps(part)) is part
    unnamed = SuperGaussianSite("unnamed", t_g, t_dg, t_d2g)
    assert pickle.loads(pickle.dumps(unnamed)) is unnamed
    fit = lgm.fit(lgm.loads(MODEL.format("student_by_g()")), data(), method="double-loop")
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.mean("w"), fit.mean("w"))


def test_it_is_a_word_of_the_language(acme: None) -> None:
    page = str(lgm.cauchy.__doc__)
    assert "the Cauchy density" in page and "1 / (pi (1 + s^2))" in page
    with pytest.raises(lgm.ModelError, match="E104"):
        lgm.loads(MODEL.format("cauchy(df = 3)"))
    with pytest.raises(lgm.LgmError, match="E106"):
        lgm.register(SuperGaussianSite("laplace", t_g, t_dg, t_d2g))
    with pytest.raises(TypeError, match="cannot be written in a model"):
        lgm.register(SuperGaussianSite("two words", t_g, t_dg, t_d2g))


def test_a_cell_that_runs_twice() -> None:
    def cell(half: float) -> type[Site]:
        made = SuperGaussianSite(
            "twice",
            lambda x: -half * np.log1p(x),
            lambda x: -half / (1.0 + x),
            lambda x: half / (1.0 + x) ** 2,
        )
        return lgm.register(made)

    cell(1.0)
    last = cell(2.0)
    try:
        found: Any = catalogue.site("twice")(np.ones(1))  # type: ignore[call-arg]
        assert isinstance(found, SuperGaussian) and found.g(np.zeros(1))[1][0] == -2.0
    finally:
        registry.unregister(last)


def scalar(x: Array) -> Array:
    return np.asarray(-HALF / (3.0 + x[0]))


def in_place(x: Array) -> Array:
    x += 3.0
    return np.asarray(-HALF / x)


def joint(x: Array) -> Array:
    return np.asarray(-HALF / (3.0 + x) * (1.0 + 1e-3 * x / x.max()))


BROKEN: list[tuple[str, Any, Any, Any]] = [
    ("dg is 3, wanted a function", t_g, 3, t_d2g),
    ("dg does not take an array of x = s\\^2 \\(TypeError", t_g, lambda x: -1.0 / float(x), t_d2g),
    ("dg of an array of shape .* is one of shape \\(\\)", t_g, scalar, t_d2g),
    ("dg changes the array", t_g, in_place, t_d2g),
    ("dg is not elementwise", t_g, joint, t_d2g),
    ("type complex128", t_g, lambda x: t_dg(x) + 0j, t_d2g),
    ("g\\(0\\) is inf", lambda x: -np.log(x), lambda x: -1.0 / x, lambda x: x**-2.0),
    ("g is -inf at x", lambda x: -np.log(np.cosh(np.sqrt(x))), sech_dg, sech_d2g),
    ("dg is nan at x", t_g, lambda x: np.where(x > 1e3, np.nan, t_dg(x)), t_d2g),
    ("g does not decrease", lambda x: 0.0 * x - 1.0, lambda x: 0.0 * x, lambda x: 0.0 * x),
    ("g does not decrease", lambda x: x, lambda x: 1.0 + 0.0 * x, lambda x: 0.0 * x),
    ("dg is not the derivative of g", t_g, lambda x: 1.0001 * t_dg(x), t_d2g),
    ("dg is not the derivative of g", t_g, lambda x: 2.0 * np.sqrt(x) * t_dg(x), t_d2g),
    ("d2g is not the derivative of dg", t_g, t_dg, lambda x: -t_d2g(x)),
    ("d2g is not the derivative of dg", t_g, t_dg, lambda x: np.where(x < 0.5, 0.9, 1) * t_d2g(x)),
    ("not convex: d2g is -2", lambda x: -x * x, lambda x: -2.0 * x, lambda x: -2.0 + 0.0 * x),
    (
        "g is not decreasing: dg is",
        lambda x: -x * np.exp(-x),
        lambda x: (x - 1.0) * np.exp(-x),
        lambda x: (2.0 - x) * np.exp(-x),
    ),
    (
        "dg is not the derivative of g: about x = 0.9",  # a step of dg
        lambda x: -np.minimum(x, 1.0),
        lambda x: np.where(x < 1.0, -1.0, 0.0),
        lambda x: 0.0 * x,
    ),
]


@pytest.mark.parametrize(("reason", "g", "dg", "d2g"), BROKEN)
def test_a_broken_promise_is_named(reason: str, g: Any, dg: Any, d2g: Any) -> None:
    with pytest.raises(TypeError, match=f"^site broken: {reason}|^site broken: .*{reason}"):
        SuperGaussianSite("broken", g, dg, d2g)


def test_a_name_is_a_word() -> None:
    with pytest.raises(TypeError, match="the name of a site is a word, not 3"):
        SuperGaussianSite(3, t_g, t_dg, t_d2g)  # type: ignore[arg-type]
