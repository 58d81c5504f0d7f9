"""Factors of every kernel against dense algebra; failure is None, never a wrong factor."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import AnyArray, SparseMatrix
from lgmdsl.numerics.sparse.base import Factor, Pattern
from lgmdsl.numerics.sparse.supernodal import SupernodalSymbolic
from tests.numerics.sparse.conftest import KERNELS, KINDS, Kernel, lattice, positive_definite


def factored(kernel: Kernel, a: SparseMatrix) -> tuple[Pattern, Factor]:
    pattern = Pattern.of(a)
    factor = kernel(pattern).factor(pattern.values(a))
    assert factor is not None
    return pattern, factor


def close(found: AnyArray, truth: AnyArray, tolerance: float) -> None:
    scale = np.maximum(1.0, np.abs(truth))
    np.testing.assert_array_less(np.abs(found - truth) / scale, tolerance)


def agrees(kernel: Kernel, a: SparseMatrix, seed: int = 0) -> None:
    """Every answer of the factor against dense algebra."""
    pattern, factor = factored(kernel, a)
    whole = a.toarray()
    inverse = np.linalg.inv(whole)
    n, rng = len(whole), np.random.default_rng(seed)
    close(np.array(2 * factor.half_log_det), np.array(np.linalg.slogdet(whole)[1]), 1e-12)
    close(factor.selected(), inverse[pattern.indices, pattern.columns], 1e-10)
    rows, columns = rng.integers(0, n, size=(2, 3 * n))
    found = factor.entries(rows, columns)
    inside = ~np.isnan(found)
    close(found[inside], inverse[rows, columns][inside], 1e-10)
    assert inside[whole[rows, columns] != 0].all()
    for rhs in (rng.normal(size=n), rng.normal(size=(n, 3)), rng.normal(size=(n, 0))):
        kept = rhs.copy()
        close(factor.solve(rhs), inverse @ rhs, 1e-10)
        close(factor.backward(factor.forward(rhs)), inverse @ rhs, 1e-10)
        np.testing.assert_array_equal(rhs, kept)
    half = factor.forward(np.eye(n))
    close(half.T @ half, inverse, 1e-10)
    other = factor.backward(np.eye(n))
    close(other @ other.T, inverse, 1e-10)
    assert factor.pivots.shape == (n,)
    assert (factor.pivots <= a.diagonal() * (1 + 1e-12)).all()
    close(np.log(factor.pivots).sum(), np.array(2 * factor.half_log_det), 1e-12)


@pytest.mark.few(12)
@pytest.mark.parametrize("kind", KINDS)
def test_against_dense_algebra(kernel: Kernel, kind: str) -> None:
    """56 patterns of each kind, 1 to 60 vertices."""
    for seed in range(56):
        agrees(kernel, positive_definite(kind, 1 + seed * 59 // 55, seed), seed)


@pytest.mark.parametrize("kind", KINDS)
def test_larger(kernel: Kernel, kind: str) -> None:
    """Fronts wide enough for BLAS, and a graph large enough for vertices of high degree."""
    agrees(kernel, positive_definite(kind, 290, 1))


@pytest.mark.parametrize("seed", range(3))
def test_a_grid_in_three_dimensions(seed: int) -> None:
    """Deep trees of wide fronts, and both orderings."""
    shift = np.random.default_rng(seed).uniform(0.1, 1.0, size=343)
    a = sp.csr_array(lattice(7, 3) + sp.diags_array(shift, format="csr"))
    agrees(SupernodalSymbolic, a)
    agrees(lambda pattern: SupernodalSymbolic(pattern, nested=False), a)


@st.composite
def graphs(draw: st.DrawFn) -> SparseMatrix:
    n = draw(st.integers(1, 25))
    vertex = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=60))
    whole = np.zeros((n, n))
    for i, j in edges:
        if i != j:
            whole[i, j] = whole[j, i] = draw(st.sampled_from([-1.0, 0.5, 2.0]))
    np.fill_diagonal(whole, np.abs(whole).sum(axis=0) + 0.5)
    return sp.csr_array(whole)


@given(graphs(), st.booleans())
def test_any_graph(a: SparseMatrix, nested: bool) -> None:
    agrees(lambda pattern: SupernodalSymbolic(pattern, nested=nested), a)
    agrees(KERNELS["dense"], a)


@pytest.mark.parametrize("kind", KINDS)
def test_none_exactly_where_it_is_not_positive_definite(kernel: Kernel, kind: str) -> None:
    for n in (1, 7, 40, 150):
        a = positive_definite(kind, n, n)
        pattern = Pattern.of(a)
        symbolic, values = kernel(pattern), pattern.values(a)
        least = np.linalg.eigvalsh(a.toarray())[0]
        for shift, good in ((0.999, True), (1.001, False), (1.5, False)):
            shifted = values.copy()
            shifted[pattern.on_diagonal] -= shift * least
            assert (symbolic.factor(shifted) is not None) == good


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["random", "band", "full"])
def test_none_where_an_entry_is_not_finite(kernel: Kernel, kind: str, bad: float) -> None:
    for n in (30, 120):
        a = positive_definite(kind, n, 3)
        pattern = Pattern.of(a)
        symbolic, values = kernel(pattern), pattern.values(a)
        for at in np.linspace(0, pattern.nnz - 1, 40).astype(int):
            spoilt = values.copy()
            spoilt[at] = bad
            assert symbolic.factor(spoilt) is None


@pytest.mark.parametrize("kind", KINDS)
def test_renumbering_changes_no_answer(kernel: Kernel, kind: str) -> None:
    a = positive_definite(kind, 60, 5)
    order = np.random.default_rng(6).permutation(60)
    _, one = factored(kernel, a)
    _, two = factored(kernel, sp.csr_array(a[order][:, order]))
    assert two.half_log_det == pytest.approx(one.half_log_det, rel=1e-12, abs=1e-12)
    rhs = np.random.default_rng(7).normal(size=60)
    close(two.solve(rhs[order]), one.solve(rhs)[order], 1e-11)
    at = np.arange(60)
    close(two.entries(at, at), one.entries(order, order), 1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_digits_every_time(kernel: Kernel, kind: str) -> None:
    a = positive_definite(kind, 200, 8)
    pattern = Pattern.of(a)
    values = pattern.values(a)
    rhs = np.random.default_rng(9).normal(size=(200, 2))
    one, two = (kernel(pattern).factor(values) for _ in range(2))
    assert one is not None and two is not None
    assert one.half_log_det == two.half_log_det
    np.testing.assert_array_equal(one.selected(), two.selected())
    np.testing.assert_array_equal(one.solve(rhs), two.solve(rhs))


def test_entries_outside_the_factor_are_nan() -> None:
    """Two components: no entry between them; within a chain, only L's pattern."""
    a = sp.csr_array(
        sp.block_diag([4 * np.eye(1), 4 * np.eye(3) + np.eye(3, k=1) + np.eye(3, k=-1)])
    )
    _, factor = factored(SupernodalSymbolic, a)
    found = factor.entries(np.array([0, 1, 3, 2]), np.array([1, 2, 0, 2]))
    np.testing.assert_array_equal(np.isnan(found), [True, False, True, False])


def test_nothing_to_factor(kernel: Kernel) -> None:
    _, factor = factored(kernel, sp.csr_array((0, 0)))
    assert factor.half_log_det == 0.0
    assert factor.selected().shape == factor.pivots.shape == (0,)
    assert factor.solve(np.zeros(0)).shape == (0,)
    assert factor.solve(np.zeros((0, 2))).shape == (0, 2)


def test_a_factor_keeps_its_numbers_while_others_come_and_go() -> None:
    """Memory of factors that are gone is used again, never that of one still held."""
    a = positive_definite("grid", 100, 1)
    pattern = Pattern.of(a)
    symbolic, values = SupernodalSymbolic(pattern), pattern.values(a)
    held = symbolic.factor(values)
    assert held is not None
    before = held.selected()
    for scale in (2.0, 3.0):
        other = symbolic.factor(scale * values)
        assert other is not None
        np.testing.assert_allclose(other.selected(), before / scale, rtol=1e-12)
        del other
    assert symbolic.factor(-values) is None
    again = symbolic.factor(5.0 * values)
    assert again is not None
    np.testing.assert_array_equal(held.selected(), before)
    np.testing.assert_allclose(again.selected(), before / 5.0, rtol=1e-12)
