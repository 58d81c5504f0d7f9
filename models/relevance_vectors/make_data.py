"""Simulated: sinc(x) with noise 0.1 at 30 points, and a Gaussian kernel of width 3 at each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(16)
    x = np.sort(rng.uniform(-10.0, 10.0, 30))
    y = np.sinc(x / np.pi) + 0.1 * rng.standard_normal(30)
    bump = np.exp(-((x[:, None] - x) ** 2) / (2.0 * 3.0**2))
    return {"bump": np.round(bump, 6), "y": np.round(y, 6)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
