"""What a notebook shows of each result: what matters first, the whole page behind a click."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import lgmdsl.html as html
from lgmdsl.api.page import counted
from lgmdsl.api.summary.summary import summary
from lgmdsl.api.summary.table import cells
from lgmdsl.arrays import Array
from lgmdsl.errors import Diagnostic
from lgmdsl.html import Html

if TYPE_CHECKING:
    from lgmdsl.api.assess.audit import Audit
    from lgmdsl.api.calibrate.calibrate import Calibration
    from lgmdsl.api.compare.comparison import Comparison
    from lgmdsl.api.compare.models import ModelComparison
    from lgmdsl.api.fit.fit import Fit
    from lgmdsl.api.predict.predict import Prediction

LEVELS = np.array([0.05, 0.5, 0.95])
HEADER = ("", "mean", "sd", "5 %", "50 %", "95 %")
ENTRIES = 6  # of a name
NAMES = 12
ROWS = 10  # of a prediction
VALUES = 20_000  # of a prediction, above which a notebook is not made to wait for them


def of_fit(fit: Fit) -> str:
    """Hyperparameters and latents with their moments; warnings; the page."""
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
        *_warnings(fit.warnings),
        html.table(HEADER, rows),
        *(html.paragraph(line) for line in left),
        html.folded("page", html.page(_page(fit))),
    ]
    return html.card(f"Fit by {title}", note, parts, good=fit.converged)


def _page(fit: Fit) -> str:
    """The summary without the warnings, which stand above it."""
    text = summary(fit, warned=False)
    return text if fit.audited is None else f"{text}\n\n{fit.audited}"


def _entries(fit: Fit, name: str) -> list[Sequence[str]]:
    quantity = fit.quantity(name)
    _, quantiles = fit.marginals.quantile(name, LEVELS)
    table = np.stack([quantity.mean, quantity.sd, *quantiles]).reshape(5, -1).T
    labels = _labels(fit, quantity.dims, ENTRIES)
    rows: list[Sequence[str]] = [
        (f"{name}[{label}]" if label else name, *_numbers(entry))
        for label, entry in zip(labels, table, strict=False)
    ]
    if len(table) > ENTRIES:
        rows.append((f"{name}: {len(table) - ENTRIES:,} more", *[""] * 5))
    return rows


def _labels(fit: Fit, dims: tuple[str, ...], most: int) -> list[str]:
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


def _warnings(warnings: Iterable[Diagnostic]) -> list[Html]:
    return [html.paragraph(f"{w.code}: {w.message}", bad=True) for w in warnings]


def of_prediction(prediction: Prediction) -> str:
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
        parts.append(html.folded(title, *_warnings(prediction.warnings)))
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


def of_comparison(comparison: Comparison) -> str:
    """A row for each method; the page."""
    rows = []
    for row in comparison.rows:
        if row.fit is None:
            reason = row.failure.message if row.failure is not None else ""
            rows.append((row.method, f"no fit: {reason}", "", "", "", ""))
            continue
        far = row.difference
        rows.append((
            row.method,
            str(row.fit.status),
            f"{row.fit.log_evidence:.4f}",
            "" if far is None else f"{far.mean_largest:.2g}",
            "" if far is None else f"{far.sd_farthest:.3f}",
            f"{row.fit.seconds:.3g}",
        ))  # fmt: skip
    header = ("method", "status", "log evidence", "mean off (sd)", "sd ratio", "seconds")
    parts = [html.table(header, rows), html.folded("page", html.page(str(comparison)))]
    return html.card("Comparison of methods", f"reference {comparison.reference}", parts)


def of_models(comparison: ModelComparison) -> str:
    """A row for each model; why they may not be compared; the page."""
    header = ("model", "log evidence", "share", "elpd", "se", "diff.", "se", "weight")
    rows = [comparison.cells(row) for row in comparison.rows]
    reasons = [
        html.paragraph("; ".join((w.message, *w.details)), bad=True) for w in comparison.warnings
    ]
    return html.card("Comparison of models", "", [html.table(header, rows), *reasons])


def of_audit(audit: Audit) -> str:
    """The verdict, its numbers, the page."""
    rows = [
        ("k-hat", f"{audit.k_hat:.2f}"),
        ("effective draws", f"{audit.ess:,.0f} of {audit.draws:,} ({audit.proposal})"),
        ("log evidence", f"{audit.log_evidence:.4f} +- {audit.log_evidence_se:.2g}"),
    ]
    parts = [
        html.paragraph(audit.verdict),
        html.table((), rows, words=True),
        html.folded("page", html.page(str(audit))),
    ]
    outcome = audit.outcome.name
    good = {"trust": True, "shifted": False}.get(outcome)
    return html.card("Audit", outcome, parts, good=good)


def of_calibration(calibration: Calibration) -> str:
    """The quantities that are least uniform; the page."""
    tests = calibration.tests
    faults = calibration.faults
    rows = [
        (name, f"{tests[name].p:.3g}", faults.get(name, ""))
        for name in calibration.worst_first[:NAMES]
    ]
    runs = f"{len(calibration.outcomes):,} of {calibration.wanted:,} runs"
    known = bool(tests)
    verdict = "calibrated" if calibration.calibrated else "not calibrated"
    note = f"{runs}, {verdict}" if known else f"{runs}, too few to judge"
    shown = [html.table(("", "p", ""), rows)] if known else []
    parts = [*shown, html.folded("page", html.page(calibration.table))]
    good = calibration.calibrated if known else None
    return html.card(f"Calibration of {calibration.method}", note, parts, good)
