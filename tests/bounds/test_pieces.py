"""The table of pieces against its construction, the known gaps, and the softplus itself."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from lgmdsl.bounds.piecewise import FEWEST, MOST, Piecewise, pieces

from .make_pieces import KINDS, SIZES, Half, build, march

GAPS = {
    3: 5.1001e-2, 4: 3.2954e-2, 5: 9.4764e-3, 6: 7.4219e-3, 8: 2.7553e-3, 10: 1.3102e-3,
    15: 3.1061e-4, 20: 1.4214e-4,
}  # fmt: skip
BREAKS = [0.6905, 1.2263, 1.7508, 2.3083, 2.9379, 3.6933, 4.6713, 6.1010, 8.8586]
EVERY = [(kind, size) for kind in KINDS for size in SIZES]


@pytest.mark.parametrize(("size", "gap"), GAPS.items())
def test_known_gaps_of_quadratic_pieces(size: int, gap: float) -> None:
    assert float(f"{pieces('quadratic', size).gap:.4e}") == gap
    assert Piecewise("quadratic", size).spec.error == pieces("quadratic", size).gap


def test_known_breaks_of_twenty_quadratic_pieces() -> None:
    known = [-b for b in BREAKS[::-1]] + [0.0, *BREAKS]
    np.testing.assert_allclose(pieces("quadratic", 20).breaks, known, atol=5e-5)


def test_linear_pieces_by_theory() -> None:
    """Three: log(5/4) by hand. Many: a chord of width h is h^2 sigma' / 8 too high."""
    three = pieces("linear", 3)
    assert three.gap == pytest.approx(math.log(1.25), rel=1e-14)
    np.testing.assert_allclose(three.breaks, [-math.log(4.0), math.log(4.0)], rtol=1e-13)
    ratios = [pieces("linear", r).gap * 8 * r**2 / math.pi**2 for r in (10, 20, 40)]
    assert ratios == sorted(ratios, reverse=True) and 1.0 < ratios[-1] < 1.04


@pytest.mark.parametrize(("kind", "size"), [(k, r) for k in KINDS for r in (3, 4, 7, 12, 20)])
def test_recomputed(kind: str, size: int) -> None:
    _agree(build(kind, size), kind, size)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_solves_its_equations(kind: str) -> None:
    """Marched at its own gap, each entry ends where the last piece begins."""
    for size in SIZES:
        half, miss = march(kind, size, pieces(kind, size).gap)
        assert abs(miss) < 1e-8
        _agree(half, kind, size)


def _agree(half: Half, kind: str, size: int) -> None:
    table = pieces(kind, size)
    assert table.gap == pytest.approx(half.gap, rel=1e-10)
    right = table.breaks[len(table.breaks) // 2 :]
    np.testing.assert_allclose(right, half.breaks[size % 2 :], atol=1e-8)
    own = np.stack([table.a, table.b, table.c], axis=1)[-len(half.pieces) :]
    np.testing.assert_allclose(own, half.pieces, atol=1e-9)


@pytest.mark.parametrize(("kind", "size"), EVERY)
def test_pieces_bound_the_softplus_within_the_gap_and_reach_it(kind: str, size: int) -> None:
    table = pieces(kind, size)
    assert len(table.a) == size == len(table.breaks) + 1
    assert np.all(np.diff(table.breaks) > 0)
    edges = np.concatenate([[-45.0], table.breaks, [45.0]])
    x = np.concatenate([np.linspace(a, b, 2001)[1:-1] for a, b in pairwise(edges)])
    over = table.at(x) - np.logaddexp(0.0, x)
    assert over.min() >= -1e-14
    assert over.max() <= table.gap * (1 + 1e-9) + 1e-14
    # Every piece uses the whole gap, or the bound could be tighter.
    each = over.reshape(size, -1).max(axis=1)
    np.testing.assert_allclose(each, table.gap, rtol=0.02)


def test_gaps_shrink_with_the_number_of_pieces() -> None:
    for kind in KINDS:
        gaps = [pieces(kind, r).gap for r in SIZES]
        assert gaps == sorted(gaps, reverse=True)
    assert all(pieces("quadratic", r).gap < pieces("linear", r).gap for r in SIZES)


def test_sizes() -> None:
    assert (SIZES[0], SIZES[-1]) == (FEWEST, MOST)
    for wrong in (("quadratic", 2), ("quadratic", 41), ("cubic", 6)):
        with pytest.raises(ValueError, match="no table"):
            Piecewise(*wrong)
