"""normal, iid, flat, dense: consistency, slopes, and the catalogue."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.linear import PriorBlock
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.prior import BlockPrior, covariance_adjoints, kron_times
from lgmdsl.structures import catalogue
from lgmdsl.structures.catalogue import register_structure, structure
from lgmdsl.testing.structure_checks import check_structure


@pytest.mark.parametrize("sd", [np.array(0.7), np.array([0.3, 1.0, 2.5])])
def test_normal(sd: np.ndarray) -> None:
    check_structure(lambda a: structure("normal", 3, mean=0.4, **a), {"sd": sd})


def test_mean_slopes() -> None:
    g = np.array([1.0, 2.0, 4.0])
    assert structure("normal", 3, mean=0.4, sd=1.0).pullback_mean(g)["mean"] == 7.0
    whole = structure("normal", 3, mean=np.zeros(3), sd=1.0)
    np.testing.assert_array_equal(whole.pullback_mean(g)["mean"], g)
    assert structure("iid", 3).pullback_mean(g) == {}


def test_a_constant_has_no_precision() -> None:
    assert Shape.PRECISION not in structure("normal", 2, sd=np.array([0.0, 1.0])).shape


def test_iid_flat_dense() -> None:
    check_structure(lambda a: structure("iid", 3), {})
    root = np.random.default_rng(0).normal(size=(4, 2))
    check_structure(lambda a: structure("dense", 4, **a), {"cov": root @ root.T})
    for cov in (root[:, :2] @ root[:, :2].T, np.eye(101)):  # singular, or large: not inverted
        assert Shape.PRECISION not in structure("dense", len(cov), cov=cov).shape
    flat = structure("flat", 2)
    assert Shape.IMPROPER in flat.shape and np.isinf(flat.variance()).all()
    assert flat.precision().nnz == 0 and flat.log_det_precision() == 0.0
    np.testing.assert_array_equal(flat.null_space(), np.eye(2))


def test_products_apply_and_pull_back_without_being_formed() -> None:
    rng = np.random.default_rng(1)
    roots = [rng.normal(size=(n, n)) for n in (2, 3, 2)]
    factors = tuple(structure("dense", len(r), cov=r @ r.T) for r in roots)
    block = PriorBlock("u", factors, np.zeros(12))
    whole = BlockPrior(block, 0)
    dense = np.kron(np.kron(*[f.covariance() for f in factors[:2]]), factors[2].covariance())
    np.testing.assert_allclose(whole.covariance, dense)
    x = rng.normal(size=(12, 4))
    np.testing.assert_allclose(whole.times(x), dense @ x, rtol=1e-12)
    np.testing.assert_allclose(
        kron_times(whole.roots, kron_times([r.T for r in whole.roots], x)), dense @ x, rtol=1e-10
    )
    adjoint, turn = rng.normal(size=(12, 12)), rng.normal(size=(3, 3))
    slope = np.sum(covariance_adjoints(block, adjoint)[1] * turn)
    moved = np.kron(np.kron(factors[0].covariance(), turn), factors[2].covariance())
    np.testing.assert_allclose(slope, np.sum(adjoint * moved), rtol=1e-12)


def test_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "STRUCTURES", dict(catalogue.STRUCTURES))
    register_structure("twice", lambda size: structure("normal", size, sd=2.0))
    assert catalogue.structure("twice", 3).variance()[0] == 4.0
    with pytest.raises(KeyError):
        structure("rw9", 3)
