"""Tilted moments of vector sites: against brute force, closed conditionals, and scalar sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from lgmdsl.bounds.vector_tilted import VectorTilted, VectorTiltedSlopes
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer, TiltedAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.errors import MethodError
from lgmdsl.numerics.expectations.cells import breaks, integrate
from lgmdsl.sites.scalar.logistic import BernoulliLogit
from lgmdsl.sites.vector.multinomial_probit import CategoricalProbit
from lgmdsl.sites.vector.softmax import CategoricalSoftmax, MultinomialSoftmax


@dataclass(frozen=True, eq=False)
class NormalLogSd(Site, Pointwise):
    """y ~ N(s_1, (c exp(s_2))^2): not log-concave, with a ridge that narrows as s_2 falls."""

    y: Array
    c: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "test.normal_log_sd", {"c": 1.0}, observed=("real",), vector=True
    )

    def log_density(self, s: Array) -> Array:
        z = (self.y - s[:, 0]) * np.exp(-s[:, 1]) / self.c
        return np.asarray(-0.5 * np.log(2 * np.pi) - s[:, 1] - np.log(self.c) - 0.5 * z * z)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        e = np.exp(-s[:, 1]) / self.c
        z = (self.y - s[:, 0]) * e
        slope = np.stack([z * e, z * z - 1.0], axis=1)
        bend = np.empty((len(s), 2, 2))
        bend[:, 0, 0], bend[:, 1, 1] = -e * e, -2.0 * z * z
        bend[:, 0, 1] = bend[:, 1, 0] = -2.0 * z * e
        return PointwiseAnswer(self.log_density(s), slope, bend, np.full_like(s, np.nan))

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        z = (self.y - s[:, 0]) * np.exp(-s[:, 1]) / self.c
        return {"c": (z * z - 1.0) / self.c}


def covariances(rng: np.random.Generator, n: int, k: int, sd: float) -> Array:
    root = rng.normal(size=(n, k, k))
    return np.asarray(sd**2 * (root @ root.transpose(0, 2, 1) / k + 0.05 * np.eye(k)))


def brute(site: Site, mean: Array, variance: Array, power: float, about: Any, nodes: int) -> Any:
    """A dense product rule over a box of ten sds of `about` (mean, variance), for one site."""
    k, root = len(mean), np.linalg.cholesky(about[1])
    line = np.linspace(-10.0, 10.0, nodes)
    x = np.stack(np.meshgrid(*[line] * k, indexing="ij"), axis=-1).reshape(-1, k)
    s = about[0] + x @ root.T
    many = site.take(np.zeros(len(s), dtype=np.intp))
    off = np.linalg.solve(np.linalg.cholesky(variance), (s - mean).T)
    log = power * many.log_density(s) - 0.5 * (off * off).sum(axis=0)
    weight = np.exp(log - log.max())
    total = weight.sum()
    centre = weight @ x / total
    spread = (x * weight[:, None]).T @ x / total - np.outer(centre, centre)
    size = np.linalg.slogdet(about[1])[1] - np.linalg.slogdet(variance)[1]
    mass = log.max() + np.log(total) + k * np.log((line[1] - line[0]) / np.sqrt(2 * np.pi))
    return mass + 0.5 * size, about[0] + root @ centre, root @ spread @ root.T


def assert_close(answer: TiltedAnswer, row: int, wanted: Any, tolerance: float) -> None:
    mass, mean, variance = wanted
    sd = np.sqrt(np.diag(variance))
    assert answer.log_mass[row] == pytest.approx(mass, abs=tolerance)
    assert np.abs((answer.mean[row] - mean) / sd).max() < tolerance
    assert np.abs((answer.variance[row] - variance) / np.outer(sd, sd)).max() < 3 * tolerance


def families(n: int, rng: np.random.Generator) -> list[tuple[Site, int]]:
    three = rng.integers(0, 3, n).astype(np.float64)
    some = np.ones((n, 3))
    some[0, (int(three[0]) + 1) % 3] = 0.0
    counts = np.tile([[3.0, 40.0, 7.0]], (n, 1))
    none = np.tile([[0.0, 0.0, 7.0]], (n, 1))
    return [
        (CategoricalSoftmax(three, some), 2),
        (MultinomialSoftmax(counts, np.full(n, 50.0)), 2),
        (MultinomialSoftmax(none, np.full(n, 7.0)), 2),
        (CategoricalSoftmax(three, some), 3),
        (CategoricalProbit(three, some), 3),
    ]


@pytest.mark.few(4)
@pytest.mark.parametrize("sd", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("number", range(5))
def test_moments_equal_brute_force(number: int, sd: float) -> None:
    rng = np.random.default_rng(number)
    site, k = families(3, rng)[number]
    mean, variance = sd * rng.normal(size=(3, k)), covariances(rng, 3, k, sd)
    for power in (1.0, 0.5):
        answer = VectorTilted().lift(site).tilted(mean, variance, power)
        for row in range(2):
            one, about = site.take(np.array([row])), (answer.mean[row], answer.variance[row])
            nodes = 51 if isinstance(site, CategoricalProbit) else 201 if k == 2 else 61
            assert_close(
                answer, row, brute(one, mean[row], variance[row], power, about, nodes), 1e-7
            )


@pytest.mark.few(6)
@pytest.mark.parametrize("sd", [0.3, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_a_ridge_is_not_missed(sd: float, power: float) -> None:
    """Against the exact integral over s_1 given s_2 on 200,001 points of s_2."""
    rng = np.random.default_rng(3)
    n = 12
    mean, variance = rng.normal(size=(n, 2)), covariances(rng, n, 2, sd)
    y = mean[:, 0] + 2.0 * rng.normal(size=n)
    answer = VectorTilted().lift(NormalLogSd(y, np.ones(n))).tilted(mean, variance, power)
    line = np.linspace(-14.0, 14.0, 200_001)
    settled = 0
    for row in range(n):
        if np.isnan(answer.log_mass[row]):
            continue
        settled += 1
        v, m = variance[row], mean[row]
        s = m[1] + np.sqrt(v[1, 1]) * line
        at, left = m[0] + v[0, 1] / v[1, 1] * (s - m[1]), v[0, 0] - v[0, 1] ** 2 / v[1, 1]
        noise = np.exp(2.0 * s) / power
        log = -0.5 * power * np.log(2 * np.pi) - power * s + 0.5 * np.log(noise / (left + noise))
        log += -0.5 * (y[row] - at) ** 2 / (left + noise) - 0.5 * line**2
        share = np.exp(log - log.max())
        mass = log.max() + np.log(share.sum() * (line[1] - line[0]) / np.sqrt(2 * np.pi))
        share /= share.sum()
        first = at + left / (left + noise) * (y[row] - at)
        inner = left * noise / (left + noise)
        centre = np.array([share @ first, share @ s])
        cross = share @ (first * s) - centre[0] * centre[1]
        wanted = np.array(
            [
                [share @ (inner + first**2) - centre[0] ** 2, cross],
                [cross, share @ s**2 - centre[1] ** 2],
            ]
        )
        assert_close(answer, row, (mass, centre, wanted), 1e-7)
    assert settled >= n - 2


def test_two_classes_are_a_logistic_site() -> None:
    rng = np.random.default_rng(0)
    y, mean, sd = rng.integers(0, 2, 30), 3.0 * rng.normal(size=30), rng.uniform(0.05, 8.0, 30)
    soft = CategoricalSoftmax(y.astype(float), np.ones((30, 2)))
    both = VectorTilted().lift(soft)
    one = both.tilted(mean[:, None], (sd**2)[:, None, None], 0.7)
    bernoulli = BernoulliLogit((1 - y).astype(np.float64))
    from lgmdsl.bounds.quadrature import TiltedByQuadrature

    known = TiltedByQuadrature().lift(bernoulli).tilted(mean, sd**2, 0.7)
    assert np.allclose(one.log_mass, known.log_mass, rtol=0, atol=1e-9)
    assert np.allclose(one.mean[:, 0], known.mean, rtol=0, atol=1e-8)
    assert np.allclose(one.variance[:, 0, 0], known.variance, rtol=1e-8)
    # Both predictors given: what they share stays as it was.
    full = both.tilted(
        np.stack([mean, 0 * mean], 1), sd[:, None, None] ** 2 * np.diag([1.0, 0.0]), 0.7
    )
    assert np.allclose(full.mean[:, 0], known.mean, atol=1e-8)
    assert np.abs(full.variance[:, 1]).max() < 1e-12


def test_what_all_classes_share_does_not_change() -> None:
    rng = np.random.default_rng(1)
    site = CategoricalSoftmax(np.array([0.0, 2.0]), np.ones((2, 3)))
    mean, variance = rng.normal(size=(2, 3)), covariances(rng, 2, 3, 1.0)
    lifted = VectorTilted().lift(site)
    plain, moved = lifted.tilted(mean, variance), lifted.tilted(mean + 5.0, variance + 9.0)
    assert np.allclose(moved.log_mass, plain.log_mass, atol=1e-9)
    assert np.allclose(np.diff(moved.mean), np.diff(plain.mean), atol=1e-9)


def test_no_variance_is_the_limit() -> None:
    site = CategoricalSoftmax(np.array([1.0, 0.0]), np.ones((2, 3)))
    mean = np.array([[0.3, -0.2], [1.0, 0.5]])
    line = np.array([[1.0, 1.0], [1.0, 1.0]])
    answer = VectorTilted().lift(site).tilted(mean, np.stack([0.0 * line, line]))
    assert answer.log_mass[0] == pytest.approx(site.log_density(mean)[0], abs=1e-10)
    assert np.allclose(answer.mean[0], mean[0]) and np.abs(answer.variance[0]).max() < 1e-15
    # Predictors that move together stay together.
    assert answer.mean[1, 0] - answer.mean[1, 1] == pytest.approx(0.5, abs=1e-10)
    assert np.ptp(answer.variance[1]) < 1e-10


def test_slopes_are_those_of_the_log_mass() -> None:
    rng = np.random.default_rng(2)
    n = 8
    y, c = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    mean, variance = rng.normal(size=(n, 2)), covariances(rng, n, 2, 0.8)
    slopes = VectorTiltedSlopes().lift(NormalLogSd(y, c)).tilted_slopes(mean, variance, 0.7)
    step = 1e-4
    ends = [
        VectorTilted().lift(NormalLogSd(y, c + side * step)).tilted(mean, variance, 0.7).log_mass
        for side in (1.0, -1.0)
    ]
    assert np.allclose(slopes["c"], (ends[0] - ends[1]) / (2.0 * step * 0.7), rtol=1e-6, atol=1e-6)


def test_more_than_four_classes_are_refused() -> None:
    five = CategoricalSoftmax(np.array([1.0]), np.ones((1, 5)))
    few = CategoricalSoftmax(np.array([1.0]), np.array([[1.0, 1.0, 0.0, 0.0, 1.0]]))
    lifted = VectorTilted().lift(five)
    with pytest.raises(MethodError, match="4 directions") as error:
        lifted.tilted(np.zeros((1, 5)), np.eye(5)[None])
    assert error.value.diagnostics[0].code == "E501"
    answer = VectorTilted().lift(few).tilted(np.zeros((1, 5)), np.eye(5)[None])
    assert answer.log_mass[0] == pytest.approx(np.log(1.0 / 3.0), abs=1e-9)


def test_cells_find_what_a_lattice_would_miss() -> None:
    """A Gaussian of sd 1e-3 far from the first breaks, and a polynomial, over two axes."""

    def f(rows: IntArray, u: Array) -> Array:
        spike = np.exp(-0.5 * ((u - 0.3) ** 2).sum(axis=2) / 1e-4) / (2e-4 * np.pi)
        return np.stack([spike + 0.1, 3.0 * u[:, :, 0] ** 2 + 0.0 * spike])

    edges = [breaks(np.array([0.5]), np.zeros(1), np.array([1.0]), 2.0)] * 2
    sums, settled = integrate(f, edges, lambda s: np.maximum(np.abs(s), 1.0), 2, 10**6)
    assert settled.all()
    assert sums[:, 0] == pytest.approx([1.4, 4.0], abs=1e-7)
    # The same with too few evaluations is not claimed.
    assert not integrate(f, edges, lambda s: np.maximum(np.abs(s), 1.0), 2, 2000)[1].any()


def test_kinked_and_shared_sites_are_refused() -> None:
    from lgmdsl.sites.vector.admixture import AdmixtureSoftmax

    class Kinked(NormalLogSd):
        spec: ClassVar[SiteSpec] = SiteSpec(
            "test.kinked", properties=Property.KINKED, observed=("real",), vector=True
        )

    assert "kink" in VectorTilted().applies_to(Kinked)
    assert "shared" in VectorTilted().applies_to(AdmixtureSoftmax)
    assert "one predictor" in VectorTilted().applies_to(BernoulliLogit)
    assert VectorTilted().applies_to(NormalLogSd) == ""


def test_asked_from_outside() -> None:
    """lgm.sites.tilted of three classes against E[p_y] from another rule."""
    variance = np.array([[1.0, 0.3], [0.3, 2.0]])
    answer = lgm.sites.tilted("categorical.softmax", 1, [0.2, -0.4], variance, available=[1, 1, 1])
    x, w = special.roots_hermitenorm(60)
    s = (
        np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
        @ np.linalg.cholesky(variance).T
    )
    p = special.softmax(np.column_stack([s + np.array([0.2, -0.4]), np.zeros(len(s))]), axis=1)[
        :, 1
    ]
    weight = np.multiply.outer(w, w).reshape(-1)
    assert np.exp(answer.log_mass) == pytest.approx(weight @ p / weight.sum(), abs=1e-8)


@pytest.mark.parametrize("predictors", [2, 3])
def test_shares_with_a_reference_have_all_directions(predictors: int) -> None:
    """Expected and Tilted of a Dirichlet by its bounds, against a product rule; with a reference
    the common part of the predictors is no constant."""
    from lgmdsl.bounds.vector_quadrature import VectorByQuadrature
    from lgmdsl.sites.vector.dirichlet import DirichletSoftmax

    rng = np.random.default_rng(0)
    site = DirichletSoftmax(rng.dirichlet([2.0, 3.0, 4.0], size=3), np.full(3, 5.0))
    k = predictors
    mean, variance = rng.normal(size=(3, k)), covariances(rng, 3, k, 0.6)
    expected = VectorByQuadrature().lift(site).expected(mean, variance)
    tilted = VectorTilted().lift(site).tilted(mean, variance)
    line = np.linspace(-8.0, 8.0, 161 if k == 2 else 49)
    x = np.stack(np.meshgrid(*[line] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weight = np.exp(-0.5 * (x * x).sum(axis=1))
    weight /= weight.sum()
    for row in range(3):
        s = mean[row] + x @ np.linalg.cholesky(variance[row]).T
        l = site.take(np.full(len(s), row)).log_density(s)
        assert expected.value[row] == pytest.approx(weight @ l, abs=5e-5)
        wanted = np.log(weight @ np.exp(l - l.max())) + l.max()
        assert tilted.log_mass[row] == pytest.approx(wanted, abs=1e-7)
