"""A fit on a page."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from lgmdsl.accuracy.errors import EXACT, Accuracy
from lgmdsl.api.columns import LEVELS
from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.api.summary.smooths import smooth_columns
from lgmdsl.api.summary.table import Row, entry_labels, entry_rows, joined, labels_of, natural_order
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, listed
from lgmdsl.language.builder import Model
from lgmdsl.learning.search.learning_record import Learning
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import Quantity
from lgmdsl.posterior.mixture import Mixture
from lgmdsl.visible import visible

# Rows of a block that are shown at its beginning and its end, unless all are wanted.
KEPT = 4
# A report over more entries than this is left to `fit.mean` and the result file.
REPORTED = 1000
NATS = 0.01  # of the evidence, what is not worth saying


class Fitted(Protocol):
    """What the page reads of a fit."""

    @property
    def model(self) -> Model: ...
    @property
    def method(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def log_evidence(self) -> float: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def steps(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def canonical(self) -> CanonicalModel: ...
    @property
    def theta(self) -> Mapping[str, Array]: ...
    @property
    def marginals(self) -> Mixture: ...
    @property
    def gaussian_marginals(self) -> Mixture: ...
    @property
    def points(self) -> tuple[HyperPoint, ...]: ...
    @property
    def posterior(self) -> GaussianPosterior: ...
    @property
    def warnings(self) -> tuple[Diagnostic, ...]: ...
    @property
    def provenance(self) -> Mapping[str, str]: ...
    @property
    def hyper(self) -> str: ...
    @property
    def learning(self) -> Learning | None: ...
    @property
    def accuracy(self) -> Accuracy: ...
    def quantity(self, name: str) -> Quantity: ...


def summary(fit: Fitted, full: bool = False, warned: bool = True) -> str:
    """Method, status, evidence, hypers, latents and small reports; `full` shows every row,
    `warned` the warnings."""
    parts = [*_head(fit), *_hypers(fit, full)]
    learned = [_table(fit, name, full) for name in learned_names(fit)]
    parts += joined("hyperparameters", learned)
    tables = [_table(fit, name, full) for name in fit.canonical.latent_names]
    parts += joined("latents", tables)
    parts += _smooths(fit, full)
    reports = [s.name for s in fit.canonical.grounded.model.of_kind("report")]
    small = [
        n
        for n in reports
        if full or math.prod(fit.canonical.layout.shape(fit.canonical.named[n][0])) <= REPORTED
    ]
    parts += joined("reports", [_table(fit, name, full) for name in small])
    if len(small) < len(reports):
        parts += ["", f"left out: {', '.join(n for n in reports if n not in small)} (--full)"]
    for warning in fit.warnings if warned else ():
        parts += ["", f"{warning.severity}[{warning.code}]: {warning.message}"]
    return "\n".join(line.rstrip() for line in parts)


def _head(fit: Fitted) -> list[str]:
    blocks = fit.canonical.blocks
    number = (
        sum(len(b.rows) for b in blocks) if fit.canonical.rows.kept else fit.canonical.observations
    )
    kinds = ", ".join(f"{b.name} ~ {b.family.spec.name}" for b in blocks)
    size = sum(b.size for b in fit.canonical.reported)
    name = os.path.basename(fit.model.checked.source.name)
    rows = [] if name.startswith("<") else [("model", name)]
    rows += [
        ("method", fit.method if _spent_on_hypers(fit) else f"{fit.method}, {_spent(fit)}"),
        ("status", fit.status.value if fit.status is not Status.converged else "converged"),
        ("log evidence", _evidence(fit)),
        ("accuracy", _accuracy(fit)),
        *([("marginals", fit.provenance["marginals"])] if "marginals" in fit.provenance else []),
        *([("hypers", _learned(fit, fit.learning))] if fit.learning is not None else []),
        *([("note", fit.provenance["notes"])] if "notes" in fit.provenance else []),
        ("sites", f"{number:,} ({kinds})"),
        *(
            (name, fit.provenance[name])
            for name in ("merged", "places", "streamed", "shards")
            if name in fit.provenance
        ),
        ("latents", f"{size:,} in {counted(len(fit.canonical.reported), 'block')}"),
    ]
    return [line for name, text in rows for line in wrapped(f"{name:<14}{text}", 0, 14)]


def _evidence(fit: Fitted) -> str:
    if math.isnan(fit.log_evidence):
        return "none"
    return f"{fit.log_evidence:.4f}, {fit.guarantee.value}"


def _accuracy(fit: Fitted) -> str:
    """The largest estimated errors: `means within 0.01 sd, sds within 3 %, ...`."""
    known = fit.accuracy
    if not known.known or known.basis == EXACT:
        return known.basis
    worst = f" (worst: {known.worst})" if known.worst else ""
    gap = known.evidence
    size = f"{abs(gap):.2g} nats {'low' if gap > 0.0 else 'high'}"
    evidence = f"log evidence {size}" if abs(gap) >= NATS else f"log evidence within {NATS:g} nats"
    return (
        f"means within {_rounded(known.mean)} sd, sds within {_rounded(100.0 * known.sd)} %"
        f"{worst}, {evidence}; {known.basis}"
    )


def _rounded(size: float) -> str:
    """Two digits, upwards of 0.01."""
    return f"{max(size, 0.01):.2g}"


def _spent_on_hypers(fit: Fitted) -> bool:
    """Whether the line about hyperparameters says what was spent."""
    return fit.learning is not None and fit.hyper != "vb"


def _spent(fit: Fitted) -> str:
    return f"{counted(fit.steps, 'step')}, {_seconds(fit.seconds)}"


def _learned(fit: Fitted, how: Learning) -> str:
    fits = f"{counted(how.fits, 'fit')}, {_seconds(fit.seconds)}"
    if fit.hyper == "integrate" and how.design:
        around = f" around {how.modes} modes" if how.modes > 1 else ""
        return f"integrated over {counted(how.points, 'point')}{around} ({how.design}), {fits}"
    if fit.hyper == "vb":
        rounds = counted(len(how.steps), "round")
        return (
            f"mean field over hyperparameters, {rounds}; the evidence is the bound of all factors"
        )
    if fit.hyper == "integrate":
        return _cut_short(fit, fits)
    by = " by EM" if fit.hyper == "em" else ""
    known_entries = {n: np.isfinite(fit.quantity(n).sd) for n in learned_names(fit)}
    if not any(known.any() for known in known_entries.values()):
        return f"at the mode of evidence and prior{by}, {fits}; without standard errors"
    open_ = [f"`{n}`" for n, known in known_entries.items() if not known.all()]
    but = f"; none where {listed(open_)} may turn, or end at an edge" if open_ else ""
    return f"at the mode of evidence and prior{by}, {fits}; sds from the curvature there{but}"


def _cut_short(fit: Fitted, fits: str) -> str:
    """Line of the summary for an integration that did not finish."""
    known = all(np.isfinite(fit.quantity(n).sd).all() for n in learned_names(fit))
    sds = "hyperparameters have sds from the curvature there" if known else "without sds of them"
    return (
        f"not integrated ({fits}): interrupted before the end; latents are conditional on the best "
        f"values found, {sds}"
    )


def learned_names(fit: Fitted) -> tuple[str, ...]:
    """The hyperparameters that have a posterior, and not just a value."""
    if fit.learning is None:
        return ()
    blocks = fit.canonical.hypers.blocks
    return tuple(b.name for b in blocks if fit.quantity(b.name).sd.any())


def _hypers(fit: Fitted, full: bool) -> list[str]:
    rows: list[tuple[str, str]] = []
    learned = learned_names(fit)
    for block in fit.canonical.hypers.blocks:
        if block.name in learned:
            continue
        value = np.asarray(fit.theta[block.name], dtype=np.float64)
        if value.ndim == 0:
            rows.append((block.name, f"{float(value):.6g}"))
            continue
        labels = _printed(fit, block.name, block.dims)
        order = natural_order(fit.canonical, block.dims)
        rows += [
            (f"{block.name}[{labels[order[k]]}]", f"{value.reshape(-1)[order[k]]:.6g}")
            if k >= 0
            else ("...", _left_out(value.size))
            for k in _shown(value.size, full)
        ]
    return ["", "hyperparameters (fixed)", *columns(rows, 2)] if rows else []


def _smooths(fit: Fitted, full: bool) -> list[str]:
    """Effective degrees of freedom and typical size of each smooth."""
    known = smooth_columns(fit)
    names = [str(n) for n in known["name"]]
    shown = [
        f"{n}[{label}]" if label else n for n, label in zip(names, known["labels"], strict=True)
    ]
    rows: list[tuple[str, ...]] = [("smooths", "edf", "sd")]
    for k in _shown(len(names), full):
        if k < 0:
            rows.append((f"  ... {_left_out(len(names))}",))
        else:
            rows.append((f"  {shown[k]}", f"{known['edf'][k]:.2f}", f"{known['sd'][k]:.3g}"))
    return ["", *columns(rows, right=(1, 2))] if names else []


def _shown(size: int, full: bool) -> list[int]:
    """Positions to show; -1 stands for those left out."""
    if full or size <= 2 * KEPT + 1:
        return list(range(size))
    return [*range(KEPT), -1, *range(size - KEPT, size)]


def _left_out(size: int) -> str:
    return f"{size - 2 * KEPT:,} more (--full)"


def _table(fit: Fitted, name: str, full: bool) -> list[Row]:
    """The rows of one latent or report: its name, then a row for each entry."""
    quantity = fit.quantity(name)
    dims, quantiles = fit.marginals.quantile(name, np.array(LEVELS))
    size = int(quantity.mean.size)
    values = (quantity.mean.reshape(-1), quantity.sd.reshape(-1), quantiles.reshape(-1, size))
    if not dims:
        entry = entry_rows([name], values, [0], "")[0]
        return [(name, *entry[1:])]
    labels = _printed(fit, name, dims)
    order = natural_order(fit.canonical, dims)
    shown = [int(order[k]) if k >= 0 else -1 for k in _shown(size, full)]
    heading: Row = (f"{name}[{', '.join(dims)}]",)
    return [heading, *entry_rows(labels, values, shown, _left_out(size))]


def _printed(fit: Fitted, name: str, dims: Sequence[str]) -> list[str]:
    """The label of every entry, on one line whatever it holds."""
    entries = entry_labels(labels_of(fit.canonical, name, dims))
    return [visible(label, lines=False) for label in entries]


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"
