"""Products with intrinsic factors: what they offer, null spaces, determinants, adjoints."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.contract.linear import PriorBlock
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.engines.shared.prior import BlockPrior, precision_adjoints
from lgmdsl.structures.catalogue import structure

GRAPH = sp.csr_array(
    np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=np.float64)
)


def parts() -> dict[str, Structure]:
    return {
        "besag": structure("besag", 4, graph=GRAPH, sd=0.7),
        "rw1": structure("rw1", 3),
        "free rw1": structure("rw1", 3, sum_to_zero=False),
        "rw2": structure("rw2", 4),
        "ar1": structure("ar1", 3, rho=0.5),
        "iid": structure("iid", 2),
        "gmrf": structure("gmrf", 3, precision=np.zeros((3, 3))),
    }


def product(*names: str) -> PriorBlock:
    factors = tuple(parts()[n] for n in names)
    return PriorBlock("u", factors, np.zeros(int(np.prod([f.size for f in factors]))))


PRODUCTS = [
    ("besag", "ar1"), ("ar1", "besag"), ("rw1", "besag"), ("iid", "rw1", "ar1"), ("rw2", "ar1"),
    ("free rw1", "besag"), ("rw1", "free rw1", "iid"), ("gmrf", "ar1"), ("besag", "rw2"),
]  # fmt: skip


@pytest.mark.parametrize("names", PRODUCTS)
def test_null_space_and_determinant(names: tuple[str, ...]) -> None:
    block = BlockPrior(product(*names), 0)
    q = block.precision()
    values, vectors = np.linalg.eigh(q)
    none = values < 1e-9
    assert block.nullity == none.sum() == block.null_space.shape[1]
    n = block.null_space
    np.testing.assert_allclose(n @ n.T, vectors[:, none] @ vectors[:, none].T, atol=1e-9)
    assert block.log_det_precision == pytest.approx(np.log(values[~none]).sum(), abs=1e-9)


@pytest.mark.parametrize("names", PRODUCTS)
def test_a_product_is_proper_where_every_factor_is(names: tuple[str, ...]) -> None:
    """Tied intrinsic factors count as proper: K is the product of their generalised inverses."""
    block = product(*names)
    free = any(n in ("free rw1", "rw2", "gmrf") for n in names)
    assert (Shape.IMPROPER in block.shape) == free
    assert (Shape.COVARIANCE in block.shape) == (not free)
    assert Shape.PRECISION | Shape.SPARSE in block.shape
    if not free:
        whole = BlockPrior(block, 0)
        inverse = np.linalg.pinv(whole.precision(), hermitian=True)
        np.testing.assert_allclose(whole.covariance, inverse, atol=1e-9)


def kron(matrices: list[Array]) -> Array:
    out = matrices[0]
    for m in matrices[1:]:
        out = np.asarray(np.kron(out, m))
    return out


@pytest.mark.parametrize("names", [("besag", "ar1"), ("iid", "rw1", "ar1")])
def test_sparse_adjoints_reach_every_factor(names: tuple[str, ...]) -> None:
    block = product(*names)
    q = sp.csr_array(BlockPrior(block, 0).precision())
    rng = np.random.default_rng(2)
    adjoint = sp.csr_array((rng.normal(size=q.nnz), q.indices, q.indptr), shape=q.shape)
    matrices = [f.precision().toarray() for f in block.factors]
    dense = precision_adjoints(block, adjoint.toarray())
    for k, found in enumerate(precision_adjoints(block, adjoint)):
        turn = rng.normal(size=matrices[k].shape) * (matrices[k] != 0)
        moved = kron([*matrices[:k], turn, *matrices[k + 1 :]])
        assert np.sum(found.toarray() * turn) == pytest.approx(np.sum(adjoint.toarray() * moved))
        np.testing.assert_allclose(found.toarray()[turn != 0], dense[k][turn != 0])
