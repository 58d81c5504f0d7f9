"""Simulated lifetimes: 120 devices of 15 batches under two loads, taken off at 1000 hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(77)
    batch = np.repeat([f"B{k:02d}" for k in range(1, 16)], 8)
    load = np.tile([0.0, 1.0], 60)
    effect = np.repeat(0.3 * rng.standard_normal(15), 8)
    life = np.exp(6.6 - 0.7 * load + effect) * rng.weibull(1.6, 120)
    hours = np.round(np.minimum(life, 1000.0), 1)
    failed = (life <= 1000.0).astype(np.int64)
    return {"hours": hours, "failed": failed, "load": load, "batch": batch}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
