"""Members of an ordered axis that a fit did not have: their places, and what the prior says there.

The members that a fit has are numbered 0 to n - 1, new ones from n on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks import FactorSpec
from lgmdsl.canonical.coefficient import Coefficient, Theta
from lgmdsl.canonical.ground_errors import show
from lgmdsl.canonical.ground_model import IndexSet
from lgmdsl.canonical.structure_errors import located
from lgmdsl.contract.structure import Extension
from lgmdsl.structures.refusals import Refused


@dataclass(frozen=True, eq=False)
class Grown:
    """An axis of `fitted` members and those at the places `new` (m,): `numbers` (size,) are the
    members of an index set in its order; `places` (n,) those of the fitted ones."""

    spec: FactorSpec
    places: Array
    new: Array
    numbers: IntArray

    @property
    def fitted(self) -> int:
        return len(self.places)

    @property
    def size(self) -> int:
        return len(self.places) + len(self.new)

    def extension(self, theta: Theta) -> Extension:
        """New members given the fitted ones. Raises DataError for places that have none."""
        try:
            return self.spec.build(theta).extension(self.places, self.new)
        except Refused as refused:
            raise self._located(refused) from None

    def _located(self, refused: Refused) -> Exception:
        return located(refused, self.spec.factor, self.spec.dims, self.spec.labels)


def grown(
    spec: FactorSpec, theta: Theta, old: IndexSet, now: IndexSet, at: Coefficient | None
) -> Grown:  # fmt: skip
    """The axis of a factor after new data: `now` are the members of its index set, of which those
    with labels that the fit knows are known, unless `at` gives all of them their places.

    Raises DataError E302 for labels that have no place among those of the fit.
    """
    given = spec.arguments.get("at")
    if isinstance(given, Coefficient) and at is not None:
        before, after = (np.asarray(c.evaluate(theta).dense(), float) for c in (given, at))
        numbers = np.full(now.size, -1, dtype=np.int64)
        kept = old.size if np.array_equal(now.labels[: old.size], old.labels) else 0
        numbers[:kept] = np.arange(kept)
        asked = after
    else:
        numbers = old.positions(now.labels)
        try:
            before, asked = label_places(old.labels, now.labels, numbers < 0)
        except Refused as refused:
            raise located(refused, spec.factor, spec.dims, spec.labels) from None
    new, back = np.unique(asked[numbers < 0], return_inverse=True)
    numbers[numbers < 0] = old.size + back.reshape(-1)
    return Grown(spec, before, new, numbers)


def label_places(old: AnyArray, now: AnyArray, unknown: AnyArray) -> tuple[Array, Array]:
    """Places of the fitted labels, 0 to n - 1, and of the others, in steps from the first label to
    the next. Raises Refused (E302) where labels are no numbers with equal steps."""
    places = np.arange(float(len(old)))
    if not unknown.any():
        return places, np.zeros(len(now))
    first = now[unknown][0]
    numbers = _numbers(old)
    if numbers is None:
        raise Refused(
            "E302", f"{{axis}} has no member {show(first)}, and its labels are text",
            label="where new members stand among them is not known",
            help="number the labels, or give the structure places: at = ...",
        )  # fmt: skip
    step = float(numbers[1] - numbers[0]) if len(numbers) > 1 else 1.0
    if step == 0.0 or not np.array_equal(numbers, numbers[0] + step * places):
        raise Refused(
            "E302", f"{{axis}} has no member {show(first)}, and its labels have unequal steps",
            label="where new members stand among them is not known",
            help="fit again with the steps in between as members, or give places: at = ...",
        )  # fmt: skip
    asked = _numbers(now[unknown])
    if asked is None:
        odd = next(v for v in now[unknown].tolist() if _numbers(np.array([v])) is None)
        raise Refused(
            "E302", f"{{axis}} has no member {show(odd)}",
            label=f"its labels are numbers: {show(old[0])} to {show(old[-1])}",
            help="give new members as numbers on the same scale",
        )  # fmt: skip
    out = np.zeros(len(now))
    out[unknown] = (asked - numbers[0]) / step
    return places, out


def _numbers(labels: AnyArray) -> Array | None:
    """Labels as numbers; None where one is none."""
    try:
        found = labels.astype(np.float64)
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None
