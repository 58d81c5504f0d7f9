"""Whole processes: `lgm --help`, `lgm check`, a small `lgm fit`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["--help", "check", "fit"])
def test_whole_process(benchmark: Any, command: str, root: Path, tmp_path: Path) -> None:
    """Wall seconds of one process, the interpreter's start included."""
    example = root / "models" / "poisson_glmm"
    arguments = {
        "--help": ["--help"],
        "check": ["check", str(example / "model.lgm")],
        "fit": [
            "fit",
            str(example / "model.lgm"),
            str(example / "data.npz"),
            "-o",
            str(tmp_path / "o.nc"),
        ],
    }[command]

    def process() -> None:
        subprocess.run(
            [sys.executable, "-m", "lgmdsl", *arguments], check=True, capture_output=True
        )

    benchmark.pedantic(process, rounds=7, warmup_rounds=2)
    print(f"\nlgm {command}: median {benchmark.stats.stats.median:.2f} s")
