"""Simulated: eight doses, about sixty insects each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(90)
    dose = np.linspace(-0.1, 0.1, 8)
    n = rng.integers(55, 65, 8)
    p = 1 / (1 + np.exp(-(0.7 + 34 * dose)))
    return {"n": n, "y": rng.binomial(n, p), "dose": np.round(dose, 6)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
