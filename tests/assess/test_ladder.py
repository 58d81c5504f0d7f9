"""Which estimator a ladder takes: by what each declares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lgmdsl.accuracy.better import Unknown
from lgmdsl.assess import ladder
from lgmdsl.assess.estimator import (
    Drawing,
    Estimator,
    ExactDraws,
    MixturePoint,
    NotEstimated,
    allotted,
)
from lgmdsl.assess.grouped.draws import ByGroups
from lgmdsl.assess.ladder import Gap, drawn
from lgmdsl.assess.modes.weighed import FromModes
from lgmdsl.assess.sampling.draws import Chains
from lgmdsl.contract.linear import LinearGaussian
from tests.assess.test_grouped import INTERCEPTS, SITES, fitted, intercepts


def point(share: float = 1.0) -> MixturePoint:
    return MixturePoint(share, (), LinearGaussian((), (), None), lambda: None)  # type: ignore[arg-type,return-value]


class Fake(Estimator):
    """Draws that are worth a share of their number."""

    def __init__(
        self, worth: float, r_hat: float = 1.0, able: bool = True, evidence: float = math.nan
    ) -> None:
        super().__init__()
        self.worth, self.r_hat, self.able, self.evidence = worth, r_hat, able, evidence
        self.asked = 0

    def applies(self, point: MixturePoint) -> bool:
        return self.able

    def cost(self, point: MixturePoint) -> float:
        return 1.0 / self.worth

    def log_evidence(self, point: MixturePoint) -> float:
        self.asked += 1
        if self.evidence == math.inf:
            raise NotEstimated("no")
        return self.evidence

    def at(self, point: MixturePoint, drawing: Drawing) -> ExactDraws | None:
        self.asked += 1
        if not self.worth:
            raise NotEstimated("no")
        n = drawing.count
        if n > drawing.budget - drawing.spent:
            return None
        z = np.full((n, 1), float(drawing.number))
        return ExactDraws(
            z, np.zeros(n, np.int64), 1, self.worth * n, self.r_hat, n, str(self.worth)
        )


def basis(*estimators: Fake, least: float = 0.0) -> str | None:
    found = drawn(estimators, lambda: (point(),), (1.0,), 2000, least=least)
    return None if found is None else found.basis


def test_the_first_that_applies_and_is_worth_enough_is_taken() -> None:
    second = Fake(0.9)
    assert basis(Fake(0.3), second) == "0.3" and not second.asked
    assert basis(Fake(0.3, able=False), second) == "0.9"
    assert basis(Fake(0.21), Fake(0.22)) == "0.22"  # worth too little of their number
    assert basis(Fake(0.21), Fake(0.2)) == "0.21"
    assert basis(Fake(0.0), second) == "0.9"
    assert basis(Fake(0.9, r_hat=1.2), Fake(0.5)) == "0.5"  # chains that disagree
    assert basis(Fake(0.9, r_hat=1.2), Fake(0.5, r_hat=1.3)) == "0.9"
    assert basis(Fake(0.0)) is None and basis(Fake(1.0, able=False)) is None
    assert basis(Fake(0.3), second, least=700.0) == "0.9"


def test_draws_of_a_mixture() -> None:
    """In proportion to the shares, worth what a stratified mean is; within the budget."""
    shares = (0.6, 0.39995, 0.00005)
    points = [point(s) for s in shares]
    out = Fake(0.5, r_hat=1.02).draws(points, shares, 1000)
    assert out is not None and np.bincount(out.point).tolist() == [600, 400]
    np.testing.assert_array_equal(out.z[:, 0], out.point)
    whole = sum(shares[:2])
    worth = whole**2 / (shares[0] ** 2 / 300.0 + shares[1] ** 2 / 200.0)
    assert out.ess == pytest.approx(worth) and out.r_hat == pytest.approx(1.02)
    assert out.operations == 1000
    assert Fake(0.5).draws(points, shares, 1000, 999.0) is None
    assert Fake(0.5).draws(points, shares, 1000, 1000.0) is not None


def test_draws_are_shared_out_whole() -> None:
    for n in (1, 7, 4000):
        counts = allotted([0.2, 0.5, 0.3], n)
        assert counts.sum() == n and (np.abs(counts - n * np.array([0.2, 0.5, 0.3])) <= 1.0).all()
    assert allotted([2.0, 2.0], 10).tolist() == [5, 5]


def test_gaps_are_of_the_first_estimator_with_an_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MixturePoint, "of", lambda *_: point())
    at: Any = (None, {}, None, 1.5)
    assert Gap((Fake(1.0, evidence=2.0),))(*at) == 0.5
    several = (Fake(1.0, able=False, evidence=9.0), Fake(1.0), Fake(1.0, evidence=math.inf))
    assert Gap((*several, Fake(1.0, evidence=4.0)))(*at) == 2.5
    assert math.isnan(Gap(several)(*at))
    assert Gap((Fake(0.5), Fake(0.25, able=False), Fake(0.1))).cost(None, None) == 2.0  # type: ignore[arg-type]
    assert Gap((Fake(0.5, able=False),)).cost(None, None) == math.inf  # type: ignore[arg-type]


def test_gaps_end_with_second_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MixturePoint, "of", lambda *_: point())
    asked = []

    def series(*arguments: object, **_: object) -> None:
        asked.append(arguments)
        if len(asked) == 2:
            raise Unknown("no")

    monkeypatch.setattr(ladder, "better", series)
    gap = Gap((Fake(1.0),), "plan", 3)  # type: ignore[arg-type]
    assert gap("problem", {}, "q", 1.5) == 0.0  # type: ignore[arg-type]
    assert asked == [("plan", {}, "q", 1.5, 3)]
    assert math.isnan(gap("problem", {}, "q", 1.5))  # type: ignore[arg-type]


def test_what_estimators_apply_to() -> None:
    """Groups of log-concave sites, modes of few latents, chains of all; those of a student's rows,
    which are not log-concave, are not taken apart."""
    data = intercepts("count", 20, 4, 1.0)
    text = INTERCEPTS.format(kind="count", site=SITES["count"], sd=1.0)
    heavy = fitted(text, data)
    light = fitted(text.replace("student_t(mean = level, scale = 0.5, df = 4)",
                                "normal(mean = level, sd = 0.5)"), data)  # fmt: skip
    few = intercepts("count", 30, 1, 1.0)
    many = fitted(text, few)
    at = [
        MixturePoint(1.0, f.canonical.sites(f.theta), f.canonical.linear(f.theta), lambda: None)  # type: ignore[arg-type,return-value]
        for f in (heavy, light, many)
    ]
    assert [ByGroups().applies(p) for p in at] == [False, True, False]
    assert [FromModes().applies(p) for p in at] == [True, False, False]
    assert [FromModes(several=False).applies(p) for p in at] == [True, True, False]
    assert all(Chains().applies(p) for p in at)
