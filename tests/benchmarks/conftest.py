"""Data generators of the peers' folder, a side-by-side timer, and the reproductions' marker."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reproductions run only where -m names them: `-m "not slow"` does not bring them in."""
    if "reproduction" in (config.getoption("markexpr") or ""):
        return
    asked_for = [i for i in items if i.get_closest_marker("reproduction") is not None]
    if asked_for:
        config.hook.pytest_deselected(items=asked_for)
        items[:] = [i for i in items if i not in asked_for]


@pytest.fixture(scope="session")
def peers(shared: Path) -> ModuleType:
    """`../shared/peers/data.py`: every synthetic data set from its seed."""
    spec = importlib.util.spec_from_file_location("peer_data", shared / "peers" / "data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
