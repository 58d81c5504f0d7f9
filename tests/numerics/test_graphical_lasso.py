"""The graphical lasso against its optimality conditions and scikit-learn's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lgmdsl.numerics.optimisation import graphical_lasso as module
from lgmdsl.numerics.optimisation.graphical_lasso import graphical_lasso


def scatter(k: int, rows: int) -> np.ndarray:
    x = np.random.default_rng(k).normal(size=(rows, k))
    x[:, 1:] += 0.5 * x[:, :-1]
    return np.asarray(x.T @ x / rows)


@pytest.mark.parametrize(
    ("k", "rows", "penalty"), [(2, 10, 0.02), (7, 20, 0.02), (7, 20, 0.2), (12, 9, 0.2)]
)
def test_the_maximum_meets_its_conditions(k: int, rows: int, penalty: float) -> None:
    """W - T is the penalty times the sign where P is not 0, and no larger where it is; at rows < k
    too, where T is singular."""
    t = scatter(k, rows)
    found = graphical_lasso(t, penalty, np.eye(k))
    assert found is not None
    p, excess = found.precision, np.linalg.inv(found.precision) - t
    zero = p == 0.0
    np.testing.assert_allclose(excess[~zero], penalty * np.sign(p[~zero]), atol=1e-7)
    assert (np.abs(excess[zero]) <= penalty * (1 + 1e-7)).all()
    assert zero.any() == (k > 2)
    assert (p == p.T).all()


def test_it_is_scikit_learns() -> None:
    peer = pytest.importorskip("sklearn.covariance")
    t = scatter(8, 30)
    # Theirs spares the diagonal, which for positive entries is a smaller T there.
    want = peer.graphical_lasso(t + 0.1 * np.eye(8), 0.1, tol=1e-9, enet_tol=1e-9)[1]
    found = graphical_lasso(t, 0.1, np.eye(8))
    assert found is not None
    np.testing.assert_allclose(found.precision, want, atol=1e-6)
    assert ((found.precision == 0) == (want == 0)).all()


def test_it_climbs_from_anywhere_and_refuses_what_is_no_precision() -> None:
    t = scatter(6, 9)
    rng = np.random.default_rng(0)
    for _ in range(5):
        a = rng.normal(size=(6, 8))
        start = a @ a.T
        first = float(np.linalg.slogdet(start)[1] - (t * start).sum() - 0.1 * np.abs(start).sum())
        found = graphical_lasso(t, 0.1, start)
        assert found is not None and found.objective >= first
        assert found.residual < 1e-7
    assert graphical_lasso(t, 0.1, np.diag([1.0, 1, 1, 1, 1, -1])) is None


def test_compiled_sweeps_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    t = scatter(6, 9)
    plain = graphical_lasso(t, 0.1, np.eye(6))
    monkeypatch.setattr(module, "COMPILED", 1)
    compiled = graphical_lasso(t, 0.1, np.eye(6))
    assert plain is not None and compiled is not None
    np.testing.assert_allclose(compiled.precision, plain.precision, rtol=1e-10)


def test_no_step_is_lower_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1.9 times the maximum of one variance a whole Newton step is positive, and lower."""
    t, penalty = np.array([[2.0, 0.3], [0.3, 1.0]]), 0.5
    start, values = np.diag([1.9 / 2.5, 1.9 / 1.5]), [-np.inf]
    for newton in range(6):
        monkeypatch.setattr(module, "NEWTON", newton)
        found = graphical_lasso(t, penalty, start)
        assert found is not None
        values.append(found.objective)
    assert all(b >= a for a, b in pairwise(values)) and values[2] > values[1] + 0.1


def test_one_sweep_is_newtons_step_where_entries_do_not_join() -> None:
    """Of log p - (t + penalty) p: from p to 2 p - (t + penalty) p^2."""
    p, t, penalty = np.array([0.5, 0.2]), np.array([1.0, 3.0]), 0.25
    w, index = np.diag(1.0 / p), np.arange(2)
    found = module.descent(np.diag(p), w, np.diag(t) - w, penalty, index, index, 1, 1e-12)
    np.testing.assert_allclose(found, np.diag(2.0 * p - (t + penalty) * p**2), rtol=1e-12)


def test_zeros_that_should_not_be_are_left_though_the_rest_is_at_its_maximum() -> None:
    t, penalty = np.array([[1.0, 0.5], [0.5, 2.0]]), 0.1
    start = np.diag(1.0 / (t.diagonal() + penalty))
    found = graphical_lasso(t, penalty, start)
    assert found is not None and found.precision[0, 1] < -0.1
