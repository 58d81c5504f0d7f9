"""Simulated: 52 weeks, two years of records, a wet spring and a wetter autumn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(70)
    turn = 2 * np.pi * np.arange(52) / 52
    eta = -0.8 + 0.7 * np.sin(turn) - 0.6 * np.cos(2 * turn)
    n = np.full(52, 14)
    n[20] = 7
    return {"rain": rng.binomial(n, 1 / (1 + np.exp(-eta))), "n": n}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
