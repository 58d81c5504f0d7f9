"""Sums over rows as sites: values and derivatives against the rows' own, and packing."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import linalg

from lgmdsl.contract import rows as by_rows
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Site
from lgmdsl.inference.routes import answering
from lgmdsl.sites.scalar.exponential_rate import PoissonLogRate
from lgmdsl.sites.scalar.logistic import BernoulliLogit
from lgmdsl.streams import rows as rows_of_streams
from lgmdsl.streams.collective import Places
from lgmdsl.streams.packed import Packed, packed, scattered
from lgmdsl.streams.rows import BoundRows, PackedRows, Reduction
from lgmdsl_backends.double_loop import _coordinates, _variance

LATENTS, PLACES = 4, 5


class Case:
    """Rows with an intercept, two coefficients and a constant 2 on the last latent."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(2, size))
        self.place = rng.integers(0, PLACES, size)
        self.y = rng.poisson(2.0, size).astype(float)
        self.offset = rng.normal(size=size)
        self.a = np.stack([np.ones(size), self.x[0], self.x[1], np.full(size, 2.0)], axis=1)
        self.z = rng.normal(size=(PLACES, LATENTS))
        root = rng.normal(size=(PLACES, LATENTS, LATENTS))
        self.v = root @ root.transpose(0, 2, 1)
        self.s = np.einsum("nk,nk->n", self.a, self.z[self.place]) + self.offset
        self.row_v = np.einsum("ni,nij,nj->n", self.a, self.v[self.place], self.a)
        self.site = PoissonLogRate(self.y, np.ones(size))

    def places(self, batch: int, family: type[Site] = PoissonLogRate) -> Places:
        columns = np.zeros((LATENTS, 3))
        columns[0, 0], columns[1, 1], columns[2, 2], columns[3, 0] = 1.0, 1.0, 1.0, 2.0
        order = np.argsort(self.place, kind="stable")
        to = [np.argsort(order)[i : i + batch] for i in range(0, len(order), batch)]

        def of(x: np.ndarray) -> Packed:
            parts = [packed(x[i : i + batch]) for i in range(0, len(x), batch)]
            return scattered(parts, to)

        fields = {"y": of(self.y)}
        if family is PoissonLogRate:
            fields["exposure"] = of(np.ones(len(self.y)))
        values = tuple(of(x) for x in self.x)
        starts = np.searchsorted(self.place[order], np.arange(PLACES + 1))
        packed_rows = PackedRows(starts, values, of(self.offset), fields)
        rows = BoundRows(packed_rows, family, {}, Reduction(columns))
        return Places(Places.spec_of(family, "places"), rows, lambda site: site)

    def summed(self, values: np.ndarray) -> np.ndarray:
        out = np.zeros((PLACES, *values.shape[1:]))
        np.add.at(out, self.place, values)
        return out

    def vectors(self, x: np.ndarray) -> np.ndarray:
        return self.summed(x[:, None] * self.a)

    def squares(self, x: np.ndarray) -> np.ndarray:
        return self.summed(x[:, None, None] * self.a[:, :, None] * self.a[:, None, :])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of_streams, "CHUNK", 16)


@given(size=st.integers(1, 90), seed=st.integers(0, 10**6), batch=st.sampled_from([16, 32, 64]))
def test_sums_are_those_of_the_rows(size: int, seed: int, batch: int) -> None:
    case = Case(size, seed)
    places = case.places(batch)
    for _ in range(2):  # the second time from chunks that were kept
        answer, row = places.pointwise(case.z, case.v), case.site.pointwise(case.s, case.row_v)
        close = pytest.approx
        assert answer.value == close(case.summed(row.value), rel=1e-12, abs=1e-10)
        assert answer.slope == close(case.vectors(row.slope), rel=1e-11, abs=1e-9)
        assert answer.curvature == close(case.squares(row.curvature), rel=1e-11, abs=1e-9)
        assert answer.third == close(case.vectors(row.third), rel=1e-11, abs=1e-8)
        assert places.log_density(case.z) == close(case.summed(row.value), rel=1e-12, abs=1e-10)
    got, own = places.expected(case.z, 0.01 * case.v), case.site.expected(case.s, 0.01 * case.row_v)
    assert got.value == close(case.summed(own.value), rel=1e-12, abs=1e-10)
    assert got.d_mean == close(case.vectors(own.d_mean), rel=1e-11, abs=1e-9)
    assert got.d_variance == close(case.squares(own.d_variance), rel=1e-11, abs=1e-9)


def bounds_case(size: int, seed: int, batch: int) -> tuple[Case, Places, BernoulliLogit]:
    """The same rows with binary responses."""
    case = Case(size, seed)
    case.y = np.minimum(case.y, 1.0)
    return case, case.places(batch, BernoulliLogit), BernoulliLogit(case.y)


@given(size=st.integers(1, 90), seed=st.integers(0, 10**6), batch=st.sampled_from([16, 32, 64]))
def test_bounds_are_sums_of_those_of_the_rows(size: int, seed: int, batch: int) -> None:
    case, places, site = bounds_case(size, seed, batch)
    got, own = places.bounded(case.z, case.v), site.bounded(case.s, case.row_v)
    close = pytest.approx
    assert got.penalty == close(case.summed(own.penalty), rel=1e-12, abs=1e-10)
    assert got.slope == close(case.vectors(own.slope), rel=1e-11, abs=1e-9)
    assert got.curvature == close(case.squares(own.curvature), rel=1e-11, abs=1e-9)
    assert got.weight == close(case.squares(own.weight), rel=1e-11, abs=1e-9)
    # At other latents t: b's - ws^2/2 - h/2 of each row, s = a't + c, is b't - t'Wt/2 - h/2.
    t = np.random.default_rng(seed).normal(size=(PLACES, LATENTS))
    s = np.einsum("nk,nk->n", case.a, t[case.place]) + case.offset
    want = case.summed(own.shift * s - 0.5 * own.weight * s * s - 0.5 * own.h)
    pull = np.einsum("gij,gj->gi", got.weight, t)
    have = np.einsum("gi,gi->g", got.shift - 0.5 * pull, t) - 0.5 * got.h
    assert have == close(want, rel=1e-10, abs=1e-9)
    assert (have <= case.summed(site.log_density(s)) + 1e-9).all()


def test_bounds_at_the_scales_of_the_rows() -> None:
    case, places, site = bounds_case(60, 3, 32)
    landmark = site.landmark()
    assert landmark is not None
    got, own = places.at_scale(case.z), site.bounded(case.s, landmark[1] ** 2 + np.zeros(60))
    assert got.penalty == pytest.approx(case.summed(own.penalty), rel=1e-12)
    assert got.weight == pytest.approx(case.squares(own.weight), rel=1e-12, abs=1e-12)
    inner = np.einsum("gi,gij,gj->g", case.z, got.weight, case.z)
    value = np.einsum("gi,gi->g", got.shift, case.z) - 0.5 * inner - 0.5 * got.h
    want = own.shift * case.s - 0.5 * own.weight * case.s**2 - 0.5 * own.h
    assert value == pytest.approx(case.summed(want), rel=1e-11, abs=1e-10)


def test_relative_sizes_of_weights_bound_what_they_change() -> None:
    """At least the largest generalised eigenvalue of (dW, W + least V^-1), at most sqrt(K) times
    it; V singular, and in any units."""
    rng = np.random.default_rng(2)
    roots = rng.normal(size=(3, 7, 3, 3))
    weight, variance = (r @ r.transpose(0, 2, 1) for r in roots[:2])
    change = roots[2] + roots[2].transpose(0, 2, 1)
    unit = np.array([1e-8, 1.0, 1e6])
    square = np.multiply.outer(unit, unit)
    got = by_rows.relative_size(change * square, weight * square, variance / square, 1e-4)
    for k in range(7):
        values = linalg.eigh(change[k], weight[k] + 1e-4 * np.linalg.inv(variance[k]))[0]
        assert got[k] == pytest.approx(np.sqrt(np.sum(values**2)), rel=1e-8)
    flat = variance.copy()
    flat[:, 2], flat[:, :, 2] = 0.0, 0.0
    assert np.isfinite(by_rows.relative_size(change, weight, flat, 1e-4)).all()


def test_tangents_have_coordinates() -> None:
    """Any change of them leads to variances again, in any units."""
    _, places, _ = bounds_case(60, 3, 32)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(PLACES, LATENTS, LATENTS)) * np.array([1e-9, 1.0, 1e5, 3.0])[:, None]
    variance = root @ root.transpose(0, 2, 1)
    flat = _coordinates(places, variance)
    assert flat is not None
    sds = np.sqrt(np.einsum("gii->gi", variance))
    square = sds[:, :, None] * sds[:, None, :]
    again = _variance(places, flat, np.zeros((PLACES, LATENTS)))
    assert again / square == pytest.approx(variance / square, rel=1e-10, abs=1e-12)
    other = _variance(places, flat + rng.normal(size=flat.shape), np.zeros((PLACES, LATENTS)))
    assert (np.linalg.eigvalsh(other / square) > 0.0).all()
    variance[2, 1] = variance[2, :, 1] = 0.0
    assert _coordinates(places, variance) is None


def test_derivatives_agree_with_differences() -> None:
    case = Case(60, 3)
    places, step = case.places(32), 1e-5
    answer = places.pointwise(case.z, case.v)
    for k in range(LATENTS):
        move = np.zeros((PLACES, LATENTS))
        move[:, k] = step
        up, down = places.pointwise(case.z + move), places.pointwise(case.z - move)
        value = (up.value - down.value) / (2 * step)
        assert answer.slope[:, k] == pytest.approx(value, rel=1e-6, abs=1e-5)
        bent = (up.slope - down.slope) / (2 * step)
        assert answer.curvature[:, k] == pytest.approx(bent, rel=1e-6, abs=1e-5)
        third = np.einsum("gij,gij->g", up.curvature - down.curvature, case.v) / (2 * step)
        assert answer.third[:, k] == pytest.approx(third, rel=1e-5, abs=1e-3)


def test_values_along_directions() -> None:
    case = Case(50, 4)
    rng = np.random.default_rng(0)
    directions, lengths = rng.normal(size=(2, PLACES, LATENTS)), np.array([[0.0, 0.5], [1.0, -1.0]])
    got = case.places(32).along(case.z, directions, lengths)
    for d in range(2):
        for t in range(2):
            want = case.places(32).log_density(case.z + lengths[d, t] * directions[d]).sum()
            assert got[d, t] == pytest.approx(want, rel=1e-12)


def test_unit_weights_are_sums_of_rows_of_size_one() -> None:
    case = Case(50, 5)
    scale = np.array([1.0, 1e-20, 1e10, 1.0])
    case.x *= np.array([[1e-20], [1e10]])
    case.a *= scale
    got = case.places(32).unit_weights()
    size = np.sum(case.a**2, axis=1)
    unit = np.exp2(-2.0 * np.round(0.5 * np.log2(size)))
    assert got == pytest.approx(case.squares(unit), rel=1e-12)


NUMBERS = st.one_of(
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(width=64)),
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.integers(-70000, 70000).map(float)),
    hnp.arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 2**40)),
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(width=32)),
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([0.0, -0.0, np.nan, 1.0])),
)


@given(NUMBERS, st.integers(0, 40), st.integers(0, 40))
def test_packed_numbers_come_back_bit_for_bit(values: np.ndarray, first: int, count: int) -> None:
    some = slice(first, min(first + count, len(values)))
    if some.start > some.stop:
        some = slice(0, 0)
    back = packed(values).at(some)
    assert back.dtype == np.float64
    assert back.tobytes() == values[some].astype(np.float64).tobytes()


def test_packing_takes_few_bytes() -> None:
    counts = np.arange(200.0)
    assert packed(counts).nbytes == 200
    assert packed(counts + 0.5).nbytes == 800
    assert packed(np.linspace(0.0, 1.0, 200)).nbytes == 1600
    assert packed(np.ones(200)).nbytes == 8


@pytest.mark.parametrize("multiplied", [False, True])
@pytest.mark.parametrize("family", [PoissonLogRate, BernoulliLogit])
def test_higher_derivatives_of_expectations_are_sums(family: type[Site], multiplied: bool) -> None:
    case = Case(40, 3)
    f = np.random.default_rng(1).normal(size=(PLACES, LATENTS)) if multiplied else None
    case.y = np.minimum(case.y, 1.0) if family is BernoulliLogit else case.y
    site = BernoulliLogit(case.y) if family is BernoulliLogit else PoissonLogRate(case.y, case.y**0)
    v = 0.05 * case.v
    places = replace(case.places(16, family), multipliers=f)
    if f is not None:  # the same as rows of other coefficients
        case.a = case.a * f[case.place]
        case.s = np.einsum("nk,nk->n", case.a, case.z[case.place]) + case.offset
        case.row_v = np.einsum("ni,nij,nj->n", case.a, case.v[case.place], case.a)
    found = places.higher_expected(case.z, v)
    assert found is not None
    lifted = cast(Expected, answering(family, Expected)(site))
    a = lifted.expected(case.s, 0.05 * case.row_v, second=True)
    assert a.d_mean_variance is not None and a.d_variance2 is not None
    cubes = case.summed(np.einsum("n,ni,nj,nk->nijk", 2.0 * a.d_mean_variance, *[case.a] * 3))
    fourths = np.einsum("n,ni,nj,nk,nl->nijkl", 4.0 * a.d_variance2, *[case.a] * 4)
    np.testing.assert_allclose(found[0], cubes, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], case.summed(fourths), rtol=1e-9, atol=1e-12)
