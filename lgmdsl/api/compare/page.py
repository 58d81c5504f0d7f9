"""A comparison on a page of 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import lgmdsl.html as html
from lgmdsl.api.assess.audit_page import largest
from lgmdsl.api.page import columns, counted, width, wrapped
from lgmdsl.contract.status import Guarantee, Status

if TYPE_CHECKING:
    from lgmdsl.api.assess.audit import Audit
    from lgmdsl.api.compare.comparison import Compared, Comparison
    from lgmdsl.api.fit.fit import Fit

HEADER = (
    ("", "log", "", "", "", "", "mean", "sd"),
    ("method", "evidence", "bound", "status", "steps", "time", "diff.", "ratio"),
)
RIGHT = (1, 4, 5, 6, 7)

BOUNDS = {
    Guarantee.EXACT: "exact",
    Guarantee.LOWER: "lower",
    Guarantee.NUMERICAL: "numeric",
    Guarantee.APPROXIMATE: "none",
}
AUDIT_HEADER = ("audit", "k-hat", "size", "evidence", "error", "largest shift", "verdict")
STATUS = {Status.iteration_limit: "step limit", Status.numerical_error: "numerical"}


def table(comparison: Comparison) -> str:
    """A row for each method, what the numbers mean, and which methods failed and why."""
    ran = [(r, r.fit) for r in comparison if r.fit is not None]
    rows = [_row(r, f, comparison.reference) for r, f in ran]
    lines = _fitted([*HEADER, *rows])
    remarks = [f"{r.method}: {f.status.value}" for r, f in ran if f.status is not Status.converged]
    for r in comparison:
        if r.failure is not None:
            code, subject = r.failure.code, "" if r.fit is None else "no audit: "
            remarks.append(
                f"{r.method}: {subject}{_why(r)}" + (f" ({code})" if code[1:].isdigit() else "")
            )
    audits = [(f.method, f.audited) for _, f in ran if f.audited is not None]
    if audits:
        lines += ["", *_audits(audits)]
    if remarks:
        lines += ["", *(line for text in remarks for line in wrapped(text, 0, 2))]
    return "\n".join([*lines, "", *_legend(comparison)])


def _audits(audits: list[tuple[str, Audit]]) -> list[str]:
    """What the audit says of each method."""
    rows = [AUDIT_HEADER]
    for method, a in audits:
        shifts = largest(a)
        label, shift = (shifts[0][0], f"{shifts[0][3]:+.3f}") if shifts else ("", "0")
        k = f"{a.k_hat:.2f}" if math.isfinite(a.k_hat) else str(a.k_hat)
        error = f"{a.log_evidence_se:.2g}"
        rows.append(
            (
                method,
                k,
                f"{a.ess:,.0f}",
                _evidence(a.log_evidence),
                error,
                f"{shift} {_short(label)}".rstrip(),
                str(a.outcome),
            )
        )
    n = audits[0][1].draws
    lines = columns(rows, 0, (1, 2, 3, 4))
    text = f"audit: {n:,} draws; effective size, log evidence, largest shift of a mean in sds"
    return [*lines, *wrapped(text, 0, 7)]


def _short(label: str) -> str:
    return label if len(label) <= 12 else label[:11] + "…"


def _row(row: Compared, fit: Fit, reference: str) -> tuple[str, ...]:
    d = row.difference
    same = row.method == reference
    return (
        row.method,
        _evidence(fit.log_evidence),
        BOUNDS[fit.guarantee],
        STATUS.get(fit.status, str(fit.status)),
        f"{fit.steps}",
        _time(fit.seconds),
        "-" if same or d is None else _small(d.mean_largest),
        "-" if same or d is None else _ratio(d.sd_farthest),
    )


def _why(row: Compared) -> str:
    """The message and what stands under it: `method ... cannot run this model: ... has a kink`."""
    assert row.failure is not None
    parts = [row.failure.message, row.failure.label or "; ".join(row.failure.details)]
    return ": ".join(p for p in parts if p).removeprefix(f"method `{row.method}` ")


def _fitted(rows: list[tuple[str, ...]]) -> list[str]:
    """The columns; the names of methods are cut where the page would be too wide."""
    lines = columns(rows, 0, RIGHT)
    over = max(len(line) for line in lines) - width()
    if over <= 0:
        return lines
    keep = max(max(len(r[0]) for r in rows) - over, 8)
    short = [(r[0] if len(r[0]) <= keep else f"{r[0][: keep - 1]}…", *r[1:]) for r in rows]
    return columns(short, 0, RIGHT)


def _legend(comparison: Comparison) -> list[str]:
    best = comparison[comparison.reference]
    assert best.fit is not None
    size = counted(sum(b.size for b in best.fit.canonical.reported), "latent")
    name = comparison.reference
    reason = comparison.reason if best.converged else f"{comparison.reason}; no method converged"
    out = wrapped(f"reference   {name} ({reason})", 0, 12)
    if any(f.guarantee is Guarantee.APPROXIMATE for f in comparison.fits.values()):
        out += wrapped(
            "bound none  an approximation of the log evidence without a guarantee", 0, 12
        )
    if len(comparison.fits) > 1:
        out += wrapped(
            f"mean diff.  the largest difference of a posterior mean from {name}'s, "
            f"in its posterior sds, of {size}",
            0,
            12,
        )
        out += wrapped(f"sd ratio    posterior sd / {name}'s, the one farthest from 1", 0, 12)
    if comparison.unable:
        out += wrapped(
            f"cannot run  {', '.join(comparison.unable)} (`lgm methods MODEL` says why)", 0, 12
        )
    return out


def _evidence(value: float) -> str:
    if math.isnan(value):
        return "-"
    size = abs(value)
    return f"{value:.4f}" if size < 1e5 else f"{value:.2f}"


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _small(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2e}" if value < 1e-3 or value >= 1e4 else f"{value:.3g}"


def _ratio(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if 1e-3 < value < 10 else f"{value:.2e}"


def card(comparison: Comparison) -> str:
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
