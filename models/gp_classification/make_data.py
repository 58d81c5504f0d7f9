"""Two interleaved half moons with noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(20)
    y = np.repeat([0, 1], 60)
    angle = np.pi * rng.random(120)
    x1 = np.where(y == 0, np.cos(angle), 1 - np.cos(angle))
    x2 = np.where(y == 0, np.sin(angle), 0.5 - np.sin(angle))
    x = np.column_stack([x1, x2]) + 0.35 * rng.standard_normal((120, 2))
    return {"x": np.round(x, 6), "y": y}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
