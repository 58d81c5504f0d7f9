"""Sums over pairs: tables of rows give what rows one by one do, and brute force."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.learning.em.complete_data import (
    Entered,
    PersonItemGrid,
    RowMoments,
    cross_pairs_of,
    pairs_of,
)


def entries(persons: int, items: int, factors: int, missing: float) -> tuple[np.ndarray, ...]:
    """Rows (person, item) of factors + 1 entries: loadings, and an offset at the last latent."""
    rng = np.random.default_rng(persons)
    kept = np.argwhere(rng.random((persons, items)) >= missing)
    rng.shuffle(kept)
    width = factors + 1
    row = np.repeat(np.arange(len(kept)), width)
    person, item = kept[row].T
    k = np.tile(np.arange(width), len(kept))
    column = np.where(k < factors, person * factors + k, persons * factors)
    return row, column, item * width + k


def brute(
    row: np.ndarray,
    column: np.ndarray,
    hyper: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    moment: np.ndarray,
    size: int,
) -> np.ndarray:
    out = np.zeros((size, size))
    for e in range(len(row)):
        for f in np.flatnonzero(row == row[e]):
            share = weight[row[e]] * value[e] * value[f] * moment[column[e], column[f]]
            out[hyper[e], hyper[f]] += share
    return np.triu(out)


@pytest.mark.parametrize(("persons", "items", "missing"), [(6, 4, 0.0), (6, 4, 0.3), (60, 40, 0.9)])
@pytest.mark.parametrize("plain", [True, False])
def test_sums(persons: int, items: int, missing: float, plain: bool) -> None:
    row, column, hyper = entries(persons, items, 2, missing)  # the last: a sparse table
    rng = np.random.default_rng(1)
    value = np.ones(len(row)) if plain else rng.normal(size=len(row))
    weight, size = rng.random(row.max() + 1), hyper.max() + 1
    latents = column.max() + 1
    moment = rng.normal(size=(latents, latents))
    moment = moment + moment.T
    found = pairs_of(Entered(row, column, hyper, value))
    assert isinstance(found, PersonItemGrid if plain else RowMoments)
    (a, b), (e, f) = found.pairs.latents, found.pairs.hypers
    assert (a <= b).all() and (e <= f).all()
    total = np.zeros(size * size)
    where = np.arange(latents * latents).reshape(latents, latents)
    found.numbered(where[a, b].reshape(-1), (e * size + f).reshape(-1)).add(
        total, weight, moment.reshape(-1)
    )
    want = brute(row, column, hyper, value, weight, moment, size)
    np.testing.assert_allclose(total.reshape(size, size), want, rtol=1e-12, atol=1e-12)


def test_rows_that_are_no_table_are_summed_one_by_one() -> None:
    row, column, hyper = entries(6, 4, 2, 0.0)
    scattered = pairs_of(Entered(row[:-1], column[:-1], hyper[:-1], np.ones(len(row) - 1)))
    assert isinstance(scattered, RowMoments)  # a row with an entry less
    row, column, hyper = entries(6, 8, 2, 0.0)
    apart = pairs_of(Entered(row, row, hyper, np.ones(len(row))))
    assert isinstance(apart, RowMoments)  # every row has latents of its own: a table of empty cells
    none = pairs_of(Entered(*(np.zeros(0, dtype=np.int64),) * 3, np.zeros(0)))
    assert isinstance(none, RowMoments) and len(none.row) == 0


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("shared", [True, False])
def test_pairs_of_two_predictors_of_a_site(missing: float, shared: bool) -> None:
    """With `shared`, the first hyper of an item stands in both, and counts twice with itself."""
    row, column, hyper = entries(6, 4, 2, missing)
    one = Entered(row, column, hyper, np.ones(len(row)))
    own = hyper + hyper.max() + 1
    second = np.where(hyper % 3 == 0, hyper, own) if shared else own
    other = Entered(row, column, second, np.ones(len(row)))
    rng = np.random.default_rng(2)
    weight, size, latents = rng.random(row.max() + 1), own.max() + 1, column.max() + 1
    moment = rng.normal(size=(latents, latents))
    moment = moment + moment.T
    found = cross_pairs_of(one, other)
    assert isinstance(found, RowMoments if shared else PersonItemGrid)
    (a, b), (e, f) = found.pairs.latents, found.pairs.hypers
    total = np.zeros(size * size)
    where = np.arange(latents * latents).reshape(latents, latents)
    found.numbered(where[a, b].reshape(-1), (e * size + f).reshape(-1)).add(
        total, weight, moment.reshape(-1)
    )
    want = np.zeros((size, size))
    for i in range(len(row)):
        for j in np.flatnonzero(row == row[i]):
            share = weight[row[i]] * moment[column[i], column[j]]
            want[hyper[i], second[j]] += share
            want[second[j], hyper[i]] += share
    np.testing.assert_allclose(total.reshape(size, size), np.triu(want), rtol=1e-12, atol=1e-12)
