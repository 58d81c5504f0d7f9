"""What families of positive numbers share: the logs of their survival and distribution functions.

Censoring, delayed entry and survival curves are computed from these two, `log_survival(s, p)` and
`log_cdf(s, p)`, jets as a formula is: at the predictor and the parameters, of the sites' own y.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Lifetimes
from lgmdsl.numerics import jets
from lgmdsl.sites.formula import FormulaSite
from lgmdsl.sites.tails import JetTails


class LifetimeSite(FormulaSite, JetTails, Lifetimes):
    """A continuous family by its formula and the logs of P(Y > y) and P(Y <= y)."""

    y: Array

    @cached_property
    def log_y(self) -> Array:
        """log y."""
        return np.asarray(np.log(self.y))

    def log_survival_at(self, s: Array) -> Array:
        with np.errstate(all="ignore"):
            value = self.log_survival(jets.constant(s, 0), self.constants(0)).value
        zero = np.zeros(np.shape(s))
        return np.where(self.y > 0.0, np.minimum(value, 0.0) + zero, zero)

    def cdf(self, s: Array) -> Array:
        """P(Y <= y | s), (N,); 0 where y is not above 0, which is no case of `log_cdf`."""
        with np.errstate(all="ignore"):
            value = self.log_cdf(jets.constant(s, 0), self.constants(0)).value
        inside = np.exp(np.minimum(value, 0.0)) + np.zeros(np.shape(s))
        return np.where(self.y > 0.0, inside, 0.0)
