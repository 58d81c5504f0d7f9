"""What a notebook shows of predictions: the first rows, and how many there are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import lgmdsl.html as html
from lgmdsl.api.notebook.cards import NAMES, warned
from lgmdsl.api.page import counted
from lgmdsl.html import Html

if TYPE_CHECKING:
    from lgmdsl.api.predict.predict import Prediction

ROWS = 10
VALUES = 20_000  # above which a notebook is not made to wait for them


def card(prediction: Prediction) -> str:
    """The first rows of what is over one index, and how large the rest is."""
    canonical = prediction.canonical
    asked = canonical.grounded.asked
    names = prediction.names
    observed = {b.name: b.data.dims for b in canonical.blocks if not b.family.spec.potential}
    dims = {
        n: observed[n] if n in observed else prediction.marginals.quantity_dims(n) for n in names
    }
    labels = {**canonical.layout.labels, **asked}
    sizes = {n: math.prod(len(labels[d]) for d in axes) for n, axes in dims.items()}
    rows = [(n, ", ".join(dims[n]) or "one number", f"{sizes[n]:,}") for n in names]
    parts = []
    if sum(sizes.values()) <= VALUES:
        parts += _first_rows(prediction)
    if prediction.warnings:  # `predict` has shown them already
        title = counted(len(prediction.warnings), "warning")
        parts.append(html.folded(title, *warned(prediction.warnings)))
    parts.append(html.folded("names", html.table(("", "over", "values"), rows, words=True)))
    return html.card("Prediction", ", ".join(names[:NAMES]), parts)


def _first_rows(prediction: Prediction) -> list[Html]:
    whole = prediction.to_dataset()
    out = []
    flat = {str(n): v for n, v in whole.items() if v.ndim == 1}
    for dim in dict.fromkeys(v.dims[0] for v in flat.values()):
        columns = {n: v.values for n, v in flat.items() if v.dims[0] == dim}
        labels = whole[dim].values
        rows = [
            (labels[k], *(f"{float(c[k]):.6g}" for c in columns.values()))
            for k in range(min(ROWS, len(labels)))
        ]
        out.append(html.table((str(dim), *columns), rows))
        if len(labels) > ROWS:
            out.append(html.paragraph(f"the first {ROWS} of {len(labels):,}"))
    return out
