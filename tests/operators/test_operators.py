"""Every operator passes the shipped checks; its meaning against NumPy, SciPy and PyWavelets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import pywt
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage, signal

from lgmdsl.arrays import Array
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import Kronecker, Product, Stack, Sum, product
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.differences import CumulativeSum, DifferenceOperator, TotalOperator
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.operators.fourier import Fourier, paired
from lgmdsl.operators.select import Diagonal, Select, mask
from lgmdsl.operators.wavelet import Wavelet
from lgmdsl.testing.operator_checks import check_adjoint, check_operator

RNG = np.random.default_rng(5)
PSF = RNG.uniform(size=(3, 4))
BOUNDARIES = ("none", "circular", "zero", "reflect")
WIDE = RNG.uniform(size=(6, 7))


def sparse(rows: int, columns: int) -> Sparse:
    array = RNG.normal(size=(rows, columns)) * (RNG.uniform(size=(rows, columns)) < 0.4)
    return Sparse(sp.csr_array(array))


EXAMPLES: dict[str, Operator] = {
    "dense": Dense(RNG.normal(size=(5, 7))),
    "sparse": sparse(5, 7),
    "identity": Identity(6),
    **{
        f"difference {b} {d} {axis}": DifferenceOperator((5, 4, 6), axis, d, b)
        for b in BOUNDARIES
        for d in (1, 2, 3)
        for axis in (0, 2)
    },
    "running sum": CumulativeSum((3, 5, 2), 1),
    "total": TotalOperator((3, 5, 2), 1),
    "select": Select(np.array([3, 0, 3, 5]), 6),
    "diagonal": Diagonal(RNG.normal(size=6)),
    "mask": mask(np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])),
    **{
        f"convolution {b} {p.shape}": Convolution((7, 8), p, b)
        for b in BOUNDARIES[1:]
        for p in (PSF, WIDE, np.ones((1, 1)))
    },
    "wavelet haar": Wavelet((8, 12), "haar"),
    "wavelet db2": Wavelet((16,), "db2", 2),
    "wavelet sym4": Wavelet((8, 8), "sym4", 3),
    "wavelet cube": Wavelet((4, 2, 6), "haar"),
    "fourier even": Fourier((6, 8)),
    "fourier odd": Fourier((5, 7)),
    "fourier line": Fourier((9,)),
    "product": Product((mask(np.arange(30.0) % 3), Fourier((5, 6)), Diagonal(np.arange(30.0)))),
    "picked": Product((Select(np.array([3, 3, 17]), 56), Convolution((7, 8), WIDE, "circular"))),
    "masked": Product((Sparse(sp.csr_array(np.diag(np.arange(30.0) % 4))), Fourier((5, 6)))),
    "sum": Sum((DifferenceOperator((5, 6), 0, 1, "zero"), Dense(RNG.normal(size=(30, 30))))),
    "stack": Stack((DifferenceOperator((5, 6), 0), Fourier((5, 6)), sparse(4, 30))),
    "kronecker": Kronecker(
        (sparse(3, 4), DifferenceOperator((5,), 0), Dense(RNG.normal(size=(2, 3))))
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_conformance(name: str) -> None:
    check_operator(EXAMPLES[name])


def test_entries_of_masked_products_are_told() -> None:
    """A sparse first factor with one entry a row at most is a mask; with more, nothing is told."""
    weight, (row, column) = RNG.uniform(size=30), np.indices((30, 30)).reshape(2, -1)
    told = EXAMPLES["masked"].gram(row, column)
    b = EXAMPLES["masked"].dense()
    assert told is not None
    assert np.allclose(told(weight), (b.T @ (weight[:, None] * b)).ravel())
    assert Product((sparse(4, 30), Fourier((5, 6)))).gram(row, column) is None


@dataclass(frozen=True, eq=False)
class Wrong(Operator):
    """An operator whose adjoint is a little off."""

    inner: Operator
    by: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        return self.inner.matvec(x)

    def rmatvec(self, y: Array) -> Array:
        return self.inner.rmatvec(y) + self.by * np.roll(self.inner.rmatvec(y), 1, axis=0)


@pytest.mark.parametrize(
    "name", ["difference zero 1 0", "convolution reflect (3, 4)", "fourier odd"]
)
def test_a_wrong_adjoint_is_found(name: str) -> None:
    check_adjoint(Wrong(EXAMPLES[name], 0.0))
    with pytest.raises(AssertionError, match="not the adjoint"):
        check_adjoint(Wrong(EXAMPLES[name], 1e-6))


def test_differences_are_numpys() -> None:
    x = RNG.normal(size=(5, 6))
    assert np.allclose(
        DifferenceOperator((5, 6), 1, 2).matvec(x.ravel()), np.diff(x, 2, axis=1).ravel()
    )
    circular = DifferenceOperator((5, 6), 0, 1, "circular").matvec(x.ravel()).reshape(5, 6)
    assert np.allclose(circular, np.roll(x, -1, axis=0) - x)
    for boundary, mode in (("circular", "wrap"), ("reflect", "symmetric"), ("zero", "constant")):
        for order in (1, 2, 3):
            left = order // 2
            wide = np.pad(x, [(left, order - left), (0, 0)], mode=mode)  # type: ignore[call-overload]
            d = DifferenceOperator((5, 6), 0, order, boundary)
            assert np.allclose(d.matvec(x.ravel()), np.diff(wide, order, axis=0).ravel())


def test_convolution_is_scipys() -> None:
    x = RNG.normal(size=(7, 8))
    # SciPy puts the centre of an even kernel one cell further.
    odd = RNG.normal(size=(3, 5))
    for boundary, mode in (("circular", "wrap"), ("reflect", "reflect"), ("zero", "constant")):
        given = Convolution((7, 8), odd, boundary).matvec(x.ravel()).reshape(7, 8)
        assert np.allclose(given, ndimage.convolve(x, odd, mode=mode))  # type: ignore[arg-type]
    full = signal.convolve2d(x, PSF)
    given = Convolution((7, 8), PSF, "zero").matvec(x.ravel()).reshape(7, 8)
    assert np.allclose(given, full[1:8, 2:10])


@pytest.mark.filterwarnings("ignore:Level value")  # filters longer than what is left
@pytest.mark.parametrize(
    ("grid", "name", "levels"), [((16, 32), "db3", 2), ((8, 8), "haar", 3), ((64,), "coif1", None)]
)
def test_wavelets_are_pywavelets(grid: tuple[int, ...], name: str, levels: int | None) -> None:
    x = RNG.normal(size=grid)
    w = Wavelet(grid, name, levels)
    found = pywt.wavedecn(x, name, mode="periodization", level=w.depth)
    wanted, _ = pywt.coeffs_to_array(found)
    assert np.allclose(w.matvec(x.ravel()), wanted.ravel())
    assert np.allclose(w.rmatvec(w.matvec(x.ravel())), x.ravel())


def test_wavelet_refuses_what_cannot_be_halved() -> None:
    with pytest.raises(ValueError, match="levels"):
        Wavelet((7, 8), "haar")
    with pytest.raises(ValueError, match="levels"):
        Wavelet((12, 12), "haar", 3)


@pytest.mark.parametrize("grid", [(6, 8), (5, 4), (3, 4, 2), (7,)])
def test_fourier_pairs(grid: tuple[int, ...]) -> None:
    x = RNG.normal(size=grid)
    f = Fourier(grid)
    spectrum = np.fft.fftn(x, norm="ortho")
    assert np.allclose(f.matvec(x.ravel()), paired(spectrum).ravel())
    assert np.linalg.norm(f.matvec(x.ravel())) == pytest.approx(np.linalg.norm(x))
    assert np.allclose(f.rmatvec(f.matvec(x.ravel())), x.ravel())
    # Both numbers of a pair together hold the complex coefficient.
    k = (1,) * len(grid)
    opposite = tuple(-1 % n for n in grid)
    pair = f.matvec(x.ravel()).reshape(grid)
    value = (pair[k] + 1j * pair[opposite]) / np.sqrt(2)
    assert np.allclose(value, spectrum[k])


@given(
    n=st.integers(2, 12),
    order=st.integers(1, 4),
    boundary=st.sampled_from(BOUNDARIES),
    seed=st.integers(0, 99),
)
def test_any_difference(n: int, order: int, boundary: str, seed: int) -> None:
    if order >= n:
        with pytest.raises(ValueError, match="order"):
            DifferenceOperator((n,), 0, order, boundary)
        return
    check_operator(DifferenceOperator((n, 3), 0, order, boundary), seed)
    check_operator(DifferenceOperator((2, n), 1, order, boundary), seed)


def test_products_leave_identities_out() -> None:
    d = DifferenceOperator((6,), 0)
    assert product(Identity(5), d, Identity(6)) is d
    assert isinstance(product(Identity(4), Identity(4)), Identity)
    nested = product(product(Diagonal(np.ones(5)), d), Diagonal(np.ones(6)))
    assert isinstance(nested, Product) and len(nested.factors) == 3
    with pytest.raises(ValueError, match="multiplied"):
        Product((d, d))


def test_cost_is_far_below_that_of_an_array() -> None:
    """Products of 256 x 256 images cost some hundred flops a pixel, and nothing is formed."""
    for operator in (
        Convolution((256, 256), RNG.uniform(size=(31, 31)), "reflect"),
        Wavelet((256, 256), "db2"),
        Fourier((256, 256)),
        DifferenceOperator((256, 256), 0),
        CumulativeSum((256, 256), 1),
    ):
        assert 0.5 < operator.cost / 256**2 < 300.0
        assert operator.matvec(np.ones(256**2)).shape == (operator.shape[0],)
