"""Data of the models in `models/learned`, as `data.py` has those of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from .data import MODELS, Data, _read
from .docstrings import Texts, texts

LEARNED = MODELS / "learned"
SUBJECTS = ("stats", "signal", "linalg", "ndimage")


def votes(folder: Path) -> Data:
    """435 members of the House by 16 bills of 1984; 392 votes are missing."""
    x = _read(folder, "house_votes_84")["X"].astype(float)
    return {"y": np.where(x < 0, np.nan, x)}


def led(folder: Path, rows: int = 400) -> Data:
    """The first rows: seven segments of a digit, each wrong once in ten, and 17 coin tosses."""
    return {"y": _read(folder, "led24_generated")["X"][:rows].astype(float), "W": 10.0 * np.eye(24)}


def tic_tac_toe(folder: Path) -> Data:
    """All 958 endgames: cells by mark, and whether x has won."""
    d = _read(folder, "tic_tac_toe")
    marks = np.array(["x", "o", "blank"])[np.select([d["X"] == 1, d["X"] == -1], [0, 1], 2)]
    return {
        "y": marks, "win": d["y"][:, None] > 0, "of": np.arange(18).reshape(9, 2),
        "last": np.array([18]), "part": np.arange(19), "W": 3.0 * np.eye(19),
    }  # fmt: skip


def auto(folder: Path) -> Data:
    """392 cars: their numbers scaled; year and weight cut into classes, cylinders counted."""
    d = _read(folder, "auto_mpg")
    x = np.column_stack([d["y"], d["X"][:, [1, 2, 4]]])
    year, origin = d["X"][:, 5], d["X"][:, 6].astype(int)
    return {
        "x": (x - x.mean(axis=0)) / x.std(axis=0), "k": d["X"][:, 0] - 3.0,
        "b": (d["X"][:, 3] > np.median(d["X"][:, 3])).astype(float),
        "a": np.array(["70 to 73", "74 to 78", "79 to 82"])[np.digitize(year, [73.5, 78.5])],
        "o": np.array(["America", "Europe", "Japan"])[origin - 1],
    }  # fmt: skip


def lsat(folder: Path) -> Data:
    """1,000 students by five items, written out from 32 patterns."""
    d = _read(folder, "lsat")
    return {"y": np.repeat(d["response"], np.diff(d["culm"], prepend=0), axis=0)}


def docstrings(folder: Path) -> Data:
    """Counts of words in the documentation of 16 functions of each of four modules of SciPy."""
    return {"n": subjects().counts}


def subjects() -> Texts:
    """The texts of `docstrings` and the modules they are of."""
    found = texts(SUBJECTS, 16, rare=6, common=0.3)
    if len(found.counts) < 60:
        pytest.skip("SciPy is installed without its docstrings")
    return found


LOADERS: dict[str, Callable[[Path], Data]] = {
    "votes_ppca": votes, "votes_factors": votes, "led_dense": led, "led_sparse": led,
    "tic_tac_toe": tic_tac_toe, "auto_mixed": auto, "lsat_1pl": lsat, "lsat_2pl": lsat,
    "docstrings_topics": docstrings,
}  # fmt: skip


def learned_text(name: str) -> str:
    return (LEARNED / f"{name}.lgm").read_text(encoding="utf-8")
