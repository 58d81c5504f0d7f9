"""What fits claim of their errors against the truth, over sizes and all methods.

Of the models in `tests/accuracy/posteriors.py`. A row of the file is a fit, with the largest errors
that it claims and has.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lgmdsl as lgm
from lgmdsl.accuracy.limits import MEAN, QUANTILE, SD
from tests.accuracy.posteriors import MODELS, SIZES, SMALL, asked

from . import judge

HEADINGS = (
    "model", "size", "method", "status", "codes", "seconds", "basis", "claimed_mean", "true_mean",
    "claimed_sd", "true_sd", "claimed_quantile", "true_quantile", "claimed_evidence",
    "true_evidence",
)  # fmt: skip
TIME = 3.0  # CPU seconds that a fit may be expected to take
Row = Mapping[str, Any]


def claim_rows(name: str, size: int, spent: dict[str, float]) -> list[dict[str, Any]]:
    """A row of each fit of a model; `spent`: CPU seconds of each method at the last size."""
    make, sizes = MODELS[name]
    if size not in sizes:
        return []
    known, out = make(size), list[dict[str, Any]]()
    model = lgm.loads(known.text)
    before = max((s for s in sizes if s < size), default=size)
    for label, method, bound, options in asked(model):
        about = {"model": name, "size": size, "method": label}
        if spent.get(label, 0.0) * (size / before) ** 2 > TIME or (
            name.startswith("rw1") and method == "ep"
        ):
            continue
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = lgm.fit(model, known.data, method=method, bound=bound, options=options)
        except lgm.LgmError as error:
            out.append(about | {"status": "refused", "basis": " ".join(str(error).split())[:120]})
            continue
        spent[label] = time.process_time() - began
        claim, true = fit.accuracy, known.errors(fit)
        mean, sd, quantile, evidence = true
        out.append(about | {
            "status": str(fit.status), "codes": " ".join(sorted({w.code for w in fit.warnings})),
            "seconds": spent[label], "basis": claim.basis,
            "claimed_mean": claim.mean, "true_mean": mean, "claimed_sd": claim.sd, "true_sd": sd,
            "claimed_quantile": claim.quantile, "true_quantile": quantile,
            "claimed_evidence": claim.evidence, "true_evidence": evidence,
        })  # fmt: skip
    return out


def every(names: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """The rows of these models, or of all, shown as they come."""
    spent: dict[str, dict[str, float]] = {name: {} for name in names or MODELS}
    for size in SIZES:
        for name, times in spent.items():
            rows = claim_rows(name, size, times)
            for row in rows:
                low = [k for k in ("mean", "sd") if _ratio(row, k) < 0.5]
                print(name, size, row["method"], row["status"], *low, flush=True, file=sys.stderr)
            yield rows


# ---- all together --------------------------------------------------------------------------------


def _ratio(row: Row, what: str) -> float:
    """Claim over truth; infinite where there is no claim, or too little to claim."""
    if row["status"] == "refused" or row["basis"].startswith("none"):
        return math.inf
    claimed, true = (float(row[f"{k}_{what}"]) for k in ("claimed", "true"))
    return claimed / true if true > SMALL else math.inf


def _excess(row: Row) -> float:
    """Of a fit with W609 the claim over the truth of what is claimed to be off, the least where the
    truth is known; 0 of others."""
    limits = {"mean": MEAN, "sd": SD, "quantile": QUANTILE}
    if "W609" not in row["codes"]:
        return 0.0
    pairs = ((float(row[f"claimed_{k}"]), float(row[f"true_{k}"]), x) for k, x in limits.items())
    return min((c / max(t, SMALL) for c, t, limit in pairs if c > limit and t == t), default=0.0)


def _silent(row: Row) -> bool:
    """Whether a mean or an sd is beyond the limits of W609 without a word."""
    off = float(row["true_mean"]) > MEAN or float(row["true_sd"]) > SD
    return off and row["status"] == "converged" and not judge.warned(row)


def table(rows: Sequence[Row]) -> str:
    """Of each method and size: fits; the least claims over the truth, of means and of sds; the
    largest of a fit with W609; fits without a claim; fits off and silent."""
    cells: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        cells.setdefault(row["method"], {}).setdefault(int(row["size"]), []).append(row)
    seconds = sum(float(r["seconds"] or 0.0) for r in rows)
    fits = [r for r in rows if r["status"] != "refused"]
    lines = [f"{len(fits)} fits, {len(rows) - len(fits)} refused, {seconds:.0f} CPU s", ""]
    lines += ["| method | " + " | ".join(f"{s:,}" for s in SIZES) + " |", "|---" * 7 + "|"]
    for method, by_size in cells.items():
        lines.append(f"| {method} | " + " | ".join(_cell(by_size.get(s, [])) for s in SIZES) + " |")
    lines.append("")
    for row in fits:
        low = [k for k in ("mean", "sd", "quantile") if _ratio(row, k) < 0.5]
        words = " ".join(f"{k} {float(row[f'claimed_{k}']):.3g} of {float(row[f'true_{k}']):.3g}"
                         for k in low)  # fmt: skip
        if low or _silent(row):
            lines.append(f"{row['model']} {row['size']} {row['method']}: {words or 'silent'} "
                         f"[{row['codes']}] {row['status']}, {row['basis']}")  # fmt: skip
    reasons = {r["basis"] for r in fits if r["basis"].startswith("none")}
    return "\n".join([*lines, *sorted(reasons)])


def _cell(rows: Sequence[Row]) -> str:
    fits = [r for r in rows if r["status"] != "refused"]
    if not fits:
        return "refused" if rows else ""
    least = [min(_ratio(r, k) for r in fits) for k in ("mean", "sd")]
    parts = [f"{len(fits)}:", *(f"{x:.2f}" if x < math.inf else "-" for x in least)]
    most = max(map(_excess, fits))
    parts.append(f"{most:.1f}" if most else "-")
    none, silent = (sum(map(f, fits)) for f in (lambda r: r["basis"].startswith("none"), _silent))
    return " ".join([*parts, str(none), str(silent)])
