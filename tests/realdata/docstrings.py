"""Texts that a dependency bundles: SciPy's documentation of its functions, as counts of words."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array

MODULES = (
    "optimize", "stats", "signal", "linalg", "interpolate", "ndimage", "integrate", "special",
    "cluster.hierarchy", "sparse.linalg", "fft",
)  # fmt: skip
LENGTH = 60  # words that a text has at least
# Sections that are no prose, and a notice that stands in very many.
LEFT_OUT = ("Examples", "References", "See Also")
NOTICE = re.compile(r"\*\*Array API Standard Support\*\*.*?(?=\n[A-Z][A-Za-z ]+\n-{3,}|\Z)", re.S)
SECTION = re.compile(r"\n([A-Z][A-Za-z ]+)\n-{3,}\n")
# Words without a subject: articles, prepositions, auxiliaries.
IDLE = """
the and for with from that this which its are can may will was were has have had does used use
uses using than then when where each any all other more most only also such see one two first
second same must should between into over about both these those there their they but our out per
via how what not been being because while whether either some many much very own would could here
thus hence however since until
"""


class Texts(NamedTuple):
    """Counts (N, W); the words (W,); the module that each text is of, (N,), and its function."""

    counts: Array
    words: tuple[str, ...]
    modules: tuple[str, ...]
    names: tuple[str, ...]


def texts(modules: tuple[str, ...], most: int, rare: int = 5, common: float = 0.4) -> Texts:
    """Up to `most` functions of each module, evenly over the alphabet; words that stand in at least
    `rare` texts and in no more than the share `common` of them."""
    found = [(m, n, w) for m in modules for n, w in _chosen(_of_module(m), most)]
    spread = Counter(w for *_, words in found for w in set(words))
    kept = sorted(w for w, k in spread.items() if rare <= k <= common * len(found))
    place = {w: i for i, w in enumerate(kept)}
    counts = np.zeros((len(found), len(kept)))
    for row, (*_, words) in zip(counts, found, strict=True):
        for word in words:
            if word in place:
                row[place[word]] += 1.0
    return Texts(counts, tuple(kept), tuple(m for m, *_ in found), tuple(n for _, n, _ in found))


def _of_module(module: str) -> list[tuple[str, list[str]]]:
    """The functions of a module and their words; none where docstrings are stripped (-OO)."""
    package = importlib.import_module(f"scipy.{module}")
    out = []
    for name in sorted(package.__all__):
        made = getattr(package, name)
        if inspect.isroutine(made) or inspect.isclass(made) or isinstance(made, np.ufunc):
            words = _words(inspect.getdoc(made) or "")
            if len(words) >= LENGTH:
                out.append((name, words))
    return out


def _words(text: str) -> list[str]:
    parts = SECTION.split(NOTICE.sub("", text))
    bodies = [
        parts[0],
        *(b for h, b in zip(parts[1::2], parts[2::2], strict=True) if h not in LEFT_OUT),
    ]
    idle = IDLE.split()
    return [w for w in re.findall(r"[a-z]{3,}", " ".join(bodies).lower()) if w not in idle]


def _chosen(found: list[tuple[str, list[str]]], most: int) -> list[tuple[str, list[str]]]:
    if len(found) <= most:
        return found
    return [found[i] for i in np.linspace(0, len(found) - 1, most).astype(int)]
