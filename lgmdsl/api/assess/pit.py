"""fit.pit(): leave-one-out probability integral transforms, labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.assess.components import assessed
from lgmdsl.api.assess.observations import Observations
from lgmdsl.api.assess.refits import without
from lgmdsl.api.page import counted
from lgmdsl.arrays import IntArray
from lgmdsl.assess.drawn.left_out import loo as drawn_loo
from lgmdsl.assess.failure import WORDS, Failure
from lgmdsl.assess.loo import PitBlock, histogram, loo
from lgmdsl.assess.loo import pit as transforms
from lgmdsl.contract.classes import Classes
from lgmdsl.contract.site import Site
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError, ModelError
from lgmdsl.html import Paged

if TYPE_CHECKING:
    import xarray as xr

    from lgmdsl.posterior.fit_record import FitRecord

BAR = 40  # columns of the longest bar


@dataclass(frozen=True, eq=False)
class Pit(Paged):
    """P(Y_i <= y_i | y_-i) of each response, uniform where the model is calibrated.

    `lower` = P(Y_i < y_i | y_-i) and `upper` = P(Y_i <= y_i | y_-i) differ for discrete responses.
    Of a censored one they are taken at the ends of what is known of it, an open end being 0 or 1,
    whatever stands in the column of y: a number drawn evenly between both is uniform where the
    model is calibrated. `pointwise` is their mean. `histogram` spreads each response between both.
    `flag`: as of `fit.loo()`.
    """

    observations: Observations
    blocks: tuple[PitBlock, ...]
    flag: tuple[IntArray, ...]

    @property
    def flagged(self) -> int:
        """How many responses are flagged."""
        return int(sum(np.sum(f > 0) for f in self.flag))

    def pointwise(self, name: str | None = None) -> xr.DataArray:
        """The mean of `lower` and `upper`: the transform itself for continuous responses."""
        return self.observations.labelled([b.middle for b in self.blocks], name)

    def lower(self, name: str | None = None) -> xr.DataArray:
        """P(Y_i < y_i | y_-i); of a censored response, P(Y_i < its lower end)."""
        return self.observations.labelled([b.lower for b in self.blocks], name)

    def upper(self, name: str | None = None) -> xr.DataArray:
        """P(Y_i <= y_i | y_-i); of a censored response, P(Y_i <= its upper end)."""
        return self.observations.labelled([b.upper for b in self.blocks], name)

    def flags(self, name: str | None = None) -> xr.DataArray:
        """Why a value is unreliable, in words; empty for reliable ones."""
        words = np.array([WORDS[f] for f in Failure])
        return self.observations.labelled([words[f] for f in self.flag], name)

    def histogram(self, bins: int = 10) -> xr.DataArray:
        """Density of all transforms in equal bins, 1 on average, by the bins' centres; without
        random numbers for discrete responses (Czado, Gneiting and Held 2009)."""
        import xarray as xr

        if not isinstance(bins, int | np.integer) or isinstance(bins, bool) or bins < 1:
            raise ModelError.of(
                "E108", "bins are a whole number from 1", help="pit.histogram(bins=10)"
            )
        low, high = (
            np.concatenate([getattr(b, s) for b in self.blocks]) for s in ("lower", "upper")
        )
        centres = (np.arange(bins) + 0.5) / bins
        return xr.DataArray(histogram(low, high, bins), {"pit": centres}, ("pit",), "density")

    def __repr__(self) -> str:
        total = sum(len(f) for f in self.flag)
        return f"Pit({counted(total, 'response')}, {self.flagged:,} flagged)"

    def __str__(self) -> str:
        total = counted(sum(len(f) for f in self.flag), "response")
        heights = self.histogram().values
        longest = max(float(np.nanmax(heights, initial=0.0)), 1e-300)
        lines = [f"leave-one-out PIT of {total}; 1.00 is uniform"]
        for k, height in enumerate(heights):
            bar = "#" * round(BAR * float(height) / longest) if np.isfinite(height) else ""
            lines.append(f"  {k / 10:.1f} to {(k + 1) / 10:.1f}  {height:5.2f}  {bar}".rstrip())
        if self.flagged:
            lines.append(f"  flagged: {self.flagged} (fit.loo() says why)")
        return "\n".join(lines)


def pit(
    fit: FitRecord,
    exact: bool = False,
    data: object = None,
    mapping: Keys | None = None,
) -> Pit:
    """Leave-one-out transforms. See `Fit.pit`."""
    asked = assessed(fit, data, mapping, "pit", removes=True, apart=True)
    for site in asked.components[0].sites:
        _check(site)
    refit = without(fit, asked) if exact else None
    if asked.drawn is not None:
        drawn = drawn_loo(asked.drawn, True, refit)
        ends = tuple(PitBlock(b.lower, b.upper) for b in drawn)
        return Pit(asked.observations, ends, tuple(b.flag for b in drawn))
    left_out = loo(asked.components, refit, transforms=True)
    blocks = transforms(asked.components, left_out)
    return Pit(asked.observations, blocks, tuple(b.flag for b in left_out))


def _check(site: Site) -> None:
    kind = type(site)
    if kind.cdf is Site.cdf and kind.distribution is Site.distribution:
        message = f"`{site.spec.name}` gives no distribution function, which a PIT needs"
        if isinstance(site, Classes):
            message += ": its classes have no order"
        raise MethodError.of("E501", message, help="fit.loo() needs none")
