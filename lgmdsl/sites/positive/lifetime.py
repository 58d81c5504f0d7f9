"""What families of positive numbers share: the logs of their survival and distribution functions.

Censoring, delayed entry and survival curves are computed from these two, `log_survival(s, p)` and
`log_cdf(s, p)`, jets as a formula is: at the predictor and the parameters, of the sites' own y.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics import jets
from lgmdsl.sites.formula import FormulaSite
from lgmdsl.sites.tails import JetTails

NEVER = -1e300  # the log of a probability of 0, where a sum must stay a number


class LifetimeSite(FormulaSite, JetTails):
    """A continuous family by its formula and the logs of P(Y > y) and P(Y <= y)."""

    def cdf(self, s: Array) -> Array:
        """P(Y <= y | s), (N,)."""
        with np.errstate(all="ignore"):
            value = self.log_cdf(jets.constant(s, 0), self.constants(0)).value
        return np.asarray(np.exp(np.minimum(value, 0.0)) + np.zeros(np.shape(s)))
