"""Jets against mpmath's derivatives, and the algebra of mixed ones."""

from __future__ import annotations

from itertools import combinations_with_replacement

import mpmath as mp
import numpy as np
import pytest

from lgmdsl.numerics import jets
from lgmdsl.numerics.log_gamma import log_rising

FUNCTIONS = {
    "exp": (jets.exp, mp.exp, (-30.0, 0.3, 12.0)),
    "expm1": (jets.expm1, mp.expm1, (-30.0, 1e-9, 12.0)),
    "reciprocal": (jets.reciprocal, lambda x: 1 / x, (-3.0, 1e-3, 50.0)),
    "log": (jets.log, mp.log, (1e-6, 0.9, 1e6)),
    "log1p": (jets.log1p, mp.log1p, (-0.9, 1e-9, 1e6)),
    "sqrt": (jets.sqrt, mp.sqrt, (1e-6, 0.9, 1e6)),
    "power": (lambda x: jets.power(x, 1.7), lambda x: x ** mp.mpf(1.7), (1e-3, 0.9, 1e3)),
    "softplus": (jets.softplus, lambda x: mp.log1p(mp.exp(x)), (-40.0, 0.1, 40.0)),
    "sigmoid": (jets.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), (-30.0, 0.1, 3.0)),
    "log1mexp": (jets.log1mexp, lambda x: mp.log(-mp.expm1(x)), (-50.0, -0.7, -1e-5)),
    "gammaln": (jets.gammaln, mp.loggamma, (1e-3, 0.7, 300.0)),
    "log_rising": (
        lambda x: jets.log_rising(x, np.array([3.0])),
        lambda x: mp.loggamma(x + 3) - mp.loggamma(x),
        (1e-3, 0.7, 300.0, 1e9),
    ),
    "log_ndtr": (jets.log_ndtr, lambda x: mp.log(mp.ncdf(x)), (-12.0, -1.0, 5.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_derivatives_of_mpmath(name: str) -> None:
    function, truth, places = FUNCTIONS[name]
    for place in places:
        jet = function(jets.variable(np.array([place]), 0))
        with mp.workdps(60):
            # mpmath's differences lose digits in units of x alone: the function of a scaled x
            size = mp.mpf(max(abs(place), 1e-3))

            def moved(x: mp.mpf, size: mp.mpf = size) -> mp.mpf:
                return truth(size * x)

            scaled = [mp.diff(moved, mp.mpf(place) / size, k) / size**k for k in range(4)]
        for k in range(4):
            expected = float(scaled[k])
            assert float(jet.derivative(*(0,) * k)[0]) == pytest.approx(expected, rel=2e-9), (
                place,
                k,
            )


def test_mixed_derivatives_of_three_variables() -> None:
    x, y, z = 0.7, -0.4, 1.3
    a, b, c = (jets.variable(np.array(v), k) for k, v in enumerate((x, y, z)))
    f = jets.exp(a * b) / (1.0 + c) - 2.0 * jets.log(c) * a * a

    def plain(u: mp.mpf, v: mp.mpf, w: mp.mpf) -> mp.mpf:
        return mp.exp(u * v) / (1 + w) - 2 * mp.log(w) * u * u

    for order in range(4):
        for key in combinations_with_replacement(range(3), order):
            times = tuple(key.count(k) for k in range(3))
            with mp.workdps(40):
                expected = (
                    float(mp.diff(plain, (x, y, z), times)) if order else float(plain(x, y, z))
                )
            assert float(f.derivative(*key)) == pytest.approx(expected, rel=1e-9), key


def test_lower_orders_cut_the_same_series() -> None:
    points = np.linspace(0.2, 3.0, 5)
    full = jets.gammaln(jets.variable(points, 0))
    for order in range(3):
        cut = jets.gammaln(jets.variable(points, 0, order))
        assert max(map(len, cut.coefficients)) == order
        for k in range(order + 1):
            np.testing.assert_array_equal(cut.derivative(*(0,) * k), full.derivative(*(0,) * k))


def test_arrays_leave_the_algebra_to_jets_and_where_chooses_coefficients() -> None:
    points = np.array([1.0, 2.0])
    x = jets.variable(points, 0)
    left, right = points * x, x * points
    np.testing.assert_array_equal(left.derivative(0), right.derivative(0))
    np.testing.assert_array_equal((points - x).derivative(0), [-1.0, -1.0])
    np.testing.assert_allclose((points / x).derivative(0), -1.0 / points)
    chosen = jets.where(points > 1.5, x * x, jets.constant(7.0))
    np.testing.assert_array_equal(chosen.value, [7.0, 4.0])
    np.testing.assert_array_equal(chosen.derivative(0), [0.0, 4.0])


@pytest.mark.parametrize("derivative", range(4))
def test_rising_factorials_do_not_cancel(derivative: int) -> None:
    for x in (1e-3, 0.5, 19.9, 20.1, 1e3, 1e8, 1e12):
        for y in (0.0, 1.0, 7.0, 1e4, 1e6):
            with mp.workdps(60):
                a, b = mp.mpf(x), mp.mpf(y)
                if derivative == 0:
                    truth = mp.loggamma(a + b) - mp.loggamma(a)
                else:
                    truth = mp.polygamma(derivative - 1, a + b) - mp.polygamma(derivative - 1, a)
            value = float(log_rising(np.array([x]), np.array([y]), derivative)[0])
            assert value == pytest.approx(float(truth), rel=2e-14, abs=0.0)


def test_variables_of_first_order_drop_what_has_two_of_them() -> None:
    x, p, q = (jets.variable(np.array([v]), k) for v, k in ((0.7, 0), (1.4, -1), (0.3, -2)))
    full = [jets.variable(np.array([v]), k) for v, k in ((0.7, 0), (1.4, 1), (0.3, 2))]

    def function(a: jets.Jet, b: jets.Jet, c: jets.Jet) -> jets.Jet:
        return jets.gammaln(b + a) * jets.exp(c * a) / b + jets.log_rising(b, np.array([2.0]))

    few, every = function(x, p, q), function(*full)
    assert all(sum(k < 0 for k in key) < 2 for key in few.coefficients)
    for mine, theirs in {
        (-1,): (1,),
        (-2, 0): (2, 0),
        (-1, 0, 0): (1, 0, 0),
        (0, 0): (0, 0),
    }.items():
        np.testing.assert_allclose(few.derivative(*mine), every.derivative(*theirs), rtol=1e-13)
