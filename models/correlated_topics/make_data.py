"""Simulated letters: 150 of about 60 words, of four subjects that are correlated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

SUBJECTS = (
    ("harbour", "ship", "tide", "gull", "sail", "storm"),
    ("island", "ferry", "beach", "shell", "wave", "lamp"),
    ("kitchen", "bread", "oven", "apple", "soup", "spoon"),
    ("money", "bank", "debt", "rent", "wages", "price"),
)
COMMON = ("dear", "home", "day", "letter", "friend", "soon")
WORDS = (*(w for own in SUBJECTS for w in own), *COMMON)


def _topics() -> np.ndarray:
    """Three words of four are a subject's own, some oftener; the others are common or of others."""
    words = np.array(WORDS)
    weight = np.full((len(SUBJECTS), len(WORDS)), 0.05)
    for k, own in enumerate(SUBJECTS):
        weight[k, np.isin(words, COMMON)] = 0.8
        weight[k, np.isin(words, own)] = np.linspace(4.0, 1.0, len(own))
    return weight / weight.sum(axis=1, keepdims=True)


# The sea and the island go together; neither goes with the kitchen or with money.
CORRELATION = np.array(
    [
        [1.0, 0.7, -0.5, -0.5],
        [0.7, 1.0, -0.5, -0.5],
        [-0.5, -0.5, 1.0, -0.3],
        [-0.5, -0.5, -0.3, 1.0],
    ]
)
TRUTH: dict[str, Any] = {
    "mu": np.array([0.3, 0.0, 0.2, -0.5]),
    "S": 1.5 * CORRELATION,
    "beta": _topics(),
}


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(6)
    letters = 150
    z = rng.standard_normal((letters, 4)) @ np.linalg.cholesky(TRUTH["S"]).T
    share = special.softmax(TRUTH["mu"] + z, axis=1)
    n = rng.multinomial(rng.poisson(60, size=letters), share @ TRUTH["beta"])
    return {"n": n, "word": np.array(WORDS)}


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
