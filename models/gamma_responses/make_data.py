"""Simulated clotting times: nine concentrations, two lots, three runs of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(70)
    x = np.tile(np.log([5, 10, 15, 20, 30, 40, 60, 80, 100]), 6)
    which = np.repeat(["A", "B"], 27)
    x = x - x.mean()
    mean = np.exp(np.where(which == "A", 3.5 - 0.6 * x, 3.1 - 0.55 * x))
    y = rng.gamma(12, mean / 12)
    return {"y": np.round(y, 3), "x": np.round(x, 6), "which": which}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
