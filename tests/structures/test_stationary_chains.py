"""ar1, ou, ar: against closed-form covariances and the Yule-Walker equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as sla
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.errors import LgmError
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.structure_checks import check_structure, dense_precision

AT = np.array([3.0, 0.5, 9.0, 4.5, 4.1, 7.0])


def covariance(name: str, size: int, **arguments: object) -> Array:
    return np.asarray(np.linalg.inv(dense_precision(structure(name, size, **arguments))))


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.95])
def test_ar1(size: int, rho: float) -> None:
    arguments = {"sd": np.array(0.7), "rho": np.array(rho)}
    check_structure(lambda a: structure("ar1", size, **a), arguments)
    wanted = 0.49 * rho ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    np.testing.assert_allclose(covariance("ar1", size, **arguments), wanted, atol=1e-13)


def test_ou() -> None:
    arguments = {"sd": np.array(0.7), "rate": np.array(0.4)}
    check_structure(lambda a: structure("ou", 6, at=AT, **a), arguments)
    wanted = 0.49 * np.exp(-0.4 * np.abs(np.subtract.outer(AT, AT)))
    np.testing.assert_allclose(covariance("ou", 6, at=AT, **arguments), wanted, atol=1e-13)
    np.testing.assert_allclose(structure("ou", 6, at=AT, **arguments).variance(), np.full(6, 0.49))


def test_ou_at_equal_gaps_is_ar1_and_closeness_costs_no_digits() -> None:
    regular = structure("ar1", 5, rho=np.exp(-0.3), sd=1.2)
    found = structure("ou", 5, rate=0.3, at=10.0 + np.arange(5.0), sd=1.2)
    np.testing.assert_allclose(dense_precision(found), dense_precision(regular), rtol=1e-12)
    gaps = 1e-9 * np.array([1.0, 3.0, 2.0])
    at = np.concatenate([[0.0], np.cumsum(gaps)])
    close = structure("ou", 4, rate=0.5, at=at)
    assert close.log_det_precision() == pytest.approx(-np.log(gaps).sum(), abs=1e-7)


PACF = st.lists(st.floats(-0.9, 0.9), min_size=1, max_size=4).map(np.array)


@given(PACF, st.integers(1, 8))
def test_ar_is_stationary_with_the_given_partial_autocorrelations(pacf: Array, size: int) -> None:
    """sd^2 on the diagonal, constant along the others; and the partial autocorrelations back from
    the Yule-Walker equations of each order, zero beyond the last."""
    k = covariance("ar", size, pacf=pacf, sd=0.7)
    np.testing.assert_allclose(k, sla.toeplitz(k[0]), atol=1e-9)
    np.testing.assert_allclose(k.diagonal(), 0.49, rtol=1e-9)
    for order in range(1, size):
        phi = np.linalg.solve(sla.toeplitz(k[0, :order]), k[0, 1 : order + 1])
        wanted = pacf[order - 1] if order <= len(pacf) else 0.0
        assert phi[-1] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_ar_keeps_the_contract(size: int) -> None:
    arguments = {"sd": np.array(0.7), "pacf": np.array([0.6, -0.5, 0.3])}
    check_structure(lambda a: structure("ar", size, **a), arguments)
    np.testing.assert_allclose(structure("ar", size, **arguments).variance(), 0.49)


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("ar1", {"rho": np.array(-0.4)}),
        ("ou", {"rate": np.array(0.4), "at": AT}),
        ("ar", {"pacf": np.array([0.4, -0.2])}),
        ("toeplitz", {"pacf": np.array(0.6)}),
        ("compound", {"rho": np.array(-0.15)}),
    ],
)
def test_an_sd_for_each_member_scales_the_correlation(name: str, rest: dict[str, Array]) -> None:
    sd = np.array([0.5, 1.0, 2.0, 0.3, 1.1, 0.9])
    varied = {"sd": sd, **{k: v for k, v in rest.items() if k != "at"}}
    check_structure(lambda a: structure(name, 6, **{**rest, **a}), varied)
    wanted = sd[:, None] * covariance(name, 6, sd=1.0, **rest) * sd
    np.testing.assert_allclose(covariance(name, 6, sd=sd, **rest), wanted, rtol=1e-10)
    whole = structure(name, 6, sd=np.full(6, 0.7), **rest)
    one = structure(name, 6, sd=0.7, **rest)
    np.testing.assert_allclose(dense_precision(whole), dense_precision(one), rtol=1e-12)


def test_a_new_member_has_no_sd_where_each_has_one() -> None:
    fitted = structure("ar1", 3, rho=0.4, sd=np.array([1.0, 2.0, 3.0]))
    places = np.arange(3.0)
    again = fitted.extension(places, np.array([2.0, 0.0]))
    np.testing.assert_array_equal(again.weights.toarray(), np.eye(3)[[2, 0]])
    with pytest.raises(LgmError, match="has no sd"):
        fitted.extension(places, np.array([3.0]))


@pytest.mark.parametrize("size", [1, 2, 5, 120])
@pytest.mark.parametrize("rho", [-0.008, 0.0, 0.7])
def test_compound_symmetry(size: int, rho: float) -> None:
    arguments = {"sd": np.array(0.7), "rho": np.array(rho)}
    check_structure(lambda a: structure("compound", size, **a), arguments)
    wanted = 0.49 * ((1.0 - rho) * np.eye(size) + rho)
    np.testing.assert_allclose(structure("compound", size, **arguments).covariance(), wanted)


def test_toeplitz_of_one_number_is_ar1() -> None:
    arguments = {"sd": np.array(0.5), "pacf": np.array(-0.4)}
    check_structure(lambda a: structure("toeplitz", 7, **a), arguments)
    np.testing.assert_allclose(
        dense_precision(structure("toeplitz", 7, **arguments)),
        dense_precision(structure("ar1", 7, rho=-0.4, sd=0.5)),
        rtol=1e-13,
    )


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=6))
def test_toeplitz_of_a_lag_for_each_member_is_any_toeplitz_matrix(shape: list[float]) -> None:
    """Correlations from a random spectrum, their partial ones from Yule and Walker's equations."""
    size = len(shape) + 1
    waves = np.cos(np.outer(np.arange(size), 0.4 + np.pi * np.abs(np.array(shape))))
    r = waves.mean(axis=1) * 0.95
    r[0] = 1.0
    pacf = [np.linalg.solve(sla.toeplitz(r[:m]), r[1 : m + 1])[-1] for m in range(1, size)]
    k = covariance("toeplitz", size, pacf=np.array(pacf), sd=1.3)
    np.testing.assert_allclose(k, 1.69 * sla.toeplitz(r), atol=1e-9)


def test_ar_of_one_lag_is_ar1() -> None:
    one = structure("ar", 7, pacf=np.array([-0.4]), sd=0.5)
    np.testing.assert_allclose(
        dense_precision(one), dense_precision(structure("ar1", 7, rho=-0.4, sd=0.5)), rtol=1e-13
    )


@pytest.mark.parametrize(
    "name, options",
    [
        ("ar1", {"rho": 1.0}),
        ("ar1", {"rho": np.nan}),
        ("ar", {"pacf": [0.2, -1.0]}),
        ("toeplitz", {"pacf": 1.0}),
        ("compound", {"rho": 1.0}),
        ("compound", {"rho": -0.5}),
        ("ou", {"rate": 0.0, "at": np.arange(3.0)}),
        ("ou", {"rate": 1.0, "at": np.ones(3)}),
    ],
)
def test_refusals(name: str, options: dict[str, object]) -> None:
    with pytest.raises(LgmError) as caught:
        structure(name, 3, **options)
    assert caught.value.codes == ("E303",) and caught.value.diagnostics[0].help


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("ar1", {"rho": np.array(-0.6)}),
        ("ar1", {"rho": np.array(0.0)}),
        ("ou", {"rate": np.array(0.4), "at": AT}),
    ],
)
def test_members_given_the_ones_before_them(name: str, rest: dict[str, Array], each: bool) -> None:
    """Regressions by dense algebra on the covariance, and slopes by differences."""
    sd = np.array([0.5, 1.0, 2.0, 0.3, 1.1, 0.9]) if each else np.array(0.7)
    along = np.argsort(AT) if name == "ou" else np.arange(6)
    members, before = along[[0, 2, 5]], np.array([-1, along[0], along[2]])
    whole = structure(name, 6, sd=sd, **rest)
    k = whole.covariance()
    found = whole.regression(members, before)
    for m, b, slope, variance in zip(members, before, found.slope, found.variance, strict=True):
        wanted = k[b, m] / k[b, b] if b >= 0 else 0.0
        np.testing.assert_allclose(slope, wanted, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(variance, k[m, m] - wanted * k[b, m], rtol=1e-10)
    rng = np.random.default_rng(0)
    by_slope, by_variance = rng.normal(size=3), rng.normal(size=3)
    arguments = {"sd": sd, **{a: v for a, v in rest.items() if a != "at"}}

    def total(values: dict[str, Array]) -> float:
        at = structure(name, 6, **{**rest, **values}).regression(members, before)
        return float(by_slope @ at.slope + by_variance @ at.variance)

    given_slopes = whole.pullback_regression(members, before, by_slope, by_variance)
    for argument, value in arguments.items():
        turn = rng.normal(size=value.shape)
        up, down = (total({**arguments, argument: value + h * turn}) for h in (1e-6, -1e-6))
        wanted = float(np.sum(given_slopes[argument] * turn))
        np.testing.assert_allclose((up - down) / 2e-6, wanted, rtol=1e-6, atol=1e-8)
