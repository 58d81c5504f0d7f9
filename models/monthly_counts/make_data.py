"""Simulated: seven years of months, of which the last is not observed yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(72)
    month = np.arange(84)
    law = (month >= 50).astype(float)
    level = 0.02 * np.cumsum(rng.normal(size=84))
    season = 0.15 * np.cos(2 * np.pi * month / 12) + 0.08 * np.sin(4 * np.pi * month / 12)
    y = 7.4 - 0.2 * law + level + season + 0.06 * rng.normal(size=84)
    y[72:] = np.nan
    return {"y": np.round(y, 4), "law": law}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
