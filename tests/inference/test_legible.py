"""What an ELBO may be compared with, and which evidence is shown, where rounding eats digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives import elbo as beginning
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.evidence_digits import without_lost_evidence
from lgmdsl_backends.laplace import Laplace
from tests.backends.climbing import TWO, problem


@pytest.fixture
def point() -> ElboPoint:
    given = problem(TWO, "natural-gradient")
    unit = tuple(np.ones_like(m) for m in given.engine.prior_mean)
    found = elbo_at(given, unit, unit)
    assert isinstance(found, ElboPoint) and beginning.resolved(found)
    return found


@pytest.mark.parametrize(
    ("lost_before", "lost_after", "rise", "may"),
    [
        (0.0, 1e-12, -5.0, True),  # resolved both: whatever the rise
        (0.0, 1e-5, 1.0, True),  # a rise that no rounding makes
        (0.0, 1e-5, 1e-4, False),
        (0.0, 1.0, 1e9, False),  # no digit is left of it
        (1e-5, 5e-5, 0.0, True),
        (1e-5, 5e-4, 10.0, False),  # neither resolved, the new one far less
    ],
)
def test_which_points_are_comparable(
    point: ElboPoint,
    monkeypatch: pytest.MonkeyPatch,
    lost_before: float,
    lost_after: float,
    rise: float,
    may: bool,
) -> None:
    tried = replace(point, elbo=point.elbo + rise)
    monkeypatch.setattr(beginning, "blur", lambda p: lost_before if p is point else lost_after)
    assert beginning.comparable(tried, point) is may


def test_an_illegible_evidence_is_withheld() -> None:
    given = problem(TWO, "laplace")
    plain = run(Laplace(), given, Tolerances())
    assert without_lost_evidence(plain) is plain and plain.posterior is not None
    huge: Any = tuple(1e18 * b for b in plain.posterior.shift)
    moved = plain.posterior.conditioned.with_shift(huge)
    assert not isinstance(moved, Failed)
    shown = without_lost_evidence(
        replace(plain, posterior=replace(plain.posterior, conditioned=moved))
    )
    assert shown.posterior is not None and np.isnan(shown.posterior.log_evidence)
    assert shown.status is Status.numerical_error and "nats uncertain" in shown.reason
    assert shown.posterior.notes[-1] == shown.reason
