"""Admixtures: conformance, slopes in the topics, one topic, words that no topic has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import gammaln

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.contract.questions import Expected, ExpectedSlopes
from lgmdsl.learning.starts import first as starts
from lgmdsl.learning.starts.first import EVEN, SMOOTH, Allocation, allocated
from lgmdsl.sites.vector import admixture
from lgmdsl.sites.vector.admixture import AdmixtureSoftmax
from lgmdsl.testing.site_checks import check_site


def texts(k: int = 3, words: int = 4, seed: int = 0) -> AdmixtureSoftmax:
    """Rows of 3, 2, 5 and no words."""
    rng = np.random.default_rng(seed)
    y = rng.multinomial([3, 2, 5, 0], np.full(words, 1.0 / words)).astype(float)
    return AdmixtureSoftmax(y, rng.dirichlet(np.ones(words), size=k))


@pytest.mark.thorough
def test_it_conforms() -> None:
    check_site(texts(), predictors=3)
    check_site(texts(2, 3, seed=1), predictors=2)


def test_its_density_sums_over_the_words_of_every_topic() -> None:
    """Draws that are priced by rows alone took a minute of 120 texts."""
    site = texts(3)
    assert site.evaluations == 3 * np.count_nonzero(site.y) > len(site)


def test_it_is_a_multinomial_of_mixed_words() -> None:
    site, rng = texts(), np.random.default_rng(3)
    s = rng.normal(size=(4, 3))
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True) @ site.emission
    known = stats.multinomial.logpmf(site.y, site.trials.astype(int), p)
    np.testing.assert_allclose(site.log_density(s), known, rtol=1e-12, atol=1e-13)
    many = np.stack([s, 2.0 * s])
    value, slope = site.sloped(many)
    for k in (0, 1):
        at = site.pointwise(many[k])
        np.testing.assert_allclose(value[k], at.value, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(slope[k], at.slope, rtol=1e-10, atol=1e-12)


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows taken a few words at a time, as long texts are."""
    rng = np.random.default_rng(0)
    y = rng.poisson(1.0, (9, 6)).astype(float)
    y[[2, 8]] = 0.0
    site, s = AdmixtureSoftmax(y, rng.dirichlet(np.ones(6), size=2)), rng.normal(size=(9, 2))
    whole, v = site.pointwise(s), np.broadcast_to(np.eye(2), (9, 2, 2))
    slopes = site.moved_slopes(s, v, s)["emission"]
    for limit, value in (
        ("_LONG", 0),
        ("_ENTRIES_PER_PASS", 8),
    ):  # a row's words multiplied at once
        monkeypatch.setattr(admixture, limit, value)
        few = site.pointwise(s)
        for name in ("value", "slope", "curvature", "third"):
            np.testing.assert_allclose(getattr(few, name), getattr(whole, name), atol=1e-12)
    np.testing.assert_allclose(site.moved_slopes(s, v, s)["emission"], slopes, rtol=1e-12)


def test_slopes_in_the_topics() -> None:
    """Of the log density, of a bound, of the rule, and of what Laplace's evidence asks."""
    site, rng = texts(), np.random.default_rng(2)
    s, move, root = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3))
    v = root @ root.transpose(0, 2, 1)

    def moved(emission: Array) -> AdmixtureSoftmax:
        return dataclasses.replace(site, emission=emission)

    def laplace(emission: Array) -> float:
        at = moved(emission).pointwise(s, v)
        more = 0.5 * np.einsum("nij,nij->n", at.curvature, v) + (move * at.slope).sum(axis=1)
        return float((at.value + more).sum())

    def through(rule: str, emission: Array) -> float:
        lift = bound(rule, Expected, AdmixtureSoftmax).lift(moved(emission))
        assert isinstance(lift, Expected)
        return float(lift.expected(s, v).value.sum())

    found = {"laplace": site.moved_slopes(s, v, move)["emission"]}
    asked: dict[str, Callable[[Array], float]] = {
        "laplace": laplace,
        "density": lambda e: float(moved(e).log_density(s).sum()),
    }
    found["density"] = site.parameter_slopes(s)["emission"]
    for rule in ("tilted", "bohning", "quadrature"):
        lift = bound(rule, Expected, AdmixtureSoftmax).lift(site)
        assert isinstance(lift, ExpectedSlopes)
        found[rule] = lift.expected_slopes(s, v)["emission"]
        asked[rule] = partial(through, rule)
    for name, value in asked.items():
        for at in np.ndindex(3, 4):
            step = np.zeros((3, 4))
            step[at] = 1e-5 * site.emission[at]
            slope = (value(site.emission + step) - value(site.emission - step)) / (2 * step[at])
            assert found[name][at] == pytest.approx(slope, rel=1e-6, abs=1e-6), (name, at)


def test_expected_counts() -> None:
    """Each word is given to the topics in full; where one topic alone has a word, to that one."""
    site, s = texts(), np.random.default_rng(1).normal(size=(4, 3))
    counts = site.emission * site.parameter_slopes(s)["emission"]
    np.testing.assert_allclose(counts.sum(axis=0), site.y.sum(axis=0), rtol=1e-12)
    apart = AdmixtureSoftmax(site.y, np.array([[0.5, 0.5, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]))
    counts = apart.emission * apart.parameter_slopes(s)["emission"]
    np.testing.assert_allclose(counts[0, :2], site.y.sum(axis=0)[:2])
    assert not counts[1:, :2].any() and not counts[0, 2:].any()
    assert np.isfinite(apart.pointwise(s).curvature).all()


def test_one_topic_leaves_nothing_to_learn() -> None:
    site = texts(1)
    at = site.pointwise(np.array([[3.0], [0.0], [-700.0], [1e4]]))
    known = stats.multinomial.logpmf(site.y, site.trials.astype(int), site.emission[0])
    np.testing.assert_allclose(at.value, known, rtol=1e-9)
    assert np.abs(at.slope).max() < 1e-12 and np.abs(at.curvature).max() < 1e-12


def mixed(seed: int, topics: int, texts: int, sparse: float = 0.1) -> tuple[Array, Array]:
    """Counts of texts of several topics each, and the topics."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(80, sparse), size=topics)
    shares = rng.dirichlet(np.full(topics, 0.4), size=texts)
    return np.stack([rng.multinomial(40, p @ words) for p in shares]).astype(float), words


def test_topics_start_apart() -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(12, 0.1), size=3)
    y = np.stack([rng.multinomial(60, topics[i % 3]) for i in range(30)]).astype(float)
    found = allocated(sp.csr_array(y), 3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    away = np.abs(found[:, None] - topics).sum(axis=2)
    assert sorted(away.argmin(axis=1)) == [0, 1, 2] and found.min() > 0.0
    assert np.isfinite(allocated(sp.csr_array((4, 5)), 2)).all()
    assert np.isfinite(allocated(sp.csr_array(np.eye(1, 5)), 7)).all()


def test_allocations_climb() -> None:
    """The bound of an allocation never falls, and it is one: of a row of one word, whose likelihood
    is the mean share of each topic times its probability, log sum_k p_kw / K."""
    counts = sp.csr_array(mixed(1, 4, 50)[0])
    now = Allocation.of(counts, np.random.default_rng(0).dirichlet(np.ones(80), size=4))
    heights = []
    for _ in range(20):
        now = now.after(counts, (1.0,))
        heights.append(now.bound)
    assert (np.diff(heights) > 0.0).all()
    one, word = sp.csr_array(np.eye(1, 80)), np.random.default_rng(3).dirichlet(np.ones(80), size=4)
    prior = SMOOTH * np.log(word).sum() + 4 * gammaln(EVEN) - gammaln(4 * EVEN)
    even = Allocation(word, EVEN + (word[:, 0] / word[:, 0].sum())[None])
    bound = even.after(one, (1.0,)).bound - prior
    assert bound < np.log(word[:, 0].mean()) < bound + 1.0


@pytest.mark.thorough
def test_topics_start_where_the_highest_of_many_allocations_ends() -> None:
    """Not where the first one does: of eight topics that is dozens of nats lower."""
    gained = []
    for seed in range(3):
        counts = sp.csr_array(mixed(seed, 8, 120, 0.3)[0])
        roots = starts._roots(counts)
        far = starts._grouped(counts, roots, starts._far_apart(counts, roots, 8))
        ends = [
            Allocation.of(counts, begun).after(counts, (1.0,) * 200).bound
            for begun in (far, allocated(counts, 8))
        ]
        gained.append(ends[1] - ends[0])
    assert min(gained) > 10.0 and max(gained) > 40.0


def test_the_highest_allocation_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "HEAT", (1.0,) * 40)
    monkeypatch.setattr(starts, "RACE", ((1, 1),))
    monkeypatch.setattr(starts, "MOST", 0)
    counts = sp.csr_array(mixed(0, 8, 120, 0.3)[0])
    ends = {}
    for many in (1, 2, 4, 12):  # the same beginnings and more
        monkeypatch.setattr(starts, "BEGUN", many)
        topics = allocated(counts, 8)
        ends[many] = Allocation.of(counts, topics).after(counts, (1.0,) * 20).bound
    heights = list(ends.values())
    assert (np.diff(heights) > -1.0).all() and heights[-1] > heights[0] + 10.0


@pytest.mark.thorough
def test_pieces_and_samples_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are the whole; where rows are many, a sample of them decides where to begin."""
    counts, words = mixed(2, 3, 200)
    whole = allocated(sp.csr_array(counts), 3)
    monkeypatch.setattr(starts, "ENTRIES_PER_PASS", 30)
    np.testing.assert_allclose(allocated(sp.csr_array(counts), 3), whole, atol=1e-8)
    monkeypatch.setattr(starts, "ENTRIES", 1000)
    for found in (whole, allocated(sp.csr_array(counts), 3)):
        away = 0.5 * np.abs(found[:, None] - words).sum(axis=2)
        assert sorted(away.argmin(axis=1)) == [0, 1, 2] and away.min(axis=1).max() < 0.2


def test_compiled_words_are_those_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, slopes and curvatures, with rows without words, words that one topic has, that next
    to none and that none has."""
    rng = np.random.default_rng(5)
    y, emission = rng.poisson(0.7, (12, 9)).astype(float), rng.dirichlet(np.full(9, 0.3), size=4)
    y[3] = 0.0
    emission[1:, 2] = 0.0
    s = 3.0 * rng.normal(size=(12, 4))
    s[5] *= 200.0  # beyond underflow
    barred = emission.copy()
    barred[:, 7] = 0.0
    for topics in (emission, barred):
        site = AdmixtureSoftmax(y, topics)
        answers = []
        for least in (10**9, 0):
            monkeypatch.setattr(admixture, "_COMPILED", least)
            answers.append((*site.gain(s), *site.sloped(np.stack([s, 0.5 * s]))))
        for plain, compiled in zip(*answers, strict=True):
            np.testing.assert_allclose(compiled, plain, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ({"emission": np.full((2, 4), 0.25)}, "E301", "3 topics over 4 words"),
        ({"emission": np.full((3, 4), 0.2)}, "E303", "must be a distribution"),
        ({"y": [1.0, 0.5, 0.0, 0.0]}, "E303", "a count"),
        ({"y": 2.0}, "E301", "3 topics over 0 words"),
        ({"variance": np.eye(2)}, "E301", "`variance` has shape"),
        ({"emission": np.tile([0.5, 0.5, 0.0, 0.0], (3, 1))}, "E303", "cannot occur"),
        ({"rule": "jaakkola"}, "E504", ""),
    ],
)
def test_refusals_of_the_public_call(call: dict[str, object], code: str, said: str) -> None:
    given = {
        "y": [2, 0, 1, 1], "mean": np.zeros(3), "variance": np.eye(3),
        "emission": np.full((3, 4), 0.25), **call,
    }  # fmt: skip
    with pytest.raises(lgm.LgmError) as raised:
        lgm.sites.expected("admixture.softmax", **given)
    assert raised.value.codes == (code,) and said in str(raised.value)
