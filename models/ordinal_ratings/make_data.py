"""Simulated ratings: 24 judges rate 10 wines each, some ratings lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SCORES = np.array(["poor", "fair", "good", "excellent"])


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(501)
    judge = np.repeat([f"J{k:02d}" for k in range(1, 25)], 10)
    price = np.round(rng.uniform(-1.0, 1.0, 240), 2)
    severity = np.repeat(0.8 * rng.standard_normal(24), 10)
    liking = 1.5 * price - severity + rng.logistic(size=240)
    rating = SCORES[np.searchsorted([-1.5, 0.2, 2.0], liking)]
    rating[rng.random(240) < 0.05] = ""
    return {"rating": rating, "price": price, "judge": judge}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
