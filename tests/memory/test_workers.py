"""Workers get the caller's memory budget, whatever their own machine or control group has."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from lgmdsl.workers.opened import GivenExecutor
from lgmdsl.workers.pool import Pool
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers


def test_the_budget_goes_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LGM_MEMORY", raising=False)
    monkeypatch.setattr("lgmdsl.memory._half", lambda: 10_000_000_000)
    asked = [Task("the budget", os.getenv, ("LGM_MEMORY",))]
    workers = Workers(Pool(1))
    try:
        assert workers.results(asked) == ["10000000000"]
    finally:
        workers.close()
    with ThreadPoolExecutor(1) as executor:  # this process has it already
        assert Workers(GivenExecutor(executor)).results(asked) == [None]
