"""An audit on a page of 80 columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import lgmdsl.html as html
from lgmdsl.api.page import columns, wrapped
from lgmdsl.api.summary.table import cells

if TYPE_CHECKING:
    from lgmdsl.api.assess.audit import Audit

# So many of the largest shifts are shown.
SHOWN = 6
HEADER = ("largest differences", "mean", "sd", "mean", "sd", "5 %", "95 %")
RIGHT = (1, 2, 3, 4, 5, 6)
# Differences below this are not shown.
LEAST = 5e-4


def page(audit: Audit) -> str:
    """Diagnostics, corrected evidence, the verdict, and the largest differences."""
    rows = [
        ("k-hat", khat(audit.k_hat) + _along(audit)),
        ("draws", _drawn(audit)),
        (
            "log evidence",
            f"{audit.log_evidence:.4f}, Monte Carlo error {audit.log_evidence_se:.2g}",
        ),
        ("verdict", audit.verdict),
    ]
    lines = ["audit", *(x for n, text in rows for x in wrapped(f"  {n:<14}{text}", 0, 16))]
    table = [(_short(d.label), *cells(d.mean, d.sd, ()), *d.shown()) for d in differing(audit)]
    if table:
        lines += ["", *columns([HEADER, *((f"  {r[0]}", *r[1:]) for r in table)], 0, RIGHT)]
        text = (
            "corrected mean and sd; then corrected less reported: of mean, 5 and 95 % point in "
            f"corrected sds, of sd in per cent; Monte Carlo errors up to {_error(audit):.2g} sd"
        )
        lines += wrapped(text, 0, 0)
    return "\n".join(lines)


@dataclass(frozen=True)
class Difference:
    """An entry's corrected mean and sd, and how far it is from what the fit reports."""

    label: str
    mean: float
    sd: float
    shift: float
    stretch: float
    low: float
    high: float

    @property
    def size(self) -> float:
        """The largest difference, in sds or relative."""
        parts = (self.shift, self.stretch - 1.0, self.low, self.high)
        return max(abs(x) for x in parts if not math.isnan(x))

    def shown(self) -> tuple[str, str, str, str]:
        """Cells of the table: shift, change of the sd in percent, `low` and `high`."""
        percent = f"{100.0 * (self.stretch - 1.0):+.1f} %"
        return f"{self.shift:+.3f}", percent, f"{self.low:+.3f}", f"{self.high:+.3f}"


def differing(audit: Audit) -> list[Difference]:
    """The entries of what is judged that differ most."""
    out: list[Difference] = []
    for name in audit.judged:
        c = audit.corrected[name]
        low, high = np.nan_to_num(c.quantile_shift, nan=0.0)
        off = (np.abs(c.shift), np.abs(c.stretch - 1.0), np.abs(low), np.abs(high))
        size = np.max([np.nan_to_num(x, nan=0.0, posinf=1e300) for x in off], axis=0)
        for k in np.argsort(-size, kind="stable")[:SHOWN]:
            if size[k] > LEAST:
                values = (c.mean, c.sd, c.shift, c.stretch, low, high)
                out.append(Difference(entry(audit, name, int(k)), *(float(x[k]) for x in values)))
    return sorted(out, key=lambda d: -d.size)[:SHOWN]


def _error(audit: Audit) -> float:
    """The largest Monte Carlo error of a mean or quantile that is judged, in sds."""
    errors = [
        np.nanmax(np.nan_to_num([c.error, *c.quantile_error], nan=0.0), initial=0.0)
        for c in (audit.corrected[n] for n in audit.judged)
    ]
    return float(max(errors, default=0.0))


def _drawn(audit: Audit) -> str:
    article = "an" if audit.proposal[0] in "aeiou" else "a"
    chains = "" if audit.r_hat == 1.0 else f", R-hat {audit.r_hat:.3f}"
    size = f"effective size {audit.ess:,.0f}{chains}"
    return f"{audit.draws:,} from {article} {audit.proposal}, {size}"


def khat(value: float) -> str:
    """Two decimals; words for infinities."""
    if math.isfinite(value):
        return f"{value:.2f}"
    return "-inf (the largest weights are one value)" if value < 0 else "inf"


def _along(audit: Audit) -> str:
    shown = [f"{name} {value:.2f}" for name, value in audit.along.items() if math.isfinite(value)]
    return f" ({', '.join(shown)})" if shown else ""


def largest(audit: Audit) -> list[tuple[str, float, float, float, float]]:
    """Label, corrected mean and sd, shift and error of the entries of latents and lets that moved
    most."""
    shifts: list[tuple[float, str, int]] = []
    for name in audit.judged:
        size = np.nan_to_num(np.abs(audit.corrected[name].shift), nan=np.inf)
        for place in np.argsort(-size, kind="stable")[:SHOWN]:
            if size[place] > LEAST:
                shifts.append((float(size[place]), name, int(place)))
    shifts.sort(key=lambda f: -f[0])
    out = []
    for _, name, place in shifts[:SHOWN]:
        c = audit.corrected[name]
        numbers = (float(x[place]) for x in (c.mean, c.sd, c.shift, c.error))
        out.append((entry(audit, name, place), *numbers))
    return out  # type: ignore[return-value]


def entry(audit: Audit, name: str, place: int) -> str:
    """`w[dose]`."""
    dims = audit.dims[name]
    if not dims:
        return name
    indices = np.unravel_index(place, audit.layout.shape(dims))
    labels = [str(audit.layout.labels[d][i]) for d, i in zip(dims, indices, strict=True)]
    return f"{name}[{', '.join(labels)}]"


def _short(label: str) -> str:
    return label if len(label) <= 26 else label[:25] + "…"


def card(audit: Audit) -> str:
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
