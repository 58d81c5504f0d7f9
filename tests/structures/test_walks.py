"""rw1, rw2, seasonal: their definition by increments, scale, determinants, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.errors import LgmError
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.structure_checks import check_structure, dense_precision

SD = {"sd": np.array(0.7)}
AT = np.array([3.0, 0.5, 9.0, 4.5, 4.1, 7.0, -2.0])


def inverse(s: Structure) -> Array:
    """Q^+ by eigenvalues, as many left out as the null basis has columns."""
    values, vectors = np.linalg.eigh(dense_precision(s))
    kept = vectors[:, s.null_space().shape[1] :]
    return np.asarray((kept / values[s.null_space().shape[1] :]) @ kept.T)


def scale(s: Structure) -> float:
    """The geometric mean of the marginal sds."""
    return float(np.exp(0.5 * np.log(inverse(s).diagonal()).mean()))


@pytest.mark.parametrize("name", ["rw1", "rw2"])
@pytest.mark.parametrize(
    "options",
    [{}, {"cyclic": True}, {"at": AT}, {"sum_to_zero": False}, {"at": AT, "sum_to_zero": False}],
)
def test_walks_keep_the_contract(name: str, options: dict[str, object]) -> None:
    check_structure(lambda a: structure(name, 7, **options, **a), SD)


@pytest.mark.parametrize("period", [2, 3, 5, 12])
def test_seasonal_keeps_the_contract(period: int) -> None:
    check_structure(lambda a: structure("seasonal", 13, period=np.array(period), **a), SD)


@pytest.mark.parametrize(
    "name, least, options",
    [
        ("rw1", 2, {}),
        ("rw1", 2, {"cyclic": True}),
        ("rw2", 3, {}),
        ("rw2", 3, {"cyclic": True}),
        ("seasonal", 2, {"period": 2.0}),
        ("seasonal", 4, {"period": 4.0}),
    ],
)
def test_the_geometric_mean_of_marginal_sds_is_sd(
    name: str, least: int, options: dict[str, object]
) -> None:
    for size in (least, least + 1, least + 2, 50):
        s = structure(name, size, sd=0.7, **options)
        assert scale(s) == pytest.approx(0.7, rel=1e-9)


@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=12), st.randoms())
def test_unequal_positions(gaps: list[float], random: object) -> None:
    """rw1: increments of variance proportional to the gaps; rw2: changes of slope, of variance
    proportional to one over the mean gap; in any order, and scaled."""
    at = np.concatenate([[1.0], 1.0 + np.cumsum(gaps)])
    n, g = len(at), np.array(gaps)
    order = list(range(n))
    random.shuffle(order)  # type: ignore[attr-defined]
    d1 = np.diff(np.eye(n), axis=0)
    first = d1.T @ np.diag(1 / g) @ d1
    slopes = np.diff(np.diag(1 / g) @ d1, axis=0)
    second = slopes.T @ np.diag(2 / (g[1:] + g[:-1])) @ slopes
    for name, wanted in (("rw1", first), ("rw2", second)):
        s = structure(name, n, at=at[order])
        q = dense_precision(s)
        turned = wanted[np.ix_(order, order)]
        turned *= q[0, 0] / turned[0, 0]
        np.testing.assert_allclose(q, turned, rtol=1e-8, atol=1e-8 * np.abs(q).max())
        np.testing.assert_allclose(scale(s), 1.0, rtol=1e-5)
        k = s.null_space().shape[1]
        values = np.linalg.eigvalsh(q)[k:]
        np.testing.assert_allclose(s.log_det_precision(), np.log(values).sum(), atol=1e-5)


@pytest.mark.parametrize("name", ["rw1", "rw2"])
def test_equal_gaps_of_any_unit_are_the_regular_walk(name: str) -> None:
    regular = dense_precision(structure(name, 9))
    shifted = 1e6 + 1e-3 * np.arange(9.0)
    for at in (np.arange(9.0), shifted, -7.0 * np.arange(9.0), 1e-120 * np.arange(9.0)):
        tolerance = 1e-5 if at[0] else 1e-11
        found = dense_precision(structure(name, 9, at=at))
        np.testing.assert_allclose(found, regular, rtol=tolerance, atol=tolerance)


def test_published_forms() -> None:
    """Rue and Held (2005), eqs. 3.22 and 3.40: the rows of the structure matrices."""
    first, second = (dense_precision(structure(n, 7)) for n in ("rw1", "rw2"))
    np.testing.assert_allclose(first[3] / first[0, 0], [0, 0, -1, 2, -1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(second[3] / second[0, 0], [0, 1, -4, 6, -4, 1, 0], atol=1e-11)
    np.testing.assert_allclose(second[1] / second[0, 0], [-2, 5, -4, 1, 0, 0, 0], atol=1e-11)


def test_density_is_that_of_the_increments() -> None:
    """Up to a constant in z: the log density is -sum of squared increments / (2 variance)."""
    z = np.random.default_rng(0).normal(size=(2, 8))
    for name, degree in (("rw1", 1), ("rw2", 2)):
        q = dense_precision(structure(name, 8, sd=0.6))
        steps = np.diff(z, degree, axis=1)
        variance = (steps[0] @ steps[0]) / (z[0] @ q @ z[0])
        assert steps[1] @ steps[1] / variance == pytest.approx(z[1] @ q @ z[1], rel=1e-10)
    q = dense_precision(structure("seasonal", 8, period=3.0))
    sums = np.array([np.convolve(row, np.ones(3), "valid") for row in z])
    ratio = (sums**2).sum(axis=1) / np.einsum("ki,ij,kj->k", z, q, z)
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-10)


def test_what_is_improper() -> None:
    proper = Shape.PRECISION | Shape.SPARSE | Shape.COVARIANCE
    free = Shape.PRECISION | Shape.SPARSE | Shape.IMPROPER
    assert structure("rw1", 5).shape == proper
    assert structure("rw2", 5, cyclic=True).shape == proper
    assert structure("rw2", 5).shape == free and structure("rw2", 5).constraints().shape == (1, 5)
    assert structure("rw1", 5, sum_to_zero=False).shape == free
    seasons = structure("seasonal", 9, period=4.0)
    assert seasons.shape == free and seasons.constraints().shape == (0, 9)
    assert seasons.null_space().shape == (9, 3)
    with pytest.raises(TypeError):
        structure("rw2", 5).covariance()


def test_long_walks_are_linear_and_finite() -> None:
    for name, options in (("rw1", {}), ("rw2", {}), ("seasonal", {"period": 12.0})):
        s = structure(name, 20_000, **options)
        assert s.precision().nnz <= 23 * 20_000 and np.isfinite(s.log_det_precision())
    again = structure("rw2", 20_000, sd=2.0)
    assert again.unit is structure("rw2", 20_000, sd=0.1).unit  # type: ignore[attr-defined]


REFUSED: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "one point": ("E205", "rw1", 1, {}),
    "two points": ("E205", "rw2", 2, {}),
    "repeated": ("E303", "rw2", 3, {"at": np.array([1.0, 2.0, 1.0])}),
    "circle": ("E104", "rw1", 3, {"at": np.arange(3.0), "cyclic": True}),
    "long period": ("E205", "seasonal", 3, {"period": 4.0}),
    "half a period": ("E303", "seasonal", 9, {"period": 2.5}),
    "a period of one": ("E303", "seasonal", 9, {"period": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    code, name, size, options = REFUSED[case]
    with pytest.raises(LgmError) as caught:
        structure(name, size, **options)
    assert caught.value.codes == (code,) and caught.value.diagnostics[0].help
