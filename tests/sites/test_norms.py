"""Potentials of norms: normalised in n dimensions, their derivatives, and the bound of a width."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from lgmdsl.contract.questions import Normed
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.combined.normed import of_norms
from lgmdsl.sites.vector.tilted import tilted_by_lattice

CASES: list[tuple[str, dict[str, float]]] = [
    ("laplace", {"scale": 0.7}),
    ("exp_power", {"scale": 0.7, "power": 0.6}),
    ("exp_power", {"scale": 1.3, "power": 1.7}),
    ("student_t", {"scale": 0.7, "df": 3.0}),
    ("sech2", {"scale": 0.7}),
    ("logistic", {"scale": 0.4}),
]
each = pytest.mark.parametrize(("name", "values"), CASES)
SIZES = (1, 2, 3, 5, 40)


def made(name: str, values: dict[str, float], *members: int) -> Any:
    base = find_site(name)
    assert base is not None
    full = {k: np.full(len(members), v) for k, v in values.items()}
    fields: dict[str, Any] = {**full, "members": np.array(members, dtype=np.float64)}
    return of_norms(base)(**fields)


@each
@pytest.mark.parametrize("n", SIZES)
def test_the_density_integrates_to_one(name: str, values: dict[str, float], n: int) -> None:
    site = made(name, values, n)
    log_sphere = np.log(2.0) + 0.5 * n * np.log(np.pi) - special.gammaln(0.5 * n)

    def shell(u: float) -> float:
        s = np.zeros((1, n))
        s[0, -1] = np.exp(u)
        return float(np.exp(log_sphere + n * u + site.log_density(s)[0]))

    mass = integrate.quad(shell, -30.0, 14.0, limit=400, points=[-3.0, 0.0, 2.0, 4.0])[0]
    assert abs(mass - 1.0) < 1e-8


@each
def test_a_group_of_one_is_the_potential(name: str, values: dict[str, float]) -> None:
    s = np.array([[-2.0], [1e-9], [0.4], [30.0]])
    base = find_site(name)
    assert base is not None
    plain = base(**{k: np.full(4, v) for k, v in values.items()})
    site = made(name, values, 1, 1, 1, 1)
    np.testing.assert_allclose(
        site.log_density(s), plain.log_density(s[:, 0]), rtol=1e-14, atol=1e-14
    )
    for key, slope in plain.parameter_slopes(s[:, 0]).items():
        np.testing.assert_allclose(site.parameter_slopes(s)[key], slope, rtol=1e-12, atol=1e-14)


@each
@pytest.mark.parametrize("n", (2, 3))
def test_derivatives_are_those_of_the_density(name: str, values: dict[str, float], n: int) -> None:
    rng = np.random.default_rng(n)
    site, s = made(name, values, n), rng.normal(size=(1, n))
    root = rng.normal(size=(n, n))
    v, h = root @ root.T, 1e-5
    at = site.pointwise(s, v[None])
    for i, e in enumerate(np.eye(n)):
        up, down = site.pointwise(s + h * e), site.pointwise(s - h * e)
        np.testing.assert_allclose((up.value - down.value)[0] / (2 * h), at.slope[0, i], rtol=1e-7)
        np.testing.assert_allclose(
            (up.slope - down.slope)[0] / (2 * h), at.curvature[0, i], rtol=1e-6, atol=1e-8
        )
        third = np.sum(v * (up.curvature - down.curvature)[0]) / (2 * h)
        np.testing.assert_allclose(third, at.third[0, i], rtol=1e-5, atol=1e-7)
    for key, value in values.items():
        step = 1e-6 * value
        more, less = (made(name, {**values, key: value + x}, n) for x in (step, -step))
        slope = (more.log_density(s) - less.log_density(s))[0] / (2 * step)
        np.testing.assert_allclose(site.parameter_slopes(s)[key][0], slope, rtol=1e-6)


@each
def test_smooth_at_zero_or_kinked(name: str, values: dict[str, float]) -> None:
    site = made(name, values, 3)
    zero = np.zeros((1, 3))
    at = site.pointwise(zero)
    assert np.all(at.slope == 0.0) and np.all(at.third == 0.0)
    if name in ("student_t", "sech2", "logistic"):
        near = site.pointwise(np.full((1, 3), 1e-7))
        np.testing.assert_allclose(near.curvature, at.curvature, rtol=1e-6, atol=1e-6)


@each
def test_the_bound_touches_and_lies_below(name: str, values: dict[str, float]) -> None:
    """exp(-||s||^2 / (2 gamma) - h / 2) <= t(s), with equality where E||s||^2 is the width's own;
    and the expectation of its logarithm is -penalty."""
    rng = np.random.default_rng(4)
    site = made(name, values, 3)
    mean, root = rng.normal(size=(1, 3)), rng.normal(size=(3, 3))
    v = (root @ root.T)[None]
    a = site.widths(mean, v)
    x = float(np.sum(mean**2) + np.trace(v[0]))
    for length in (1e-3, 0.3, 1.0, 5.0, 50.0):
        s = length * np.array([[0.6, 0.0, -0.8]])
        bound = -(length**2) / (2.0 * a.width) - 0.5 * a.h
        assert bound[0] <= site.log_density(s)[0] + 1e-12
    touching = np.array([[np.sqrt(x), 0.0, 0.0]])
    bound = -x / (2.0 * a.width) - 0.5 * a.h
    np.testing.assert_allclose(bound, site.log_density(touching), rtol=1e-12)
    np.testing.assert_allclose(-a.penalty, bound, rtol=1e-12)
    h = 1e-5
    for i, e in enumerate(np.eye(3)):
        up, down = site.widths(mean + h * e, v), site.widths(mean - h * e, v)
        np.testing.assert_allclose((up.penalty - down.penalty) / (2 * h), a.slope[:, i], rtol=1e-6)
        np.testing.assert_allclose(
            (up.slope - down.slope)[0] / (2 * h), a.curvature[0, i], rtol=1e-5, atol=1e-8
        )
    np.testing.assert_array_equal(a.weight[0], np.eye(3) / a.width)


@each
def test_what_padding_adds_is_nothing(name: str, values: dict[str, float]) -> None:
    """A group of two among predictors of four, two of which are zero."""
    s = np.array([[0.4, -1.1]])
    padded = np.array([[0.4, -1.1, 0.0, 0.0]])
    few, site = made(name, values, 2), made(name, values, 2)
    assert few.log_density(s) == site.log_density(padded)
    np.testing.assert_array_equal(site.pointwise(padded).slope[:, :2], few.pointwise(s).slope)


@each
def test_another_unit(name: str, values: dict[str, float]) -> None:
    site, s, unit = made(name, values, 2, 3), np.array([[0.4, -1.1, 0.0], [0.1, 2.0, 0.3]]), 1e-18
    inside, more = site.measured(np.zeros(6), unit)
    whole = float(np.sum(inside.log_density(s / unit))) + more
    np.testing.assert_allclose(whole, float(np.sum(site.log_density(s))), rtol=1e-13)


def test_classes_are_pickled_by_their_factory() -> None:
    base = find_site("laplace")
    assert base is not None and issubclass(base, Normed)
    assert pickle.loads(pickle.dumps(of_norms(base))) is of_norms(base)


def test_a_family_without_a_norm_is_refused() -> None:
    base = find_site("asymmetric_laplace")
    assert base is not None
    with pytest.raises(TypeError, match="norm of a group"):
        of_norms(base)


@pytest.mark.few(7)
@pytest.mark.parametrize("scale", [0.3, 0.1, 0.02])
@pytest.mark.parametrize("mean", [(0.0, 0.0, 0.0), (0.5, -0.2, 0.3), (1.5, 0.0, -1.0)])
def test_tilted_moments_of_three_entries_with_a_narrow_peak(
    scale: float, mean: tuple[float, ...]
) -> None:
    """The multivariate t mixes normals over one precision: the moments are one integral each."""
    m, v = np.array(mean), np.array([[1.0, 0.4, -0.2], [0.4, 0.5, 0.1], [-0.2, 0.1, 0.8]])
    answer = tilted_by_lattice(made("student_t", {"scale": scale, "df": 4.0}, 3), m[None], v[None])

    u = np.linspace(-25.0, 12.0, 4001)
    log = stats.gamma.logpdf(np.exp(u), 2.0, scale=0.5) + u + np.log(u[1] - u[0])
    inverse = np.linalg.inv(v + (scale**2 / np.exp(u))[:, None, None] * np.eye(3))
    log -= 0.5 * np.einsum("i,nij,j->n", m, inverse, m) - 0.5 * np.linalg.slogdet(inverse)[1]
    share = np.exp(log - special.logsumexp(log))
    gain = v @ inverse
    means = m - np.einsum("nij,j->ni", gain, m)
    centre = share @ means
    away = means - centre
    spread = np.einsum("n,nij->ij", share, v - gain @ v)
    spread += np.einsum("n,ni,nj->ij", share, away, away)

    expected = special.logsumexp(log) - 1.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(answer.log_mass[0], expected, atol=1e-6)
    np.testing.assert_allclose(answer.mean[0], centre, atol=2e-6 * np.sqrt(spread.trace()))
    np.testing.assert_allclose(answer.variance[0], spread, atol=4e-6 * spread.trace())
