"""The graphical lasso against its optimality conditions and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.numerics import graphical_lasso as module
from lgmdsl.numerics.graphical_lasso import graphical_lasso


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
