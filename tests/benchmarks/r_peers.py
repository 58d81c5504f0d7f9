"""R programs beside this file (`peers/`) as peers: glmmTMB, TMB, lme4, mgcv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import AnyArray

SCRIPTS = Path(__file__).parent / "peers"
Record = dict[str, Any]


def run_r(folder: Path, script: str, *arguments: str, limit: float = 900.0) -> list[Record]:
    """What a script says of each fit. Skips where R or one of its packages is absent."""
    if shutil.which("Rscript") is None:
        pytest.skip("no Rscript: Debian's r-cran-glmmtmb r-cran-lme4 r-cran-mgcv r-cran-jsonlite")
    for source in SCRIPTS.iterdir():
        shutil.copy(source, folder)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        ["Rscript", script, *arguments],
        cwd=folder,
        env=one_thread,
        check=False,
        text=True,
        capture_output=True,
        timeout=limit,
    )
    if "there is no package called" in ended.stderr:
        pytest.skip(ended.stderr.strip().splitlines()[-1])
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def write_csv(path: Path, columns: Mapping[str, AnyArray]) -> None:
    table = np.column_stack([np.asarray(values, dtype=np.float64) for values in columns.values()])
    np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="", fmt="%.17g")
