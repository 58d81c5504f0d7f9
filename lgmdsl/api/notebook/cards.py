"""What a notebook shows of a fit: what matters first, the whole page behind a click."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import lgmdsl.html as html
from lgmdsl.api.columns import LEVELS
from lgmdsl.api.summary.table import HEADER, cells
from lgmdsl.arrays import Array
from lgmdsl.errors import Diagnostic
from lgmdsl.html import Html

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

ENTRIES = 6  # of a name
NAMES = 12


def of_fit(fit: FitRecord, page: str) -> str:
    """Hyperparameters and latents with their moments; warnings; the page, without them."""
    rows: list[Sequence[str]] = []
    latents = fit.canonical.latent_names
    learned = [] if fit.learning is None else [b.name for b in fit.canonical.hypers.blocks]
    names = [*learned, *latents]
    for name in names[:NAMES]:
        rows += _entries(fit, name)
    left = [f"and {len(names) - NAMES:,} more names"] if len(names) > NAMES else []
    title = f"{fit.method}, {fit.hyper}" if fit.hyper != "fixed" else fit.method
    evidence = f"log evidence {fit.log_evidence:.4f}" if math.isfinite(fit.log_evidence) else ""
    note = "; ".join(part for part in (str(fit.status), evidence) if part)
    parts = [
        *warned(fit.warnings),
        html.table(("", *HEADER), rows),
        *(html.paragraph(line) for line in left),
        html.folded("page", html.page(page)),
    ]
    return html.card(f"Fit by {title}", note, parts, good=fit.converged)


def _entries(fit: FitRecord, name: str) -> list[Sequence[str]]:
    quantity = fit.quantity(name)
    _, quantiles = fit.marginals.quantile(name, np.array(LEVELS))
    table = np.stack([quantity.mean, quantity.sd, *quantiles]).reshape(len(HEADER), -1).T
    labels = _labels(fit, quantity.dims, ENTRIES)
    rows: list[Sequence[str]] = [
        (f"{name}[{label}]" if label else name, *_numbers(entry))
        for label, entry in zip(labels, table, strict=False)
    ]
    if len(table) > ENTRIES:
        rows.append((f"{name}: {len(table) - ENTRIES:,} more", *[""] * len(HEADER)))
    return rows


def _labels(fit: FitRecord, dims: tuple[str, ...], most: int) -> list[str]:
    """The labels of the first entries."""
    layout = fit.canonical.layout
    shape = layout.shape(dims)
    count = min(most, math.prod(shape))
    members = [layout.labels[dim] for dim in dims]
    places = np.unravel_index(np.arange(count), shape) if dims else ()
    return [
        ", ".join(str(m[p[k]]) for m, p in zip(members, places, strict=True)) for k in range(count)
    ]


def _numbers(entry: Array) -> list[str]:
    """A row of moments and quantiles, with two digits of its sd."""
    mean, sd, *quantiles = map(float, entry)
    return [*cells(mean, sd, quantiles, digits=2)]


def warned(warnings: Iterable[Diagnostic]) -> list[Html]:
    """Warnings as lines of a card."""
    return [html.paragraph(f"{w.code}: {w.message}", bad=True) for w in warnings]
