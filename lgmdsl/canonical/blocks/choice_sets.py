"""The diagnostic for a chosen class that `available` excludes, with the labels of the classes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.errors import Diagnostic, Span

SHOWN = 6


def left_out(
    name: str, values: Mapping[str, Array], labels: AnyArray, bad: IntArray, place: str, span: Span
) -> Diagnostic | None:
    """E303 for the choices of rows `bad` that are not among their row's available classes, `place`
    being the first of them; None where the fault is another."""
    available, y = values["available"], values["y"].astype(np.int64)
    inside = (y >= 0) & (y < available.shape[1])
    if not inside[bad].all() or (available[bad, y[bad]] != 0.0).any():
        return None
    first = int(bad[0])
    chosen = str(labels[y[first]])
    offered = [str(label) for label in labels[available[first] != 0.0]]
    more = f" and {len(offered) - SHOWN} more" if len(offered) > SHOWN else ""
    choices = (
        f"available: {', '.join(offered[:SHOWN])}{more}"
        if offered
        else "nothing is available there"
    )
    return Diagnostic(
        "E303",
        f"`{name}` chooses a class that is not available in {count_of(len(bad), 'row')}",
        span,
        f"first at {place}: `{chosen}`; {choices}",
        help=f"make `{chosen}` available there, or leave the choice out (a type with `?`)",
    )
