"""Mass and moments by quadrature where a support ends within the window."""

import numpy as np
import pytest
from scipy import stats

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.expectations.peak import log_moments


@pytest.mark.parametrize("power", [0.0, 0.3, 1.5, 4.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_ends_of_a_support_cost_no_more_than_a_smooth_tail(power: float, sign: float) -> None:
    """(s - 1)^power e^-(s - 1), s > 1: a gamma density, and its mirror image."""
    nodes = []

    def f(rows: IntArray, u: Array) -> tuple[Array, Array]:
        nodes.append(u.size)
        x = sign * u - 1.0
        with np.errstate(all="ignore"):
            return np.where(x > 0.0, power * np.log(x) - x if power else -x, -np.inf), u

    low, high = np.sort([sign * -20.0, sign * 90.0])
    none = np.zeros((1, 0))
    mass, mean, variance = log_moments(
        f, np.array([low]), np.array([high]), np.array([0.5]), none, agreement=1e-9
    )
    known = stats.gamma(power + 1.0)
    assert mass[0] == pytest.approx(-known.logpdf(1.0) - 1.0, abs=1e-9)
    assert sign * mean[0] == pytest.approx(1.0 + known.mean(), abs=1e-8)
    assert variance[0] == pytest.approx(known.var(), rel=1e-7)
    assert sum(nodes) < 5000  # halving a plain step: 131,000


def test_logarithms_without_digits_settle() -> None:
    """A level of 1e10 leaves 1e-6 of a log mass: no finer rule agrees better."""
    nodes = []

    def f(rows: IntArray, u: Array) -> tuple[Array, Array]:
        nodes.append(u.size)
        return 1e10 - 0.5 * u * u, u

    window = np.array([-20.0]), np.array([20.0])
    mass, _, variance = log_moments(f, *window, np.array([0.5]), np.zeros((1, 0)), agreement=1e-9)
    assert mass[0] == pytest.approx(1e10 + 0.5 * np.log(2.0 * np.pi), abs=1e-4)
    assert variance[0] == pytest.approx(1.0, rel=1e-5)
    assert sum(nodes) < 5000
