"""The figures on the pages, against what computes: scales, steps, moments, quantiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.priors.catalogue import prior
from lgmdsl.structures.kernels import Kernel
from lgmdsl.structures.ordered.seasonal import seasonal
from lgmdsl.structures.ordered.walks import rw1, rw2
from lgmdsl.structures.shared.scaled import ScaledPrecision
from lgmdsl.structures.spatial.besag import besag
from lgmdsl.structures.stationary import SquaredExponential, matern
from lgmdsl.vocabulary.lookup import declared


def said(category: str, name: str, *phrases: str) -> None:
    """The page says so: the figures below are those of the text."""
    signature = declared(category, name)  # type: ignore[arg-type]
    text = " ".join((signature.scale, *dict(signature.formulas).values()))
    for phrase in phrases:
        assert phrase in text


def constant(structure: object) -> float:
    """c of sd of a step = sd / sqrt(c): Q = c D'D / sd^2."""
    assert isinstance(structure, ScaledPrecision)
    return float(structure.unit.scale[0])


def test_steps_of_random_walks() -> None:
    said("structure", "rw1", "0.151 n", "n / 12")
    said("structure", "rw2", "0.00171 n^3", "n^3 / 720")
    n = 200
    assert constant(rw1(n, 1.0, False, True)) == pytest.approx(0.151 * n, rel=0.01)
    assert constant(rw1(n, 1.0, True, True)) == pytest.approx(n / 12, rel=0.01)
    assert constant(rw2(n, 1.0, False, True)) == pytest.approx(0.00171 * n**3, rel=0.01)
    assert constant(rw2(n, 1.0, True, True)) == pytest.approx(n**3 / 720, rel=0.01)
    said("structure", "seasonal", "0.30 n / period")
    assert constant(seasonal(120, 1.0, 12)) == pytest.approx(0.30 * 10, rel=0.02)


def test_steps_are_those_of_the_precision() -> None:
    """Q = D'D / step^2, D the differences of the formula, and sd the typical marginal size."""
    n, sd = 12, 0.7
    for order, walk in ((1, rw1), (2, rw2)):
        structure = walk(n, sd, False, True)
        d = np.diff(np.eye(n), n=order, axis=0)
        step = sd / np.sqrt(constant(structure))
        assert structure.precision().toarray() == pytest.approx(d.T @ d / step**2)
        variances = np.diag(np.linalg.pinv(d.T @ d / step**2))
        assert np.exp(np.log(variances).mean() / 2) == pytest.approx(sd)


def test_besag_given_its_neighbours() -> None:
    said("structure", "besag", "sd / sqrt(c k)")
    ring = sp.csr_array(np.roll(np.eye(9), 1, axis=1) + np.roll(np.eye(9), -1, axis=1))
    structure = besag(9, ring, 0.5)
    given = structure.precision().diagonal() ** -0.5
    assert given == pytest.approx(0.5 / np.sqrt(constant(structure) * 2))


@pytest.mark.parametrize(
    ("kernel", "correlation"),
    [
        (SquaredExponential(np.array(1.0), np.array(2.0)), 0.61),
        (matern(1.0, 2.0, 0.5), 0.37),
        (matern(1.0, 2.0, 1.5), 0.48),
        (matern(1.0, 2.0, 2.5), 0.52),
    ],
)
def test_correlation_at_one_length(kernel: Kernel, correlation: float) -> None:
    category = "kernel"
    said(category, kernel.name, f"{correlation}")
    at = np.array([[0.0], [2.0]])
    assert kernel.matrix(at)[0, 1] == pytest.approx(correlation, abs=0.005)


# ---- densities -------------------------------------------------------------------------------


def density(site: str, y: Array, s: float, **parameters: float) -> Array:
    """t(y | s): the average of log t over a Gaussian without variance."""
    given = {k: np.full(len(y), v) for k, v in parameters.items()}
    point = np.full(len(y), s)
    answer = lgm.sites.expected(site, y, point, np.zeros(len(y)), **given)
    return np.asarray(np.exp(answer.value))


def moments(
    site: str, s: float, ends: tuple[float, float], **parameters: float
) -> tuple[float, ...]:
    """Mass, mean and variance of y by quadrature."""

    def power(k: int) -> float:
        return float(
            integrate.quad(
                lambda y: y**k * density(site, np.array([y]), s, **parameters)[0],
                *ends,
                limit=400,
                points=[x for x in (s,) if ends[0] < x < ends[1] and np.isfinite(ends).all()],
            )[0]
        )

    mass, mean, square = power(0), power(1), power(2)
    return mass, mean, square - mean**2


S = 0.4
CONTINUOUS: dict[str, tuple[tuple[float, float], dict[str, float], float, float]] = {
    "normal.mean": ((-9, 9), {"sd": 0.7}, S, 0.7**2),
    "student_t.mean": ((-400, 400), {"scale": 0.7, "df": 6.0}, S, 0.7**2 * 6 / 4),
    "laplace.mean": ((-30, 30), {"scale": 0.7}, S, 2 * 0.7**2),
    "lognormal.mean": ((1e-9, 90), {"sd": 0.5}, np.exp(S + 0.125), np.nan),
    "gamma.log_mean": ((1e-9, 60), {"shape": 2.5}, np.exp(S), np.exp(2 * S) / 2.5),
    "exponential.log_rate": ((1e-9, 60), {}, np.exp(-S), np.exp(-2 * S)),
    "beta.logit_mean": (
        (1e-9, 1 - 1e-9), {"concentration": 5.0}, 1 / (1 + np.exp(-S)),
        np.exp(-S) / (1 + np.exp(-S)) ** 2 / 6,
    ),
    "normal.log_var": ((-12, 12), {"mean": 0.3}, 0.3, np.exp(S)),
}  # fmt: skip


@pytest.mark.parametrize("site", CONTINUOUS)
def test_means_and_variances_of_families(site: str) -> None:
    ends, parameters, mean, variance = CONTINUOUS[site]
    mass, first, second = moments(site, S, ends, **parameters)
    assert mass == pytest.approx(1.0, abs=1e-6)
    assert first == pytest.approx(mean, rel=1e-5)
    if np.isfinite(variance):
        assert second == pytest.approx(variance, rel=1e-3)


def test_weibull_survives_as_its_page_says() -> None:
    said("family", "weibull", "exp(-(y / exp(s))^shape)", "37 %")
    y = np.linspace(1e-9, np.exp(S), 20001)
    dead = float(integrate.simpson(density("weibull.log_scale", y, S, shape=1.7), x=y))
    assert 1 - dead == pytest.approx(np.exp(-1.0), abs=1e-6)


def test_negative_binomial_counts() -> None:
    y = np.arange(400.0)
    p = density("negbinomial.log_mean", y, S, size=1.5)
    mean = float(p @ y)
    assert (p.sum(), mean) == pytest.approx((1.0, np.exp(S)))
    assert float(p @ y**2) - mean**2 == pytest.approx(np.exp(S) + np.exp(2 * S) / 1.5)
    assert p == pytest.approx(stats.nbinom.pmf(y, 1.5, 1.5 / (1.5 + np.exp(S))))


POTENTIALS: dict[str, tuple[dict[str, float], Callable[[], float]]] = {
    "normal": ({"sd": 0.8}, lambda: 0.8),
    "laplace": ({"scale": 0.8}, lambda: 0.8 * np.sqrt(2)),
    "student_t": ({"scale": 0.8, "df": 6.0}, lambda: 0.8 * np.sqrt(6 / 4)),
    "sech2": ({"scale": 0.8}, lambda: 0.8 * np.pi / np.sqrt(12)),
    "logistic": ({"scale": 0.8}, lambda: 0.8 * np.pi / np.sqrt(3)),
    "exp_power": ({"scale": 0.8, "power": 2.0}, lambda: 0.8 / np.sqrt(2)),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_sds_of_potentials(name: str) -> None:
    parameters, sd = POTENTIALS[name]
    s = np.linspace(-120.0, 120.0, 240001)
    given = {k: np.full(len(s), v) for k, v in parameters.items()}
    answer = lgm.sites.expected(name, None, s, np.zeros(len(s)), **given)
    p = np.exp(np.asarray(answer.value))
    assert float(integrate.simpson(p, x=s)) == pytest.approx(1.0, abs=1e-4)
    assert np.sqrt(float(integrate.simpson(p * s * s, x=s))) == pytest.approx(sd(), rel=1e-3)


def test_quantiles_of_hyperpriors() -> None:
    def of(name: str, **arguments: float) -> Callable[[float], float]:
        made = prior(name, "positive", **{k: np.asarray(v) for k, v in arguments.items()})
        return lambda p: float(made.quantile(np.asarray(p)))  # type: ignore[attr-defined]

    said("prior", "pc_sd", "0.15 u at alpha = 0.01")
    assert of("pc_sd", u=2.0, alpha=0.01)(0.5) == pytest.approx(0.30, abs=0.002)
    assert of("pc_sd", u=2.0, alpha=0.01)(0.99) == pytest.approx(2.0)
    assert of("pc_range", u=2.0, alpha=0.05)(0.05) == pytest.approx(2.0)
    assert of("pc_df", u=5.0, alpha=0.3)(0.3) == pytest.approx(5.0)
    said("prior", "half_normal", "0.67 sd", "1.96 sd")
    assert of("half_normal", sd=2.0)(0.5) == pytest.approx(0.67 * 2, rel=0.01)
    assert of("half_normal", sd=2.0)(0.95) == pytest.approx(1.96 * 2, rel=0.01)
    said("prior", "half_cauchy", "12.7 scale")
    assert of("half_cauchy", scale=2.0)(0.5) == pytest.approx(2.0)
    assert of("half_cauchy", scale=2.0)(0.95) == pytest.approx(12.7 * 2, rel=0.01)
    said("prior", "half_student_t", "at df = 3 the median is 0.76", "3.18 scale")
    assert of("half_student_t", scale=2.0, df=3.0)(0.5) == pytest.approx(0.76 * 2, rel=0.01)
    assert of("half_student_t", scale=2.0, df=3.0)(0.95) == pytest.approx(3.18 * 2, rel=0.01)
    assert of("half_student_t", scale=2.0, df=300.0)(0.68) == pytest.approx(2.0, rel=0.01)
    said("prior", "cauchy", "12.7 scale")
    assert of("cauchy", scale=2.0, location=1.0)(0.975) == pytest.approx(1 + 12.7 * 2, rel=0.01)
    said("prior", "student_t", "3.18 scale")
    assert of("student_t", scale=2.0, df=3.0)(0.975) == pytest.approx(3.18 * 2, rel=0.01)
    assert of("logistic", scale=1.0)(0.7) == pytest.approx(np.log(0.7 / 0.3))
    said("prior", "exponential", "0.69 / rate")
    assert of("exponential", rate=2.0)(0.5) == pytest.approx(0.69 / 2, rel=0.01)
    assert of("gamma", shape=2.0, rate=3.0)(0.5) == pytest.approx(
        stats.gamma(2, scale=1 / 3).median()
    )
    assert of("inv_gamma", shape=2.0, scale=3.0)(0.5) == pytest.approx(
        stats.invgamma(2, scale=3).median()
    )
    assert of("lognormal", mean=0.5, sd=1.0)(0.5) == pytest.approx(np.exp(0.5))
