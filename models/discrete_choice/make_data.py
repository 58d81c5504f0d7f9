"""Simulated choices: 60 people, eight trips each, by bus, car or train, if there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(17)
    people, trips = 60, 8
    names = np.array([f"P{i:02d}" for i in range(1, people + 1)])
    n = people * trips
    time = np.array([1.0, 0.6, 0.8]) * rng.uniform(0.5, 1.5, (n, 3))
    cost = np.array([0.3, 1.0, 0.7]) * rng.uniform(0.5, 1.5, (n, 3))
    x = np.round(np.stack([time, cost], axis=2), 3)
    root = np.linalg.cholesky(np.array([[3.0, 0.8], [0.8, 1.5]]))
    taste = np.array([-2.0, -1.5]) + rng.standard_normal((people, 2)) @ root.T
    utility = np.array([0.0, 0.8, 0.4]) + np.einsum("nkj,nj->nk", x, np.repeat(taste, trips, 0))
    avail = np.ones((n, 3))
    avail[:, 1] = rng.random(n) < 0.7
    noisy = np.where(avail > 0, utility + rng.gumbel(size=(n, 3)), -np.inf)
    y = np.array(["bus", "car", "train"])[noisy.argmax(axis=1)]
    return {"X": x, "who": np.repeat(names, trips), "avail": avail, "y": y}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
