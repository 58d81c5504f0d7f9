"""Formulas, in jets, of families whose zeros are changed: what predictors for their parameters
(`combined.predictors`) take derivatives of.

The base family is expanded by its formula; one that gives none by its derivatives, as long as its
parameters are numbers.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Site
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.combined.combined import CombinedSite
from lgmdsl.sites.formula import Formula, Jets


def expanded(site: Site, s: Jet, p: Jets) -> Jet:
    """l of a scalar site at the jets of its predictor and parameters.

    Raises TypeError for a family without a formula of which a parameter has a predictor.
    """
    if isinstance(site, Formula):
        return site.formula(s, p)
    moving = {n: p[n] for n in site.spec.parameters if n in p and not p[n].fixed}
    answer = cast(Pointwise, site).pointwise(s.value)
    l = s.compose(answer.value, answer.slope, answer.curvature, answer.third)
    if not moving:
        return l
    curves, step = site.parameter_curves(s.value), s - s.value
    for name, jet in moving.items():
        if any(key[:1] >= (0,) for key in jet.coefficients if key):
            raise TypeError(f"{site.spec.name} gives no formula, which a predictor of {name} needs")
        if name in curves:
            c = curves[name]
            l = l + (jet - jet.value) * (c.value + step * c.slope + 0.5 * step * step * c.curvature)
    return l


class ZerosFormula(Formula, CombinedSite):
    """Formula for counts y whose zeros are changed."""

    y: Array

    @cached_property
    def at_zero(self) -> Site:
        """The base's sites at y = 0."""
        values = {**self.base_fields(), "y": np.zeros_like(self.y)}
        return self.base(**values)


class TruncatedFormula(ZerosFormula):
    """l = log f(y) - log(1 - f(0))."""

    def formula(self, s: Jet, p: Jets) -> Jet:
        zero = expanded(self.at_zero, s, p)
        return expanded(self.plain, s, p) - jets.log1mexp(zero)


class ZeroInflatedFormula(ZerosFormula):
    """l = log(p + (1 - p) f(0)) where y = 0, log(1 - p) + log f(y) elsewhere."""

    def apart(self) -> dict[str, BoolArray]:
        return {"zero_inflation": np.asarray(self.y > 0.0)}

    def formula(self, s: Jet, p: Jets) -> Jet:
        odds = jets.log_odds(p["zero_inflation"])
        kept = -jets.softplus(odds)
        if (self.y > 0.0).all():
            return kept + expanded(self.plain, s, p)
        at_zero = kept + jets.logaddexp(odds, expanded(self.at_zero, s, p))
        if not (self.y > 0.0).any():
            return at_zero
        return jets.where(self.y > 0.0, kept + expanded(self.plain, s, p), at_zero)


class HurdleFormula(Formula, CombinedSite):
    """l = log p where y = 0, log(1 - p) + log of the density above 0 elsewhere."""

    y: Array

    def apart(self) -> dict[str, BoolArray]:
        return {"hurdle": np.ones(len(self.y), dtype=np.bool_)}

    def formula(self, s: Jet, p: Jets) -> Jet:
        odds = jets.log_odds(p["hurdle"])
        above = expanded(self.plain, s, p) - jets.softplus(odds)
        return jets.where(self.y > 0.0, above, -jets.softplus(-odds))
