"""The search for a maximum with exact zeros: when it has ended, and that zeros may still change."""

from __future__ import annotations

import pytest

from lgmdsl.contract.status import Status
from lgmdsl.learning.em import sparse_search
from lgmdsl.learning.em.em import EM
from lgmdsl.learning.search.maximise import Maximum
from tests.learning.test_covariances import PRIORS, TEXT, first, real


def searched() -> Maximum:
    objective, at = first(TEXT.format(PRIORS[3]), real())
    em = EM.of(objective, at.theta, "l-bfgs")
    assert em is not None
    return sparse_search.sparse_maximum(em, at)


def test_zeros_are_taken_in_and_out_after_the_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of EM at the start finds others than the maximum has; and short of that maximum
    nothing is said to have converged."""
    known = searched()
    assert known.status is Status.converged
    monkeypatch.setattr(sparse_search, "FIRST", 1)
    again = searched()
    assert again.status is Status.converged
    assert again.at.value == pytest.approx(known.at.value, abs=1e-5)
    assert ((again.at.x == 0.0) == (known.at.x == 0.0)).all()
    monkeypatch.setattr(sparse_search, "STEPS", 0)
    monkeypatch.setattr(sparse_search, "ROUNDS", 1)
    short = searched()
    assert short.at.value < known.at.value - 1e-3
    assert short.status is Status.iteration_limit and "settle" in short.reason
