"""The rule of the verdict on findings made up for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.moments import Corrected, Functional
from lgmdsl.assess.importance.verdict import Outcome, Verdict, judge


def verdict(
    shift: list[float],
    error: list[float],
    judged: bool = True,
    stretch: float = 1.0,
    low: tuple[float, float] = (0.0, 0.0),
    **change: Any,
) -> Verdict:
    """Of means that are off by so much; of sds, or 5 % points and their errors, of the last."""
    size = len(shift)
    one, quantile = np.ones(size), np.zeros((2, 2, size))
    quantile[:, 0, -1] = low
    z = Functional("z", 0.0 * one, one, lambda x: x, judged)
    moments = np.array(shift), one, np.array(shift), np.array(error)
    wider = np.append(one[1:], stretch)
    corrected = Corrected(*moments, wider, 0.01 * one, quantile[0], *quantile)
    given: dict[str, Any] = {
        "draws": 4000, "k_hat": 0.2, "along": {}, "own_size": 3000.0, "proposal": "student-t",
        "effective": 2000.0, "log_evidence": 0.0, "log_evidence_se": 0.0, "functionals": (z,),
        "corrected": {"z": corrected},
    }  # fmt: skip
    return judge(Findings(**{**given, **change}))


@pytest.mark.parametrize(
    ("shift", "error", "outcome"),
    [
        ([0.0, 0.09], [0.01, 0.01], Outcome.trust),
        ([0.0, -0.11], [0.01, 0.01], Outcome.shifted),
        ([0.0, 0.11], [0.01, 0.04], Outcome.undecided),  # no three errors
        ([0.0, 0.09], [0.01, 0.06], Outcome.undecided),  # nothing could be seen
        ([0.05, 0.05], [0.01, 0.09], Outcome.undecided),
        ([0.05, 0.05], [0.01, 0.04], Outcome.trust),
        ([0.4, 9.0], [0.02, 9.0], Outcome.shifted),  # the second says nothing
    ],
)
def test_shifts(shift: list[float], error: list[float], outcome: Outcome) -> None:
    found = verdict(shift, error)
    assert found.outcome is outcome
    assert found.reason == ("draws" if outcome is Outcome.undecided else "")


@pytest.mark.parametrize(("stretch", "trusted"), [(1.09, True), (1.15, False), (0.87, False)])
def test_sds(stretch: float, trusted: bool) -> None:
    """The reported sd is 15 % too large at 0.87, 13 % too small at 1.15."""
    found = verdict([0.0, 0.0], [0.01, 0.01], stretch=stretch)
    assert found.outcome is (Outcome.trust if trusted else Outcome.shifted)
    assert found.farthest is not None and found.farthest.of == "sd" and found.farthest.place == 1


def test_quantiles() -> None:
    calm = ([0.0], [0.01])
    assert verdict(*calm, low=(-0.09, 0.02)).outcome is Outcome.trust
    off = verdict(*calm, low=(-0.2, 0.02))
    assert off.outcome is Outcome.shifted
    assert off.farthest is not None and off.farthest.of == "5 % point"
    assert verdict(*calm, low=(-0.2, 0.1)).outcome is Outcome.undecided
    assert verdict(*calm, low=(0.0, 0.08)).outcome is Outcome.undecided
    assert verdict(*calm, low=(0.0, 0.07)).outcome is Outcome.trust
    assert verdict(*calm, low=(-0.14, 0.01)).outcome is Outcome.trust  # as W609 has it: 0.15 sd
    assert verdict(*calm, low=(-0.16, 0.01)).outcome is Outcome.shifted
    assert verdict(*calm, low=(np.nan, np.nan)).outcome is Outcome.trust  # not computed


def test_exact_draws() -> None:
    """Their verdict does not hang on q's weights, but on whether chains agree."""
    exact: dict[str, Any] = {"proposal": "exact sampler", "k_hat": 2.0}
    assert verdict([0.0], [0.01], **exact).outcome is Outcome.trust
    assert verdict([0.5], [0.01], **exact, r_hat=1.01).outcome is Outcome.shifted
    apart = verdict([0.5], [0.01], **exact, r_hat=1.06)
    assert (apart.outcome, apart.reason) == (Outcome.undecided, "chains")


def test_what_decided_is_told() -> None:
    doubted = verdict([0.08, 0.05], [0.01, 0.15])
    assert doubted.farthest is not None and doubted.farthest.place == 1
    calm = verdict([0.08, 0.05], [0.01, 0.01])
    assert calm.farthest is not None and calm.farthest.place == 0


def test_k_hat() -> None:
    calm = ([0.0], [0.01])
    assert verdict(*calm, k_hat=0.69).outcome is Outcome.trust
    for heavy in ({"k_hat": 0.71}, {"k_hat": np.inf}, {"along": {"predictors": 0.8}}):
        found = verdict(*calm, **heavy)
        assert (found.outcome, found.reason) == (Outcome.undecided, "k-hat")
    assert verdict(*calm, k_hat=0.6, draws=200, own_size=90.0).outcome is Outcome.undecided
    assert verdict([0.5], [0.01], k_hat=3.0).outcome is Outcome.shifted
    assert verdict(*calm, k_hat=-np.inf).k_hat == -np.inf


def test_few_effective_draws_tell_nothing() -> None:
    for effective in (0.0, 1.0, 49.0):
        found = verdict([2.0], [0.001], effective=effective)
        assert (found.outcome, found.reason) == (Outcome.undecided, "draws")
    assert verdict([2.0], [0.001], effective=50.0).outcome is Outcome.shifted


def test_what_is_no_number_is_not_trusted() -> None:
    assert verdict([np.nan], [0.01]).outcome is Outcome.undecided
    assert verdict([0.05], [np.nan]).outcome is Outcome.undecided
    assert verdict([np.nan], [0.01], judged=False).outcome is Outcome.trust


def test_many_means_are_judged_together() -> None:
    """The largest of thousands of exact means lies four errors out."""
    rng = np.random.default_rng(0)
    noise = list(0.03 * rng.normal(size=5000))
    assert max(np.abs(noise)) > 0.1 and 3 * 0.03 < 0.1
    assert verdict(noise, [0.03] * 5000).outcome is Outcome.undecided
    assert verdict([*noise, 0.3], [0.03] * 5001).outcome is Outcome.shifted


def test_of_equal_shifts_the_first_is_named() -> None:
    found = verdict([0.50, 0.52, 0.2], [0.01] * 3)
    assert found.farthest is not None and found.farthest.place == 1
    assert found.farthest.shift == 0.52


def test_tails_need_more_draws_than_means() -> None:
    few: dict[str, Any] = {"effective": 200.0}
    assert verdict([0.5], [0.01], **few).outcome is Outcome.shifted
    several: tuple[dict[str, Any], ...] = ({"stretch": 2.0}, {"low": (0.5, 0.05)}, {})
    for off in several:
        found = verdict([0.0], [0.01], **few, **off)
        assert (found.outcome, found.reason) == (Outcome.undecided, "draws")
