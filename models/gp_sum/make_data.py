"""Simulated: twelve years of monthly values, one year missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(80)
    when = np.arange(144) / 12
    when = when[(when < 5) | (when >= 6)]
    y = np.sin(when / 2) + (0.6 + 0.05 * when) * np.sin(2 * np.pi * when)
    y = y + 0.2 * rng.standard_normal(when.size)
    return {"when": np.round(when[:, None], 6), "y": np.round(y, 6)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
