"""Members of an ordered axis that a fit did not have: their places, and their prior given
the fitted members.

The members that a fit has are numbered 0 to n - 1, new ones from n on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.latents import FactorSpec
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.grounding.errors import located, show
from lgmdsl.canonical.grounding.label_line import ROUNDING, Line, line_of
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.lowering.positions import position_argument
from lgmdsl.contract.structure import Extension
from lgmdsl.structures.shared.refusals import Refused
from lgmdsl.vocabulary.lookup import lookup


@dataclass(frozen=True, eq=False)
class GrownAxis:
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


def fitted_numbers(spec: FactorSpec, size: int) -> IntArray:
    """(size,) the fitted member behind each label of the fit: those at one position are one."""
    if spec.places is not None and spec.places.tied:
        return spec.places.of
    return np.arange(size)


def grown(
    spec: FactorSpec, theta: Theta, old: IndexSet, now: IndexSet, again: FactorSpec, extends: bool
) -> GrownAxis:
    """The axis of a factor after new data, `again` the factor there: `now` are the members of its
    index set, of which those with labels that the fit knows are known, unless positions are given
    for all of them. `extends`: its first members are the fit's.

    Raises DataError E302 for labels that have no place among those of the fit.
    """
    known = fitted_numbers(spec, old.size)
    numbers = np.full(now.size, -1, dtype=np.int64)
    if position_argument(spec.factor) is None:
        position = old.positions(now.labels)
        numbers[position >= 0] = known[position[position >= 0]]
        try:
            before, asked = _by_labels(spec, old, now.labels[numbers < 0])
        except Refused as refused:
            raise located(refused, spec.factor, spec.dims, spec.labels) from None
    else:
        before, after = (_positions(s, theta) for s in (spec, again))
        if extends:
            numbers[: old.size] = known
        asked = after[numbers < 0]
    new, back = np.unique(asked, return_inverse=True)
    numbers[numbers < 0] = len(before) + back.reshape(-1)
    return GrownAxis(spec, before, new, numbers)


def _positions(spec: FactorSpec, theta: Theta) -> Array:
    """The positions that an argument gives to the members of a factor."""
    signature = lookup("structure", spec.name)
    assert signature is not None, "a structure with positions is known"
    argument = spec.arguments[signature.spacing.at]
    assert isinstance(argument, Coefficient), "positions are numbers"
    return np.asarray(argument.evaluate(theta).dense(), dtype=np.float64)


def _by_labels(spec: FactorSpec, old: IndexSet, new: AnyArray) -> tuple[Array, Array]:
    """Places of the fitted members, and of new labels: numbers and dates on the line of the fit's,
    or in equal steps from the first label to the next. Raises Refused (E302)."""
    places = spec.places
    if places is None:
        return equal_places(old.labels, new)
    fitted = places.values if places.tied else places.values[places.of]
    if not new.size:
        return fitted, np.zeros(0)
    return fitted, _line(old.labels, new).places[old.size :]


def equal_places(old: AnyArray, new: AnyArray) -> tuple[Array, Array]:
    """0 to n - 1 for the fitted labels, and the places of new ones, in steps from one label to the
    next. Raises Refused (E302) where the labels have no equal steps."""
    places = np.arange(float(len(old)))
    if not new.size:
        return places, np.zeros(0)
    line = _line(old, new)
    ticks = line.places if line.steps is None else line.steps.ticks.astype(np.float64)
    fitted, asked = ticks[: len(old)], ticks[len(old) :]
    step = float(fitted[-1] - fitted[0]) / (len(fitted) - 1) if len(fitted) > 1 else 1.0
    away = np.abs(fitted - fitted[0] - step * places)
    if step == 0.0 or (away > ROUNDING * abs(step)).any():
        raise Refused(
            "E302",
            f"{{axis}} has no member {show(new[0])}",
            label="it is off the grid of equal steps of the fitted labels",
            help="ask for labels in the steps of the fit; for members at any distance fit "
            "ou(sd = ..., rate = ...)",
        )
    out = (asked - fitted[0]) / step
    near = np.abs(out - np.round(out)) <= ROUNDING * np.maximum(np.abs(out), 1.0)
    return places, np.where(near, np.round(out), out)


def _line(old: AnyArray, new: AnyArray) -> Line:
    """Fitted and new labels on one line."""
    both = [old, new]
    if old.dtype.kind != new.dtype.kind:
        both = [part.astype(np.str_) for part in both]
    line = line_of(np.concatenate(both))
    if line is None:
        raise Refused(
            "E302",
            f"{{axis}} has no member {show(new[0])}",
            label="its position among the fitted members is unknown",
            help=f"new members are numbers or dates, written as {show(old[0])}"
            if line_of(old) is not None
            else "number the labels of the fit, or give positions: at = ...",
        )
    return line
