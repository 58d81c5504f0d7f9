"""Simulated returns of 150 days with gaps at the weekends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(60)
    day = np.array([d for d in range(210) if d % 7 < 5], dtype=float)
    h = np.zeros(day.size)
    h[0] = 0.8 * rng.standard_normal()
    for i in range(1, day.size):
        rho = np.exp(-(day[i] - day[i - 1]) / 20)
        h[i] = rho * h[i - 1] + 0.8 * np.sqrt(1 - rho**2) * rng.standard_normal()
    r = np.exp(0.5 * (-0.5 + h)) * rng.standard_normal(day.size)
    return {"day": day, "r": np.round(r, 6)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
