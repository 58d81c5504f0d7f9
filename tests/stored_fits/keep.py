"""Keeps the fits of the installed version: `python -m tests.stored_fits.keep FOLDER [CASE...]`.

Run once for a version that changes what a result file holds, with a new folder; what is kept is
never written again, for it stands for the files that users have.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.shards.split import split

from .cases import CASES, Case

LEVELS = [0.05, 0.5, 0.95]
SHORT = 60


def answers(fit: Fit, case: Case) -> dict[str, Any]:
    """What the fit says, in JSON: every mean and sd, some quantiles, predictions, and what stands
    in the header."""
    names = [b.name for b in fit.canonical.latents] + list(fit.canonical.named)
    names += [b.name for b in fit.canonical.hypers.blocks] if fit.learning is not None else []
    whole = [n for n in names if fit.mean(n).size <= SHORT]
    out: dict[str, Any] = {
        "log_evidence": fit.log_evidence, "status": str(fit.status), "method": fit.method,
        "hyper": fit.hyper, "guarantee": str(fit.guarantee), "steps": fit.steps, "seed": fit.seed,
        "moments": {
            n: [np.ravel(fit.mean(n).values)[::every(n, whole)].tolist(),
                np.ravel(fit.sd(n).values)[::every(n, whole)].tolist()] for n in names
        },
        "quantiles": {n: np.ravel(fit.quantile(n, LEVELS).values).tolist() for n in whole},
    }  # fmt: skip
    if case.new():
        with warnings.catch_warnings():  # new members are what is asked for
            warnings.simplefilter("ignore", lgm.PredictionWarning)
            found = fit.predict(case.new()).to_dataset()
        out["predictions"] = {
            str(n): np.ravel(v.values).tolist() for n, v in found.data_vars.items()
        }
    if fit.audited is not None:
        out["audit"] = {"k_hat": fit.audited.k_hat, "log_evidence": fit.audited.log_evidence}
    return out


def every(name: str, whole: list[str]) -> int:
    """All entries of a short array, every 37th of a long one."""
    return 1 if name in whole else 37


def data_of(case: Case, scratch: Path) -> Any:
    """The data, or a folder of shards made of them."""
    if not case.by:
        return case.data()
    pq.write_table(pa.table(case.data()), scratch / "rows.parquet")
    split(scratch / "rows.parquet", case.by, scratch / "shards", 2)
    return scratch / "shards"


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or list(CASES):
        case, target = CASES[name], folder / f"{name}.nc"
        if target.exists():
            raise SystemExit(f"{target} is kept: name another folder")
        with tempfile.TemporaryDirectory() as scratch:
            fit = lgm.fit(lgm.loads(case.text), data_of(case, Path(scratch)), **case.arguments)
        if case.audit:
            fit = replace(fit, audited=fit.audit(400))
        fit.save(target)
        with target.with_suffix(".json").open("x", encoding="utf-8") as file:
            json.dump(answers(fit, case), file)
            file.write("\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
