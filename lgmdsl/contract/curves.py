"""Derivatives of a site's log density in s and a parameter, by differences of what is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, Pointwise

if TYPE_CHECKING:
    from lgmdsl.contract.site import Site

# Central differences of order 8 (Fornberg 1988, table 1) at relative steps: for functions that bend
# over the size of the parameter both their error and rounding's are below 1e-11.
_WEIGHTS = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
_STEP = 0.01


def curves_by_differences(
    site: Site, slopes: dict[str, Array], s: Array
) -> dict[str, ParameterCurve]:
    """l' and l'' differenced in each parameter that `slopes` names, for a site that answers
    Pointwise; steps are shares of the parameter, so that its sign stays, or 0.01 at 0."""
    out = {}
    for name, value in slopes.items():
        centre = site.parameter(name)
        step = np.where(centre == 0.0, _STEP, _STEP * np.abs(centre))
        slope, curvature = np.zeros(1), np.zeros(1)
        for k, weight in enumerate(_WEIGHTS, start=1):
            neighbours = (
                site.with_parameter(name, centre + sign * k * step) for sign in (1.0, -1.0)
            )
            far, near = (cast(Pointwise, m).pointwise(s) for m in neighbours)
            slope = slope + weight * (far.slope - near.slope)
            curvature = curvature + weight * (far.curvature - near.curvature)
        out[name] = ParameterCurve(value, _shared(slope, step), _shared(curvature, step))
    return out


def _shared(difference: Array, step: Array) -> Array:
    """A difference for each site over that site's step, whatever the axes after the first."""
    return np.asarray(difference / step.reshape(-1, *(1,) * (difference.ndim - 1)))
