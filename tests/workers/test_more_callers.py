"""Audits, designs and searches for several maxima: the same bits from this process, threads,
processes, and a process that ends on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lgmdsl as lgm
from lgmdsl.learning.search import ahead
from lgmdsl.workers.pool import Pool
from lgmdsl.workers.workers import Workers
from tests.workers.models import (
    COUNTS,
    Kept,
    Killing,
    alone,
    audited,
    counts,
    designed,
    others_alone,
    searched,
)

Take = Callable[[Any], None]


def same(jobs: object) -> None:
    fit, design, audits = others_alone()
    shared = searched(jobs=jobs)
    assert shared == fit and shared.learning == fit.learning
    assert shared.log_evidence == fit.log_evidence
    made = designed(jobs=jobs)
    assert made.queries == design.queries and made.course == design.course
    assert audited(alone()[1], jobs=jobs) == audits


@pytest.mark.thorough
def test_threads_compute_the_same_bits() -> None:
    with ThreadPoolExecutor(2) as executor:
        same(executor)


@pytest.mark.thorough
def test_processes_compute_the_same_bits_whoever_ends(crew: Take) -> None:
    """One of two ends in the searches, in the design (at its second block) and in the audits."""
    seen: list[str] = []
    wanted = {"led": 3, "scored": 11, "computed": 5}

    def kill(payload: Any, _: int) -> bool:
        name = payload.call.__name__
        seen.append(name)
        return seen.count(name) == wanted[name]

    pool = Killing(2, kill, 3)
    crew(Kept(pool))
    try:
        same(2)
    finally:
        pool.close()
    assert pool.kills == 3


@pytest.mark.thorough
def test_an_audit_of_one_point_is_shared_by_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from lgmdsl.assess.importance import draws

    monkeypatch.setattr(draws, "ENTRIES", 4000)  # 100 draws of 40 rows
    names = watched(monkeypatch)
    fixed = lgm.fit(lgm.loads(COUNTS), counts(), "laplace", fixed={"s": 0.7})
    plain = audited(fixed, (False,))
    with ThreadPoolExecutor(2) as executor:
        assert audited(fixed, (False,), jobs=executor) == plain
    assert sum("audit by 300 draws" in name for name in names) > 5


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all tasks that are sent."""
    names: list[str] = []
    outcomes = Workers.outcomes

    def watching(self: Workers, tasks: Any) -> Any:
        names.extend(t.name for t in tasks)
        return outcomes(self, tasks)

    monkeypatch.setattr(Workers, "outcomes", watching)
    return names


@pytest.mark.thorough
def test_searches_that_lead_to_nothing_new_are_not_made_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, answers = watched(monkeypatch), list[bool]()
    ask = ahead.Ahead.leads_nowhere

    def asked(self: ahead.Ahead, *given: Any) -> bool:
        answers.append(ask(self, *given))
        return answers[-1]

    monkeypatch.setattr(ahead.Ahead, "leads_nowhere", asked)
    with ThreadPoolExecutor(2) as executor:
        assert searched(jobs=executor).learning == others_alone()[0].learning
    assert sum("the search from s = " in name for name in names) >= 7
    assert sum(answers) >= 5 and not all(answers)  # one leads to a maximum of its own


def test_few_candidates_are_scored_here(monkeypatch: pytest.MonkeyPatch) -> None:
    names = watched(monkeypatch)
    with ThreadPoolExecutor(2) as executor:
        made = designed(jobs=executor, score="random")
        assert made.queries == designed(score="random").queries
    assert not names


@pytest.mark.thorough
def test_what_is_no_jobs_is_refused_before_the_work() -> None:
    for call in (designed, lambda jobs: alone()[1].audit(jobs=jobs)):
        with pytest.raises(lgm.MethodError, match="`jobs` must be") as caught:
            call(jobs=0)
        assert caught.value.codes == ("E108",)


@pytest.mark.thorough
def test_an_interrupt_ends_a_design_with_its_queries(crew: Take) -> None:
    """While scores are on their way."""

    class Interrupting(Pool):
        def submit(self, fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
            if len(done) == 4:
                raise KeyboardInterrupt
            return super().submit(fn, *args, **named)

    done: list[int] = []
    crew(Interrupting(1))
    made = designed(jobs=2, on_query=lambda k, _: done.append(k))
    assert made.interrupted and made.queries == others_alone()[1].queries[:4]
