"""gmrf and spde: precisions given by matrices; meshes, whole and broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import Delaunay
from scipy.special import kv

from lgmdsl.contract.structure import Shape
from lgmdsl.errors import LgmError
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.spatial import gmrf as gmrf_module
from lgmdsl.structures.spatial.mesh import grid_matrices, mesh_matrices
from lgmdsl.testing.structure_checks import check_structure, dense_precision

RNG = np.random.default_rng(3)
ROOT = RNG.normal(size=(6, 4))
SINGULAR, REGULAR = ROOT @ ROOT.T, ROOT @ ROOT.T + np.eye(6)
POINTS = RNG.normal(size=(14, 2))
TRIANGLES = Delaunay(POINTS).simplices
SPD = {"sd": np.array(0.7), "range": np.array(1.4)}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("matrix", [SINGULAR, REGULAR])
def test_gmrf(matrix: np.ndarray, sparse: bool) -> None:
    given = sp.csr_array(matrix) if sparse else matrix
    check_structure(lambda a: structure("gmrf", 6, precision=given, **a), {"sd": np.array(0.7)})
    s = structure("gmrf", 6, precision=given, sd=2.0)
    np.testing.assert_allclose(dense_precision(s), matrix / 4)
    free = matrix is SINGULAR
    assert (Shape.IMPROPER in s.shape) == free and s.null_space().shape[1] == (2 if free else 0)
    assert Shape.COVARIANCE not in s.shape


def test_gmrf_hands_back_the_slope_of_its_matrix() -> None:
    adjoint = RNG.normal(size=(6, 6))
    slopes = structure("gmrf", 6, precision=REGULAR, sd=2.0).pullback_precision(adjoint)
    np.testing.assert_allclose(slopes["precision"], adjoint / 4)
    sparse = structure("gmrf", 6, precision=sp.csr_array(REGULAR), sd=2.0)
    assert "precision" not in sparse.pullback_precision(adjoint)


def test_gmrf_of_a_larger_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Null space and determinant by the smallest eigenvalues and a factor, as by all of them."""
    pieces = [np.diff(np.eye(n), 2, axis=0) for n in (30, 40)]
    q = sp.csr_array(sp.block_diag([d.T @ d for d in pieces]))
    proper = sp.csr_array(q + 0.1 * sp.eye_array(70))
    bad = sp.csr_array(q - 0.1 * sp.eye_array(70))
    small = [structure("gmrf", 70, precision=m) for m in (q, proper)]
    gmrf_module._unit.cache_clear()
    monkeypatch.setattr(gmrf_module, "SPECTRAL", 10)
    large = [structure("gmrf", 70, precision=m) for m in (q, proper)]
    for s, t in zip(small, large, strict=True):
        n, m = s.null_space(), t.null_space()
        np.testing.assert_allclose(m @ m.T, n @ n.T, atol=1e-6)
        assert t.log_det_precision() == pytest.approx(s.log_det_precision(), abs=1e-5)
    with pytest.raises(LgmError, match="E303"):
        structure("gmrf", 70, precision=bad)
    gmrf_module._unit.cache_clear()


@pytest.mark.parametrize("dense", [False, True])
def test_spde_keeps_the_contract(dense: bool) -> None:
    c, g = mesh_matrices(POINTS, TRIANGLES)
    given = {"mass": c.toarray() if dense else c, "stiffness": g.toarray() if dense else g}
    check_structure(lambda a: structure("spde", 14, **given, **a), SPD)


def test_spde_is_the_matern_field_inside_a_fine_grid() -> None:
    """nu = 1: cov(h) = sd^2 kappa h K_1(kappa h), up to the grid's error, of order h^2 log h."""
    away = []
    for spacing in (0.2, 0.1):
        side = round(6.0 / spacing) + 1
        c, g = grid_matrices((side, side), spacing)
        q = structure("spde", side**2, mass=c, stiffness=g, sd=0.7, range=1.2).precision()
        middle, step = (side // 2) * (side + 1), round(0.2 / spacing)
        unit = np.zeros(side**2)
        unit[middle] = 1.0
        column: Any = sp.linalg.spsolve(sp.csc_array(q), unit)
        inside = column[middle : middle + 10 * step : step]
        np.testing.assert_allclose(column[middle :: side * step][:10], inside, rtol=1e-6)
        x = np.sqrt(8.0) / 1.2 * 0.2 * np.arange(1, 10)
        away.append(np.abs(inside - 0.49 * np.append(1.0, x * kv(1, x))).max())
    assert away[0] < 0.07 and away[1] < 0.02 and away[1] < 0.4 * away[0]


def test_a_mesh_integrates_and_differentiates_linear_functions_exactly() -> None:
    c, g = mesh_matrices(POINTS, TRIANGLES)
    area = Delaunay(POINTS)
    hull = sum(abs(np.linalg.det(POINTS[t[1:]] - POINTS[t[0]])) / 2 for t in area.simplices)
    assert c.sum() == pytest.approx(hull)
    f = 2.0 * POINTS[:, 0] - 3.0 * POINTS[:, 1] + 1.0
    assert f @ g @ f == pytest.approx(13.0 * hull)
    assert np.abs(g.sum(axis=1)).max() < 1e-12


def test_orientation_does_not_matter_and_a_grid_is_its_triangulation() -> None:
    turned = TRIANGLES.copy()
    turned[::2] = turned[::2, ::-1]
    for a, b in zip(mesh_matrices(POINTS, turned), mesh_matrices(POINTS, TRIANGLES), strict=True):
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-13)
    rows, columns = np.meshgrid(0.5 * np.arange(3), 2.0 * np.arange(4), indexing="ij")
    at = np.arange(12).reshape(3, 4)
    cells = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, :-1], at[1:, 1:]], axis=-1).reshape(-1, 4)
    triangles = np.vstack([cells[:, [0, 1, 2]], cells[:, [1, 2, 3]]])
    c, g = grid_matrices((3, 4), (0.5, 2.0))
    mesh = mesh_matrices(np.column_stack([rows.ravel(), columns.ravel()]), triangles)
    np.testing.assert_allclose(g.toarray(), mesh.stiffness.toarray(), atol=1e-13)
    assert c.sum() == pytest.approx(mesh.mass.sum())


SQUARE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
HALVES = [[0, 1, 2], [1, 2, 3]]
BROKEN: dict[str, tuple[Any, Any, str, str]] = {
    "flat": ([*SQUARE, [2.0, 0.0]], [*HALVES, [0, 1, 4]], "E303", "no area"),
    "twice the same corner": (SQUARE, [[0, 1, 2], [1, 1, 3]], "E303", "no area"),
    "out of range": (SQUARE, [[0, 1, 2], [1, 2, 4]], "E303", "out of range"),
    "negative": (SQUARE, [[0, 1, 2], [1, 2, -1]], "E303", "out of range"),
    "from one": (SQUARE, [[1, 2, 3], [2, 3, 4]], "E303", "triangles - 1"),
    "unused": ([*SQUARE, [2.0, 0.0]], HALVES, "E303", "in no triangle"),
    "solid": (np.zeros((4, 3)), HALVES, "E301", "plane"),
    "pairs": (SQUARE, [[0, 1]], "E301", r"\(t, 3\)"),
    "no triangles": (SQUARE, np.zeros((0, 3), dtype=int), "E301", r"\(t, 3\)"),
    "halves": (SQUARE, [[0, 1, 2.5]], "E303", "not whole"),
    "nowhere": ([*SQUARE[:3], [np.nan, 1.0]], HALVES, "E303", "finite"),
    "repeated": (SQUARE, [*HALVES, *HALVES], "E303", "more than two"),
    "three on an edge": ([*SQUARE, [2.0, 2.0]], [*HALVES, [1, 2, 4]], "E303", "more than two"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_meshes(case: str) -> None:
    points, triangles, code, words = BROKEN[case]
    with pytest.raises(LgmError, match=words) as caught:
        mesh_matrices(points, triangles)
    assert caught.value.codes == (code,) and caught.value.diagnostics[0].help


@pytest.mark.parametrize("shape, spacing", [((1, 4), 1.0), ((3, 4), 0.0), ((3, 4), (1.0, np.nan))])
def test_no_grid(shape: tuple[int, int], spacing: float) -> None:
    with pytest.raises(LgmError, match="E303"):
        grid_matrices(shape, spacing)


EYE = np.eye(3)
ODD = np.array([[2.0, 1.0, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 1.0]])
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "gmrf not symmetric": ("gmrf", {"precision": ODD}, "not symmetric"),
    "gmrf indefinite": ("gmrf", {"precision": np.diag([1.0, -0.1, 2.0])}, "-0.1"),
    "spde no mass": ("spde", {"mass": np.diag([1.0, 0.0, 1.0]), "stiffness": EYE}, "mass"),
    "spde not symmetric": ("spde", {"mass": EYE, "stiffness": ODD}, "not symmetric"),
    "spde other sign": ("spde", {"mass": EYE, "stiffness": -EYE}, "negative diagonal"),
    "spde no range": ("spde", {"mass": EYE, "stiffness": EYE, "range": 0.0}, "range"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    name, options, words = REFUSED[case]
    if name == "spde":
        options = {"range": 1.0, **options}
    with pytest.raises(LgmError, match=words) as caught:
        structure(name, 3, **options)
    assert caught.value.codes == ("E303",) and caught.value.diagnostics[0].help


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("matrix", [SINGULAR, REGULAR])
def test_known_covariance(matrix: np.ndarray, sparse: bool) -> None:
    given = sp.csr_array(matrix) if sparse else matrix
    check_structure(lambda a: structure("known", 6, covariance=given, **a), {"sd": np.array(0.7)})
    s = structure("known", 6, covariance=given, sd=2.0)
    np.testing.assert_allclose(s.covariance(), 4.0 * matrix)
    assert (Shape.PRECISION in s.shape) == (matrix is REGULAR)


def test_known_hands_back_the_slope_of_its_matrix() -> None:
    def at(step: float) -> np.ndarray:
        turned = REGULAR + step * (adjoint + adjoint.T)
        s = structure("known", 6, covariance=turned, sd=1.3)
        return np.array([np.sum(adjoint * s.covariance()), np.sum(adjoint * dense_precision(s))])

    adjoint = RNG.normal(size=(6, 6))
    s = structure("known", 6, covariance=REGULAR, sd=1.3)
    wanted = (at(1e-6) - at(-1e-6)) / 2e-6
    found = [
        np.sum(f(adjoint)["covariance"] * (adjoint + adjoint.T))
        for f in (s.pullback_covariance, s.pullback_precision)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_known_precision_is_gmrf() -> None:
    s = structure("known", 6, precision=SINGULAR, sd=2.0)
    np.testing.assert_allclose(dense_precision(s), SINGULAR / 4)


@pytest.mark.parametrize(
    "matrix", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0, 0.5], [0.2, 1.0]])]
)
def test_known_refuses_what_is_no_covariance(matrix: np.ndarray) -> None:
    with pytest.raises(LgmError) as caught:
        structure("known", 2, covariance=matrix, sd=1.0)
    assert caught.value.codes == ("E303",) and caught.value.diagnostics[0].help
