"""Data generators of the peers' folder, and a side-by-side timer."""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture(scope="session")
def peers(shared: Path) -> SimpleNamespace:
    """`../shared/peers/data.py`: every synthetic data set from its seed."""
    return SimpleNamespace(**runpy.run_path(str(shared / "peers" / "data.py")))


def side_by_side(
    own: Callable[[], object], peer: Callable[[], object], runs: int = 7
) -> tuple[float, float]:
    """Median CPU seconds of both, run in turn after one warm-up each."""
    times: tuple[list[float], list[float]] = ([], [])
    for k in range(runs + 1):
        for work, kept in zip((own, peer), times, strict=True):
            start = time.process_time()
            work()
            if k:
                kept.append(time.process_time() - start)
    return float(np.median(times[0])), float(np.median(times[1]))
