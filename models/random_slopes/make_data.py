"""Simulated growth curves: 30 subjects, five ages, correlated intercepts and slopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(31)
    subject = np.array([f"S{i:02d}" for i in range(1, 31)])
    age = np.tile([-2.0, -1.0, 0.0, 1.0, 2.0], 30)
    root = np.linalg.cholesky(np.array([[4.0, 0.6], [0.6, 0.25]]))
    d = np.repeat(rng.standard_normal((30, 2)) @ root.T, 5, axis=0)
    y = 24 + 0.7 * age + d[:, 0] + age * d[:, 1] + 0.7 * rng.standard_normal(150)
    return {"y": np.round(y, 4), "age": age, "who": np.repeat(subject, 5)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
