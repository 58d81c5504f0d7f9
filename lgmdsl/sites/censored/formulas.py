"""Log densities of censored rows in jets: what predictors for their parameters take derivatives of.

One end is a tail of the law; an interval the difference of two tails, on the side where they are
less, or where it is narrow the integral of the density (Gauss-Legendre), which does not cancel.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.censored.censored import CensoredSite
from lgmdsl.sites.formula import Formula, Jets

_NARROW = -1.0  # the log of the ratio of two tails above which an interval is narrow
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


class CensoredFormula(CensoredSite, Formula):
    """u = direction s + spread X, X of the site's law, with `spread` a jet of the parameters."""

    def spread_jet(self, p: Jets) -> Jet:
        """The scale of X."""
        return jets.constant(self.spread, next(iter(p.values())).order)

    def log_tail(self, u: Array, s: Jet, p: Jets, upper: bool) -> Jet:
        """log P(U > u), or log P(U <= u)."""
        z, law = (u - self.direction * s) / self.spread_jet(p), self.law()
        if not upper:
            return z.compose(*law.below(z.value).parts)
        growth = law.growth(z.value)
        return z.compose(*(part - growth for part in law.above(z.value).parts))

    def log_density_at(self, u: Array, s: Jet, p: Jets) -> Jet:
        """The log density of U at u."""
        spread = self.spread_jet(p)
        z = (u - self.direction * s) / spread
        return z.compose(*self.law().density(z.value).parts) - jets.log(spread)

    def formula(self, s: Jet, p: Jets) -> Jet:
        out = cast(Formula, self.plain).formula(s, p)
        hidden = np.asarray(self.censored, dtype=np.bool_)
        if not hidden.any():
            return out
        low, high = self.ends
        below, above = np.isfinite(low), np.isfinite(high)
        a, b = np.where(below, low, 0.0), np.where(above, high, 0.0)
        out = jets.where(hidden & ~below & ~above, jets.constant(np.zeros(()), s.order), out)
        between = hidden & below & above
        if (hidden & below).any():
            up = self.log_tail(a, s, p, True)
            out = jets.where(hidden & below & ~above, up, out)
        if (hidden & above).any():
            down = self.log_tail(b, s, p, False)
            out = jets.where(hidden & above & ~below, down, out)
        if not between.any():
            return out
        upper = up.value < down.value
        rest = (self.log_tail(b, s, p, True) - up, self.log_tail(a, s, p, False) - down)
        narrow = ~(np.where(upper, rest[0].value, rest[1].value) < _NARROW)
        for one, whole, part in ((upper, up, rest[0]), (~upper, down, rest[1])):
            fall = jets.where(between & one & ~narrow, part, jets.constant(-1.0, s.order))
            out = jets.where(between & one & ~narrow, whole + jets.log1mexp(fall), out)
        if (between & narrow).any():
            out = jets.where(between & narrow, self._integrated(a, b, s, p), out)
        return out

    def _integrated(self, low: Array, high: Array, s: Jet, p: Jets) -> Jet:
        half = 0.5 * np.maximum(high - low, 0.0)
        total: Jet | None = None
        with np.errstate(divide="ignore"):
            width = np.log(half)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            part = self.log_density_at(low + half * (node + 1.0), s, p) + np.log(weight)
            total = part if total is None else jets.logaddexp(total, part)
        return cast(Jet, total) + width
