"""Families that give the logs of P(Y > y) and P(Y <= y) with derivatives.

Censoring and delayed entry of any family of positive numbers are computed from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet


class Tail(NamedTuple):
    """One tail at s: the log of its mass with three derivatives in s (`third` the plain one), and
    its curve in each continuous parameter."""

    answer: PointwiseAnswer
    curves: dict[str, ParameterCurve]


class Tails(ABC):
    """log P(Y > y) and log P(Y <= y) at the sites' own y > 0, whatever was observed of them."""

    @abstractmethod
    def tail(self, s: Array, above: bool, parameters: tuple[str, ...]) -> Tail:
        """log P(Y > y | s), or of P(Y <= y | s), (N,) or (N, k), with curves in `parameters`."""


class JetTails(Tails):
    """Tails by formulas in jets."""

    @abstractmethod
    def log_survival(self, s: Jet, p: Mapping[str, Jet]) -> Jet:
        """log P(Y > y)."""

    @abstractmethod
    def log_cdf(self, s: Jet, p: Mapping[str, Jet]) -> Jet:
        """log P(Y <= y)."""

    def tail(self, s: Array, above: bool, parameters: tuple[str, ...]) -> Tail:
        law = self.log_survival if above else self.log_cdf
        fields, zero = cast(Any, self), np.zeros(np.shape(s))
        names = [n for n in fields.spec.parameters if n != "event"]

        def at(x: Jet, moving: str = "") -> Jet:
            p = {n: jets.constant(getattr(fields, n), x.order) for n in names}
            if moving:
                p[moving] = jets.variable(getattr(fields, moving), -1, x.order)
            with np.errstate(all="ignore"):
                return law(x, p)

        l = at(jets.variable(s, 0))
        value, slope, curvature, third = (l.derivative(*(0,) * k) + zero for k in range(4))
        curves = {}
        for name in parameters:
            m = at(jets.variable(s, 0), name)
            parts = (m.derivative(-1), m.derivative(-1, 0), m.derivative(-1, 0, 0))
            curves[name] = ParameterCurve(*(part + zero for part in parts))
        return Tail(PointwiseAnswer(np.minimum(value, 0.0), slope, curvature, third), curves)
