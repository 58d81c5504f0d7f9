"""Sparse binary classification of the sizes of Nickisch and Seeger 2009, section 5: a9a, w8a, the
1,000 cases of rcv1 that Vowpal Wabbit has, and synthetic ones in the shape of real-sim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray

# The paper's table: cases, features, entries that are not zero, positive to negative labels.
REAL_SIM = (72_201, 20_958, 3_709_083, 0.44)
LENGTH = 0.8  # sd of the log of a document's number of words
ZIPF = 0.9  # a word's probability falls as its rank to this power
REPEATED = 1.19  # words a document has for each different one
CONTRAST = 1.5  # sd of the log of a word's probability in one class over that in both
PURITY = 1.0  # of a document, u^PURITY for uniform u: the share of its words from its class


@dataclass(frozen=True, eq=False)
class Cases:
    """X (q, n), labels 0 and 1, and the scale tau of the predictor, eta = tau X w."""

    name: str
    x: sp.csr_array
    y: IntArray
    tau: float

    def rows(self, rows: IntArray) -> dict[str, object]:
        return {"X": self.x[rows], "y": self.y[rows]}

    def covariates(self, rows: IntArray) -> dict[str, object]:
        return {"X": self.x[rows]}

    def labels(self, rows: IntArray) -> dict[str, object]:
        return {"y": self.y[rows]}


def stored(shared: Path, name: str, tau: float = 1.0) -> Cases:
    """One of the data sets, its test cases (where it has any) after the others."""
    with np.load(shared / "data" / f"{name}.npz") as file:
        parts = [""] if "t_data" not in file.files or name == "a9a" else ["", "t_"]
        x = sp.vstack(
            [
                sp.csr_array(
                    (file[f"{p}data"].astype(float), file[f"{p}indices"], file[f"{p}indptr"]),
                    shape=tuple(file[f"{p}shape"]),
                )
                for p in parts
            ],
            format="csr",
        )
        y = np.concatenate([file[f"{p}y"] for p in parts])
    return Cases(name, sp.csr_array(x), (y > 0).astype(np.int64), tau)


def like_real_sim(cases: int = REAL_SIM[0], tau: float = 3.0, seed: int = 0) -> Cases:
    """Documents of words by Zipf's law, some of them by that of their class, their rows of length 1
    as real-sim's: as many features, entries a row and positive labels as the paper gives."""
    rng = np.random.default_rng(seed)
    _, features, entries, ratio = REAL_SIM
    y = (rng.random(cases) < ratio / (1.0 + ratio)).astype(np.int64)
    sizes = np.exp(LENGTH * rng.normal(size=cases) - 0.5 * LENGTH**2) * entries / REAL_SIM[0]
    words_of = np.maximum(1, np.round(REPEATED * sizes)).astype(np.int64)
    row = np.repeat(np.arange(cases), words_of)
    zipf: Array = np.arange(1.0, features + 1.0) ** -ZIPF
    own = rng.random(len(row)) < (rng.random(cases) ** PURITY)[row]
    words = _drawn(rng, zipf, len(row))
    for kind in (0, 1):
        where = np.flatnonzero(own & (y[row] == kind))
        odds = np.exp(CONTRAST * rng.normal(size=features))
        words[where] = _drawn(rng, zipf * odds, len(where))
    counts = sp.coo_array((np.ones(len(words)), (row, words)), shape=(cases, features)).tocsr()
    counts.sum_duplicates()
    rarity = np.log(cases / (1.0 + np.bincount(counts.indices, minlength=features)))
    counts.data = (1.0 + np.log(counts.data)) * np.maximum(rarity, 0.1)[counts.indices]
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).reshape(-1))
    return Cases("like real-sim", sp.csr_array(sp.diags_array(1.0 / lengths) @ counts), y, tau)


def _drawn(rng: np.random.Generator, mass: Array, size: int) -> IntArray:
    return np.asarray(rng.choice(len(mass), size=size, p=mass / mass.sum()), dtype=np.int64)
