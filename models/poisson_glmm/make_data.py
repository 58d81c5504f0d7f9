"""Simulated: 60 subjects with four visits each, two covariates, unequal follow-up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(30)
    subject = np.array([f"S{i:02d}" for i in range(1, 61)])
    who = np.repeat(subject, 4)
    treated = np.repeat(rng.integers(0, 2, 60), 4).astype(float)
    visit = np.tile([-1.5, -0.5, 0.5, 1.5], 60)
    time = np.round(rng.uniform(1.0, 4.0, 240), 2)
    u = np.repeat(0.6 * rng.standard_normal(60), 4)
    rate = np.exp(0.4 - 0.5 * treated - 0.1 * visit + u)
    return {
        "y": rng.poisson(rate * time),
        "X": np.column_stack([treated, visit]),
        "who": who,
        "time": time,
        "feat": np.array(["treated", "visit"]),
    }


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
