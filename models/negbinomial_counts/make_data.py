"""Simulated: six blocks of nine plots, three treatments, plots of unequal area."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(50)
    block = np.array([f"B{i}" for i in range(1, 7)])
    what = np.tile(np.repeat(["control", "low", "high"], 3), 6)
    area = np.round(rng.uniform(0.5, 3.0, 54), 2)
    effect = {"control": -0.6, "low": 0.0, "high": 0.6}
    u = np.repeat(0.5 * rng.standard_normal(6), 9)
    mean = area * np.exp(1.5 + np.array([effect[w] for w in what]) + u)
    y = rng.negative_binomial(4, 4 / (4 + mean))
    return {"y": y, "area": area, "where": np.repeat(block, 9), "what": what}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
