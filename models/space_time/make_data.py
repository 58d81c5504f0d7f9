"""Simulated: 12 regions in eight years, some region-years without a count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

PAIRS = ("AB", "AC", "BC", "BD", "CE", "DE", "DF", "EG", "FG", "FH", "GI", "HI", "HJ", "IK", "JK",
         "JL", "KL")  # fmt: skip


def make() -> dict[str, Any]:
    """The data of the model, by name."""
    rng = np.random.default_rng(73)
    region = np.array(list("ABCDEFGHIJKL"))
    adj = np.zeros((12, 12), dtype=np.int8)
    for a, b in PAIRS:
        i, j = "ABCDEFGHIJKL".index(a), "ABCDEFGHIJKL".index(b)
        adj[i, j] = adj[j, i] = 1
    precision = np.diag(adj.sum(axis=1)) - adj
    # A triangular root, which unlike eigenvectors is the same on every machine; the level that the
    # precision leaves free is taken off.
    root = np.linalg.inv(np.linalg.cholesky(precision + 1.0 / 12.0)).T
    root -= root.mean(axis=0)
    st = np.empty((12, 8))
    st[:, 0] = 0.5 * root @ rng.normal(size=12)
    for t in range(1, 8):
        st[:, t] = 0.8 * st[:, t - 1] + 0.3 * root @ rng.normal(size=12)
    where, when = (i.ravel() for i in np.indices((12, 8)))
    seen = rng.random(96) < 0.9
    expected = np.round(rng.gamma(4.0, 3.0, 96), 2)
    y = rng.poisson(expected * np.exp(0.1 + st.ravel()))
    return {
        "y": y[seen], "E": expected[seen], "where": region[where[seen]], "when": 2011 + when[seen],
        "adj": adj, "region": region,
    }  # fmt: skip


if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("data.npz"), **make())
