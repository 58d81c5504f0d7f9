"""besag and car: components, islands, scale, relabelling; and generalised inverses."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.structure import Shape
from lgmdsl.errors import LgmError
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.shared.generalised import (
    generalised_variances,
    log_determinant,
    log_pseudo_determinant,
)
from lgmdsl.structures.spatial import besag as besag_module
from lgmdsl.testing.structure_checks import check_structure, dense_precision


def adjacency(edges: list[tuple[int, int]], size: int) -> SparseMatrix:
    w = np.zeros((size, size))
    for a, b in edges:
        w[a, b] = w[b, a] = float(a != b)
    return sp.csr_array(w)


# a triangle with a tail, a pair, and two islands (4 and 8)
EDGES = [(0, 1), (1, 2), (0, 2), (2, 3), (5, 7), (7, 6)]
ISLANDS = adjacency(EDGES, 9)


@st.composite
def graphs(draw: st.DrawFn) -> SparseMatrix:
    size = draw(st.integers(2, 9))
    pairs = [(a, b) for a in range(size) for b in range(a)]
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12))
    return adjacency(edges, size)


def groups(graph: SparseMatrix) -> list[list[int]]:
    return [sorted(c) for c in nx.connected_components(nx.from_scipy_sparse_array(graph))]


def test_the_contract_is_kept() -> None:
    check_structure(lambda a: structure("besag", 9, graph=ISLANDS, **a), {"sd": np.array(0.7)})
    for alpha in (0.3, 0.95):
        arguments = {"sd": np.array(0.7), "alpha": np.array(alpha)}
        check_structure(lambda a: structure("car", 9, graph=ISLANDS, **a), arguments)


@given(graphs())
def test_besag_by_component(graph: SparseMatrix) -> None:
    """Each component of two or more: Q proportional to its Laplacian, geometric-mean sd 0.7,
    sums to zero; an island N(0, 0.7^2) and free of constraints."""
    n = graph.shape[0]
    s = structure("besag", n, graph=graph, sd=0.7)
    q, w = dense_precision(s), graph.toarray()
    tied = s.constraints().toarray()
    several = [c for c in groups(graph) if len(c) > 1]
    assert tied.shape == (len(several), n) and s.null_space().shape == (n, len(several))
    assert s.shape == Shape.PRECISION | Shape.SPARSE | Shape.COVARIANCE
    values = np.linalg.eigvalsh(q)[len(several) :]
    assert s.log_det_precision() == pytest.approx(np.log(values).sum(), abs=1e-9)
    k = s.covariance()
    for members in groups(graph):
        c = np.array(members)
        others = np.setdiff1d(np.arange(n), c)
        assert not q[np.ix_(c, others)].any() and not k[np.ix_(c, others)].any()
        own = q[np.ix_(c, c)]
        if len(c) == 1:
            assert own[0, 0] == pytest.approx(1 / 0.49) and not tied[:, c].any()
            continue
        laplacian = np.diag(w[np.ix_(c, c)].sum(axis=0)) - w[np.ix_(c, c)]
        np.testing.assert_allclose(own * laplacian[0, 0], laplacian * own[0, 0], rtol=1e-9)
        spread = np.linalg.pinv(own, hermitian=True)
        assert np.exp(0.5 * np.log(spread.diagonal()).mean()) == pytest.approx(0.7, rel=1e-9)
        np.testing.assert_allclose(k[np.ix_(c, c)], spread, atol=1e-9)
        assert sorted(map(tuple, tied[:, c].T.tolist()))[0].count(1.0) == 1


@given(graphs(), st.randoms())
def test_labels_do_not_matter(graph: SparseMatrix, random: object) -> None:
    order = list(range(graph.shape[0]))
    random.shuffle(order)  # type: ignore[attr-defined]
    turned = sp.csr_array(graph[order][:, order])
    for name, options in (("besag", {}), ("car", {"alpha": 0.8})):
        s, t = (structure(name, len(order), graph=g, sd=0.7, **options) for g in (graph, turned))
        q = dense_precision(s)[np.ix_(order, order)]
        np.testing.assert_allclose(dense_precision(t), q, rtol=1e-9, atol=1e-9)
        assert t.log_det_precision() == pytest.approx(s.log_det_precision(), abs=1e-9)


def test_a_line_is_rw1_and_a_circle_is_cyclic() -> None:
    n = 8
    line = [(i, i + 1) for i in range(n - 1)]
    for edges, cyclic in ((line, False), ([*line, (0, n - 1)], True)):
        found = structure("besag", n, graph=adjacency(edges, n), sd=1.3)
        walk = structure("rw1", n, cyclic=cyclic, sd=1.3)
        np.testing.assert_allclose(dense_precision(found), dense_precision(walk), atol=1e-11)
        assert found.log_det_precision() == pytest.approx(walk.log_det_precision(), abs=1e-10)


def test_car_is_conditional_on_the_neighbours() -> None:
    """z_i | rest ~ N(alpha mean of neighbours, sd^2 / d_i); an island N(0, sd^2)."""
    q = dense_precision(structure("car", 9, graph=ISLANDS, sd=0.7, alpha=0.9))
    w = ISLANDS.toarray()
    d = np.maximum(w.sum(axis=0), 1.0)
    np.testing.assert_allclose(q.diagonal(), d / 0.49)
    np.testing.assert_allclose(-q / q.diagonal()[:, None] * (1 - np.eye(9)), 0.9 * w / d[:, None])


def test_scaling_is_found_once_for_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*arguments: object) -> object:
        calls.append(1)
        return generalised_variances(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(besag_module, "generalised_variances", counted)
    graph = adjacency([(i, (3 * i + 1) % 11) for i in range(11)], 11)
    for sd in (0.1, 0.2, 0.3):
        structure("besag", 11, graph=graph.copy(), sd=sd)
    assert len(calls) == 1


def overlapping(rng: np.random.Generator) -> tuple[SparseMatrix, Array]:
    root = rng.normal(size=(9, 6)) * (rng.random((9, 6)) < 0.6) + np.eye(9, 6)
    q = root @ root.T
    values, vectors = np.linalg.eigh(q)
    return sp.csr_array(q), vectors[:, values < 1e-9 * values[-1]]


def test_generalised_inverses_with_any_null_space() -> None:
    q, null = overlapping(np.random.default_rng(5))
    assert null.shape[1] == 3
    found = generalised_variances(q, sp.csr_array(null))
    inverse = np.linalg.pinv(q.toarray(), rcond=1e-9, hermitian=True)
    np.testing.assert_allclose(found.variances, inverse.diagonal(), rtol=1e-8)
    values = np.linalg.eigvalsh(q.toarray())[3:]
    assert found.log_det == pytest.approx(np.log(values).sum(), abs=1e-9)
    assert log_pseudo_determinant(q, sp.csr_array(null)) == pytest.approx(found.log_det, abs=1e-12)


def test_what_is_not_positive_definite_has_no_determinant() -> None:
    assert log_determinant(sp.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]]))) is None
    assert log_determinant(sp.csr_array(np.array([[1.0, 1.0], [1.0, 1.0]]))) is None
    rng = np.random.default_rng(0)
    for _ in range(20):  # singular up to rounding, whose sign is chance
        root = rng.normal(size=(5, 4))
        assert log_determinant(sp.csr_array(root @ root.T)) is None
    assert log_determinant(sp.csr_array(np.diag([2.0, 3.0]))) == pytest.approx(np.log(6.0))


@pytest.mark.parametrize("size", [40, 60])
def test_larger_grids(size: int) -> None:
    """800 and 1,200 regions: car's determinant through eigenvalues or the factor."""
    line = nx.path_graph(size)
    grid: Any = nx.cartesian_product(line, nx.path_graph(20))
    graph = sp.csr_array(nx.to_scipy_sparse_array(grid)).astype(np.float64)
    s = structure("car", size * 20, graph=graph, sd=1.0, alpha=0.9)
    degree = graph.sum(axis=1)
    wanted = np.linalg.slogdet(np.diag(degree) - 0.9 * graph.toarray())[1]
    assert s.log_det_precision() == pytest.approx(wanted, rel=1e-10)


def test_refusals() -> None:
    with pytest.raises(LgmError, match=r"E303.*alpha"):
        structure("car", 9, graph=ISLANDS, alpha=1.0)
    with pytest.raises(LgmError, match="E401"):
        structure("besag", 3, graph=sp.csr_array((3, 3)))
