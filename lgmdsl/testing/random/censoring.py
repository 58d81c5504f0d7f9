"""How random observations are censored: `event`, `lower` and `upper` drawn about y.

A row is observed, or known up to an interval that holds its y; ends are NaN where they are open.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.contract.site import SiteSpec
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.censored.censored import ARGUMENTS, ENDS

# Of intervals on either side of y, relative to y where it is positive.
WIDTHS = (1.0, 0.01, 30.0)


def censoring(
    draw: st.DrawFn, rng: np.random.Generator, spec: SiteSpec, y: Array
) -> dict[str, Array]:
    """Which of the family's `event`, `lower` and `upper` a model gives, (rows,) each.

    A family that only exists censored, NAME.censored, is given what the plain one does not take:
    the compiler chooses between the two by the arguments.
    """
    chosen = draw(st.sampled_from(_choices(spec)))
    if "event" in chosen:
        return {"event": rng.integers(0, 2, len(y)).astype(np.float64)}
    gaps = draw(st.sampled_from(WIDTHS)) * rng.uniform(0.1, 1.0, (2, len(y)))
    gaps[:, rng.random(len(y)) < 0.2] = 0.0  # observed where both ends are y, else censored at y
    if spec.observed[0] == "positive":
        ends = {"lower": y / (1.0 + gaps[0]), "upper": y * (1.0 + gaps[1])}
    else:
        ends = {"lower": y - gaps[0], "upper": y + gaps[1]}
    return {n: np.where(rng.random(len(y)) < 0.3, np.nan, ends[n]) for n in chosen}


def _choices(spec: SiteSpec) -> list[tuple[str, ...]]:
    plain = find_site(spec.name.removesuffix(".censored"))
    promised = plain is not None and plain.spec is not spec
    without = plain.spec.parameters if plain is not None and promised else {}
    one = [(n,) for n in ARGUMENTS if n in spec.parameters and n not in without]
    both = [ENDS] if spec.parameters.keys() >= set(ENDS) else []
    return [*([] if promised else [()]), *one, *both]
