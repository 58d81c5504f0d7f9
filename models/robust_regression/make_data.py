"""Simulated: a line with small noise, and every tenth point far off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(40)
    x = np.linspace(-2, 2, 60)
    y = 1 + 0.5 * x + 0.3 * rng.standard_normal(60)
    y[::10] += 4.0
    return {"x": np.round(x, 6), "y": np.round(y, 6)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
