"""Fits of folded rows as fits of the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.row_source import Folding
from lgmdsl.inference.plan import Plan
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class Expanded:
    """What `condition` gives, of a `folded` model, at the user's rows, whose sites are these."""

    folded: CanonicalModel
    theta: Theta
    condition: Callable[[], Conditioned]
    weight: Rows
    shift: Rows

    def __call__(self) -> Conditioned:
        folding = self.folded.rows.folding
        assert folding is not None, "the model is folded"
        return folding.seen(self.theta, self.condition(), self.weight, self.shift)


def expanded(fit: FitRecord, planned: Plan) -> FitRecord:
    """A fit of a folded model, made by `planned`, as one of the user's rows; as it is where it has
    these."""
    folding = planned.canonical.rows.folding
    if folding is None or fit.canonical is folding.whole:
        return fit
    at = HyperPoint(fit.theta, 1.0, fit.log_evidence, fit.weight, fit.shift, fit.condition)
    at = _point(at, folding, planned)
    return replace(
        fit,
        canonical=folding.whole,
        weight=at.weight,
        shift=at.shift,
        condition=at.condition,
        mixed=tuple(_point(point, folding, planned) for point in fit.mixed),
    )


def _point(point: HyperPoint, folding: Folding, planned: Plan) -> HyperPoint:
    answers = [route.answer for route in planned.routes]
    question = planned.backend.spec.needs
    given = point.theta, point.weight, point.shift
    weight, shift = folding.unfolded(*given, point.condition, question, answers)
    condition = Expanded(planned.canonical, point.theta, point.condition, weight, shift)
    return replace(point, weight=weight, shift=shift, condition=condition)
