"""Bases of splines: what they are of the positions, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.structures.splines import Smooth, smooth, tensor_smooth

KINDS = ("thin-plate", "cubic", "cyclic", "p-spline")
X = np.round(np.random.default_rng(2).beta(1.0, 2.0, 80), 2)[:, None] * 7.0 + 3.0
XY = np.random.default_rng(3).normal(size=(60, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_places_sum_to_zero_and_have_typical_size_one(kind: str) -> None:
    assert len(np.unique(X)) < len(X)
    made = smooth(X, kind, 9)
    free, curves = made.columns(X)
    assert free.shape[1] == (0 if kind == "cyclic" else 1)
    assert free.shape[1] + curves.shape[1] == (7 if kind == "cyclic" else 8)
    np.testing.assert_allclose(np.hstack([free, curves]).sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(free.T @ free, np.eye(free.shape[1]), atol=1e-12)
    np.testing.assert_allclose(free.T @ curves, 0.0, atol=1e-10)
    np.testing.assert_allclose(np.log((curves**2).sum(axis=1)).mean(), 0.0, atol=1e-12)
    _, first, of = np.unique(X, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(curves, curves[first][of.reshape(-1)])


def second(made: Smooth, x: Array, h: float = 1e-3) -> Array:
    """(n, r) second derivatives of the penalised curves."""
    at = [made.columns((x + k * h)[:, None])[1] for k in (-1, 0, 1)]
    return np.asarray((at[0] - 2.0 * at[1] + at[2]) / h**2)


@pytest.mark.parametrize("kind", ["thin-plate", "cubic", "cyclic"])
def test_coefficients_are_orthonormal_in_the_penalty(kind: str) -> None:
    """Integral of f'' g'' over the line: the identity, times the square of the scale. Knots are at
    quantiles, and thin plates of one dimension are natural cubic splines."""
    made = smooth(X, kind, 9)
    knots = np.unique(X)
    ends = np.linspace(knots[0], knots[-1], 40_001)
    middle = 0.5 * (ends[1:] + ends[:-1])
    curvature = second(made, middle)
    gram = curvature.T @ curvature * (middle[1] - middle[0])
    wanted = np.eye(made.penalised) / made.scale**2
    np.testing.assert_allclose(gram, wanted, atol=2e-3 * wanted[0, 0])


def test_differences_of_b_splines_are_the_identity() -> None:
    from scipy.interpolate import BSpline

    made = smooth(X, "p-spline", 9)
    basis = made.basis
    inside = np.linspace(X.min(), X.max(), 200)
    design = BSpline.design_matrix(inside, basis.knots, 3).toarray()  # type: ignore[attr-defined]
    raw = np.linalg.lstsq(design, basis.curves(inside[:, None]), rcond=None)[0]
    np.testing.assert_allclose(np.diff(raw, n=2, axis=0), np.eye(7), atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_curves_go_on_beyond_the_positions(kind: str) -> None:
    """Straight, or around."""
    made, low, high = smooth(X, kind, 9), X.min(), X.max()
    curves = made.columns(np.array([[high + 1.0], [high + 2.0], [high + 3.0]]))[1]
    if kind == "cyclic":
        again = made.columns(np.array([[low + 1.0], [low + 2.0], [low + 3.0]]))[1]
        np.testing.assert_allclose(curves, again, atol=1e-10)
        ends = made.columns(np.array([[low], [high]]))[1]
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-10)
    else:
        size = np.abs(curves).max()
        np.testing.assert_allclose(curves[0] + curves[2], 2.0 * curves[1], atol=1e-8 * size)


@pytest.mark.parametrize("kind", KINDS)
def test_units_and_order_of_the_positions_do_not_matter(kind: str) -> None:
    order = np.random.default_rng(0).permutation(len(X))
    one, other = smooth(X, kind, 9), smooth(1000.0 * X[order] - 40.0, kind, 9)
    for a, b in zip(one.columns(X), other.columns(1000.0 * X - 40.0), strict=True):
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-6)


def test_coefficients_do_not_depend_on_signs_of_eigenvectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lgmdsl.structures import splines

    made, plain = splines.ThinPlate(np.unique(XY, axis=0), 12), splines._largest

    def turned(matrix: Array, count: int) -> tuple[Array, Array]:
        values, vectors = plain(matrix, count)
        return values, vectors * np.where(np.arange(count) % 3 == 0, -1.0, 1.0)

    monkeypatch.setattr(splines, "_largest", turned)
    again = splines.ThinPlate(np.unique(XY, axis=0), 12)
    np.testing.assert_allclose(made.weights, again.weights, rtol=1e-6, atol=1e-9)


def test_many_places_are_taken_by_lanczos_and_some_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lgmdsl.structures import splines

    many = np.random.default_rng(4).uniform(size=(600, 2))
    few = splines.ThinPlate(many, 10)
    values, vectors = np.linalg.eigh(splines._radial(many, many, 2))
    kept = np.argsort(-np.abs(values))[:10]
    monkeypatch.setattr(splines, "_largest", lambda m, k: (values[kept], vectors[:, kept]))
    np.testing.assert_allclose(splines.ThinPlate(many, 10).weights, few.weights, atol=1e-6)
    monkeypatch.undo()
    monkeypatch.setattr(splines, "PLACES", 100)
    assert len(splines.ThinPlate(many, 10).places) == 100


@pytest.mark.parametrize(
    ("at", "kind", "size", "code", "says"),
    [
        (X, "thin-plate", 2, "E104", "at least 3"),
        (X, "cubic", 2, "E104", "at least 3"),
        (X, "cyclic", 3, "E104", "at least 4"),
        (X, "p-spline", 3, "E104", "at least 4"),
        (XY, "thin-plate", 3, "E104", "at least 4"),
        (X, "cubic", 500, "E104", "one for each distinct position"),
        (XY, "cubic", 10, "E104", "a single column"),
        (np.zeros((9, 4)), "thin-plate", 10, "E104", "at most 3 columns"),
        (np.ones((9, 1)), "cyclic", 5, "E104", "has 1"),
        (np.column_stack([X, 2.0 * X]), "thin-plate", 10, "E104", "lie on a line"),
        (np.where(np.arange(80)[:, None] == 4, np.nan, X), "cubic", 10, "E303", "not finite"),
    ],
)
def test_what_a_basis_does_not_take(at: Array, kind: str, size: int, code: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        smooth(at, kind, size)
    assert refused.value.codes == (code,)
    assert says in str(refused.value) and "help" in str(refused.value)


# ---- tensor products -----------------------------------------------------------------------------

AT = np.column_stack([np.repeat(X[:40, 0], 2), np.round(XY[:, 1].repeat(2)[:80], 1)])
SIZES = np.array([5.0, 4.0])


def margin(x: Array, size: int) -> tuple[Array, Array]:
    """Design (n, k) by values at knots and penalty (k, k), the integral of squared second
    derivatives, by scipy."""
    from scipy.interpolate import CubicSpline

    knots = np.quantile(np.unique(x), np.linspace(0.0, 1.0, size))
    spline = CubicSpline(knots, np.eye(size), bc_type="natural")
    left, right = spline(knots[:-1], 2), spline(knots[1:], 2)  # straight in between
    h = np.diff(knots)
    penalty = np.einsum("i,ia,ib->ab", h / 3.0, left, left)
    penalty += np.einsum("i,ia,ib->ab", h / 3.0, right, right)
    cross = np.einsum("i,ia,ib->ab", h / 6.0, left, right)
    return spline(x), penalty + cross + cross.T


@pytest.mark.parametrize("centred", [False, True])
def test_a_tensor_product_has_the_penalties_of_its_margins(centred: bool) -> None:
    """Its covariance is X (sum_j S_j g_j^2 / sd_j^2)^- X', off what is free."""
    made, sds = tensor_smooth(AT, SIZES, centred), np.array([0.7, 2.5])
    assert made.penalties is not None
    free, curves = made.columns(AT)
    ours = curves / (made.penalties @ sds**-2.0) @ curves.T
    np.testing.assert_allclose(np.hstack([free, curves]).sum(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(free.T @ curves, 0.0, atol=1e-9)
    designs, penalties = [], []
    for x, size, sd in zip(AT.T, (5, 4), sds, strict=True):
        design, penalty = margin(x, size)
        if centred:
            within = np.linalg.svd(design.sum(axis=0)[None])[2][1:].T
            design, penalty = design @ within, within.T @ penalty @ within
        typical = smooth(x[:, None], "cubic", size).scale
        designs.append(design)
        penalties.append(penalty * typical**2 / sd**2)
    whole = np.einsum("na,nb->nab", *designs).reshape(len(AT), -1)
    eyes = [np.eye(len(p)) for p in penalties]
    penalty = np.kron(penalties[0], eyes[1]) + np.kron(eyes[0], penalties[1])
    values, vectors = np.linalg.eigh(penalty)
    null = values < 1e-10 * values[-1]
    assert null.sum() == (1 if centred else 4) == free.shape[1] + (not centred)
    rest = whole @ vectors[:, ~null]
    level = np.ones((len(AT), int(centred)))  # else among what is free
    around = np.linalg.qr(np.hstack([level, whole @ vectors[:, null]]))[0]
    rest = rest - around @ (around.T @ rest)
    np.testing.assert_allclose(ours, rest / values[~null] @ rest.T, rtol=1e-8, atol=1e-9)


def test_units_and_order_of_the_columns_do_not_matter() -> None:
    one = tensor_smooth(AT, SIZES, False)
    moved = AT[:, ::-1] * [1e-20, 1e6] + [0.0, 3.0]
    other = tensor_smooth(moved, SIZES[::-1], False)
    assert one.penalties is not None and other.penalties is not None
    sds = np.array([0.3, 4.0])
    a, b = one.columns(AT)[1], other.columns(moved)[1]
    np.testing.assert_allclose(
        a / (one.penalties @ sds**-2.0) @ a.T,
        b / (other.penalties @ sds[::-1] ** -2.0) @ b.T,
        rtol=1e-6,
        atol=1e-9,
    )


def test_where_the_other_sd_is_wide_an_sd_is_that_of_the_columns_curve() -> None:
    """At a knot of the other column, the curve along a column has its typical size."""
    made = tensor_smooth(AT, SIZES, False)
    assert made.penalties is not None
    knot = np.quantile(np.unique(AT[:, 1]), 1.0 / 3.0)
    at = np.column_stack([AT[:, 0], np.full(len(AT), knot)])
    curves = made.columns(at)[1]
    bent = curves[:, made.penalties[:, 0] > 0.0]
    sizes = made.penalties[made.penalties[:, 0] > 0.0, 0] ** -0.5
    line = np.linalg.qr(np.column_stack([np.ones(len(AT)), AT[:, 0]]))[0]
    bent = (bent - line @ (line.T @ bent)) * sizes
    np.testing.assert_allclose(np.log((bent**2).sum(axis=1)).mean(), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("at", "sizes", "code", "says"),
    [
        (X, [5.0], "E104", "two columns"),
        (AT, [2.0, 5.0], "E104", "column 1"),
        (AT, [5.0, 500.0], "E104", "column 2"),
        (AT, [5.5, 5.0], "E104", "a whole number"),
        (np.column_stack([X, np.arange(80) % 2]), [5.0, 3.0], "E104", "of 2 distinct positions"),
        (np.column_stack([X, 2.0 * X]), [5.0, 5.0], "E104", "lie on a line"),
        (np.where(np.arange(80)[:, None] == 4, np.inf, AT), [5.0, 5.0], "E303", "not finite"),
    ],
)
def test_what_a_tensor_product_does_not_take(
    at: Array, sizes: list[float], code: str, says: str
) -> None:
    with pytest.raises(Refused) as refused:
        tensor_smooth(at, np.array(sizes), False)
    assert refused.value.codes == (code,)
    assert says in str(refused.value) and "help" in str(refused.value)


# ---- shrinkage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_free_is_shrunk_by_a_tenth_of_the_least_penalty(kind: str) -> None:
    plain, made = smooth(X, kind, 9), smooth(X, kind, 9, shrink=True)
    free, curves = plain.columns(X)
    none, all_of_them = made.columns(X)
    assert made.free == none.shape[1] == 0 and made.penalised == all_of_them.shape[1]
    covariance = all_of_them @ all_of_them.T - curves @ curves.T
    ten = 10.0 * np.linalg.eigvalsh(curves @ curves.T)[-1]
    np.testing.assert_allclose(covariance, ten * free @ free.T, atol=1e-9 * ten)
