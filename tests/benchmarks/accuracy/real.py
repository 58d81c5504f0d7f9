"""Default fits of real data against long MCMC and exact integration: a line for each data set.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.accuracy.real ../shared OUT.csv [CASE ...]

Quantiles are those the MCMC runs kept, 2.5 and 97.5 %; of lupus 5 and 95 %.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.realdata.data import LOADERS, model_text
from tests.realdata.pinned import PINNED
from tests.realdata.references import NAMES, reference

from . import judge

LUPUS = """lgm 1
index obs
index feat = 3
data y[obs] : binary
data X[obs, feat] : real
latent w[feat] ~ normal(sd = 5)
let eta[obs] = X @ w
observe y ~ bernoulli(probit = eta)
"""


def lupus(shared: Path) -> list[dict[str, Any]]:
    """Three weights, against quasi-Monte Carlo."""
    text = (shared / "reference" / "lupus_probit_exact.json").read_text(encoding="utf-8")
    known: dict[str, Any] = json.loads(text)["normal_var_25"]
    with np.load(shared / "data" / "lupus.npz") as file:
        data = {"y": np.asarray(file["y"], dtype=np.float64), "X": np.asarray(file["X"])}
    fit, about = judge.fitted(LUPUS, data, {})
    assert fit is not None, about
    quantiles = np.array(known["q5_50_95"])[:, [0, 2]].T
    lines = judge.compared(
        fit, [("latent", "w", k) for k in range(3)], np.array(known["mean"]),
        np.array(known["sd"]), quantiles, (0.05, 0.95),
    )  # fmt: skip
    for line, skewness in zip(lines, known["skewness"], strict=True):
        line["skewness"] = skewness
    lines.append(judge.evidence_line(fit, known["log_marginal_likelihood"]))
    head = about | {"number": "lupus", "family": "lupus", "latents": 3, "hypers": 0}
    return [head | line for line in lines]


def sampled(case: str, shared: Path) -> list[dict[str, Any]]:
    """One data set with a kept MCMC run."""
    kept = reference(case).quantities
    model, data = lgm.loads(model_text(case)), LOADERS[case][1](shared / "data")
    began = time.process_time()
    fit = lgm.fit(model, data)
    about = judge.described(fit, time.process_time() - began)
    names = sorted({block.name.partition(".")[0] for block in fit.canonical.latents})
    quantities: list[tuple[str, str, int]] = []
    parts: list[tuple[Array, Array, Array]] = []
    for kind, group in (("hyper", list(PINNED[case])), ("latent", names)):
        for name in group:
            q = kept[name]
            # Entries that the data repeat (a covariance), or that are constant, are left out.
            sd = np.ravel(q.sd)
            for k in np.flatnonzero(sd > 0.0):
                quantities.append((kind, name, int(k)))
                tails = q.quantiles.reshape(len(q.quantiles), -1)[[0, -1], k]
                parts.append((np.ravel(q.mean)[k], sd[k], tails))
    mean, sds = np.array([p[0] for p in parts]), np.array([p[1] for p in parts])
    tails = np.array([p[2] for p in parts]).T
    lines = judge.compared(fit, quantities, mean, sds, tails, (0.025, 0.975))
    head = about | {
        "number": case, "family": case, "latents": sum(k == "latent" for k, *_ in quantities),
        "hypers": len(PINNED[case]),
    }  # fmt: skip
    return [head | line for line in lines]


def table(rows: Sequence[judge.Row]) -> str:
    """Worst of each data set, hypers and latents apart."""
    lines = [
        "| data | | mean, sd | sd ratio | low, high quantile, sd | claimed | warnings | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    cases = dict.fromkeys(str(r["number"]) for r in rows)
    for case in cases:
        for kind in ("hyper", "latent"):
            own = [r for r in rows if r["number"] == case and r["kind"] == kind]
            if not own:
                continue

            def worst(key: str, middle: float, own: Sequence[judge.Row] = own) -> float:
                return max((float(r[key]) for r in own), key=lambda v: abs(v - middle))

            head = own[0]
            lines.append(
                f"| {case} | {kind}s | {worst('z', 0):+.2f} | {worst('ratio', 1):.2f} | "
                f"{worst('low_error', 0):+.2f}, {worst('high_error', 0):+.2f} | "
                f"{head['claimed_mean'] or '-'}, {head['claimed_sd'] or '-'} | "
                f"{head['codes'] or '-'} | {float(head['seconds']):.1f} |"
            )
    return "\n".join(lines)


def main(shared: Path, out: Path, chosen: Sequence[str]) -> None:
    """See the module."""

    def batches() -> Iterator[list[dict[str, Any]]]:
        for case in chosen or ("lupus", *NAMES):
            rows = lupus(shared) if case == "lupus" else sampled(case, shared)
            print(case, rows[0]["seconds"], flush=True, file=sys.stderr)
            yield rows

    judge.write(out, batches())
    print(table(judge.read(out)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
