"""Blocks: where a re-fit ends, one variance computation a block, the same digits when resumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.acquisition import refit as refitting
from lgmdsl.acquisition import sequence as module
from lgmdsl.acquisition.candidates import PoolMarginals
from lgmdsl.acquisition.refit import conditioned, refit
from lgmdsl.acquisition.scores import score as scores_of
from lgmdsl.acquisition.sequence import BlockEnd, Query, Settings, sequence
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.objectives.super_gaussian import super_gaussian
from lgmdsl.engines.dense import precision
from lgmdsl.engines.shared.conditioned import DenseConditioned
from tests.acquisition.pools import Small, small


def events(made: Small, settings: Settings, asked: bool = True) -> list[Query | BlockEnd]:
    fit = made.fit()
    oracle = made.oracle["y"].__getitem__ if asked else None
    return list(sequence(made.pool(fit), fit.weight, settings, oracle))


def queries(found: list[Query | BlockEnd]) -> list[Query]:
    return [e for e in found if isinstance(e, Query)]


@pytest.mark.few(9)
@pytest.mark.parametrize("name", ["gaussian", "laplace", "mixed", "constrained"])
@pytest.mark.parametrize("kind", ["uncertainty", "information", "random"])
def test_with_many_outer_iterations_a_block_ends_in_the_fit_of_its_cases(
    name: str, kind: str
) -> None:
    made = small(name)
    found = events(made, Settings(kind, steps=4, block=4, outer=60))
    last = found[-1]
    assert isinstance(last, BlockEnd) and last.included == 4
    chosen = [q.row for q in queries(found)]
    data = {
        "X": np.vstack([made.data["X"], made.candidates["X"][chosen]]),
        "y": np.r_[made.data["y"], made.oracle["y"][chosen]],
    }
    fit = lgm.fit(made.model, data, "double-loop", tol=1e-12)
    assert last.log_evidence == pytest.approx(fit.log_evidence, rel=1e-9)
    assert np.allclose(last.latent_mean, fit.posterior.conditioned.latent_mean, atol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_one_outer_iteration_raises_the_bound_and_comes_near(name: str) -> None:
    """The bound after K inclusions with kept widths, after the re-fit, and at the optimum."""
    made = small(name)
    fit = made.fit()
    pool, rows = made.pool(fit), [2, 5, 8]
    labels = [float(made.oracle["y"][i]) for i in rows]
    start = pool.with_cases([], []).engine.condition(fit.weight, fit.shift)
    assert not isinstance(start, Failed)
    kept = PoolMarginals(pool, start, pool.linear)
    for i, y in zip(rows, labels, strict=True):
        kept.join(i, y)
    problem = pool.with_cases(rows, labels)
    before = problem.engine.condition(tuple(kept.weight), tuple(kept.shift))
    assert not isinstance(before, Failed)
    # h(gamma) by brute force: the highest of -x / gamma - 2 g(x).
    height, x = 0.0, np.r_[np.linspace(0.0, 1.0, 20_001), np.geomspace(1.0, 1e4, 40_001)]
    for site, weights in zip(super_gaussian(problem), kept.weight, strict=True):
        for j, w in enumerate(weights):
            taken = cast(Any, site).take(np.full(len(x), j))
            height += float(np.max(-x * w - 2.0 * taken.g(x)[0]))
    start_of_refit = before.log_normaliser - 0.5 * height
    one = refit(problem, *kept.rows(), 1).bound
    two = refit(problem, *kept.rows(), 2).bound
    many = refit(problem, *kept.rows(), 60).bound
    assert start_of_refit < one < two <= many + 1e-10
    assert many - one < 0.2 * (many - start_of_refit)


def test_scores_within_a_block_are_those_of_conditioning_anew() -> None:
    """Each query is the best by scores computed from scratch, with the widths kept so far."""
    made = small("gaussian", candidates=20)
    fit = made.fit()
    pool = made.pool(fit)
    for kind in ("uncertainty", "information"):
        found = queries(events(made, Settings(kind, steps=5, block=5)))
        rows: list[int] = []
        weight, shift = list(fit.weight), list(fit.shift)
        for query in found:
            problem = pool.with_cases(rows, [float(made.oracle["y"][i]) for i in rows])
            q = problem.engine.condition(tuple(weight), tuple(shift))
            assert not isinstance(q, Failed)
            left = np.setdiff1d(np.arange(20), rows)
            mean, variance = q.project(pool.candidates)
            scores = scores_of(kind, pool.make, mean[left], variance[left])
            assert query.row == left[np.argmax(scores)]
            assert query.score == pytest.approx(scores.max(), rel=1e-8)
            start = fit.posterior.conditioned
            kept = PoolMarginals(pool, start, pool.linear)
            rows.append(query.row)
            for i in rows:
                kept.join(i, float(made.oracle["y"][i]))
            weight, shift = kept.weight, kept.shift


def test_a_block_computes_variances_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the model's rows by free_variance, of the candidates by project: once each in a block."""
    counts = {"model": 0, "candidates": 0}
    variance = precision.PrecisionConditioned.free_variance
    project = DenseConditioned.project

    def counted(self: Any) -> Any:
        counts["model"] += 1
        return variance(self)

    def projected(self: Any, *given: Any) -> Any:
        counts["candidates"] += 1
        return project(self, *given)

    made = small("gaussian")
    fit = made.fit()
    pool = made.pool(fit)
    monkeypatch.setattr(precision.PrecisionConditioned, "free_variance", counted)
    monkeypatch.setattr(DenseConditioned, "project", projected)
    settings = Settings("uncertainty", steps=9, block=3)
    list(sequence(pool, fit.weight, settings, made.oracle["y"].__getitem__))
    assert counts == {"model": 3, "candidates": 3}


def test_the_seed_orders_random_and_nothing_else() -> None:
    made = small("gaussian")

    def chosen(kind: str, seed: int) -> list[int]:
        return [q.row for q in queries(events(made, Settings(kind, 6, 2, seed)))]

    assert chosen("random", 1) == chosen("random", 1) != chosen("random", 2)
    assert chosen("information", 1) == chosen("information", 2)
    assert all(q.score is None for q in queries(events(made, Settings("random", 3, 2))))


@pytest.mark.parametrize("kind", ["uncertainty", "information", "random"])
def test_all_candidates_can_be_chosen_and_none_twice(kind: str) -> None:
    made = small("gaussian", candidates=7)
    for asked in (True, False):
        found = queries(events(made, Settings(kind, 7, 3), asked))
        assert sorted(q.row for q in found) == list(range(7))
        assert all((q.label is not None) == asked for q in found)


def resumed(made: Small, settings: Settings, found: list[Any], at: int) -> Iterator[Any]:
    fit = made.fit()
    seen = found[:at]
    refits = [e for e in seen if isinstance(e, BlockEnd) and e.included % settings.block == 0]
    weight = refits[-1].weight if refits else fit.weight
    settled = refits[-1].included if refits else 0
    oracle = made.oracle["y"].__getitem__
    return sequence(made.pool(fit), weight, settings, oracle, queries(seen), settled)


def test_any_resumption_gives_the_same_digits() -> None:
    made = small("laplace")
    settings = Settings("information", steps=7, block=3)
    whole: list[Any] = events(made, settings)
    for at in range(len(whole)):
        rest = list(resumed(made, settings, whole, at))
        for ours, theirs in zip(rest, whole[-len(rest) :], strict=True):
            if isinstance(theirs, Query):
                assert ours == theirs
            else:
                assert ours.log_evidence == theirs.log_evidence
                assert np.array_equal(ours.latent_mean, theirs.latent_mean)


def test_no_more_queries_than_open_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every variance is an estimate below 0 there is nothing to choose by."""
    made = small("gaussian")
    fit = made.fit()
    pool = made.pool(fit)
    below = np.zeros(12), np.full(12, -1.0)
    monkeypatch.setattr(DenseConditioned, "project", lambda self, predictor: below)
    settings = Settings("uncertainty", 3, 3)
    assert list(sequence(pool, fit.weight, settings, made.oracle["y"].__getitem__)) == []


def test_negative_variances_of_model_sites_are_repaired_before_the_refit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = small("gaussian")
    fit = made.fit()
    pool = made.pool(fit)
    variance = precision.PrecisionConditioned.free_variance
    monkeypatch.setattr(
        precision.PrecisionConditioned,
        "free_variance",
        lambda self: [0.05 * v for v in variance(self)],
    )
    seen: list[float] = []

    def watching(problem: Any, mean: Any, variances: Any, *more: Any) -> Any:
        seen.extend(float(v.min()) for v in variances)
        return refit(problem, mean, variances, *more)

    monkeypatch.setattr(module, "refit", watching)
    settings = Settings("random", 8, 4)
    list(sequence(pool, fit.weight, settings, made.oracle["y"].__getitem__))
    assert len(seen) == 2 and min(seen) >= 0.0


def test_where_newton_s_curvatures_fail_those_of_the_widths_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = small("laplace")
    fit = made.fit()
    problem = made.pool(fit).with_cases([], [])
    q = conditioned(problem, fit.weight)
    given = (q.mean, q.variance, q.weight, q.shift, 1)
    want = refit(problem, *given).bound

    gone = Failed("improper")

    def failing(engine: Any, penalties: Any, *more: Any) -> Any:
        return maximise_mean(engine, penalties, *more) if penalties[0].majorised else gone

    monkeypatch.setattr(refitting, "maximise_mean", failing)
    assert refit(problem, *given).bound == pytest.approx(want, rel=1e-9)
    monkeypatch.setattr(refitting, "maximise_mean", lambda *_: gone)
    with pytest.raises(lgm.NumericalError) as caught:
        refit(problem, *given)
    assert caught.value.codes == ("E601",) and "improper" in str(caught.value)
    with pytest.raises(lgm.NumericalError):
        conditioned(problem, tuple(-100.0 * np.ones_like(w) for w in fit.weight))
