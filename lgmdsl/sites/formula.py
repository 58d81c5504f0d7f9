"""Families that write their log density once, in jets, and take every derivative from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, TypeAlias, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import ParameterCurve, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Site
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.base import ElementwiseSite

Jets: TypeAlias = Mapping[str, Jet]

_NONE: Mapping[str, int] = {}
# Arguments of these types have no slopes: they are counted, or say how a row was observed.
_DISCRETE = ("count", "integer", "binary", "bool", "string")


class Formula(Site):
    """A scalar family that gives its formula, l(s; p), elementwise: what is derived from it (with a
    predictor for a parameter, say) has all derivatives from there."""

    # Parameters with a Gaussian log or logit of which the expectation of l is minus infinity:
    # exponentials of exponentials.
    infinite_in: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def formula(self, s: Jet, p: Jets) -> Jet:
        """l at a predictor and at the parameters, p["shape"]. What depends on y alone is an array
        of the site (a `cached_property`)."""

    @classmethod
    def closed_forms(cls, parameters: frozenset[str]) -> tuple[type, ...]:
        """Classes from which the family with predictors for those parameters inherits, that answer
        questions in closed form."""
        return ()

    def apart(self) -> dict[str, BoolArray]:
        """Parameters that stand apart: in the rows (N,) l is a function of this one alone plus one
        of everything else."""
        return {}

    def constants(self, order: int) -> dict[str, Jet]:
        """All parameters as they are."""
        return {n: jets.constant(getattr(self, n), order) for n in self.spec.parameters}


class FormulaSite(Formula, ElementwiseSite):
    """A scalar family by its formula: fields (N, 1) meet s (N, k).

    Override an answer where a closed form is faster, or accurate where the formula cancels.
    """

    @cached_property
    def continuous(self) -> tuple[str, ...]:
        """Parameters that have slopes."""
        form = self.spec.form
        types = {p.name: p.type for p in form.parameters} if form is not None else {}
        return tuple(n for n in self.spec.parameters if types.get(n) not in _DISCRETE)

    def expand(self, s: Jet, moving: Mapping[str, int] = _NONE) -> Jet:
        """l at s; the parameters in `moving` are variables of those numbers."""
        p = self.constants(s.order)
        for name, number in moving.items():
            p[name] = jets.variable(getattr(self, name), number, s.order)
        return self.formula(s, p)

    def log_density(self, s: Array) -> Array:
        value = self.expand(jets.constant(s, 0)).value
        return np.asarray(value + np.zeros(np.shape(s)))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        l, zero = self.expand(jets.variable(s, 0)), np.zeros(np.shape(s))
        value, slope, curvature, third = (l.derivative(*(0,) * k) + zero for k in range(4))
        return PointwiseAnswer(value, slope, curvature, third * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        numbers = {name: -k for k, name in enumerate(self.continuous, start=1)}
        l, zero = self.expand(jets.constant(s, 1), numbers), np.zeros(np.shape(s))
        return {name: l.derivative(k) + zero for name, k in numbers.items()}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        out, zero = {}, np.zeros(np.shape(s))
        for name in self.continuous:
            l = self.expand(jets.variable(s, 0), {name: -1})
            curve = (l.derivative(-1), l.derivative(-1, 0), l.derivative(-1, 0, 0))
            out[name] = ParameterCurve(*(part + zero for part in curve))
        return out


def expand(site: Site, s: Jet) -> Jet:
    """l of a scalar site at a jet: by its formula, or from the derivatives that it answers."""
    if isinstance(site, FormulaSite):
        return site.expand(s)
    answer = cast(Pointwise, site).pointwise(s.value)
    return s.compose(answer.value, answer.slope, answer.curvature, answer.third)
