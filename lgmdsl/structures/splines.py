"""Penalised regression splines: a curve as coefficients of a basis, some free, some normal.

A basis with a penalty b'Sb is divided into the null space of the penalty and the rest (Wood 2017,
section 5.8): f = N a + Z b, with a of density 1 and b independent normals of one sd. N are the
polynomials that the penalty leaves free, without the constant; Z is orthogonal to the constant and
to N over the members, so that f sums to zero over them, and is divided by its typical size there:
the geometric mean of the members' sds is 1 where the sd of b is.

A product of such bases has a penalty and an sd for each of them, its margins (`Tensor`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, pi

import numpy as np
import scipy.linalg as sla
import scipy.sparse.linalg as sla_sparse
from scipy.interpolate import BSpline

from lgmdsl.arrays import Array, IntArray
from lgmdsl.structures.shared.content import Content
from lgmdsl.structures.shared.refusals import Refused

PLACES = 2000  # of more places thin plates take this many, as mgcv does
TILE = 4096  # rows at which thin plates are evaluated at once
NOWHERE = 1e-20  # a member's variance below this share of the largest is none
CACHED = 16
SHRINK = 0.1  # of the least penalty: that of what is free, where it is shrunk too


class Basis(ABC):
    """The curves of a basis with independent normals as the prior of its coefficients, up to the
    polynomials that its penalty leaves free."""

    degree: int  #: of the polynomials that are free; 0: the constant alone

    def __init__(self, places: Array) -> None:
        self.middle = places.mean(axis=0)
        spread = np.abs(places - self.middle).max(axis=0)
        self.spread = np.asarray(np.where(spread > 0.0, spread, 1.0))

    def free(self, x: Array, derivative: int = 0) -> Array:
        """(n, m) what is free at x (n, d), the constant first; of one column also its first or
        second `derivative`."""
        out = _monomials((x - self.middle) / self.spread, self.degree)
        if derivative:
            rises = derivative == 1 and self.degree == 1
            out = np.where(np.arange(out.shape[1]) == 1, rises / self.spread, np.zeros(out.shape))
        return out

    @abstractmethod
    def curves(self, x: Array, derivative: int = 0) -> Array:
        """(n, r) the penalised curves at x (n, d), up to free ones; of one column also their first
        or second `derivative`."""


# ---- thin plates ---------------------------------------------------------------------------------


def _order(dimensions: int) -> int:
    """The order of the derivatives that are penalised: the least with 2m > d + 1."""
    return dimensions // 2 + 1 if dimensions % 2 == 0 else (dimensions + 1) // 2 + 1


def _radial(x: Array, places: Array, order: int, derivative: int = 0) -> Array:
    """(n, u) Wood 2003, eq. 2: the thin plate's eta of the distances; of one column also a
    derivative."""
    if derivative:
        gap = x - places[:, 0]
        return np.asarray(np.abs(gap) * (gap / 4.0 if derivative == 1 else 0.5))
    dimensions, square = x.shape[1], np.zeros((len(x), len(places)))
    for a, b in zip(x.T, places.T, strict=True):
        square += (a[:, None] - b) ** 2
    if dimensions == 2:  # r^2 log r / 8 pi
        return square * np.log(np.where(square > 0.0, square, 1.0)) / (16.0 * pi)
    scale = 1.0 / 12.0 if order == 2 else 1.0 / (96.0 * pi)
    return np.asarray(scale * square * np.sqrt(square))


class ThinPlate(Basis):
    """Wood 2003: the curves of largest eigenvalue of the radial basis at the places.

    The coefficients are turned so that they do not depend on the signs of eigenvectors: a stored
    fit means the same wherever it is read.
    """

    def __init__(self, places: Array, size: int) -> None:
        super().__init__(places)
        dimensions = places.shape[1]
        self.order = _order(dimensions)
        self.degree = self.order - 1
        if len(places) > PLACES:
            keys = np.random.Philox(key=0).random_raw(len(places))
            places = places[np.sort(np.argsort(keys, kind="stable")[:PLACES])]
        self.places = places
        radial = _radial(places, places, self.order)
        values, vectors = _largest(radial, size)
        free = polynomials(places - places.mean(axis=0), self.degree)
        rest = sla.qr(vectors.T @ free)[0][:, free.shape[1] :]
        root = np.linalg.cholesky(rest.T @ (values[:, None] * rest))
        weights = vectors @ sla.solve_triangular(root, rest.T, lower=True).T
        around = sla.qr(free, mode="economic")[0]
        curves = radial @ weights
        curves -= around @ (around.T @ curves)
        probes = np.random.Philox(key=1).random_raw((len(places), len(root))) / 2.0**64 - 0.5
        turn, triangle = sla.qr((probes.T @ curves).T)
        self.weights = weights @ (turn * np.where(np.diag(triangle) < 0.0, -1.0, 1.0))

    def curves(self, x: Array, derivative: int = 0) -> Array:
        tiles = [x[k : k + TILE] for k in range(0, len(x), TILE)]
        parts = [_radial(t, self.places, self.order, derivative) for t in tiles]
        return np.vstack([part @ self.weights for part in parts])


def _largest(matrix: Array, count: int) -> tuple[Array, Array]:
    """The eigenvalues of largest size, and their vectors."""
    size = len(matrix)
    if size > 500 and 5 * count < size:
        values, vectors = sla_sparse.eigsh(matrix, count, which="LM", v0=np.ones(size))
        return np.asarray(values), np.asarray(vectors)
    values, vectors = np.linalg.eigh(matrix)
    kept = np.argsort(-np.abs(values), kind="stable")[:count]
    return values[kept], vectors[:, kept]


def polynomials(x: Array, degree: int) -> Array:
    """(n, m) the monomials of x (n, d) up to a degree, the constant first; each variable in units
    of its largest value."""
    scaled = x / np.maximum(np.abs(x).max(axis=0, initial=0.0), 1e-300)
    return _monomials(scaled, degree)


def _monomials(x: Array, degree: int) -> Array:
    columns = [np.ones(len(x))]
    for power in range(1, degree + 1):
        for chosen in combinations_with_replacement(range(x.shape[1]), power):
            columns.append(np.prod(x[:, list(chosen)], axis=1))
    return np.column_stack(columns)


# ---- cubic splines by their values at knots ------------------------------------------------------


class Cubic(Basis):
    """Natural cubic splines by their values at knots at quantiles of the places, with the penalty
    of the squared second derivative (Wood 2017, section 5.3.1); straight beyond the end knots."""

    degree = 1

    def __init__(self, places: Array, size: int) -> None:
        super().__init__(places)
        self.knots, second, root = _natural(places[:, 0], size)
        values: Array = np.asarray(np.linalg.pinv(root))
        self.values, self.second = values, second @ values

    def curves(self, x: Array, derivative: int = 0) -> Array:
        return _cubic(x[:, 0], self.knots, self.values, self.second, derivative)


def _natural(places: Array, size: int) -> tuple[Array, Array, Array]:
    """Knots of the distinct places (n,), and for values at them the second derivatives there,
    (k, k), and a root of the penalty, (k - 2, k): S = root'root."""
    knots = np.quantile(places, np.linspace(0.0, 1.0, size))
    h, inner = np.diff(knots), size - 2
    d, b = np.zeros((inner, size)), np.zeros((inner, inner))
    row = np.arange(inner)
    d[row, row], d[row, row + 2] = 1.0 / h[:-1], 1.0 / h[1:]
    d[row, row + 1] = -1.0 / h[:-1] - 1.0 / h[1:]
    b[row, row] = (h[:-1] + h[1:]) / 3.0
    b[row[1:], row[:-1]] = b[row[:-1], row[1:]] = h[1:-1] / 6.0
    second = np.zeros((size, size))
    second[1:-1] = np.linalg.solve(b, d)
    return knots, second, np.linalg.solve(np.linalg.cholesky(b), d)


class Cyclic(Basis):
    """Cubic splines that join at their ends, the least place and a period after it, or the largest
    place (Wood 2017, section 5.3.2); the same knots and penalty as the natural ones."""

    degree = 0

    def __init__(self, places: Array, size: int, period: float | None = None) -> None:
        super().__init__(places)
        ends = [] if period is None else [places.min() + period]
        line = np.unique(np.append(places[:, 0], ends))
        self.knots = np.quantile(line, np.linspace(0.0, 1.0, size))
        h, count = np.diff(self.knots), size - 1
        d, b, row = np.zeros((count, count)), np.zeros((count, count)), np.arange(count)
        before = row - 1  # the last one before the first
        after = (row + 1) % count
        d[row, row] = -1.0 / h[before] - 1.0 / h
        b[row, row] = (h[before] + h) / 3.0
        d[row, after] = d[after, row] = 1.0 / h
        b[row, after] = b[after, row] = h / 6.0
        second = np.linalg.solve(b, d)
        penalty = d.T @ second
        eigenvalues, vectors = np.linalg.eigh(penalty)
        kept = vectors[:, 1:]  # but for the constant
        root = kept @ (kept / np.sqrt(eigenvalues[1:])).T
        values = root @ sla.helmert(count).T
        closed = np.append(row, 0)
        self.values, self.second = values[closed], (second @ values)[closed]

    def curves(self, x: Array, derivative: int = 0) -> Array:
        first, length = self.knots[0], self.knots[-1] - self.knots[0]
        turned = first + np.mod(x[:, 0] - first, length)
        inside = (x[:, 0] >= first) & (x[:, 0] <= self.knots[-1])
        at = np.where(inside, x[:, 0], turned)
        return _cubic(at, self.knots, self.values, self.second, derivative)


def _cubic(x: Array, knots: Array, values: Array, second: Array, derivative: int = 0) -> Array:
    """(n, r) cubic splines with these values and second derivatives at the knots (k, r), and
    straight lines beyond; or their first or second derivative."""
    j = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    h = knots[j + 1] - knots[j]
    within = np.clip(x, knots[0], knots[-1])
    left, right = knots[j + 1] - within, within - knots[j]
    if derivative == 2:
        return np.asarray((left / h)[:, None] * second[j] + (right / h)[:, None] * second[j + 1])
    out = (left / h)[:, None] * values[j] + (right / h)[:, None] * values[j + 1]
    out += ((left**3 / h - h * left) / 6.0)[:, None] * second[j]
    out += ((right**3 / h - h * right) / 6.0)[:, None] * second[j + 1]
    slope = (values[j + 1] - values[j]) / h[:, None]
    slope += ((h - 3.0 * left**2 / h) / 6.0)[:, None] * second[j]
    slope += ((3.0 * right**2 / h - h) / 6.0)[:, None] * second[j + 1]
    return np.asarray(slope if derivative else out + (x - within)[:, None] * slope)


# ---- p-splines -----------------------------------------------------------------------------------


class Differences(Basis):
    """Cubic B-splines at equidistant knots, with the squared second differences of their
    coefficients as the penalty (Eilers and Marx 1996); straight beyond the places."""

    degree = 1

    def __init__(self, places: Array, size: int) -> None:
        super().__init__(places)
        low, high = float(places.min()), float(places.max())
        margin = 0.001 * (high - low)
        low, high = low - margin, high + margin
        step = (high - low) / (size - 3)
        self.low, self.high = low, high
        self.knots = np.linspace(low - 3.0 * step, high + 3.0 * step, size + 4)
        self.coefficients = np.linalg.pinv(np.diff(np.eye(size), n=2, axis=0))

    def curves(self, x: Array, derivative: int = 0) -> Array:
        spline = BSpline(self.knots, self.coefficients, 3)
        within = np.clip(x[:, 0], self.low, self.high)
        away = (x[:, 0] - within)[:, None]
        out = np.asarray(spline(within, derivative))
        if derivative:
            return np.where(away != 0.0, 0.0, out) if derivative == 2 else out
        return out + away * spline.derivative()(within) if away.any() else out


# ---- the smooth over an axis ---------------------------------------------------------------------

# ---- tensor products -----------------------------------------------------------------------------


class _Margin:
    """A natural cubic spline along one column, in coefficients in which its penalty is diagonal:
    those that it leaves free come first, and are the line alone where the margin is `centred` over
    the members. `penalties`: (k,) in units in which 1 / sd^2 of them are, sd the typical size of
    the penalised part over the members."""

    def __init__(self, x: Array, weights: Array, size: int, centred: bool) -> None:
        places, of = np.unique(x, return_inverse=True)
        counts = np.bincount(of.reshape(-1), weights).astype(np.float64)
        self.knots, second, root = _natural(places, size)
        at_knots = np.eye(size)
        design = _cubic(places, self.knots, at_knots, second)
        self.middle = float(np.average(places, weights=counts))
        self.spread = float(np.abs(places - self.middle).max())
        ones = np.ones((size, 1))
        fixed = design.T @ counts[:, None] if centred else np.zeros((size, 0))
        whole = sla.qr(fixed)[0][:, fixed.shape[1] :]  # what the centring leaves
        turned = np.linalg.svd(root @ whole)
        kept = len(root)
        values = np.hstack([whole @ turned.Vh[kept:].T, whole @ turned.Vh[:kept].T])
        lines = np.hstack([ones, self.knots[:, None] - self.knots.mean()])
        if not centred:
            values[:, :2] = lines / np.sqrt((lines**2).sum(axis=0))
        probe = np.random.Philox(key=2).random_raw(size) / 2.0**64 - 0.5
        values *= np.where(probe @ values < 0.0, -1.0, 1.0)
        self.values, self.second = values, second @ values
        self.free = values.shape[1] - kept
        self.penalties = np.append(np.zeros(self.free), turned.S**2)
        curves = self.curves(places)[:, self.free :] / turned.S
        line = np.column_stack([np.ones(len(places)), (places - self.middle) / self.spread])
        self.penalties *= _typical(curves, line, counts) ** 2

    def curves(self, x: Array) -> Array:
        """(n, k) what the coefficients are multiplied by at x (n,)."""
        return _cubic(x, self.knots, self.values, self.second)


class Tensor(Basis):
    """Products of natural cubic splines along the columns, with one penalty for each of them on the
    coefficients at all knots of the others (Wood 2006; mgcv's te).

    With S_j = U_j D_j U_j', S_1 (x) I + I (x) S_2 is diagonal in the products of the columns of U_1
    and U_2: coefficients are independent, with 1 / variance_i = sum_j penalties_ij / sd_j^2.
    `centred`: each margin sums to zero over the members (mgcv's ti), so that what is a function of
    some of the columns alone is not among the products.
    """

    def __init__(
        self, places: Array, weights: Array, sizes: tuple[int, ...], centred: bool
    ) -> None:
        pairs = zip(places.T, sizes, strict=True)
        self.margins = [_Margin(x, weights, size, centred) for x, size in pairs]
        self.centred = centred
        each = [m.penalties for m in self.margins]
        grid = np.stack(np.meshgrid(*each, indexing="ij"), axis=-1).reshape(-1, len(each))
        self.penalised = grid.any(axis=1)
        self.penalties = grid[self.penalised]

    def free(self, x: Array, derivative: int = 0) -> Array:
        assert not derivative, "a surface has no derivative along one column"
        lines = [(c - m.middle) / m.spread for c, m in zip(x.T, self.margins, strict=True)]
        if self.centred:
            return np.column_stack([np.ones(len(x)), np.prod(lines, axis=0)])
        return _products([np.column_stack([np.ones(len(x)), line]) for line in lines])

    def curves(self, x: Array, derivative: int = 0) -> Array:
        assert not derivative, "a surface has no derivative along one column"
        each = [m.curves(c) for c, m in zip(x.T, self.margins, strict=True)]
        return _products(each)[:, self.penalised]


def _products(parts: Sequence[Array]) -> Array:
    """(n, k_1 k_2 ...) of the columns of parts (n, k_j), those of the last one fastest."""
    out = parts[0]
    for part in parts[1:]:
        out = (out[:, :, None] * part[:, None, :]).reshape(len(out), -1)
    return out


# ---- over members --------------------------------------------------------------------------------


def _typical(curves: Array, free: Array, counts: Array) -> float:
    """The geometric mean over places, each as often as `counts` says, of the sds of curves (n, r)
    with independent coefficients of variance 1, less their projection on what is free, (n, m).
    Places where the sd is 0 are left out."""
    root = np.sqrt(counts)[:, None]
    around = sla.qr(root * free, mode="economic")[0]
    left = root * curves
    left -= around @ (around.T @ left)
    variance = (left**2).sum(axis=1) / counts
    there = variance > NOWHERE * variance.max()
    return float(np.exp(0.5 * np.average(np.log(variance[there]), weights=counts[there])))


_BASES: dict[str, type[ThinPlate] | type[Cubic] | type[Cyclic] | type[Differences]] = {
    "thin-plate": ThinPlate,
    "cubic": Cubic,
    "cyclic": Cyclic,
    "p-spline": Differences,
}
_LEAST = {"cubic": 3, "cyclic": 4, "p-spline": 4}
DIMENSIONS = 3


@dataclass(frozen=True, eq=False)
class Smooth:
    """A spline over the members of an axis, and at any other position.

    `scale` is the typical size by which the penalised curves were divided: with raw curves of
    penalty b'Sb, lambda of b'Sb is noise^2 scale^2 / sd^2 with Gaussian noise. Of several sds,
    `penalties` (penalised, d) are those of each coefficient: 1 / variance = sum_j penalties_j /
    sd_j^2. Where what is free is `shrunk` too, its coefficients are the first of the penalised.
    """

    basis: Basis
    turn: Array  # of what is free, to orthonormal columns over the members
    along: Array  # what of each curve is free over the members
    scale: float
    penalties: Array | None = None
    shrunk: float = 0.0  # the sd of what is free, in units of sd; 0: infinite

    @property
    def free(self) -> int:
        """How many coefficients have density 1."""
        return 0 if self.shrunk else self._lines

    @property
    def penalised(self) -> int:
        """How many coefficients are normal."""
        return int(self.along.shape[1]) + (self._lines if self.shrunk else 0)

    @property
    def _lines(self) -> int:
        return int(self.turn.shape[1]) - 1

    def columns(self, at: Array, derivative: int = 0) -> tuple[Array, Array]:
        """(n, free) and (n, penalised): what the coefficients are multiplied by at positions
        (n, d); along one column also for the first or second `derivative` there."""
        places, of = _distinct(at)
        flat = self.basis.free(places, derivative) @ self.turn
        curves = (self.basis.curves(places, derivative) - flat @ self.along) / self.scale
        if self.shrunk:
            return flat[of, :0], np.hstack([self.shrunk * flat[:, 1:], curves])[of]
        return flat[of, 1:], curves[of]


def smooth(
    at: Array, kind: str, size: int, shrink: bool = False, period: float | None = None
) -> Smooth:
    """The spline of a basis (`thin-plate`, `cubic`, `cyclic`, `p-spline`) at the positions of
    members, (n, d), of which some may be the same. `shrink`: what the penalty leaves free is
    penalised by SHRINK of the least that it takes elsewhere, over the members, as mgcv's `ts` and
    `cs` do with the eigenvalues of their penalties. `period`: where `cyclic` joins its ends,
    counted from the least position (None: at the largest).

    Raises Refused: E303 for positions that are not finite, E104 for a size that is not a whole
    number between the least of the basis and the number of distinct positions, for more
    columns than the basis takes, and for a period that is shorter than the range of the positions
    or of another basis.
    """
    _check_finite(at)
    return _smooth(Content(np.ascontiguousarray(at, dtype=np.float64)), kind, size, shrink, period)


def _check_finite(at: Array) -> None:
    bad = np.flatnonzero(~np.isfinite(at).all(axis=1))
    if bad.size:
        raise Refused(
            "E303",
            "positions `{given}` are not finite",
            "at",
            help="drop the members without a position, or give them one",
            entries=bad,
        )


@lru_cache(maxsize=CACHED)
def _smooth(content: Content, kind: str, size: int, shrink: bool, period: float | None) -> Smooth:
    at = np.asarray(content.value)
    places, of = _distinct(at)
    _check(places, kind, size)
    if period is None:
        basis: Basis = _BASES[kind](places, size)
    else:
        _check_period(places, kind, period)
        basis = Cyclic(places, size, period)
    turn, along = _over_members(basis, places, of, f'basis = "{kind}" leaves free')
    counts = np.bincount(of).astype(np.float64)
    scale = _typical(basis.curves(places), basis.free(places), counts)
    made = Smooth(basis, turn, along, scale)
    if not shrink or not made.free:
        return made
    largest = np.linalg.norm(np.sqrt(counts)[:, None] * made.columns(places)[1], ord=2)
    return replace(made, shrunk=float(largest) / SHRINK**0.5)


def _check_period(places: Array, kind: str, period: float) -> None:
    reach = float(np.ptp(places))
    if kind != "cyclic":
        raise Refused(
            "E104",
            f'`period` is an argument of basis = "cyclic", and this is "{kind}"',
            "period",
            help='basis = "cyclic", or leave it out',
        )
    if not period >= reach:
        raise Refused(
            "E104",
            f"`period` is {period:g}, and the positions reach over {reach:g}",
            "period",
            help="take the positions within one period: x - period * floor(x / period)",
        )


def _over_members(basis: Basis, places: Array, of: IntArray, free: str) -> tuple[Array, Array]:
    """`turn` and `along` of a Smooth. Raises Refused E104 where positions do not tell what is
    `free` apart."""
    powers = basis.free(places)
    root = np.sqrt(np.bincount(of).astype(np.float64))[:, None]
    triangle = sla.qr(root * powers, mode="r")[0][: powers.shape[1]]
    triangle = triangle * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)[:, None]
    if np.abs(np.diag(triangle)).min() < 1e-10 * np.abs(triangle).max():
        raise Refused(
            "E104",
            "positions `{given}` lie on a line or a curve: they tell fewer directions apart than "
            + free,
            "at",
            help="leave out a column that the others determine",
        )
    turn = np.asarray(np.linalg.inv(triangle), dtype=np.float64)
    return turn, (root * (powers @ turn)).T @ (root * basis.curves(places))


def tensor_smooth(at: Array, sizes: Array, centred: bool) -> Smooth:
    """The tensor product of cubic splines along the columns of the positions of members, (n, d), of
    `sizes` (d,) coefficients each; `centred`: the interaction alone.

    Raises Refused: E303 for positions that are not finite, E104 for a single column, and for sizes
    that are not whole numbers between 3 and how many distinct positions a column has.
    """
    _check_finite(at)
    return _tensor(
        Content(np.ascontiguousarray(at, dtype=np.float64)), tuple(sizes.tolist()), centred
    )


@lru_cache(maxsize=CACHED)
def _tensor(content: Content, sizes: tuple[float, ...], centred: bool) -> Smooth:
    at = np.asarray(content.value)
    places, of = _distinct(at)
    _check_margins(places, sizes)
    counts = np.bincount(of).astype(np.float64)
    basis = Tensor(places, counts, tuple(int(k) for k in sizes), centred)
    turn, along = _over_members(basis, places, of, "a product of lines")
    return Smooth(basis, turn, along, 1.0, basis.penalties)


def _check_margins(places: Array, sizes: tuple[float, ...]) -> None:
    if places.shape[1] == 1:
        raise Refused(
            "E104",
            "a product is of two columns of positions or more, and `{given}` has one",
            "at",
            help='a curve: spline(at = {at}, sd = {sd}, basis = "cubic")',
        )
    for k, (column, size) in enumerate(zip(places.T, sizes, strict=True), 1):
        count = len(np.unique(column))
        if not 3 <= size <= count or size != int(size):
            raise Refused(
                "E104",
                f"`size` is {size:g}, and column {k} of `at`, of {count} distinct positions, takes "
                f"a whole number from 3 to {count}",
                "size",
                help="leave out a column of fewer than 3, or make it an index: iid * spline(...)"
                if count < 3
                else f"size = {min(max(3, int(size)), count)}, or one for each column: data",
            )


def _distinct(at: Array) -> tuple[Array, IntArray]:
    """The distinct positions, sorted, and which of them each member has."""
    if at.shape[1] == 1:  # numbers are sorted faster than rows
        line, which = np.unique(at[:, 0], return_inverse=True)
        return line[:, None], np.asarray(which, dtype=np.int64)
    places, of = np.unique(at, axis=0, return_inverse=True)
    return places, np.asarray(of, dtype=np.int64).reshape(-1)


def _check(places: Array, kind: str, size: int) -> None:
    count, dimensions = places.shape
    if dimensions > (DIMENSIONS if kind == "thin-plate" else 1):
        most = f"at most {DIMENSIONS} columns" if kind == "thin-plate" else "a single column"
        raise Refused(
            "E104",
            f'basis = "{kind}" takes {most} of positions, and `{{given}}` has {dimensions}',
            "at",
            help="a Gaussian process: gp(at = {at}, kernel = matern(sd = {sd}, length = 1, "
            "smoothness = 1.5))"
            if dimensions > DIMENSIONS
            else 'basis = "thin-plate"',
        )
    order = _order(dimensions)
    least = _LEAST.get(kind) or comb(order + dimensions - 1, dimensions) + 1
    if count < least:
        raise Refused(
            "E104",
            f'basis = "{kind}" needs at least {least} distinct positions, and `{{given}}` has '
            f"{count}",
            "at",
            help="a line: latent b ~ normal(sd = 1), and b * x in the predictor; or a latent of "
            "each position: normal(sd = {sd})",
        )
    if not least <= size <= count:
        few = size < least
        raise Refused(
            "E104",
            f'`size` is {size}, and basis = "{kind}" takes at '
            + (f"least {least}" if few else f"most {count}, one for each distinct position"),
            "size",
            help=f"size = {least}, or more" if few else f"size = {count}, or less",
        )
