"""What a default fit says against the truth, a line for each quantity, and what follows for all."""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array

MEAN, SD, QUANTILE = 0.1, 0.1, 0.15  # posterior sds, relative, posterior sds
HEADINGS = (
    "number", "family", "latents", "hypers", "rows", "method", "status", "codes", "seconds",
    "claimed_mean", "claimed_sd", "claimed_evidence", "basis", "fingerprint", "kind", "name",
    "mean", "sd", "low", "high", "skewness", "error", "z", "ratio", "low_error", "high_error",
    "said", "fit", "code", "warned", "deserved", "needed", "size",
)  # fmt: skip
NAMES = ("latent", "predictor", "hyper")
OUTPUTS = ("response", "quantile", "alone", "effect", "loo", "pit")
# Of the other kinds: the limits of `z`, of `ratio` and of the quantiles.
LIMITS = {
    "response": (MEAN, SD, QUANTILE), "effect": (MEAN, SD, QUANTILE), "alone": (1e-9, SD, SD),
}  # fmt: skip
Row = Mapping[str, Any]


def fingerprint(text: str, data: Mapping[str, Any], fixed: Mapping[str, Any]) -> str:
    """Of a model with its data."""
    digest = hashlib.sha256(text.encode())
    for columns in (data, fixed):
        for name in sorted(columns):
            digest.update(name.encode() + np.ascontiguousarray(columns[name]).tobytes())
    return digest.hexdigest()[:12]


def fitted(
    text: str, data: Mapping[str, Any], fixed: Mapping[str, Any]
) -> tuple[lgm.Fit | None, dict[str, Any]]:
    """The default fit, None where it is refused, and the columns that belong to it."""
    model = lgm.loads(text)
    began = time.process_time()
    try:
        fit = lgm.fit(model, data, fixed=fixed)
    except lgm.LgmError as error:
        return None, {
            "status": "refused", "codes": error.diagnostics[0].code, "seconds": 0.0,
            "method": "", "basis": " ".join(str(error).split())[:80],
        }  # fmt: skip
    seconds = time.process_time() - began
    return fit, described(fit, seconds)


def described(fit: lgm.Fit, seconds: float) -> dict[str, Any]:
    """The columns of a fit; the claims are those of `fit.accuracy`, where there is one."""
    claim = getattr(fit, "accuracy", None)
    return {
        "method": fit.method,
        "status": str(fit.status),
        "codes": " ".join(sorted({w.code for w in fit.warnings})),
        "seconds": round(seconds, 3),
        "claimed_mean": _shown(getattr(claim, "mean", None)),
        "claimed_sd": _shown(getattr(claim, "sd", None)),
        "claimed_evidence": _shown(getattr(claim, "evidence", None)),
        "basis": str(getattr(claim, "basis", "") or ""),
    }


def _shown(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, int | float) else ""


def compared(
    fit: lgm.Fit,
    quantities: Sequence[tuple[str, str, int]],
    mean: Array,
    sd: Array,
    quantiles: Array,
    levels: Sequence[float],
) -> list[dict[str, Any]]:
    """z of means, sd ratios, and errors of two quantiles in true sds, of each quantity."""
    read: dict[str, tuple[Array, Array, Array]] = {}
    lines = []
    for k, (kind, name, place) in enumerate(quantities):
        if name not in read:
            read[name] = (
                np.ravel(fit.mean(name).values),
                np.ravel(fit.sd(name).values),
                np.reshape(fit.quantile(name, list(levels)).values, (len(levels), -1)),
            )
        m, s, q = read[name]
        gaps = (q[:, place] - quantiles[:, k]) / sd[k]
        lines.append(
            {
                "kind": kind, "name": f"{name}[{place}]", "mean": mean[k], "sd": sd[k],
                "low": quantiles[0, k], "high": quantiles[1, k],
                "z": (m[place] - mean[k]) / sd[k], "ratio": s[place] / sd[k],
                "low_error": gaps[0], "high_error": gaps[1],
            }
        )  # fmt: skip
    return lines


def evidence_line(fit: lgm.Fit, log_evidence: float) -> dict[str, Any]:
    """The gaps of the evidence: `z` of what the method says, `ratio` of the corrected one."""
    corrected = getattr(fit, "log_evidence_corrected", None)
    return {
        "kind": "evidence", "name": "log p(y)", "mean": log_evidence,
        "z": fit.log_evidence - log_evidence,
        "ratio": "" if corrected is None else corrected - log_evidence,
    }  # fmt: skip


def write(
    out: Path, batches: Iterable[list[dict[str, Any]]], headings: Sequence[str] = HEADINGS
) -> None:
    """Lines as they come, numbers to seven digits."""
    with out.open("w", newline="") as f:
        writer = csv.DictWriter(f, headings)
        writer.writeheader()
        for batch in batches:
            for row in batch:
                writer.writerow({k: _written(v) for k, v in row.items()})
            f.flush()


def _written(value: Any) -> Any:
    return f"{float(value):.7g}" if isinstance(value, float | np.floating) else value


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as f:
        return list(csv.DictReader(f))


# ---- all together --------------------------------------------------------------------------------


def outside(row: Row) -> bool:
    """Whether a quantity is further off than the limits; an answer that is not finite is, and what
    was not compared is not."""
    return not size(row) <= 1.0


def warned(row: Row) -> bool:
    return any(code.startswith("W6") for code in str(row["codes"]).split())


def silent(row: Row) -> bool:
    """Whether an answer comes without a word, of a fit that converged without a warning."""
    return str(row["status"]) == "converged" and not warned(row) and not row.get("said")


def _named(row: Row) -> bool:
    return row["kind"] not in ("evidence", "refused", *OUTPUTS)


def summary(rows: Sequence[Row], by: Callable[[Row], str] = lambda row: str(row["family"])) -> str:
    """The figures of a whole run, and for each group of fits."""
    fits: dict[str, list[Row]] = {}
    for row in rows:
        fits.setdefault(str(row["number"]), []).append(row)
    kept = {n: r for n, r in fits.items() if r[0]["kind"] not in ("left out", "refused")}
    lines = [f"{len(fits)} models, of which left out or refused: {len(fits) - len(kept)}"]
    lines += [
        f"  {n} {r[0]['family']}: {r[0]['kind']}: {r[0]['name']}"
        for n, r in fits.items()
        if n not in kept
    ]
    lines += _figures(list(kept.values()))
    lines += _outputs(list(kept.values()))
    lines.append("\n| family | fits | off | warned | off, silent | quantities within | worst |")
    lines.append("|---|---|---|---|---|---|---|")
    groups: dict[str, list[list[Row]]] = {}
    for r in kept.values():
        groups.setdefault(by(r[0]), []).append(r)
    for group, members in sorted(groups.items()):
        every = [q for r in members for q in r if _named(q)]
        off = [r for r in members if _off(r)]
        inside = sum(not outside(q) for q in every) / len(every)
        worst = max(every, key=size)
        lines.append(
            f"| {group} | {len(members)} | {len(off)} | {sum(warned(r[0]) for r in members)} | "
            f"{sum(not warned(r[0]) for r in off)} | {100 * inside:.0f} % | {_worst(worst)} |"
        )
    return "\n".join(lines)


def _off(fit: Sequence[Row]) -> bool:
    return any(outside(q) for q in fit if _named(q))


def size(row: Row) -> float:
    """How far off, in units of the limits."""
    mean, sd, quantile = LIMITS.get(str(row["kind"]), (MEAN, SD, QUANTILE))
    columns = (("z", 0.0, mean), ("ratio", 1.0, sd), ("low_error", 0.0, quantile),
               ("high_error", 0.0, quantile))  # fmt: skip
    parts = [abs(float(row[n]) - at) / limit for n, at, limit in columns if row[n] != ""]
    return max((part if np.isfinite(part) else np.inf for part in parts), default=0.0)


def _worst(row: Row) -> str:
    return (
        f"{row['number']} {row['name']}: z {float(row['z']):+.2f}, "
        f"sd x {float(row['ratio']):.2f}, quantiles {float(row['low_error']):+.2f} "
        f"{float(row['high_error']):+.2f}"
    )


def _percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0 of 0"


def _figures(fits: Sequence[Sequence[Row]]) -> list[str]:
    every = [q for r in fits for q in r if _named(q)]
    off, alarmed = [r for r in fits if _off(r)], [r for r in fits if warned(r[0])]
    silent = [r for r in fits if not warned(r[0])]
    quiet = [q for r in silent for q in r if _named(q)]
    gaps = np.array([float(q["z"]) for r in fits for q in r if q["kind"] == "evidence"])
    within = sum(not outside(q) for q in every)
    lines = [
        f"quantities within {MEAN} sd, {100 * SD:.0f} %, {QUANTILE} sd: "
        + _percent(within, len(every)),
        "fits with something off: " + _percent(len(off), len(fits)),
        "of these warned (any W6xx): " + _percent(sum(warned(r[0]) for r in off), len(off)),
        "of those warned something off: " + _percent(sum(map(_off, alarmed)), len(alarmed)),
        "off without a warning: " + _percent(sum(map(_off, silent)), len(silent)),
        "quantities off in fits without a warning: "
        + _percent(sum(map(outside, quiet)), len(quiet)),
    ]
    kinds = ("latent", "predictor", "hyper")
    for kind in kinds:
        own = [q for q in every if q["kind"] == kind]
        if own:
            lines.append(f"of {kind}s: {_shares(own)}")
    for title, chosen in (
        ("no learned sd", [r for r in fits if str(r[0]["hypers"]) == "0"]),
        ("learned sds", [r for r in fits if str(r[0]["hypers"]) != "0"]),
    ):
        lines.append(f"fits off, {title}: {_percent(sum(map(_off, chosen)), len(chosen))}")
    if len(gaps):
        quantiles = np.quantile(gaps, [0.0, 0.05, 0.5, 0.95, 1.0])
        lines.append(
            "evidence less the truth, nats: 0, 5, 50, 95, 100 % at "
            + ", ".join(f"{g:+.3f}" for g in quantiles)
            + f"; beyond 0.1: {_percent(int((np.abs(gaps) > 0.1).sum()), len(gaps))}"
        )
    seconds = np.array([float(r[0]["seconds"]) for r in fits])
    lines.append(f"CPU seconds of a fit: median {np.median(seconds):.2f}, all {seconds.sum():.0f}")
    claims = [r for r in fits if str(r[0]["claimed_sd"])]
    if claims:
        lines.append(f"fits with a claim: {_percent(len(claims), len(fits))}; {_claims(claims)}")
    lines.append("worst fits: ")
    worst = sorted((max((q for q in r if _named(q)), key=size) for r in fits),
                   key=size, reverse=True)  # fmt: skip
    lines += [f"  {q['family']} {_worst(q)} [{q['codes']}]" for q in worst[:12] if size(q) > 1.0]
    return lines


def _outputs(fits: Sequence[Sequence[Row]]) -> list[str]:
    """Of each kind of output how many are off, and silent; of each code how many fits are off by
    half a limit."""
    lines = []
    for kind in OUTPUTS:
        own = [q for r in fits for q in r if q["kind"] == kind]
        if own:
            off = [q for q in own if outside(q)]
            quiet = [q for q in off if silent(q)]
            lines.append(
                f"{kind}: off {_percent(len(off), len(own))}, of these silent {len(quiet)}"
                f" in {len({q['number'] for q in quiet})} fits"
            )
            lines += [f"  {q['family']} {q['number']} {q['name']}: {size(q):.1f}" for q in quiet]
    wrong = [r for r in fits if any(silent(q) and outside(q) for q in r if q["kind"] != "evidence")]
    lines.append("fits with anything wrong and silent: " + _percent(len(wrong), len(fits)))
    for code in sorted({c for r in fits for c in str(r[0]["codes"]).split()}):
        own_fits = [r for r in fits if code in str(r[0]["codes"]).split()]
        deserved = sum(any(size(q) > 0.5 for q in r if _named(q)) for r in own_fits)
        lines.append(f"{code}: deserved {_percent(deserved, len(own_fits))}")
    sds = [q for r in fits for q in r if q["kind"] in ("response", "effect") and q["ratio"] != ""]
    said = [q for q in sds if "W611" in str(q.get("said"))]
    deserved = sum(size(q) > 0.5 for q in said)
    lines.append(f"W611 of sds that the points tell: deserved {_percent(deserved, len(said))}")
    off = [q for q in sds if size(q) > 1.0]
    lines.append(
        f"sds that are off, without W611: {_percent(len([*filter(silent, off)]), len(off))}"
    )
    return lines


def _shares(rows: Sequence[Row]) -> str:
    """How often each figure is beyond its limit, and what is asymmetric."""
    z = np.abs([float(q["z"]) for q in rows])
    ratio = np.abs([float(q["ratio"]) - 1.0 for q in rows])
    tails = np.array([[float(q["low_error"]), float(q["high_error"])] for q in rows])
    beyond = np.abs(tails).max(axis=1)
    only = (z <= MEAN) & (ratio <= SD) & (beyond > QUANTILE)
    n = len(rows)
    return (
        f"mean {_percent(int((~(z <= MEAN)).sum()), n)}"
        f", sd {_percent(int((~(ratio <= SD)).sum()), n)}"
        f", quantiles {_percent(int((~(beyond <= QUANTILE)).sum()), n)}"
        f" (these alone {_percent(int(only.sum()), n)})"
    )


def _claims(fits: Sequence[Sequence[Row]]) -> str:
    """Whether what is off by more than the limits was claimed to be."""
    held = 0
    for r in fits:
        own = [q for q in r if _named(q)]
        z = max(abs(float(q["z"])) for q in own)
        ratio = max(abs(float(q["ratio"]) - 1.0) for q in own)
        mean, sd = (float(r[0][f"claimed_{k}"] or 0.0) for k in ("mean", "sd"))
        held += z <= max(2.0 * abs(mean), MEAN) and ratio <= max(2.0 * abs(sd), SD)
    return "errors within twice the claim, or the limits: " + _percent(held, len(fits))
