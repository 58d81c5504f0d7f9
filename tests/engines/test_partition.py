"""Groups of latents and rows against transitive closures, and what is laid out by them."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.shared.partition import Partition, partition, site_of_rows, touches

RNG = np.random.default_rng(0)


def test_groups_are_what_neither_rows_nor_the_prior_join() -> None:
    for _ in range(30):
        sites, latents = RNG.integers(1, 9, 2)
        line, column = RNG.integers(0, sites, 6), RNG.integers(0, latents, 6)
        i, j = RNG.integers(0, latents, (2, 3))
        joined = np.eye(sites + latents, dtype=bool)
        joined[line, sites + column] = joined[sites + column, line] = True
        joined[sites + i, sites + j] = joined[sites + j, sites + i] = True
        for _ in range(sites + latents):
            joined = joined @ joined
        of_latents, of_sites = partition((line, column), sites, latents, (i, j))
        same = of_latents.group[:, None] == of_latents.group
        assert (same == joined[sites:, sites:]).all()
        assert set(of_latents.group) == set(range(of_latents.count)) and of_sites.count > 0
        touching = of_sites.group[:, None] == of_latents.group
        assert (touching == joined[:sites, sites:]).all()
        assert ((of_sites.group < 0) == ~joined[:sites, sites:].any(axis=1)).all()


@pytest.mark.parametrize(
    "group", [[2, 0, -1, 0, 1, 2, 2], [0, 0, 1, 1], [1, 1, 0, 0], [-1, -1], [0, 0, 1]]
)
def test_members_stand_in_their_group(group: list[int]) -> None:
    count = max(group) + 1
    known = Partition(np.array(group), count)
    lists = [[k for k, g in enumerate(group) if g == n] for n in range(count)]
    assert known.sizes.tolist() == [len(x) for x in lists]
    assert known.order.tolist() == [k for members in lists for k in members]
    assert known.shared.tolist() == [k for k, g in enumerate(group) if g < 0]
    for n, members in enumerate(lists):
        assert known.order[known.starts[n] : known.starts[n + 1]].tolist() == members
        padding = [len(group)] * (known.width - len(members))
        assert known.table[n].tolist() == members + padding
        assert known.place[members].tolist() == list(range(len(members)))
    x = RNG.normal(size=(len(group), 2)) + 3.0
    padded = known.padded(x)
    assert padded.shape == (count, known.width, 2)
    for n, members in enumerate(lists):
        assert (padded[n, : len(members)] == x[members]).all()
        assert not padded[n, len(members) :].any()
    back = known.flat(padded)
    inside = np.array(group) >= 0
    assert (back[inside] == x[inside]).all() and not back[~inside].any()
    assert known.regular == (group == [0, 0, 1, 1])


def test_what_groups_touch() -> None:
    for _ in range(20):
        group, column = RNG.integers(0, 4, 12), RNG.integers(0, 5, 12)
        known = touches(group, column, 5, 5)
        for g in range(5):
            own = known.columns[known.starts[g] : known.starts[g + 1]]
            assert own.tolist() == sorted(set(column[group == g]))
        assert (known.columns[known.starts[group] + known.place] == column).all()
    none = np.zeros(0, dtype=np.int64)
    assert touches(none, none, 3, 0).starts.tolist() == [0, 0, 0, 0]


def test_rows_of_vector_sites_are_one_site() -> None:
    predictors = (Predictor({}, np.zeros(2)), Predictor({}, np.zeros(6), 3))
    assert site_of_rows(predictors).tolist() == [0, 1, 2, 2, 2, 3, 3, 3]
