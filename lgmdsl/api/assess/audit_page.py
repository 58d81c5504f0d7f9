"""An audit on a page of 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.page import columns, wrapped

if TYPE_CHECKING:
    from lgmdsl.api.assess.audit import Audit

# So many of the largest shifts are shown.
SHOWN = 6
HEADER = ("largest shifts", "corrected", "sd", "shift", "error")
RIGHT = (1, 2, 3, 4)
# Shifts below this, in sds, are not shown.
LEAST = 5e-4


def page(audit: Audit) -> str:
    """Diagnostics, corrected evidence, the largest shifts (in sds), and the verdict."""
    rows = [
        ("k-hat", khat(audit.k_hat) + _along(audit)),
        ("draws", f"{audit.draws:,} from a {audit.proposal}, effective size {audit.ess:,.0f}"),
        (
            "log evidence",
            f"{audit.log_evidence:.4f}, Monte Carlo error {audit.log_evidence_se:.2g}",
        ),
        ("verdict", audit.verdict),
    ]
    lines = ["audit", *(x for n, text in rows for x in wrapped(f"  {n:<14}{text}", 0, 16))]
    table = [
        (_short(label), f"{mean:.4g}", f"{sd:.4g}", f"{shift:+.3f}", f"{error:.3f}")
        for label, mean, sd, shift, error in largest(audit)
    ]
    if table:
        lines += ["", *columns([HEADER, *((f"  {r[0]}", *r[1:]) for r in table)], 0, RIGHT)]
        lines.append("shift: of the mean, and its Monte Carlo error, in corrected sds")
    return "\n".join(lines)


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
    return label if len(label) <= 36 else label[:35] + "…"
