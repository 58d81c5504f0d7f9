"""The diabetes data bundled with scikit-learn, standardised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    bunch = load_diabetes(scaled=False)
    X = bunch.data
    return {
        "X": np.round((X - X.mean(axis=0)) / X.std(axis=0), 6),
        "y": bunch.target / 100,
        "feat": np.array(bunch.feature_names),
    }


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
