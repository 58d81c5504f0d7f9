"""The rule of the verdict on findings made up for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.moments import Corrected, Functional
from lgmdsl.assess.importance.verdict import Outcome, Verdict, judge


def verdict(shift: list[float], error: list[float], judged: bool = True, **change: Any) -> Verdict:
    size = len(shift)
    one = np.ones(size)
    z = Functional("z", 0.0 * one, one, lambda x: x, judged)
    given: dict[str, Any] = {
        "draws": 4000, "k_hat": 0.2, "along": {}, "own_size": 3000.0, "proposal": "student-t",
        "effective": 2000.0, "log_evidence": 0.0, "log_evidence_se": 0.0, "functionals": (z,),
        "corrected": {"z": Corrected(np.array(shift), one, np.array(shift), np.array(error))},
    }  # fmt: skip
    return judge(Findings(**{**given, **change}))


@pytest.mark.parametrize(
    ("shift", "error", "outcome"),
    [
        ([0.0, 0.2], [0.01, 0.01], Outcome.trust),
        ([0.0, -0.26], [0.01, 0.01], Outcome.shifted),
        ([0.0, 0.26], [0.01, 0.10], Outcome.unreliable),  # no three errors
        ([0.0, 0.24], [0.01, 0.02], Outcome.unreliable),  # may be 0.25
        ([0.1, 0.1], [0.01, 0.09], Outcome.unreliable),
        ([0.1, 0.1], [0.01, 0.07], Outcome.trust),
        ([0.4, 9.0], [0.02, 9.0], Outcome.shifted),  # the second says nothing
    ],
)
def test_shifts(shift: list[float], error: list[float], outcome: Outcome) -> None:
    found = verdict(shift, error)
    assert found.outcome is outcome
    assert found.reason == ("draws" if outcome is Outcome.unreliable else "")


def test_what_decided_is_told() -> None:
    doubted = verdict([0.15, 0.05], [0.01, 0.15])
    assert doubted.farthest is not None and doubted.farthest.place == 1
    calm = verdict([0.15, 0.05], [0.01, 0.01])
    assert calm.farthest is not None and calm.farthest.place == 0


def test_k_hat() -> None:
    calm = ([0.0], [0.01])
    assert verdict(*calm, k_hat=0.69).outcome is Outcome.trust
    for heavy in ({"k_hat": 0.71}, {"k_hat": np.inf}, {"along": {"predictors": 0.8}}):
        found = verdict(*calm, **heavy)
        assert (found.outcome, found.reason) == (Outcome.unreliable, "k-hat")
    assert verdict(*calm, k_hat=0.6, draws=200).outcome is Outcome.unreliable
    assert verdict([0.5], [0.01], k_hat=3.0).outcome is Outcome.shifted
    assert verdict(*calm, k_hat=-np.inf).k_hat == -np.inf


def test_few_effective_draws_tell_nothing() -> None:
    for effective in (0.0, 1.0, 49.0):
        found = verdict([2.0], [0.001], effective=effective)
        assert (found.outcome, found.reason) == (Outcome.unreliable, "draws")
    assert verdict([2.0], [0.001], effective=50.0).outcome is Outcome.shifted


def test_what_is_no_number_is_not_trusted() -> None:
    assert verdict([np.nan], [0.01]).outcome is Outcome.unreliable
    assert verdict([0.1], [np.nan]).outcome is Outcome.unreliable
    assert verdict([np.nan], [0.01], judged=False).outcome is Outcome.trust


def test_many_means_are_judged_together() -> None:
    """The largest of thousands of exact means lies four errors out."""
    rng = np.random.default_rng(0)
    noise = list(0.07 * rng.normal(size=5000))
    assert max(np.abs(noise)) > 0.25 and 3 * 0.07 < 0.25
    assert verdict(noise, [0.07] * 5000).outcome is Outcome.unreliable
    assert verdict([*noise, 0.5], [0.07] * 5001).outcome is Outcome.shifted


def test_of_equal_shifts_the_first_is_named() -> None:
    found = verdict([0.50, 0.52, 0.2], [0.01] * 3)
    assert found.farthest is not None and found.farthest.place == 1
    assert found.farthest.shift == 0.52
