"""Simulated: a mainland of 30 regions in five rows, two islands off the coast, a third alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ROWS, COLUMNS = 5, 6


def neighbours() -> list[tuple[int, int]]:
    """Pairs on the grid, and the two islands that are joined by a bridge."""
    number = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    across = zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)
    down = zip(number[:-1].ravel(), number[1:].ravel(), strict=True)
    return [*((int(a), int(b)) for a, b in (*across, *down)), (30, 31)]


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(71)
    label = np.array([f"R{i:02d}" for i in range(1, 34)])
    row, column = np.divmod(np.arange(30), COLUMNS)
    smooth = 0.5 * np.sin(row / 2.0) + 0.3 * np.cos(column / 1.5)
    v = np.concatenate([smooth - smooth.mean(), [0.1, -0.1, 0.3]]) + 0.2 * rng.normal(size=33)
    x = np.round(rng.uniform(0, 24, 33), 1)
    expected = np.round(rng.gamma(3.0, 5.0, 33) + 2.0, 2)
    return {
        "y": rng.poisson(expected * np.exp(-0.2 + 0.3 * x / 10 + v)),
        "E": expected,
        "x": x,
        "edges": label[np.array(neighbours())],
        "region": label,
    }


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
